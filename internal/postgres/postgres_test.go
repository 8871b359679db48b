//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/internal/txn"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// config is that of a program which says nothing.
func config(t testing.TB) postgres.Config {
	callbacks := new(callback.Callbacks)
	t.Cleanup(callbacks.TakeNumber())
	return postgres.Config{
		Writers: 8, Readers: 4, SchemaVersion: migrations.Steps[len(migrations.Steps)-1].Version,
		LockTimeout: 5 * time.Minute, Locked: txn.LockedTables(), Now: time.Now,
		Callbacks: callbacks,
	}
}

func open(t testing.TB, address string) *postgres.Engine {
	t.Helper()
	e, err := postgres.Open(context.Background(), address, config(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// write runs fn in a transaction, which must be committed.
func write(t testing.TB, e *postgres.Engine, fn func(engine.Tx) error) {
	t.Helper()
	if out := e.Write(t.Context(), "test", fn); out.Err != nil {
		t.Fatal(out.Err)
	}
}

func exec(t testing.TB, e *postgres.Engine, query string, args ...any) {
	t.Helper()
	write(t, e, func(x engine.Tx) error {
		_, err := x.Exec(query, args)
		return err
	})
}

func get[T any](t testing.TB, e *postgres.Engine, query string, args ...any) (v T) {
	t.Helper()
	if out := e.Read(t.Context(), "test",
		func(x engine.Rx) error { return x.Get(&v, query, args) }); out.Err != nil {
		t.Fatal(out.Err)
	}
	return v
}

func TestPostgresValuesComeBackAsTheyWereGiven(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, `CREATE TABLE kept (n BIGINT, t TEXT COLLATE "C", b BYTEA, f DOUBLE PRECISION, yes BIGINT)`)
	for _, text := range []string{"", "a", "a\x00b", "\xff\x00é", "\U0010FFFF", "\U0010FFFF0", "?", "'"} {
		write(t, e, func(x engine.Tx) error {
			if _, err := x.Exec("DELETE FROM kept", nil); err != nil {
				return err
			}
			_, err := x.Exec("INSERT INTO kept VALUES (?, ?, ?, ?, ?) -- ?",
				[]any{int64(-1) << 62, text, []byte(text), 0.1, true})
			return err
		})
		var row struct {
			N   int64   `db:"n"`
			T   string  `db:"t"`
			B   string  `db:"b"`
			F   float64 `db:"f"`
			Yes bool    `db:"yes"`
		}
		out := e.Read(t.Context(), "test", func(x engine.Rx) error {
			return x.Get(&row, "SELECT * FROM kept WHERE t = ?1 AND b = ?3 AND yes = ?2", []any{text, true, text})
		})
		if out.Err != nil || row.N != int64(-1)<<62 || row.T != text || row.B != text || row.F != 0.1 || !row.Yes {
			t.Errorf("of %q came %+v: %v", text, row, out.Err)
		}
	}
	if sum := get[int64](t, e, "SELECT sum(n) FROM kept"); sum != int64(-1)<<62 {
		t.Errorf("the sum is %d", sum)
	}
	var missing struct {
		N *int64 `db:"n"`
	}
	out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		return x.Get(&missing,
			"SELECT n FROM kept WHERE false", nil)
	})
	if out.Err != engine.ErrNotFound || missing.N != nil { //nolint:errorlint // as it is
		t.Errorf("no row is %v, %v", out.Err, missing)
	}
}

// Text would be escaped, and a backslash read as the beginning of an escape.
func TestPostgres_DomainIsGivenWhatItIsOver(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE DOMAIN whole AS BYTEA")
	exec(t, e, "CREATE DOMAIN part AS whole")
	exec(t, e, "CREATE TABLE kept (b part)")
	for _, want := range []string{"\x00\xff", `\x41`, "\U0010FFFF0", ""} {
		exec(t, e, "DELETE FROM kept")
		exec(t, e, "INSERT INTO kept VALUES (?)", []byte(want))
		if got := get[[]byte](t, e, "SELECT b FROM kept WHERE b = ?", []byte(want)); string(got) != want {
			t.Errorf("of %q came %q", want, got)
		}
	}
}

