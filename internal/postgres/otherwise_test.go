//go:build postgres

package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

func TestPostgresADatabaseOfAnotherEncodingIsRefused(t *testing.T) {
	server := os.Getenv(dbtest.PostgresVariable)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		name := strings.ToLower(fmt.Sprintf("selvedge_%s_%d", encoding, os.Getpid()))
		dbtest.PostgresExec(t, server, "CREATE DATABASE "+name+" ENCODING '"+encoding+
			"' LOCALE 'C' TEMPLATE template0")
		t.Cleanup(func() { dbtest.PostgresExec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
		e, err := postgres.Open(t.Context(), strings.Replace(server, "/postgres?", "/"+name+"?", 1), config(t))
		var f *engine.Failure
		if !errors.Is(err, engine.ErrUnsupported) || !errors.As(err, &f) ||
			!strings.Contains(f.Hint, "--encoding UTF8") {
			t.Errorf("%s: %v, %+v", encoding, e, err)
		}
	}
}

func TestPostgresAStatementThatTheServerEndsIsBusy(t *testing.T) {
	e := open(t, dbtest.Postgres(t)+"&statement_timeout=61s")
	if limit := get[string](t, e, "SELECT current_setting('statement_timeout')"); limit != "61s" {
		t.Errorf("the address says 61s, and the server %s", limit)
	}
	out := e.Read(t.Context(), "sleep", func(x engine.Rx) error {
		// which no other statement has to keep
		err := x.Get(new(string), "SELECT set_config('statement_timeout', '50', true)", nil)
		if err == nil {
			err = x.Get(new(int64), "SELECT 1 FROM pg_sleep(600)", nil)
		}
		return err
	})
	var f *engine.Failure
	if !errors.Is(out.Err, engine.ErrBusy) || !errors.As(out.Err, &f) ||
		!strings.Contains(f.Hint, "statement_timeout") {
		t.Errorf("%v", out.Err)
	}
}

// A server from 17 on ends the connection of a transaction that took too long, and would again.
func TestPostgres_TooLongTransactionIsNotRepeated(t *testing.T) {
	toClient := func(to io.Writer, from io.Reader) {
		_ = dbtest.PostgresMessages(from, false, func(_ byte, message []byte) error {
			_, err := to.Write(bytes.Replace(message, []byte("57P01"), []byte("25P04"), 1))
			return err
		})
	}
	e := open(t, dbtest.PostgresProxy(t, dbtest.Postgres(t),
		func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) }, toClient))
	runs := 0
	err := e.Write(t.Context(), "test", func(x engine.Tx) error {
		if runs++; runs > 1 {
			return errors.New("it runs again")
		}
		return x.Get(new(bool), "SELECT pg_terminate_backend(pg_backend_pid())", nil)
	}).Err
	var f *engine.Failure
	if !errors.Is(err, engine.ErrBusy) || !errors.As(err, &f) ||
		!strings.Contains(f.Hint, "transaction_timeout") {
		t.Error(err)
	}
}

// A socket whose other end is closed takes no message, but still has the last one of the server.
func TestPostgres_ClosedSocketStillSaysWhy(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	e.SetPatience(-1)
	err := e.Write(t.Context(), "test", func(x engine.Tx) error {
		var pid int
		if err := x.Get(&pid, "SELECT pg_backend_pid()", nil); err != nil {
			return err
		}
		dbtest.PostgresExec(t, address, fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000)", pid))
		return x.Get(&pid, "SELECT 1", nil)
	}).Err
	if !errors.Is(err, engine.ErrIO) || !strings.Contains(err.Error(), "57P01") {
		t.Error(err)
	}
}

// A session of a replica fires no trigger and checks no foreign key.
func TestPostgres_ReplicaRoleIsSetBack(t *testing.T) {
	address := dbtest.Postgres(t)
	role := roleOf(t, address)
	dbtest.PostgresExec(t, address, "CREATE SCHEMA selvedge AUTHORIZATION "+role)
	dbtest.PostgresExec(t, address, "ALTER ROLE "+role+" SET session_replication_role = replica")
	_, err := postgres.Open(t.Context(), address+"&user="+role, config(t))
	if err == nil || !strings.Contains(err.Error(), "session_replication_role") {
		t.Errorf("a role that may not set it back: %v", err)
	}
	dbtest.PostgresExec(t, address, "GRANT SET ON PARAMETER session_replication_role TO "+role)
	e := open(t, address+"&user="+role)
	if is := get[string](t, e, "SELECT current_setting('session_replication_role')"); is != "origin" {
		t.Errorf("it is %s", is)
	}
}
