//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

// lossesBefore is how often a call loses before it goes alone.
const lossesBefore = 8

// counter makes a table with a row that callers count up.
func counter(t *testing.T, e *postgres.Engine) {
	t.Helper()
	exec(t, e, "CREATE TABLE counters (name TEXT PRIMARY KEY, n BIGINT)")
	exec(t, e, "INSERT INTO counters VALUES ('a', 0)")
}

const sqlCountUp = "UPDATE counters SET n = n + 1"

// loses gives a function that looks at the row and then counts it up, and meets in each of its
// first runs somebody who does so between the two; runs is how often it ran. Then it does what last
// says between them.
func loses(other func() error, last func() error, runs *int) func(engine.Tx) error {
	return func(x engine.Tx) error {
		if err := x.Get(new(int64), "SELECT n FROM counters", nil); err != nil {
			return err
		}
		between := other
		if *runs++; *runs > lossesBefore {
			between = last
		}
		if err := between(); err != nil {
			return err
		}
		_, err := x.Exec(sqlCountUp, nil)
		return err
	}
}

func countUp(ctx context.Context, e *postgres.Engine) func() error {
	return func() error {
		return e.Write(ctx, "count up", func(x engine.Tx) error {
			_,
				err := x.Exec(sqlCountUp, nil)
			return err
		}).Err
	}
}

func nothing() error { return nil }

// Others don't end, and each of them is faster: the call that has lost often has them wait.
func TestPostgresWhoHasLostOftenGoesAlone(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other := open(t, address), open(t, address)
	counter(t, e)
	e.SetAlonePatience(time.Hour)
	locked := func() error {
		return other.WriteLocked(t.Context(), "lock", func(x engine.Tx) error {
			return errors.Join(x.Lock("SELECT key FROM live_runs", nil), x.Queue(sqlCountUp, nil))
		}).Err
	}
	for who, does := range map[string]func() error{
		"a serialisable one":        countUp(t.Context(), other),
		"one that locks rows first": locked,
	} {
		runs, done := 0, make(chan error, 1)
		write(t, e, loses(does, func() error {
			go func() { done <- does() }()
			dbtest.AwaitPostgresWaits(t, address, 1)
			return nil
		}, &runs))
		if err := <-done; err != nil || runs != lossesBefore+1 {
			t.Errorf("beside %s it ran %d times: %v", who, runs, err)
		}
	}
	if n := get[int64](t, e, "SELECT n FROM counters"); n != 2*(lossesBefore+2) {
		t.Errorf("%d is counted", n)
	}
}

// Those who come while one waits to be alone wait behind it, so it does not wait for long.
func TestPostgres_SingleWriterSkipsLongTransactions(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other, holder := open(t, address), open(t, address), open(t, address)
	counter(t, e)
	e.SetAlonePatience(10 * time.Millisecond)
	held, leave, done := make(chan struct{}, 2), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- holder.Write(t.Context(), "hold", func(x engine.Tx) error {
			_, err := x.Exec("UPDATE selvedge_file SET views = views", nil)
			held <- struct{}{}
			<-leave
			return err
		}).Err
	}()
	dbtest.Receive(t, "a transaction that holds", held)
	runs := 0
	write(t, e, loses(countUp(t.Context(), other), nothing, &runs))
	close(leave)
	if err := <-done; err != nil || runs != lossesBefore+1 {
		t.Errorf("it ran %d times: %v", runs, err)
	}
}

// The wait to be alone has a limit of its own, which is over when the function runs.
func TestPostgres_SingleWriterKeepsLockTimeout(t *testing.T) {
	address := dbtest.Postgres(t)
	other := open(t, address)
	counter(t, other)
	for more, want := range map[string]string{"": "0", "&lock_timeout=12s": "12s", "&Lock_Timeout=3000": "3s"} {
		e, got, runs := open(t, address+more), "", 0
		lose := loses(countUp(t.Context(), other), nothing, &runs)
		write(t, e, func(x engine.Tx) error {
			return errors.Join(lose(x), x.Get(&got, "SELECT current_setting('lock_timeout')", nil))
		})
		if got != want || runs != lossesBefore+1 {
			t.Errorf("with %q it is %s in run %d", more, got, runs)
		}
	}
}

func TestPostgres_SingleWriterWaitEndsWithContext(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other, holder := open(t, address), open(t, address), open(t, address)
	counter(t, e)
	e.SetAlonePatience(time.Hour)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	write(t, holder, func(x engine.Tx) error {
		if err := x.Get(new(int64), "SELECT n FROM counters", nil); err != nil {
			return err
		}
		runs, done := 0, make(chan error, 1)
		go func() {
			done <- e.Write(ctx, "wait", loses(countUp(t.Context(), other),
				func() error { return errors.New("it was let in") }, &runs)).Err
		}()
		dbtest.AwaitPostgresWaits(t, address, 1)
		cancel(why)
		if err := <-done; !errors.Is(err, why) || !errors.Is(err, engine.ErrBusy) {
			t.Errorf("it ended with %v", err)
		}
		return nil
	})
	exec(t, e, sqlCountUp)
}

// One that locks rows of two tables in the other order than that in which they are taken: one of
// the two is told so by the server, and both come through.
func TestPostgres_SingleWriterMeetsReverseLock(t *testing.T) {
	address := dbtest.Postgres(t)
	e, other, holder := open(t, address), open(t, address), open(t, address)
	counter(t, e)
	e.SetAlonePatience(time.Hour)
	runs, done := 0, make(chan error, 1)
	began := false
	out := holder.WriteLocked(t.Context(), "lock both", func(x engine.Tx) error {
		if err := errors.Join(x.Lock("SELECT key FROM live_runs", nil),
			x.Get(new(int64), "SELECT 1", nil)); err != nil {
			return err
		}
		if !began {
			began = true
			go func() {
				done <- e.Write(t.Context(), "lose",
					loses(countUp(t.Context(), other), nothing, &runs)).Err
			}()
			dbtest.AwaitPostgresWaits(t, address, 1)
		}
		return errors.Join(x.Lock("SELECT key FROM runs", nil), x.Queue(sqlCountUp, nil))
	})
	if err := errors.Join(<-done, out.Err); err != nil {
		t.Error(err)
	}
	if n := get[int64](t, e, "SELECT n FROM counters"); n != lossesBefore+2 {
		t.Errorf("%d is counted", n)
	}
}

// A function that takes another key each time would be run for ever. Alone it can have met nobody of ours.
func TestPostgres_TakenKeyAloneIsCallersError(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE keys (id BIGINT PRIMARY KEY)")
	exec(t, e, "INSERT INTO keys SELECT generate_series(1, 1000)")
	for _, locks := range []bool{true, false} {
		call, runs := e.Write, 0
		if locks {
			call = e.WriteLocked
		}
		out := call(t.Context(), "test", func(x engine.Tx) error {
			runs++
			_, err := x.Exec("INSERT INTO keys VALUES (?)", []any{runs})
			return err
		})
		var f *engine.Failure
		if !errors.As(out.Err, &f) || f.Constraint != engine.Unique || runs > 5*lossesBefore {
			t.Errorf("after %d runs: %v", runs, out.Err)
		}
	}
}