func TestPostgresRowsStayOpenBesideOtherStatements(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	write(t, e, func(x engine.Tx) error {
		outer, err := x.Query("SELECT n FROM generate_series(1, 100) n", nil)
		if err != nil {
			return err
		}
		var got []int64
		for outer.Next() {
			var n, twice int64
			if err := outer.Scan(&n); err != nil {
				return err
			}
			if err := x.Get(&twice, "SELECT 2 * CAST(? AS BIGINT)", []any{n}); err != nil {
				return err
			}
			got = append(got, twice)
		}
		if len(got) != 100 || got[99] != 200 {
			t.Errorf("it read %v", got)
		}
		return errors.Join(outer.Err(), outer.Close())
	})
	out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		_, err := x.Query("SELECT 1", nil)
		return err
	})
	if !errors.Is(out.Err, engine.ErrInvalid) {
		t.Errorf("rows that are left open: %v", out.Err)
	}
}

func TestPostgresAFailedStatementTakesOnlyItsSavepoint(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT CHECK (n > 0))")
	insert := func(x engine.Tx, n int64) error {
		_, err := x.Exec("INSERT INTO kept VALUES (?)", []any{n})
		return err
	}
	write(t, e, func(x engine.Tx) error {
		if err := insert(x, 1); err != nil {
			return err
		}
		s, err := x.Savepoint()
		if err != nil {
			return err
		}
		var f *engine.Failure
		if err := insert(x, -1); !errors.As(err, &f) || f.Constraint != engine.OtherConstraint {
			t.Errorf("a CHECK is %v", err)
		}
		if err := insert(x, 2); err == nil {
			t.Error("a statement ran behind one that failed")
		}
		return s.RollBack()
	})
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		_ = insert(x, -1)
		return insert(x, 3)
	})
	if out.Err == nil {
		t.Error("a transaction was committed in which a statement failed")
	}
	out = e.Write(t.Context(), "test", func(x engine.Tx) error {
		_ = insert(x, -1)
		return nil
	})
	if out.Err == nil {
		t.Error("a failed statement was passed over, and the commit said yes")
	}
	if n := get[int64](t, e, "SELECT sum(n) FROM kept"); n != 1 {
		t.Errorf("the sum is %d", n)
	}
}

func TestPostgresTransactionsAreOurs(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	for _, query := range []string{
		"COMMIT", " /* a /* b */ */ rollback", "SET work_mem = '1MB'",
		"-- x\nSAVEPOINT a", "-- x\rCOMMIT", "LISTEN x",
	} {
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			_, err := x.Exec(query, nil)
			return err
		})
		if !errors.Is(out.Err, engine.ErrInvalid) {
			t.Errorf("%s: %v", query, out.Err)
		}
	}
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		return x.Get(new(int64), "SELECT ?, ?",
			[]any{1})
	})
	if !errors.Is(out.Err, engine.ErrInvalid) {
		t.Errorf("too few arguments: %v", out.Err)
	}
}

// Each reads what the other one changes: run one after the other only one of them finds the other's
// place free.
func TestPostgresWritesAreSerialisable(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE doctors (name TEXT PRIMARY KEY, on_call BIGINT)")
	exec(t, e, "INSERT INTO doctors VALUES ('a', 1), ('b', 1)")
	var both, wait sync.WaitGroup
	both.Add(2)
	for _, name := range []string{"a", "b"} {
		wait.Go(func() {
			first := true
			out := e.Write(t.Context(), "leave", func(x engine.Tx) error {
				var n int64
				if err := x.Get(&n, "SELECT count(*) FROM doctors WHERE on_call = 1", nil); err != nil {
					return err
				}
				if first {
					first = false
					both.Done()
					both.Wait()
				}
				if n < 2 {
					return nil
				}
				_, err := x.Exec("UPDATE doctors SET on_call = 0 WHERE name = ?", []any{name})
				return err
			})
			if out.Err != nil {
				t.Error(out.Err)
			}
		})
	}
	wait.Wait()
	if n := get[int64](t, e, "SELECT sum(on_call) FROM doctors"); n != 1 {
		t.Errorf("%d are on call", n)
	}
}

