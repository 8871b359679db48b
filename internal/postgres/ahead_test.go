//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

func TestPostgres_QueuedIsVisibleToNextStatement(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT CHECK (n > 0))")
	queue := func(x engine.Tx, n int64) error { return x.Queue("INSERT INTO kept VALUES (?)", []any{n}) }
	write(t, e, func(x engine.Tx) error {
		var n int64
		if err := errors.Join(queue(x, 1), queue(x, 2), x.Get(&n, "SELECT sum(n) FROM kept", nil)); err != nil ||
			n != 3 {
			t.Errorf("the sum is %d: %v", n, err)
		}
		s, err := x.Savepoint()
		if err != nil {
			return err
		}
		if err := queue(x, 4); err != nil {
			return err
		}
		if err := s.RollBack(); err != nil {
			return err
		}
		if s, err = x.Savepoint(); err == nil {
			err = errors.Join(queue(x, 8), s.Release(), queue(x, 16))
		}
		return err
	})
	if n := get[int64](t, e, "SELECT sum(n) FROM kept"); n != 27 {
		t.Errorf("the sum is %d", n)
	}
}

func TestPostgresAQueuedChangeThatFailsUndoesAll(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT PRIMARY KEY CHECK (n > 0))")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	undone := 0
	for _, n := range []int64{-1, 1} {
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			x.OnRollback(func() { undone++ })
			return errors.Join(x.Queue("INSERT INTO kept VALUES (2)", nil),
				x.Queue("INSERT INTO kept VALUES (?)", []any{n}))
		})
		var f *engine.Failure
		if !errors.As(out.Err, &f) || f.Constraint == engine.NoConstraint {
			t.Errorf("%d: %v", n, out.Err)
		}
	}
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		s, err := x.Savepoint()
		if err != nil {
			return err
		}
		if err := x.Queue("INSERT INTO kept VALUES (-1)", nil); err != nil {
			return err
		}
		if err := s.Release(); err == nil {
			t.Error("a savepoint was released in which a change fails")
		}
		return nil
	})
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 1 || undone < 2 || out.Err == nil {
		t.Errorf("%d rows are there, %d were told: %v", n, undone, out.Err)
	}
}

// What fails with the commit itself runs again only where the session was settled.
func TestPostgres_DivisionByZeroIsCallers(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	for name, last := range map[string]func(engine.Tx) error{
		"queued": func(x engine.Tx) error { return x.Queue("INSERT INTO kept SELECT 1 / count(*) FROM kept", nil) },
		"the only change": func(x engine.Tx) error {
			_, err := x.ExecAndCommit("INSERT INTO kept SELECT 1 / count(*) FROM kept", nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			times := 0
			out := e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
				if times++; times > 1 {
					return errors.New("it runs again")
				}
				return last(x)
			})
			var f *engine.Failure
			if !errors.As(out.Err, &f) || !f.Statement.Wrong || times != 1 {
				t.Errorf("after %d times: %v", times, out.Err)
			}
		})
	}
}

func TestPostgresWhoLocksSeesWhatWasDoneBefore(t *testing.T) {
	address := dbtest.Postgres(t)
	handles := []*postgres.Engine{open(t, address), open(t, address)}
	exec(t, handles[0], "CREATE TABLE places (n BIGINT PRIMARY KEY)")
	exec(t, handles[0], "CREATE TABLE turn (id BIGINT PRIMARY KEY)")
	exec(t, handles[0], "INSERT INTO turn VALUES (1)")
	var wait sync.WaitGroup
	const callers, each = 16, 10
	for c := range callers {
		wait.Go(func() {
			for range each {
				times := 0
				out := handles[c%2].WriteLocked(t.Context(), "next", func(x engine.Tx) error {
					times++
					if err := x.Lock("SELECT id FROM turn WHERE id = 1", nil); err != nil {
						return err
					}
					if c%4 > 1 {
						_, err := x.ExecAndCommit("INSERT INTO places SELECT coalesce(max(n), 0) + 1 FROM places", nil)
						return err
					}
					var last int64
					if err := x.Get(&last, "SELECT coalesce(max(n), 0) FROM places", nil); err != nil {
						return err
					}
					return x.Queue("INSERT INTO places VALUES (?)", []any{last + 1})
				})
				if out.Err != nil || times != 1 {
					t.Errorf("after %d times: %v", times, out.Err)
				}
			}
		})
	}
	wait.Wait()
	if n, last := get[int64](t, handles[0], "SELECT count(*) FROM places"),
		get[int64](t, handles[0], "SELECT max(n) FROM places"); n != callers*each || last != n {
		t.Errorf("%d places up to %d", n, last)
	}
}

