// Goroutines, by the standard library: `go OP COUNT` prints nanoseconds per operation (README.md).
// Built by file: `go build go.go`.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func fail(why string) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// Runs f(0) and f(1) as goroutines, to their ends.
func both(f func(me int)) {
	var end sync.WaitGroup
	end.Add(2)
	for me := range 2 {
		go func() {
			f(me)
			end.Done()
		}()
	}
	end.Wait()
}

func lockAndUnlock(count int) {
	var mutex sync.Mutex
	counter := 0
	for range count {
		mutex.Lock()
		counter++
		mutex.Unlock()
	}
	if counter != count {
		fail("the counter is wrong")
	}
}

func yieldInTurns(count int) {
	both(func(int) {
		for range count / 2 {
			runtime.Gosched()
		}
	})
}

// As yieldInTurns, and counts how often the other one ran in between.
func checkTurns(count int) {
	last, switches := -1, 0
	both(func(me int) {
		for range count / 2 {
			if last != me {
				switches++
			}
			last = me
			runtime.Gosched()
		}
	})
	if switches < count*9/10 {
		fail(fmt.Sprintf("only %d of %d yields switched", switches, count))
	}
}

func handOver(count int) {
	var mutex sync.Mutex
	cond := sync.NewCond(&mutex)
	turn := 0
	both(func(me int) {
		mutex.Lock()
		for range count / 2 {
			for turn != me {
				cond.Wait()
			}
			turn = 1 - turn
			cond.Signal()
		}
		mutex.Unlock()
	})
}

func spawnAndJoin(count int) {
	for i := range count {
		var end sync.WaitGroup
		result := -1
		end.Add(1)
		go func() {
			result = i
			end.Done()
		}()
		end.Wait()
		if result != i {
			fail("the result is wrong")
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fail("usage: go mutex|yield|condvar|spawn_join COUNT (20 or more)")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil || count < 20 {
		fail("COUNT is 20 or more")
	}
	runtime.GOMAXPROCS(1)
	run := map[string]func(int){
		"mutex": lockAndUnlock, "yield": yieldInTurns, "condvar": handOver, "spawn_join": spawnAndJoin,
	}[os.Args[1]]
	if run == nil {
		fail("there is no operation " + os.Args[1])
	}
	if os.Args[1] == "yield" {
		checkTurns(2000)
	}
	run(count / 10)
	start := time.Now()
	run(count)
	fmt.Printf("%.3f\n", float64(time.Since(start).Nanoseconds())/float64(count))
}
