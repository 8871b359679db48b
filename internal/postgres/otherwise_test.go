//go:build postgres

package postgres_test

import (
	"errors"
	"fmt"
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
