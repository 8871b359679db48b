//go:build postgres

package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// serving gives where somebody listens who treats each connection so, until the test has ended.
func serving(t *testing.T, treat func(conn net.Conn)) (at string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			served.Go(func() {
				defer conn.Close() //nolint:errcheck // the other end may be gone
				treat(conn)
			})
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		served.Wait()
	})
	return listener.Addr().String()
}

// A server in the ways that one may fail who was given a password.
func failing(t *testing.T) map[string]string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	start := func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<12)) }
	return map[string]string{
		"absent": gone.Addr().String(),
		"silent": serving(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }),
		"no server": serving(t, func(conn net.Conn) {
			start(conn)
			_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}),
		"refusing": serving(t, func(conn net.Conn) {
			start(conn)
			_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x03")) // the password, please
			start(conn)
			said := "SFATAL\x00VFATAL\x00C28P01\x00Mpassword authentication failed for user \"ann\"\x00\x00"
			_, _ = fmt.Fprintf(conn, "E\x00\x00\x00%c%s", 4+len(said), said)
		}),
		"of another certificate": serving(t, func(conn net.Conn) {
			start(conn)
			_, _ = conn.Write([]byte("S"))
			_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{{
				Certificate: [][]byte{certificate},
				PrivateKey:  key,
			}}, MinVersion: tls.VersionTLS12}).Handshake()
		}),
	}
}

// Whatever becomes of a server, nobody is told a part of the password that it was given, or was to be given.
func TestPostgresNoErrorHasAPasswordInIt(t *testing.T) {
	t.Parallel()
	const secret = "s3cret w@rd%"
	escaped := url.QueryEscape(secret)
	passwords := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(passwords, []byte("*:*:*:*:"+strings.ReplaceAll(secret, ":", `\:`)+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for how, at := range failing(t) {
		settings := "?connect_timeout=1&sslmode=disable"
		if how == "of another certificate" {
			settings = "?connect_timeout=1&sslmode=verify-full"
		}
		inUser := strings.ReplaceAll(escaped, "+", "%20")
		for where, address := range map[string]string{
			"before the @":   "postgres://ann:" + inUser + "@" + at + "/d" + settings,
			"of many hosts":  "postgresql://ann:" + inUser + "@" + at + "," + at + "/d" + settings,
			"a setting":      "postgres://ann@" + at + "/d" + settings + "&password=" + escaped,
			"of a key":       "postgres://ann@" + at + "/d" + settings + "&sslpassword=" + escaped,
			"in a file":      "postgres://ann@" + at + "/d" + settings + "&passfile=" + url.QueryEscape(passwords),
			"unreadable":     "postgres://ann:" + secret + "@" + at + "/d" + settings,
			"with an @":      "postgres://ann:" + url.PathEscape(secret) + "@" + at + "/d" + settings,
			"a port of none": "postgres://ann:" + url.PathEscape(secret) + "@" + at + "0000000/d" + settings,
		} {
			t.Run(how+", "+where, func(t *testing.T) {
				t.Parallel()
				d, err := db.Open(t.Context(), address, db.Options{ReadOnly: true})
				if err == nil {
					t.Fatal("there is a server: ", d.Close())
				}
				said := []string{fmt.Sprintf("%+v %#v", err, err), db.Hint(err)}
				for inner := err; inner != nil; inner = errors.Unwrap(inner) {
					said = append(said, inner.Error())
				}
				for _, text := range said {
					for _, part := range []string{"s3cret", "w@rd", "rd%"} {
						if strings.Contains(text, part) {
							t.Errorf("it is told %s", text)
						}
					}
				}
			})
		}
	}
}

// What a server shows of those who are connected to it has no password either.
func TestPostgres_SessionListHasNoPassword(t *testing.T) {
	const secret = "s3cret-word"
	address := dbtest.Postgres(t)
	t.Setenv("PGPASSWORD", secret)
	d := dbtest.OpenAt(t, strings.Replace(address, "selvedge@", "selvedge:"+secret+"@", 1), db.Options{})
	if err := d.Write(t.Context(), "test",
		func(tx *db.Tx) error { _, err := tx.Store().Owner(); return err }); err != nil {
		t.Fatal(err)
	}
	sessions := dbtest.PostgresExec(t, address,
		"SELECT a::text FROM pg_stat_activity AS a WHERE datname = current_database() AND pid <> pg_backend_pid()")
	owners := dbtest.PostgresExec(t, address, "SELECT o::text FROM selvedge.owners AS o")
	if len(sessions) == 0 || len(owners) != 1 {
		t.Errorf("there are %d sessions and %d owners", len(sessions), len(owners))
	}
	for _, row := range append(sessions, owners...) {
		if strings.Contains(string(row[0]), secret) {
			t.Errorf("the server shows %s", row[0])
		}
	}
	if strings.Contains(d.Path(), secret) {
		t.Errorf("the handle is of %s", d.Path())
	}
}