func TestPostgresACrowdOnOneRowComesThrough(t *testing.T) {
	address := dbtest.Postgres(t)
	handles := []*postgres.Engine{open(t, address), open(t, address)}
	exec(t, handles[0], "CREATE TABLE places (n BIGINT PRIMARY KEY)")
	var wait sync.WaitGroup
	const callers, each = 16, 5
	for c := range callers {
		wait.Go(func() {
			for range each {
				out := handles[c%2].Write(t.Context(), "next", func(x engine.Tx) error {
					var last int64
					if err := x.Get(&last, "SELECT coalesce(max(n), 0) FROM places", nil); err != nil {
						return err
					}
					_, err := x.Exec("INSERT INTO places VALUES (?)", []any{last + 1})
					return err
				})
				if out.Err != nil {
					t.Error(out.Err)
				}
			}
		})
	}
	wait.Wait()
	if n, last := get[int64](t, handles[0], "SELECT count(*) FROM places"),
		get[int64](t, handles[0], "SELECT max(n) FROM places"); n != callers*each || last != n {
		t.Errorf("%d places up to %d", n, last)
	}
	if work := handles[0].Work(); work.Commits != callers*each/2+1 {
		t.Errorf("%d commits are counted", work.Commits)
	}
}

func TestPostgresAKeyThatIsTakenIsToldSoon(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT PRIMARY KEY)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	runs := 0
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		runs++
		_, err := x.Exec("INSERT INTO kept VALUES (1)", nil)
		return err
	})
	var f *engine.Failure
	if !errors.As(out.Err, &f) || f.Constraint != engine.Unique || runs != 4 {
		t.Errorf("after %d runs: %v", runs, out.Err)
	}
}

func TestPostgresAPanicAndAnErrorLeaveNothing(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	failure := errors.New("the function fails")
	undone := 0
	for _, end := range []func() error{func() error { return failure }, func() error { panic(failure) }} {
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			x.OnRollback(func() { undone++ })
			if _, err := x.Exec("INSERT INTO kept VALUES (1)", nil); err != nil {
				return err
			}
			return end()
		})
		if !out.Panicked && !errors.Is(out.Err, failure) || out.Group != 0 {
			t.Errorf("it ended with %+v", out)
		}
	}
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 0 || undone != 2 {
		t.Errorf("%d rows are left, and %d were told", n, undone)
	}
}

// A leaver is a sql.Scanner that panics.
type leaver struct{}

func (*leaver) Scan(any) error { panic("oh") }

func TestPostgresAScannerMayPanic(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	type row struct {
		N *leaver `db:"n"`
	}
	const query = "SELECT n FROM kept"
	for name, read := range map[string]func(engine.Rx) error{
		"get":    func(x engine.Rx) error { return x.Get(new(row), query, nil) },
		"select": func(x engine.Rx) error { return x.Select(new([]leaver), query, nil) },
		"scan": func(x engine.Rx) error {
			rows, err := x.Query(query, nil)
			if err == nil && rows.Next() {
				err = rows.ScanStruct(new(row))
			}
			return err
		},
	} {
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			if _, err := x.Exec("INSERT INTO kept VALUES (1)", nil); err != nil {
				return err
			}
			return read(x)
		})
		if !out.Panicked || out.Value != "oh" {
			t.Errorf("%s ended with %+v", name, out)
		}
	}
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// A follower's look goes on where one of its statements fails. One that failed with its connection
// would else have it rest for four times as long as a server stood still.
func TestPostgres_ReadRetriesAfterConnLoss(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	var runs, last int
	out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		runs++
		var pid int
		if err := x.Get(&pid, "SELECT pg_backend_pid()", nil); err != nil {
			return err
		}
		if runs == 1 && !get[bool](t, other, "SELECT pg_terminate_backend(CAST(? AS INTEGER), 100000)", pid) {
			t.Error("the connection is still there")
		}
		_ = x.Get(&last, "SELECT 7", nil)
		return nil
	})
	if out.Err != nil || runs != 2 || last != 7 {
		t.Errorf("%d runs, the last one read %d: %v", runs, last, out.Err)
	}
}

