module curtail-bench-go

go 1.19
