//go:build postgres

package dbtest

import (
	"io"
	"math/rand/v2"
	"testing"
)

// rough returns the address of a proxy that cuts every connection, in the middle of the server's
// answers.
func (onPostgres) rough(t testing.TB, address string) string {
	t.Helper()
	return PostgresProxy(t, address,
		func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) },
		func(to io.Writer, from io.Reader) { _, _ = io.CopyN(to, from, 3_000+rand.Int64N(30_000)) })
}
