//go:build postgres

package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

// hinted opens a database that is refused, and gives the error with its hint.
func hinted(t *testing.T, address string, set postgres.Config) (hint string, refused error) {
	t.Helper()
	e, err := postgres.Open(t.Context(), address, set)
	if err == nil {
		t.Fatal("it is open: ", e.Close())
	}
	var f *engine.Failure
	if !errors.As(err, &f) {
		return "", err
	}
	return f.Hint, err
}

// Another program may have its steps counted by goose in the same table, and would take ours for its own.
func TestPostgres_OtherProgramsTablesAreLeftAlone(t *testing.T) {
	const steps = "CREATE TABLE goose_db_version (id INT, version_id BIGINT, is_applied BOOLEAN, tstamp " +
		"TIMESTAMP); INSERT INTO goose_db_version VALUES (1, 0, true, now())"
	for name, script := range map[string]string{
		"its steps":             steps + "; CREATE TABLE users (name TEXT)",
		"as many steps as ours": steps + ", (2, 21, true, now())",
		"a table of our name":   "CREATE TABLE runs (name TEXT)",
		"tables of our names": "CREATE TABLE selvedge_file (name TEXT); CREATE TABLE goose_db_version " +
			"(name TEXT)",
	} {
		t.Run(name, func(t *testing.T) {
			address := dbtest.Postgres(t)
			dbtest.PostgresExec(t, address, script)
			state := func() string {
				return fmt.Sprintf("%q", dbtest.PostgresExec(t, address,
					"SELECT count(*), count(*) FILTER (WHERE relnamespace = 'public'::regnamespace) FROM pg_class"))
			}
			before := state()
			for _, readOnly := range []bool{false, true} {
				set := config(t)
				set.ReadOnly = readOnly
				hint, err := hinted(t, address+"&search_path=public", set)
				if !errors.Is(err, engine.ErrNotADatabase) || !strings.Contains(hint, "search_path") {
					t.Errorf("it is told %v (%s)", err, hint)
				}
			}
			if after := state(); after != before {
				t.Errorf("%s tables and indexes, and before %s", after, before)
			}
			open(t, address) // in a schema of its own
		})
	}
}

// A new connection of a handle that only reads meets a database that has only some of the rows.
func TestPostgres_HalfMovedIsToldToOpenReader(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	set := config(t)
	set.ReadOnly = true
	reader, err := postgres.Open(t.Context(), address, set)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // it has changed nothing
	exec(t, e, "INSERT INTO moves (token, direction, place, began_at) VALUES (?, 'in', 'there', 1)",
		make([]byte, 16))
	exec(t, e, "UPDATE selvedge_file SET min_reader = ?", engine.Shut)
	out := reader.Read(t.Context(), "test", func(x engine.Rx) error { return x.Get(new(int), "SELECT 1", nil) })
	if !errors.Is(out.Err, engine.ErrMoved) {
		t.Errorf("it ended with %v", out.Err)
	}
}

func TestPostgres_ExtensionTablesAreIgnored(t *testing.T) {
	address := dbtest.Postgres(t)
	dbtest.PostgresExec(t, address, "CREATE TABLE places (srid INT); ALTER EXTENSION plpgsql ADD TABLE places")
	open(t, address+"&search_path=public")
}

func TestPostgresAnOlderServerIsRefused(t *testing.T) {
	address := dbtest.Postgres(t)
	version := string(dbtest.PostgresExec(t, address, "SHOW server_version")[0][0])
	older := "9.6" + strings.Repeat(" ", len(version)-len("9.6")) // the message keeps its length
	before := dbtest.PostgresProxy(t, address, func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) },
		func(to io.Writer, from io.Reader) {
			buffer := make([]byte, 1<<16)
			for {
				n, err := from.Read(buffer)
				if err != nil {
					return
				}
				if _, err := to.Write(bytes.ReplaceAll(buffer[:n], []byte("server_version\x00"+version),
					[]byte("server_version\x00"+older))); err != nil {
					return
				}
			}
		})
	if _, err := hinted(t, before, config(t)); !errors.Is(err, engine.ErrUnsupported) ||
		!strings.Contains(err.Error(), "9.6") {
		t.Errorf("it is told %v", err)
	}
}

func TestPostgresAStandbyIsNamedAsOne(t *testing.T) {
	set := config(t)
	set.ReadOnly = true
	hint, err := hinted(t, dbtest.NewPostgresPair(t, root).Standby, set)
	if !errors.Is(err, engine.ErrIO) || !strings.Contains(err.Error(), "is a standby") ||
		strings.Contains(err.Error(), "closed") || !strings.Contains(hint, "primary") {
		t.Errorf("it is told %v (%s)", err, hint)
	}
}

// There is a server, which may run well.
func TestPostgres_MissingTLSIsNotUnreachable(t *testing.T) {
	pass := func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) }
	address := strings.Replace(dbtest.PostgresProxy(t, dbtest.Postgres(t), pass, pass), "sslmode=disable",
		"sslmode=require", 1)
	hint, err := hinted(t, address, config(t))
	if !errors.Is(err, engine.ErrIO) || strings.Contains(err.Error(), "no server answers") ||
		!strings.Contains(hint, "sslmode") {
		t.Errorf("it is told %v (%s)", err, hint)
	}
}

