// redis-go KEYS: as server.rs, a goroutine per connection, one map behind one sync.RWMutex.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

var (
	lock  sync.RWMutex
	store = map[string]string{}
)

// The number of a line such as *3 or $11.
func number(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("another kind of value")
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func parse(in *bufio.Reader) ([]string, error) {
	count, err := number(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, 0, 3)
	for i := 0; i < count; i++ {
		length, err := number(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:length]))
	}
	return words, nil
}

func bulk(out *bufio.Writer, value string) {
	fmt.Fprintf(out, "$%d\r\n%s\r\n", len(value), value)
}

func keys(out *bufio.Writer, pattern string) {
	lock.RLock()
	found := []string{}
	begin, any := strings.CutSuffix(pattern, "*")
	for key := range store {
		if key == pattern || any && strings.HasPrefix(key, begin) {
			found = append(found, key)
		}
	}
	lock.RUnlock()
	fmt.Fprintf(out, "*%d\r\n", len(found))
	for _, key := range found {
		bulk(out, key)
	}
}

func answer(out *bufio.Writer, words []string) {
	name := strings.ToUpper(words[0])
	switch {
	case name == "PING":
		out.WriteString("+PONG\r\n")
	case name == "GET" && len(words) == 2:
		lock.RLock()
		value, ok := store[words[1]]
		lock.RUnlock()
		if ok {
			bulk(out, value)
		} else {
			out.WriteString("$-1\r\n")
		}
	case name == "SET" && len(words) == 3:
		lock.Lock()
		store[words[1]] = words[2]
		lock.Unlock()
		out.WriteString("+OK\r\n")
	case name == "KEYS" && len(words) == 2:
		keys(out, words[1])
	default:
		fmt.Fprintf(out, "-ERR unknown command '%s'\r\n", name)
	}
}

func serve(c net.Conn) {
	defer c.Close()
	in, out := bufio.NewReader(c), bufio.NewWriter(c)
	for {
		words, err := parse(in)
		if err != nil || len(words) == 0 {
			return
		}
		answer(out, words)
		// What was sent together is answered together.
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	for n := 0; n < count; n++ {
		store[fmt.Sprintf("key:%d", n)] = fmt.Sprintf("value:%d", n)
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
