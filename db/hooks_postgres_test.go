//go:build postgres

package db_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// asRole has a server ask a role of its own for a password.
func asRole(t *testing.T, password string) (server, address string) {
	t.Helper()
	server = dbtest.PostgresAlone(t, "..")
	hba := string(dbtest.PostgresExec(t, server, "SHOW hba_file")[0][0])
	rules, err := os.ReadFile(hba)
	if err == nil {
		err = os.WriteFile(hba, append([]byte("local all rotated scram-sha-256\n"), rules...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	dbtest.PostgresExec(t, server, "SELECT pg_reload_conf()")
	dbtest.PostgresExec(t, server, "CREATE ROLE rotated LOGIN PASSWORD '"+password+"'")
	dbtest.PostgresExec(t, server, "CREATE SCHEMA selvedge AUTHORIZATION rotated")
	return server, server + "&user=rotated"
}

func touch(d *db.DB) error {
	return d.Write(context.Background(), "touch", func(tx *db.Tx) error {
		_, err := tx.Store().Scope(fmt.Sprint(time.Now().UnixNano()))
		return err
	})
}

// A password that is changed while a handle is open costs a connection, and no call.
func TestPostgresPassword_RotatedCostsNoCall(t *testing.T) {
	const first, second = "first-secret", "second-secret"
	server, address := asRole(t, first)
	var now atomic.Value
	now.Store(first)
	d := dbtest.OpenAt(t, address, db.Options{
		Password: func(context.Context) (string, error) { return now.Load().(string), nil },
	})
	if err := touch(d); err != nil {
		t.Fatal(err)
	}
	now.Store(second)
	dbtest.PostgresExec(t, server, "ALTER ROLE rotated PASSWORD '"+second+"'")
	dbtest.PostgresExec(t, server,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotated'")
	if err := touch(d); err != nil {
		t.Error(err)
	}
	wrong := errors.New("the vault is shut")
	for _, password := range []func(context.Context) (string, error){
		func(context.Context) (string, error) { return first, nil },
		func(context.Context) (string, error) { return second, wrong },
	} {
		_, err := db.Open(t.Context(), address, db.Options{Password: password})
		if err == nil || strings.Contains(err.Error(), first) || strings.Contains(err.Error(), second) {
			t.Errorf("with a password that is wrong: %v", err)
		}
	}
	if _, err := db.Open(t.Context(), address, db.Options{
		Password: func(context.Context) (string, error) { return "", wrong },
	}); !errors.Is(err, wrong) {
		t.Errorf("without a password: %v", err)
	}
}

// A hook that does not return fails the call, and the handle goes on.
func TestPostgresHooks_ThatThrowFailTheCall(t *testing.T) {
	address := dbtest.Postgres(t)
	var throws func()
	var inner error
	var d *db.DB
	hook := func() {
		if throw := throws; throw != nil {
			throw()
		} else if d != nil {
			inner = d.Write(context.Background(), "inside", func(*db.Tx) error { return nil })
		}
	}
	d = dbtest.OpenAt(t, address, db.Options{
		Password: func(context.Context) (string, error) { hook(); return "", nil },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			hook()
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	cut := func() {
		dbtest.PostgresExec(t, address, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	}
	for name, throw := range map[string]func(){"panic": func() { panic("a hook") }, "Goexit": runtime.Goexit} {
		cut()
		throws = throw
		err := touch(d)
		if throws = nil; err == nil || name == "panic" && !strings.Contains(err.Error(), "a hook") {
			t.Errorf("%s: %v", name, err)
		}
		if err := touch(d); err != nil {
			t.Errorf("after a %s: %v", name, err)
		}
	}
	if !errors.Is(inner, db.ErrInvalid) {
		t.Errorf("a write inside a hook: %v", inner)
	}
}

// The dialer leads through a proxy that speaks TLS, whose certificate the configuration knows.
func TestPostgresTLS_OptionsReplaceAddress(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "db.example"}, DNSNames: []string{"db.example"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AddCert(certificate)
	speaks := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}

	direct := dbtest.Postgres(t)
	socket, rest, _ := strings.Cut(strings.SplitN(direct, "host=", 2)[1], "&")
	dial := func(context.Context, string, string) (net.Conn, error) {
		server, err := net.Dial("unix", socket+"/.s.PGSQL.5432")
		if err != nil {
			return nil, err
		}
		ours, theirs := net.Pipe()
		go func() {
			defer server.Close() //nolint:errcheck // it may be closed already
			defer theirs.Close() //nolint:errcheck // it may be closed already
			// The client asks whether it may speak TLS.
			if _, err := io.ReadFull(theirs, make([]byte, 8)); err != nil {
				return
			}
			if _, err := theirs.Write([]byte("S")); err != nil {
				return
			}
			inside := tls.Server(theirs, speaks)
			go func() {
				_, _ = io.Copy(server, inside)
				_ = server.Close()
			}()
			_, _ = io.Copy(inside, server)
		}()
		return ours, nil
	}
	address := strings.Replace(direct, "@/", "@db.example/", 1)
	address = strings.Replace(address, "host="+socket, "sslmode=disable", 1)
	if rest != "" && !strings.Contains(address, rest) {
		t.Fatalf("of %s came %s", direct, address)
	}
	d := dbtest.OpenAt(t, address, db.Options{Dial: dial, TLS: &tls.Config{RootCAs: known}})
	if err := touch(d); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]*tls.Config{
		"an unknown certificate": {}, "another server's": {RootCAs: known, ServerName: "other.example"},
	} {
		if _, err := db.Open(t.Context(), address, db.Options{Dial: dial, TLS: o}); err == nil ||
			!strings.Contains(err.Error(), "TLS") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hangsUp is a connection that the other side has closed first.
type hangsUp struct{ net.Conn }

func (h hangsUp) Close() error { return errors.Join(h.Conn.Close(), syscall.EPIPE) }

func TestPostgresClose_ServerMayHangUpFirst(t *testing.T) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return hangsUp{conn}, err
	}
	d := dbtest.OpenAt(t, dbtest.Postgres(t), db.Options{Dial: dial}) // which is closed after the test
	if err := touch(d); err != nil {
		t.Error(err)
	}
}