func TestPostgresAReadEndsWithItsContext(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := e.Read(ctx, "test", func(x engine.Rx) error {
		context.AfterFunc(ctx, func() {})
		cancel(why)
		var n int64
		return x.Get(&n, "SELECT 1 FROM pg_sleep(600)", nil)
	})
	if !errors.Is(out.Err, why) {
		t.Errorf("it ended with %v", out.Err)
	}
	if n := get[int64](t, e, "SELECT 1"); n != 1 {
		t.Error("the next read fails")
	}
}

// A statement whose context ends does not go on at the server.
func TestPostgres_InterruptedStatementEndsOnServer(t *testing.T) {
	address := dbtest.Postgres(t)
	e, look := open(t, address), open(t, address)
	waiting := func(n int64) func() bool {
		return func() bool {
			return n == get[int64](t, look, "SELECT count(*) FROM pg_stat_activity "+
				"WHERE wait_event IN ('PgSleep', 'advisory') AND datname = current_database()")
		}
	}
	for what, do := range map[string]func(ctx context.Context) callback.Outcome{
		"the wait for another upgrade": func(ctx context.Context) callback.Outcome {
			return e.Write(t.Context(), "test", func(x engine.Tx) error {
				err := x.Get(new(string), "SELECT CAST(pg_advisory_xact_lock(hashtextextended("+
					"'selvedge schema later', 0)) AS TEXT)", nil)
				if err != nil {
					return err
				}
				_, err = postgres.Open(ctx, address+"&search_path=later", config(t))
				dbtest.Await(t, "the wait is over before the lock is free", waiting(0))
				return err
			})
		},
		"a read": func(ctx context.Context) callback.Outcome {
			return e.Read(ctx, "test", func(x engine.Rx) error {
				return x.Get(new(int64), "SELECT 1 FROM pg_sleep(600)", nil)
			})
		},
		"a user's query in a read": func(ctx context.Context) callback.Outcome {
			return e.Read(t.Context(), "test", func(x engine.Rx) error {
				_, err := x.QueryContext(ctx, "SELECT 1 FROM pg_sleep(600)", nil)
				return err
			})
		},
		"a user's query in a write": func(ctx context.Context) callback.Outcome {
			return e.Write(t.Context(), "test", func(x engine.Tx) error {
				_, err := x.QueryContext(ctx, "SELECT 1 FROM pg_sleep(600)", nil)
				return err
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan callback.Outcome, 1)
			go func() { ended <- do(ctx) }()
			dbtest.Await(t, "it waits", waiting(1))
			cancel()
			if out := dbtest.Receive(t, "its end", ended); !errors.Is(out.Err, context.Canceled) {
				t.Errorf("it ended with %v", out.Err)
			}
			dbtest.Await(t, "nothing waits", waiting(0))
		})
	}
}

