// The Go peer of Curtail's benchmarks.
//
//	serve        serves the board that is its standard input (layout: bench/src/board.rs)
//	switch N     measures N yields and N goroutines, prints JSON
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Words of the board's header.
const (
	published  = 0
	completed  = 8
	stop       = 16
	slots      = 24
	spinCycles = 32
	header     = 64
)

func rdtsc() uint64

// The same chain as every other peer's.
//
//go:noinline
func spin(steps uint64) uint64 {
	x := uint64(0x9e3779b97f4a7c15)
	for i := uint64(0); i < steps; i++ {
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9
	}
	return x
}

type board []uint64

func mapBoard() (board, error) {
	var stat syscall.Stat_t
	if err := syscall.Fstat(0, &stat); err != nil {
		return nil, err
	}
	bytes, err := syscall.Mmap(0, 0, int(stat.Size), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	if len(bytes) < header*8 {
		return nil, fmt.Errorf("no board: %d bytes", len(bytes))
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&bytes[0])), len(bytes)/8), nil
}

func (b board) load(at int) uint64         { return atomic.LoadUint64(&b[at]) }
func (b board) store(at int, value uint64) { atomic.StoreUint64(&b[at], value) }

func (b board) handle(at int) {
	if b.load(stop) != 0 {
		return
	}
	if spin(b.load(header+2*at)) == 0 {
		panic("the chain never reaches zero")
	}
	b.store(header+2*at+1, rdtsc())
	atomic.AddUint64(&b[completed], 1)
}

// Looks at the board, starts a goroutine for each request that has arrived, and lets them run.
func (b board) serve() {
	count := int(b.load(slots))
	if len(b) < header+2*count {
		fmt.Fprintln(os.Stderr, "the board is too small for its slots")
		os.Exit(1)
	}
	b.store(spinCycles, measureSpin())
	fmt.Println("ready")
	for next := 0; b.load(stop) == 0; {
		for upto := int(b.load(published)); next < upto && next < count; next++ {
			go b.handle(next)
		}
		runtime.Gosched()
	}
	fmt.Println("done")
}

// Cycles for 1,000 steps: the least of many differences between long and short spins.
func measureSpin() uint64 {
	least := func(steps uint64) uint64 {
		best := ^uint64(0)
		for trial := 0; trial < 200; trial++ {
			start := rdtsc()
			spin(steps)
			if took := rdtsc() - start; took < best {
				best = took
			}
		}
		return best
	}
	return (least(12000) - least(2000)) / 10
}

func perCall(count int, start time.Time) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(count)
}

// Two goroutines yield to each other.
func measureYield(count int) float64 {
	var both sync.WaitGroup
	both.Add(2)
	start := time.Now()
	for i := 0; i < 2; i++ {
		go func() {
			for i := 0; i < count/2; i++ {
				runtime.Gosched()
			}
			both.Done()
		}()
	}
	both.Wait()
	return perCall(count, start)
}

func measureSpawn(count int) float64 {
	done := make(chan struct{})
	start := time.Now()
	for i := 0; i < count; i++ {
		go func() { done <- struct{}{} }()
		<-done
	}
	return perCall(count, start)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		b, err := mapBoard()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		b.serve()
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "switch" {
		if count, err := strconv.Atoi(os.Args[2]); err == nil && count >= 2 {
			json.NewEncoder(os.Stdout).Encode(map[string]float64{
				"yield_ns": measureYield(count), "spawn_ns": measureSpawn(count),
			})
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: serve | switch N")
	os.Exit(2)
}
