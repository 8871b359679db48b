package dbtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresVariable names the environment variable with the address of a PostgreSQL server for tests, as `make test-postgres` sets it.
const PostgresVariable = "SELVEDGE_POSTGRES"

var postgresDatabases atomic.Int64

// Postgres gives the address of a new, empty database on the server of `make test-postgres`, which is dropped when the test is over.
// The tests that call it have the build tag postgres.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv(PostgresVariable)
	if server == "" {
		t.Fatalf("%s is not set: run make test-postgres", PostgresVariable)
	}
	address, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("selvedge_%d_%d", os.Getpid(), postgresDatabases.Add(1))
	postgresExec(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { postgresExec(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	address.Path = "/" + name
	return address.String()
}

func postgresExec(t testing.TB, address, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgconn.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
		t.Fatal(err)
	}
}
