// A goroutine per connection: `go tcp|udp` prints its port on 127.0.0.1 and sends back what it
// receives until it is killed. Built by file: `go build go.go`.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
)

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
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

func tcp() {
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		fail(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	for {
		// Go's sockets have TCP_NODELAY from the beginning.
		connection, err := listener.AcceptTCP()
		if err != nil {
			fail(err)
		}
		go echo(connection)
	}
}

func udp() {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		fail(err)
	}
	fmt.Println(socket.LocalAddr().(*net.UDPAddr).Port)
	buffer := make([]byte, 65536)
	for {
		// Of Go's calls the one that allocates nothing.
		length, from, err := socket.ReadFromUDPAddrPort(buffer)
		if err != nil {
			fail(err)
		}
		_, _ = socket.WriteToUDPAddrPort(buffer[:length], from)
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	switch {
	case len(os.Args) == 2 && os.Args[1] == "tcp":
		tcp()
	case len(os.Args) == 2 && os.Args[1] == "udp":
		udp()
	default:
		fail(fmt.Errorf("usage: go tcp|udp"))
	}
}
