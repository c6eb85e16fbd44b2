// pool-go: as pool-web, on net/http, a goroutine for each request. Prints its port.
package main

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// The same in every program and in the client.
func work(steps uint64) uint64 {
	x := steps | 1
	for i := uint64(0); i < steps; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

func answer(w http.ResponseWriter, r *http.Request) {
	steps, err := strconv.ParseUint(r.PathValue("steps"), 10, 64)
	if err != nil {
		http.Error(w, "steps", http.StatusBadRequest)
		return
	}
	fmt.Fprint(w, work(steps))
}

func main() {
	http.HandleFunc("GET /short/{steps}", answer)
	http.HandleFunc("GET /long/{steps}", answer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, nil))
}
