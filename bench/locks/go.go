// locks-go LOCK: as server.rs, a goroutine per connection; mutex is sync.Mutex, all others
// sync.RWMutex, but `free`, which is none.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// The same in every program and in the client.
func work(steps uint64, seed uint64) uint64 {
	x := (steps ^ seed) | 1
	for i := uint64(0); i < steps; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// No lock at all.
type none struct{}

func (none) Lock()   {}
func (none) Unlock() {}

func main() {
	var reads sync.RWMutex
	var one sync.Mutex
	var lock sync.Locker = reads.RLocker()
	if os.Args[1] == "mutex" {
		lock = &one
	}
	if os.Args[1] == "free" {
		lock = none{}
	}
	table := map[uint64]uint64{}
	for key := uint64(0); key < 1000; key++ {
		table[key] = key * key
	}
	serve := func(c net.Conn) {
		defer c.Close()
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			steps, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
			if err != nil {
				return
			}
			lock.Lock()
			value := work(steps, table[steps%1000]) >> 1
			lock.Unlock()
			if _, err := fmt.Fprintf(c, ":%d\r\n", value); err != nil {
				return
			}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		c, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go serve(c)
	}
}