func TestPostgresAfterTheLastStatementComesNone(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	out := e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
		if n, err := x.ExecAndCommit("INSERT INTO kept SELECT 1 WHERE false", nil); n != 0 || err != nil {
			t.Errorf("nothing to insert: %d, %v", n, err)
		}
		if n, err := x.ExecAndCommit("INSERT INTO kept VALUES (1)", nil); n != 1 || err != nil {
			t.Errorf("one to insert: %d, %v", n, err)
		}
		if _, err := x.Exec("INSERT INTO kept VALUES (2)", nil); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("behind it: %v", err)
		}
		return nil
	})
	if n := get[int64](t, e, "SELECT sum(n) FROM kept"); n != 1 || out.Err != nil || out.Group != 1 {
		t.Errorf("the sum is %d: %+v", n, out)
	}
}

func TestPostgres_PrefetchAnsweredOnceUntilChange(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT, name TEXT)")
	exec(t, e, "INSERT INTO kept VALUES (1, 'one'), (2, NULL)")
	const ask = "SELECT name FROM kept WHERE n = ?"
	asked := func(x engine.Tx, n int64) (name *string) {
		if err := x.Get(&name, ask, []any{n}); err != nil && !errors.Is(err, engine.ErrNotFound) {
			t.Error(err)
		}
		return name
	}
	write(t, e, func(x engine.Tx) error {
		for _, n := range []int64{1, 2, 3} {
			if err := x.Prefetch(ask, []any{n}); err != nil {
				return err
			}
		}
		if err := x.Queue("UPDATE kept SET name = 'other'", nil); err != nil {
			return err
		}
		if name := asked(x, 1); name == nil || *name != "one" {
			t.Errorf("of what was prefetched the answer is %v", name)
		}
		if name := asked(x, 1); name == nil || *name != "other" {
			t.Errorf("the second time the answer is %v", name)
		}
		if name := asked(x, 3); name != nil || !x.Prefetches() {
			t.Errorf("of nothing the answer is %v", name)
		}
		if n, err := x.Exec("UPDATE kept SET name = 'last'", nil); err != nil || n != 2 || x.Prefetches() {
			t.Errorf("%d rows: %v", n, err)
		}
		if name := asked(x, 2); name == nil || *name != "last" {
			t.Errorf("behind a change the answer is %v", name)
		}
		return x.Prefetch(ask, []any{int64(1)}) // nobody asks
	})
	exec(t, e, "UPDATE kept SET name = 'later'")
	write(t, e, func(x engine.Tx) error {
		if name := asked(x, 1); name == nil || *name != "later" {
			t.Errorf("in another transaction the answer is %v", name)
		}
		return nil
	})
}

func TestPostgres_ManyQueuedChangesSentInParts(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT, text TEXT)")
	long := strings.Repeat("long ", 20_000)
	write(t, e, func(x engine.Tx) error {
		for i := range int64(2500) {
			if err := errors.Join(x.Prefetch("SELECT n FROM kept WHERE n = ?", []any{-i}),
				x.Queue("INSERT INTO kept VALUES (?, ?)", []any{i, "short"})); err != nil {
				return err
			}
		}
		for i := range int64(30) {
			if err := x.Queue("INSERT INTO kept VALUES (?, ?)", []any{i, long}); err != nil {
				return err
			}
		}
		return nil
	})
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 2530 {
		t.Errorf("%d rows are there", n)
	}
}

func TestPostgresNumbersOfRowsGrow(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE numbered (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY)")
	exec(t, e, "INSERT INTO numbered DEFAULT VALUES")
	write(t, e, func(x engine.Tx) error {
		x.Expect("numbered", 3)
		for want := int64(2); want < 7; want++ {
			if n, err := x.Number("numbered"); err != nil || n != want {
				t.Errorf("number %d in place of %d: %v", n, want, err)
			}
		}
		return nil
	})
	exec(t, e, "INSERT INTO numbered DEFAULT VALUES")
	if n := get[int64](t, e, "SELECT max(id) FROM numbered"); n != 7 {
		t.Errorf("the last number is %d", n)
	}
}

func TestPostgres_UnpreparableStatementEndsItsSavepoint(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		if _, err := x.Exec("INSERT INTO kept VALUES (1)", nil); err != nil {
			return err
		}
		s, err := x.Savepoint()
		if err != nil {
			return err
		}
		if _, err := x.Exec("INSERT INTO missing VALUES (1)", nil); err == nil {
			t.Error("there is such a table")
		}
		if err := s.RollBack(); err != nil {
			return err
		}
		_, err = x.Exec("INSERT INTO kept VALUES (2)", nil)
		return err
	})
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 2 || out.Err != nil {
		t.Errorf("%d rows are there: %v", n, out.Err)
	}
}

