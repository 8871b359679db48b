package main

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"time"
)

// A network stands between programs and a server, and holds each byte back for half a round trip in each direction. What is sent
// together arrives together, and any amount is under way at once, as on a wire.
type network struct {
	listener net.Listener
	half     time.Duration
	server   string // the server's socket

	mu    sync.Mutex
	conns []net.Conn
}

// listenFar gives a network of this round trip before the server of an address that names its folder, and the address behind it.
func listenFar(address string, roundTrip time.Duration) (*network, string, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, "", err
	}
	query := at.Query()
	n := &network{half: roundTrip / 2, server: filepath.Join(query.Get("host"), ".s.PGSQL.5432")}
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, "", err
	}
	go n.serve()
	query.Del("host")
	query.Set("sslmode", "disable")
	at.Host, at.RawQuery = n.listener.Addr().String(), query.Encode()
	return n, at.String(), nil
}

func (n *network) serve() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", n.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		n.mu.Lock()
		n.conns = append(n.conns, near, far)
		n.mu.Unlock()
		go n.carry(far, near)
		go n.carry(near, far)
	}
}

// carry passes on what comes from one end, late, until an end is closed.
func (n *network) carry(to, from net.Conn) {
	type piece struct {
		due   time.Time
		bytes []byte
	}
	under := make(chan piece, 1024)
	go func() {
		defer to.Close() //nolint:errcheck // the other end hears of it by its own
		for p := range under {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close()
				for range under { // until its reader has seen that
				}
				return
			}
		}
	}()
	defer close(under)
	for {
		buffer := make([]byte, 16<<10)
		got, err := from.Read(buffer)
		if got > 0 {
			under <- piece{time.Now().Add(n.half), buffer[:got]}
		}
		if err != nil {
			return
		}
	}
}

var _ io.Closer = (*network)(nil)

// Close ends it, and what runs over it.
func (n *network) Close() error {
	err := n.listener.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	return err
}
