//go:build postgres

package dbtest

import (
	"io"
	"sync/atomic"
	"testing"
)

// PostgresTrips returns the address of a proxy before a server, and the number of round trips
// through it: messages sent together count as one.
func PostgresTrips(t testing.TB, address string) (through string, trips func() int64) {
	t.Helper()
	var counted atomic.Int64
	through = PostgresProxy(t, address, func(to io.Writer, from io.Reader) {
		_ = PostgresMessages(from, true, func(kind byte, message []byte) error {
			if kind == 'S' || kind == 'Q' { // Sync, and a simple query
				counted.Add(1)
			}
			_, err := to.Write(message)
			return err
		})
	}, func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) })
	return through, counted.Load
}
