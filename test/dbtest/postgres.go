//go:build postgres

package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"selvedge/migrations"
)

// PostgresVariable names the environment variable with the address of a PostgreSQL server for
// tests, as `make test-postgres` sets it.
const PostgresVariable = "SELVEDGE_POSTGRES"

var postgresDatabases atomic.Int64

// Postgres returns the address of a new, empty database on the server of `make test-postgres`,
// which is dropped when the test is over. The tests that call it have the build tag postgres.
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
	PostgresExec(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { dropPostgres(t, server, name) })
	address.Path = "/" + name
	return address.String()
}

// dropPostgres drops a database. The server waits five seconds for its sessions to end, which is
// not long on a busy machine.
func dropPostgres(t testing.TB, server, name string) {
	t.Helper()
	Await(t, name+" is dropped", func() bool {
		_, err := postgresExec(server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "55006" { // object_in_use
			return false
		}
		if err != nil {
			t.Error(err)
		}
		return true
	})
}

// PostgresAlone returns the address of a server that the test has for itself, for settings that
// concern a whole server. root is the path from the package's folder to the module's.
func PostgresAlone(t testing.TB, root string) string {
	t.Helper()
	return newPostgresPlace(t, root).start("start", "server")
}

// PostgresShell runs a script as the user of a server of PostgresAlone, in the server's folder, with its
// programs in PATH, and PGDATA and the address in the environment. It returns what the script prints.
func PostgresShell(t testing.TB, root, address, script string) string {
	t.Helper()
	server, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(root, "tools", "postgres"), "shell", server.Query().Get("host"))
	command.Stdin = strings.NewReader(script)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// A PostgresPair is a server and a standby of it that a test has for itself.
type PostgresPair struct {
	place                  *postgresPlace
	Primary, Standby, Both string // addresses
}

// NewPostgresPair starts a pair. The primary waits for no standby.
func NewPostgresPair(t testing.TB, root string) *PostgresPair {
	t.Helper()
	p := &PostgresPair{place: newPostgresPlace(t, root)}
	p.Primary = p.place.start("start", "server")
	p.Standby = p.place.start("standby", "standby", filepath.Join(p.place.dir, "server"))
	p.Both = p.Primary + "," + strings.TrimPrefix(p.Standby, "postgres://selvedge@/postgres?host=")
	return p
}

// Promote promotes the standby; the old primary is not notified.
func (p *PostgresPair) Promote() { p.place.run("promote", filepath.Join(p.place.dir, "standby")) }

// Pause stops every process of a server; the test continues it in the end.
func (p *PostgresPair) Pause(address string) {
	dir := filepath.Join(p.place.dir, "server")
	if address == p.Standby {
		dir = filepath.Join(p.place.dir, "standby")
	}
	p.place.t.Cleanup(func() { p.place.run("resume", dir) })
	p.place.run("pause", dir)
}

// A postgresPlace is where a test has servers for itself.
type postgresPlace struct {
	t         testing.TB
	tool, dir string
}

func newPostgresPlace(t testing.TB, root string) *postgresPlace {
	t.Helper()
	return &postgresPlace{t, filepath.Join(root, "tools", "postgres"), openFolder(t)}
}

// openFolder returns a folder that the servers' user may enter; that user owns only what is in
// it.
func openFolder(t testing.TB) string {
	t.Helper()
	//nolint:usetesting // the folder above a TempDir is closed to the servers' user
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a folder among temporary ones
	return dir
}

func (p *postgresPlace) run(args ...string) string {
	p.t.Helper()
	out, err := exec.Command(p.tool, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		p.t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// start starts a server in a folder of that name, and stops it with the test.
func (p *postgresPlace) start(how, name string, of ...string) (address string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	address = p.run(slices.Concat([]string{how}, of, []string{dir})...)
	p.t.Cleanup(func() { p.run("stop", dir) })
	return address
}

// A PostgresGate stands between a program and a server. While it is shut nothing comes through,
// and no error is reported, as if the server's host stood still.
type PostgresGate struct {
	Address string
	// gets a value for each connection or message that a program sends to the shut gate, as far as it has room
	Held chan struct{}

	mu     sync.Mutex
	opened chan struct{} // closed while it is open
}

// NewPostgresGate returns an open one before the server at the address.
func NewPostgresGate(t testing.TB, address string) *PostgresGate {
	t.Helper()
	g := &PostgresGate{Held: make(chan struct{}, 100), opened: make(chan struct{})}
	close(g.opened)
	g.Address = PostgresProxy(t, address,
		func(to io.Writer, from io.Reader) { g.pass(to, from, g.Held) },
		func(to io.Writer, from io.Reader) { g.pass(to, from, nil) })
	t.Cleanup(g.Open)
	return g
}

// Shut shuts the gate.
func (g *PostgresGate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

// Open opens it again, and lets the held bytes through.
func (g *PostgresGate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *PostgresGate) pass(to io.Writer, from io.Reader, held chan<- struct{}) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		default:
			select {
			case held <- struct{}{}:
			default:
			}
			<-opened
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// PostgresSchema opens a new database, which is dropped when the test is over, with the schema and
// the views, by SQL alone.
func PostgresSchema(t testing.TB) *sql.DB {
	t.Helper()
	d, err := sql.Open("pgx", Postgres(t)+"&search_path=selvedge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() }) //nolint:errcheck // the database is dropped next
	PostgresScript(t, d, "CREATE SCHEMA selvedge")
	steps, err := fs.Glob(migrations.Postgres(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range steps {
		text, err := fs.ReadFile(migrations.Postgres(), name)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		PostgresScript(t, d, up)
	}
	PostgresScript(t, d, migrations.PostgresViews())
	return d
}

// PostgresScript runs statements, all or none of them.
func PostgresScript(t testing.TB, d *sql.DB, script string) {
	t.Helper()
	conn, err := d.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // back to the pool
	if err := conn.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().PgConn().Exec(context.Background(), script).ReadAll()
		return err
	}); err != nil {
		t.Fatalf("%v\n%.300s", err, script)
	}
}

// PostgresExec runs a statement on a separate connection, and returns its rows as text.
func PostgresExec(t testing.TB, address, statement string) [][][]byte {
	t.Helper()
	rows, err := postgresExec(address, statement)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func postgresExec(address, statement string) ([][][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgconn.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // the answer is read
	results, err := conn.Exec(ctx, statement).ReadAll()
	if err != nil {
		return nil, err
	}
	return results[len(results)-1].Rows, nil
}

// AwaitPostgres waits until a query of a server returns true.
func AwaitPostgres(t testing.TB, address, what, query string) {
	t.Helper()
	Await(t, what, func() bool { return string(PostgresExec(t, address, query)[0][0]) == "t" })
}

// AwaitPostgresWaits waits until so many sessions of a database wait for locks of others.
func AwaitPostgresWaits(t testing.TB, address string, sessions int) {
	t.Helper()
	AwaitPostgres(t, address, fmt.Sprintf("%d sessions wait for others", sessions), fmt.Sprintf(
		"SELECT count(*) >= %d FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "+
			"current_database()", sessions))
}
