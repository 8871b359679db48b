//go:build postgres

package postgres_test

import (
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
