package main

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A network stands between programs and a server, and delays each byte by half a round trip in
// each direction. Bytes that are sent together arrive together, and any amount is under way at
// once, as on a wire.
type network struct {
	listener     net.Listener
	half         time.Duration
	kind, server string // what net.Dial takes

	mu    sync.Mutex
	conns []net.Conn
}

// networks are those before all hosts of an address.
type networks []*network

// listenFar returns networks of this round trip before the hosts of an address, or the server whose
// folder it names, and the address behind them.
func listenFar(address string, roundTrip time.Duration) (far networks, behind string, err error) {
	scheme, rest, _ := strings.Cut(address, "://")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if i := strings.LastIndex(authority, "@") + 1; i > 0 {
		user, hosts = authority[:i], authority[i:]
	}
	kind, servers := "tcp", strings.Split(hosts, ",")
	if hosts == "" {
		database, settings, _ := strings.Cut(path, "?")
		query, err := url.ParseQuery(settings)
		if err != nil {
			return nil, "", err
		}
		kind, servers = "unix", []string{filepath.Join(query.Get("host"), ".s.PGSQL.5432")}
		query.Del("host")
		query.Set("sslmode", "disable")
		path = database + "?" + query.Encode()
	}
	names := make([]string, len(servers))
	for i, server := range servers {
		n := &network{half: roundTrip / 2, kind: kind, server: server}
		if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, "", errors.Join(err, far.Close())
		}
		go n.serve()
		far, names[i] = append(far, n), n.listener.Addr().String()
	}
	return far, scheme + "://" + user + strings.Join(names, ",") + "/" + path, nil
}

func (n *network) serve() {
	for {
		near, err := n.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial(n.kind, n.server)
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

// carry passes on the bytes from one end, late, until an end is closed.
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

var _ io.Closer = networks(nil)

// Close ends all of them.
func (ns networks) Close() (err error) {
	for _, n := range ns {
		err = errors.Join(err, n.Close())
	}
	return err
}

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
