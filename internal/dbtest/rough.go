//go:build postgres

package dbtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// rough gives the address behind a proxy that cuts every connection, in the middle of what the server says.
func (onPostgres) rough(t testing.TB, address string) string {
	t.Helper()
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	network, server := pgconn.NetworkAddress(config.Host, config.Port)
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
	served.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() { passOn(client, network, server) })
		}
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	return fmt.Sprintf("postgres://%s@%s%s?%s", config.User, listener.Addr(), u.Path, q.Encode())
}

// passOn passes on what both sides say until some kilobytes have come from the server.
func passOn(client net.Conn, network, server string) {
	defer client.Close() //nolint:errcheck // it is cut
	behind, err := net.Dial(network, server)
	if err != nil {
		return
	}
	defer behind.Close() //nolint:errcheck // it is cut
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(behind, client)
		_ = behind.Close()
	})
	_, _ = io.CopyN(client, behind, 3_000+rand.Int64N(30_000))
	_, _ = client.Close(), behind.Close()
	there.Wait()
}