// An administrator makes the schema, and the program's role may make none.
func TestPostgres_ExistingSchemaFilledWithoutCreate(t *testing.T) {
	address := dbtest.Postgres(t)
	role := roleOf(t, address)
	dbtest.PostgresExec(t, address, "CREATE SCHEMA selvedge AUTHORIZATION "+role)
	open(t, address+"&user="+role)
}

// The server only warns of a table that it leaves as it is.
func TestPostgres_ScrubByOwnerOrNotAtAll(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	role := roleOf(t, address)
	dbtest.PostgresExec(t, address, fmt.Sprintf(`GRANT USAGE, CREATE ON SCHEMA selvedge TO %s; GRANT
	SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA selvedge TO %[1]s;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA selvedge TO %[1]s`, role))
	var f *engine.Failure
	if err := open(t, address+"&user="+role).Scrub(t.Context()); !errors.As(err, &f) ||
		!strings.Contains(f.Hint, "owner") {
		t.Errorf("who may not is told %v, %+v", err, f)
	}
	if err := e.Scrub(t.Context()); err != nil {
		t.Error(err)
	}
}

// For it a table that is written anew keeps what was deleted, whatever it reads itself.
func TestPostgresAScrubWaitsForATransactionFromBefore(t *testing.T) {
	postgres.WithScrubPatience(t, 200*time.Millisecond)
	address := dbtest.Postgres(t)
	e := open(t, address)
	reader := holding(t, address, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class")
	var f *engine.Failure
	if err := e.Scrub(t.Context()); !errors.Is(err, engine.ErrBusy) || !errors.As(err, &f) ||
		!strings.Contains(f.Hint, "health") {
		t.Errorf("beside one it is told %v, %+v", err, f)
	}
	if _, err := reader.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := e.Scrub(t.Context()); err != nil {
		t.Error(err)
	}
	if left := get[int64](t, e, "SELECT count(*) FROM pg_class WHERE relname LIKE "+
		"'selvedge_scrub%'"); left != 0 {
		t.Errorf("it leaves %d tables", left)
	}
}

// What a server says that recovers from a crash.
func TestPostgres_OpenWaitsForServerThatStarts(t *testing.T) {
	starting, err := (&pgproto3.ErrorResponse{
		Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P03",
		Message: "the database system is starting up",
	}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	var tried atomic.Int64
	open(t, dbtest.PostgresProxy(t, dbtest.Postgres(t),
		func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) },
		func(to io.Writer, from io.Reader) {
			if tried.Add(1) > 3 {
				_, _ = io.Copy(to, from)
			} else {
				_, _ = to.Write(starting)
			}
		}))
	if tried.Load() <= 3 {
		t.Errorf("it was open after %d connections", tried.Load())
	}
}

// As some managed services do, which have one address.
func TestPostgres_ServerWithoutWALFunctionsIsUsed(t *testing.T) {
	address := dbtest.Postgres(t)
	role := roleOf(t, address)
	dbtest.PostgresExec(t, address, "CREATE SCHEMA selvedge AUTHORIZATION "+role+
		"; REVOKE EXECUTE ON FUNCTION pg_current_wal_lsn() FROM PUBLIC")
	e := open(t, address+"&user="+role)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	h, err := e.Health(t.Context())
	if err != nil || len(h.Server.Standbys)+len(h.Server.Slots) > 0 {
		t.Errorf("its health: %+v, %v", h.Server, err)
	}
}

// A role with fewer connections than a handle asks for, and as many as it needs: no call fails.
func TestPostgres_TooFewConnectionsAreAWait(t *testing.T) {
	address := dbtest.Postgres(t)
	role := roleOf(t, address)
	dbtest.PostgresExec(t, address, "CREATE SCHEMA selvedge AUTHORIZATION "+role)
	dbtest.PostgresExec(t, address, "ALTER ROLE "+role+" CONNECTION LIMIT 5")
	e := open(t, address+"&user="+role)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	changes, err := e.Watch(t.Context(), engine.NoStream) // which has a connection of its own
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for range 5 {
				out := e.Write(t.Context(), "test", func(x engine.Tx) error {
					_, err := x.Exec("INSERT INTO kept VALUES (?)", []any{n})
					return err
				})
				if out.Err == nil {
					out = e.Read(t.Context(), "test",
						func(x engine.Rx) error { return x.Get(new(int64), "SELECT count(*) FROM kept", nil) })
				}
				if out.Err != nil {
					t.Error(out.Err)
				}
			}
		})
	}
	all.Wait()
	dbtest.Receive(t, "a change", changes.Changes)
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 80 {
		t.Errorf("of 80 rows %d are there", n)
	}
	write(t, e, func(x engine.Tx) error { // its row is made over another connection
		_, err := x.Owner()
		return err
	})
}

// roleOf makes a role that has no rights but to log in.
func roleOf(t *testing.T, address string) string {
	t.Helper()
	role := fmt.Sprintf("plain_%s", dbtest.PostgresExec(t, address, "SELECT current_database()")[0][0])
	dbtest.PostgresExec(t, address, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		dbtest.PostgresExec(t, address, fmt.Sprintf("DROP OWNED BY %s CASCADE; DROP ROLE %[1]s", role))
	})
	return role
}
