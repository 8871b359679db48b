//go:build postgres

package dbtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresProxy returns the address of a proxy before the server at an address. For each
// connection, toServer and toClient pass on the bytes from one end to the other; when one of them
// returns, both ends are closed.
func PostgresProxy(t testing.TB, address string, toServer,
	toClient func(to io.Writer, from io.Reader),
) string {
	t.Helper()
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	network, name := pgconn.NetworkAddress(config.Host, config.Port)
	serve := func(client net.Conn) {
		defer client.Close() //nolint:errcheck // it may be closed already
		server, err := net.Dial(network, name)
		if err != nil {
			return
		}
		var both sync.WaitGroup
		one := func(pass func(io.Writer, io.Reader), to, from net.Conn) {
			pass(to, from)
			_, _ = to.Close(), from.Close()
		}
		both.Go(func() { one(toServer, server, client) })
		both.Go(func() { one(toClient, client, server) })
		both.Wait()
	}
	served.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() { serve(client) })
		}
	})
	query := at.Query()
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	at.User, at.Host, at.RawQuery = url.User(config.User), listener.Addr().String(), query.Encode()
	return at.String()
}

// PostgresMessages returns the messages of one direction of a connection one by one, until visit
// fails or there is none. The first one of a client has no kind: it is 0.
func PostgresMessages(from io.Reader, ofClient bool, visit func(kind byte, message []byte) error) error {
	for first := ofClient; ; first = false {
		head := make([]byte, 5)
		at := 1 // of the length
		if first {
			head, at = head[1:], 0
		}
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		length := int(binary.BigEndian.Uint32(head[at:])) - 4
		if length < 0 {
			return fmt.Errorf("a message of %d bytes", length)
		}
		message := make([]byte, len(head)+length)
		if _, err := io.ReadFull(from, message[copy(message, head):]); err != nil {
			return err
		}
		kind := byte(0)
		if !first {
			kind = message[0]
		}
		if err := visit(kind, message); err != nil {
			return err
		}
	}
}