func TestPostgresALockOfAnEarlierSavepointStays(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (n BIGINT PRIMARY KEY)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	out := e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
		s, err := x.Savepoint()
		if err == nil {
			err = x.Lock("SELECT n FROM kept", nil)
		}
		if err == nil {
			err = s.Release()
		}
		if err == nil {
			s, err = x.Savepoint()
		}
		if err == nil {
			err = s.RollBack()
		}
		if err == nil {
			err = x.Get(new(int64), "SELECT 1", nil)
		}
		if err != nil {
			return err
		}
		if free := dbtest.PostgresExec(t, address,
			"SELECT n FROM selvedge.kept FOR UPDATE SKIP LOCKED"); len(free) > 0 {
			t.Errorf("the row is not locked: %v", free)
		}
		return nil
	})
	if out.Err != nil {
		t.Error(out.Err)
	}
}

func TestPostgres_OnlyChangeFollowsReleasedSavepoint(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT PRIMARY KEY)")
	out := e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
		s, err := x.Savepoint()
		if err == nil {
			err = s.Release()
		}
		if err != nil {
			return err
		}
		_, err = x.ExecAndCommit("INSERT INTO kept VALUES (1)", nil)
		return err
	})
	if out.Err != nil {
		t.Error(out.Err)
	}
}

func TestPostgresWhatWasDroppedIsOfItsTransaction(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	write(t, e, func(x engine.Tx) error {
		if err := x.Prefetch("SELECT count(*) FROM kept", nil); err != nil {
			return err
		}
		_, err := x.Exec("INSERT INTO kept VALUES (2)", nil)
		return err
	})
	write(t, e, func(x engine.Tx) error {
		if !x.Prefetches() {
			t.Error("it is said to have dropped what nobody prefetched")
		}
		return nil
	})
}

// Of very many statements some are closed, and none that is still to be sent.
func TestPostgres_QueuedStatementIsKept(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	write(t, e, func(x engine.Tx) error {
		for i := range 1600 {
			if err := x.Queue(fmt.Sprintf("INSERT INTO kept VALUES (%d)", i), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 1600 {
		t.Errorf("%d rows are there", n)
	}
}

func TestPostgres_InsertReturningIsAChange(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	const ask = "SELECT count(*) FROM kept"
	write(t, e, func(x engine.Tx) error {
		var n int64
		err := errors.Join(x.Prefetch(ask, nil), x.Get(&n, "SELECT 1", nil),
			x.Get(&n, "INSERT INTO kept VALUES (1) RETURNING n", nil), x.Get(&n, ask, nil))
		if n != 1 || x.Prefetches() {
			t.Errorf("behind the insertion there are %d rows", n)
		}
		return err
	})
}

// Who waits for what a server that stands still has not answered yet waits no longer than its context.
func TestPostgres_UnreadAnswerIsAwaitedWithCaller(t *testing.T) {
	postgres.WithCommitPatience(t, time.Hour)
	gate := dbtest.NewPostgresGate(t, dbtest.Postgres(t))
	e := open(t, gate.Address)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	gate.Shut()
	look := func(x engine.Rx) error { return x.Get(new(int64), "SELECT count(*) FROM kept", nil) }
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Read(ctx, "test", look).Err }()
	<-gate.Held
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
	gate.Open()
	if out := e.Read(t.Context(), "test", look); out.Err != nil {
		t.Error(out.Err)
	}
}

// The server keeps locks of names in a table of one size for all.
func TestPostgres_ManyNamesNeedFewLocks(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	write(t, e, func(x engine.Tx) error {
		for n := range 3000 {
			if err := x.LockName("leases", strconv.Itoa(n)); err != nil {
				return err
			}
		}
		var locks int64
		err := x.Get(&locks, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = "+
			"pg_backend_pid() AND classid = CAST('leases' AS REGCLASS)", nil)
		if err == nil && (locks < 512 || locks > 1024) {
			t.Errorf("3000 names take %d locks", locks)
		}
		return err
	})
}

// A move gives the server the generation of what it brings, and who had the server open before has
// another one.
func TestPostgres_LockNamesAgreeAcrossGenerations(t *testing.T) {
	address := dbtest.Postgres(t)
	before := open(t, address)
	exec(t, before, "UPDATE selvedge_file SET generation = generation + 1")
	behind := open(t, address)
	lock := func(x engine.Tx) error {
		if err := x.LockName("leases", "a"); err != nil {
			return err
		}
		return x.Get(new(int64), "SELECT 1", nil)
	}
	done := make(chan error, 1)
	write(t, before, func(x engine.Tx) error {
		if err := lock(x); err != nil {
			return err
		}
		go func() { done <- behind.WriteLocked(context.Background(), "test", lock).Err }()
		dbtest.AwaitPostgres(t, address, "the other waits",
			"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()")
		return nil
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
}