func TestPostgresTwentyProgramsStartTogether(t *testing.T) {
	address := dbtest.Postgres(t)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			e, err := postgres.Open(t.Context(), address, config(t))
			if err != nil {
				t.Error(err)
				return
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	e := open(t, address)
	checked, err := e.Check(t.Context())
	if err != nil || len(checked.Problems) > 0 {
		t.Errorf("the check says %v: %v", checked.Problems, err)
	}
	if made, err := e.Repair(t.Context()); err != nil || len(made) > 0 {
		t.Errorf("views were made again: %v, %v", made, err)
	}
	stats, err := e.Stats(t.Context())
	if err != nil || stats.Schema != migrations.Steps[len(migrations.Steps)-1].Version ||
		!strings.HasPrefix(stats.Engine, "PostgreSQL ") || e.Generation() == 0 {
		t.Errorf("the stats are %+v: %v", stats, err)
	}
}

func TestPostgresWhatCannotBeOpened(t *testing.T) {
	address := dbtest.Postgres(t)
	missing := strings.Replace(address, "/selvedge_", "/nobody_has_", 1)
	readOnly := config(t)
	readOnly.ReadOnly = true
	for _, c := range []struct {
		address string
		config  postgres.Config
		want    error
	}{
		{missing, config(t), engine.ErrNotFound},
		{address, readOnly, engine.ErrNotFound},
		{address + "&search_path=pg_catalog", config(t), engine.ErrInvalid},
		{address + "&selvedge.owner_ttl=1ns", config(t), engine.ErrInvalid},
		{"postgres://user:secret@%zz/", config(t), engine.ErrInvalid},
		{"postgres://user:x@secret@host:port/", config(t), engine.ErrInvalid},
	} {
		_, err := postgres.Open(t.Context(), c.address, c.config)
		if !errors.Is(err, c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}

func TestPostgres_FileOnlyCallsNameServersOwn(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	err := e.Backup(t.Context(), "x")
	var f *engine.Failure
	if !errors.As(err, &f) || !errors.Is(err, engine.ErrUnsupported) || f.Hint == "" {
		t.Errorf("it says %v", err)
	}
}

func TestPostgresCommitsElsewhereWakeAWatcher(t *testing.T) {
	address := dbtest.Postgres(t)
	writer, watcher := open(t, address), open(t, address)
	exec(t, writer, "CREATE TABLE kept (n BIGINT)")
	changes, err := watcher.Watch(t.Context(), engine.NoStream)
	if err != nil {
		t.Fatal(err)
	}
	wake := func() { dbtest.Receive(t, "a change that wakes it", changes.Changes) }
	exec(t, writer, "INSERT INTO kept VALUES (1)")
	wake()
	for get[int64](t, watcher, "SELECT count(*) FROM kept") == 0 {
		wake()
	}
	dbtest.PostgresExec(t, address, `INSERT INTO selvedge.kept VALUES (2)`) // nobody notifies
	for get[int64](t, watcher, "SELECT count(*) FROM kept") == 1 {
		wake()
	}
}

func TestPostgres_LateOwnerIsDeadForever(t *testing.T) {
	postgres.WithBeats(t, 10*time.Millisecond)
	address := dbtest.Postgres(t)
	late, other := open(t, address), open(t, address+"&application_name=other")
	owner := func() (id int64) {
		write(t, late, func(x engine.Tx) (err error) {
			id, err = x.Owner()
			return err
		})
		return id
	}
	first := owner()
	if first == 0 || owner() != first {
		t.Fatal("an owner has another number at each call")
	}
	life := func(id int64) (life engine.Life) {
		if out := other.Read(t.Context(), "test", func(x engine.Rx) (err error) {
			life, err = x.Life(id)
			return err
		}); out.Err != nil {
			t.Fatal(out.Err)
		}
		return life
	}
	if life(first) != engine.LifeAlive {
		t.Error("a living process is not alive")
	}
	exec(t, other, "UPDATE owner_beats SET until = 1 WHERE owner = ?", first) // what time does
	second := first
	dbtest.Await(t, "it asks again, and has another number",
		func() bool { second = owner(); return second != first })
	out := late.Read(t.Context(), "test", func(x engine.Rx) error {
		if own, err := x.Owns(first); own || err != nil {
			t.Errorf("it owns what a dead one did: %v", err)
		}
		own, err := x.Owns(second)
		if !own {
			t.Error("it does not own what it did")
		}
		return err
	})
	if out.Err != nil {
		t.Error(out.Err)
	}
	write(t, other, func(x engine.Tx) error {
		_, _, err := x.ForgetDeadOwners(engine.BeforeOwners)
		return err
	})
	var ids []int64
	if out := other.Read(t.Context(), "test",
		func(x engine.Rx) error {
			return x.Select(&ids, "SELECT id FROM owners ORDER BY id",
				nil)
		}); out.Err != nil {
		t.Fatal(out.Err)
	}
	if !slices.Equal(ids, []int64{second}) {
		t.Errorf("the owners are %d, and %d lives", ids, second)
	}
}

// A number of a sequence is committed if the caller gets it. A query that finds nothing draws none, and
// waits for no commit.
func TestPostgres_DrawnNumberIsCommitted(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE SEQUENCE numbers")
	for _, there := range []bool{false, true} {
		out := e.WriteLocked(t.Context(), "draw", func(x engine.Tx) error {
			err := x.Get(new(int64), "SELECT nextval('numbers') WHERE ?", []any{there})
			if there == errors.Is(err, engine.ErrNotFound) {
				t.Errorf("found %t: %v", there, err)
			}
			return nil
		})
		if out.Err != nil || out.Commit > 0 != there {
			t.Errorf("found %t: %v, a commit of %v", there, out.Err, out.Commit)
		}
	}
}
