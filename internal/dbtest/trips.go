//go:build postgres

package dbtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresTrips gives the address behind a proxy before a server, and how often anybody has asked for an answer there: messages sent
// together count as one.
func PostgresTrips(t testing.TB, address string) (through string, trips func() int64) {
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
	c := &tripCounter{}
	c.network, c.server = pgconn.NetworkAddress(config.Host, config.Port)
	var served sync.WaitGroup
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	served.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() { c.serve(client) })
		}
	})
	query := at.Query()
	query.Del("host")
	query.Set("sslmode", "disable")
	at.Host, at.RawQuery = listener.Addr().String(), query.Encode()
	return at.String(), c.trips.Load
}

type tripCounter struct {
	network, server string
	trips           atomic.Int64
}

func (c *tripCounter) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // the other end is gone
	server, err := net.Dial(c.network, c.server)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // the other end is gone
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	defer back.Wait()
	defer server.Close() //nolint:errcheck // so that the way back ends
	for first := true; c.pass(server, client, first) == nil; first = false {
		continue
	}
}

// pass passes one message on. The first one of a client has no type.
func (c *tripCounter) pass(to io.Writer, from io.Reader, first bool) error {
	head := make([]byte, 5)
	if first {
		head = head[1:]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if length < 0 {
		return fmt.Errorf("a message of %d bytes", length)
	}
	if !first && (head[0] == 'S' || head[0] == 'Q') { // Sync, and a simple query
		c.trips.Add(1)
	}
	if _, err := to.Write(head); err != nil {
		return err
	}
	_, err := io.CopyN(to, from, length)
	return err
}
