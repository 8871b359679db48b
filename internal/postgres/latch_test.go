//go:build postgres

package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

const sqlTheCounter = "SELECT name FROM counters WHERE name = ?"

// Calls of a handle that lock one row first, of both kinds, wait for each other before they read: none of
// them loses, which the server's log would tell.
func TestPostgres_WritersOfOneRowLoseNothing(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	counter(t, e)
	const callers, each = 6, 20
	for name, lock := range map[string]func(engine.Tx) error{
		"first": func(x engine.Tx) error { return x.Lock(sqlTheCounter, []any{"a"}) },
		"first, reading it": func(x engine.Tx) error {
			return x.Get(new(string), x.Locking(sqlTheCounter, []any{"a"}, false), []any{"a"})
		},
	} {
		var runs atomic.Int64
		countUp := func(x engine.Tx) error {
			runs.Add(1)
			if err := lock(x); err != nil {
				return err
			}
			var n int64
			if err := x.Get(&n, "SELECT n FROM counters WHERE name = 'a'", nil); err != nil {
				return err
			}
			_, err := x.Exec("UPDATE counters SET n = ? WHERE name = 'a'", []any{n + 1})
			return err
		}
		before := get[int64](t, e, "SELECT n FROM counters")
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				for range each {
					do := e.Write
					if n%2 == 1 {
						do = e.WriteLocked
					}
					if err := do(t.Context(), "count up", countUp).Err; err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if n := get[int64](t, e, "SELECT n FROM counters") - before; n != callers*each || runs.Load() != n {
			t.Errorf("locking %s, %d calls ran %d times and counted to %d", name, callers*each, runs.Load(), n)
		}
	}
}

// A function may wait for another call that locks the same rows: that one goes on after a while.
func TestPostgres_WaitBeforeLockIsBounded(t *testing.T) {
	postgres.WithLatchPatience(t, 10*time.Millisecond)
	e := open(t, dbtest.Postgres(t))
	counter(t, e)
	absent := func(x engine.Tx) error { return x.Lock(sqlTheCounter, []any{"b"}) }
	write(t, e, func(x engine.Tx) error {
		if err := absent(x); err != nil {
			return err
		}
		write(t, e, absent)
		return nil
	})
}

const sqlLookLocks = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
	AND classid = CAST('sessions' AS REGCLASS)
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// A call that is run again and finds the row locked waits before its snapshot, and so do the next ones. They
// take turns by a lock of the session, which each ending of a transaction releases.
func TestPostgres_LookLockEndsWithItsTransaction(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	counter(t, e)
	exec(t, e, "INSERT INTO counters VALUES ('b', 0)")
	exec(t, e, "CREATE TABLE later (n BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	lock := func(x engine.Tx) error {
		return errors.Join(x.Lock(sqlTheCounter, []any{"a"}), x.Get(new(int64), "SELECT n FROM counters", nil))
	}
	lose := func(x engine.Tx) error {
		dbtest.PostgresExec(t, address, "UPDATE selvedge.counters SET n = n + 1 WHERE name = 'b'")
		_, err := x.Exec("UPDATE counters SET n = n + 1 WHERE name = 'b'", nil)
		return err
	}
	runs, done := 0, make(chan error, 1)
	write(t, e, func(x engine.Tx) error {
		err := lock(x)
		if runs++; err != nil || runs > 1 {
			return err
		}
		go func() {
			done <- other.WriteLocked(t.Context(), "hold", func(y engine.Tx) error {
				err := lock(y)
				dbtest.AwaitPostgresWaits(t, address, 1) // the call that has lost
				return err
			}).Err
		}()
		dbtest.AwaitPostgresWaits(t, address, 1)
		return lose(x)
	})
	if err := <-done; err != nil || runs != 2 {
		t.Fatalf("it ran %d times: %v", runs, err)
	}
	lost := false
	for ending, does := range map[string]func(engine.Tx) error{
		"a commit":         func(x engine.Tx) error { return x.Queue(sqlCountUp, nil) },
		"no change":        func(engine.Tx) error { return nil },
		"its own error":    func(engine.Tx) error { return errors.New("enough") },
		"a wrong query":    func(x engine.Tx) error { return x.Get(new(int64), "SELECT 1 / 0", nil) },
		"a refused commit": func(x engine.Tx) error { return x.Queue("INSERT INTO later VALUES (1), (1)", nil) },
		"a lost race": func(x engine.Tx) error {
			if lost {
				return nil
			}
			lost = true
			return lose(x)
		},
	} {
		out := e.Write(t.Context(), "end", func(x engine.Tx) error {
			err := lock(x)
			if n := get[int64](t, e, sqlLookLocks); n != 1 {
				t.Errorf("before %s, %d sessions have the lock", ending, n)
			}
			return errors.Join(err, does(x))
		})
		if n := get[int64](t, e, sqlLookLocks); n != 0 {
			t.Errorf("after %s (%v), %d sessions have the lock", ending, out.Err, n)
		}
	}
}

// Once a commit is answered, it is done, whatever comes of the unlocking behind it. A session that can't
// unlock is closed.
func TestPostgres_FailedUnlockEndsItsSession(t *testing.T) {
	direct := dbtest.Postgres(t)
	var garbles atomic.Bool
	address := dbtest.PostgresProxy(t, direct, func(to io.Writer, from io.Reader) {
		_ = dbtest.PostgresMessages(from, true, func(_ byte, message []byte) error {
			if garbles.Load() {
				message = bytes.ReplaceAll(message, []byte("advisory_unlock"), []byte("advisory_unlook"))
			}
			_, err := to.Write(message)
			return err
		})
	}, func(to io.Writer, from io.Reader) { _, _ = io.Copy(to, from) })
	e := open(t, address)
	counter(t, e)
	exec(t, e, "INSERT INTO counters VALUES ('b', 0)")
	enough := errors.New("enough")
	for ending, does := range map[string]func(engine.Tx) error{
		"a commit":      func(x engine.Tx) error { return x.Queue(sqlCountUp, nil) },
		"no change":     func(engine.Tx) error { return nil },
		"its own error": func(engine.Tx) error { return enough },
	} {
		runs := 0
		before := get[int64](t, e, "SELECT n FROM counters WHERE name = 'a'")
		garbles.Store(false)
		out := e.Write(t.Context(), "test", func(x engine.Tx) error {
			if err := errors.Join(x.Lock(sqlTheCounter, []any{"a"}),
				x.Get(new(int64), "SELECT n FROM counters", nil)); err != nil {
				return err
			}
			if runs++; runs > 1 {
				garbles.Store(true)
				return does(x)
			}
			dbtest.PostgresExec(t, direct, "UPDATE selvedge.counters SET n = n + 1 WHERE name = 'b'")
			_, err := x.Exec("UPDATE counters SET n = n + 1 WHERE name = 'b'", nil)
			return err
		})
		counted := get[int64](t, e, "SELECT n FROM counters WHERE name = 'a'") - before
		if ending == "a commit" && (out.Err != nil || counted != 1) || ending != "a commit" && counted != 0 {
			t.Errorf("after %s and %d runs it counted %d: %v", ending, runs, counted, out.Err)
		}
		dbtest.Await(t, "no session has the lock", func() bool { return get[int64](t, e, sqlLookLocks) == 0 })
	}
}

// Calls that look and do not get the row, or wait too long for it, wait with a snapshot.
func TestPostgres_CallsThatLookInVainCount(t *testing.T) {
	address := dbtest.Postgres(t)
	handles := []*postgres.Engine{open(t, address), open(t, address), open(t, address)}
	counter(t, handles[0])
	const each = 100
	count := func() {
		var all sync.WaitGroup
		for i := range 6 {
			e := handles[i%len(handles)]
			do := e.Write
			if i < len(handles) {
				do = e.WriteLocked
			}
			all.Go(func() {
				for range each {
					if err := do(t.Context(), "count up", func(x engine.Tx) error {
						return errors.Join(x.Lock(sqlTheCounter, []any{"a"}), x.Queue(sqlCountUp, nil))
					}).Err; err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	postgres.WithMostLooks(t, 1)
	count()
	postgres.WithLatchPatience(t, time.Millisecond)
	count()
	if n := get[int64](t, handles[0], "SELECT n FROM counters"); n != 2*6*each {
		t.Errorf("%d calls counted to %d", 2*6*each, n)
	}
	if n := get[int64](t, handles[0], sqlLookLocks); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}
