// Goroutines on one P: `go COMPUTING SLEEPS` (README.md). Go pre-empts what has run for 10 ms, by a
// signal. Built by file: `go build go.go`.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// The chain that every contestant computes; no step can begin before the one ahead has ended.
//
//go:noinline
func spin(steps uint64) uint64 {
	x := uint64(0x9e3779b97f4a7c15)
	for i := uint64(0); i < steps; i++ {
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9
	}
	return x
}

var sink uint64

// How many steps take a millisecond: by the quickest of a few tries.
func stepsPerMs() uint64 {
	best := int64(1) << 62
	for range 9 {
		start := time.Now()
		sink += spin(1000000)
		best = min(best, time.Since(start).Nanoseconds())
	}
	return uint64(1000000 * 1000000 / best)
}

func echo(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 65536)
	for {
		length, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err = connection.Write(buffer[:length]); err != nil {
			return
		}
	}
}

func accepting(listener *net.TCPListener) {
	for {
		connection, err := listener.AcceptTCP()
		if err != nil {
			fail(err)
		}
		go echo(connection)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: go COMPUTING SLEEPS"))
	}
	computing, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fail(err)
	}
	sleeps, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fail(err)
	}
	steps := stepsPerMs()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		fail(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go accepting(listener)
	var rounds atomic.Int64
	for range computing {
		go func() {
			for {
				if spin(steps) == 0 {
					panic("the chain never reaches zero")
				}
				rounds.Add(1)
				runtime.Gosched()
			}
		}()
	}
	late := make([]int64, 0, sleeps)
	start := time.Now()
	for range sleeps {
		due := time.Now().Add(time.Millisecond)
		time.Sleep(time.Millisecond)
		late = append(late, max(0, time.Since(due).Nanoseconds()))
	}
	computed := float64(rounds.Load()) / time.Since(start).Seconds()
	var line strings.Builder
	for _, ns := range late {
		fmt.Fprintf(&line, "%d ", ns)
	}
	fmt.Printf("%s\n%.3f\n", line.String(), computed)
	// The client may still ask; who started this ends it.
	select {}
}
