//go:build postgres

package postgres_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

// A server refuses a prepared statement whose table has other columns now, at each of its runs.
func TestPostgresAStatementOutlivesAChangeOfItsTable(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	const query = "SELECT * FROM kept"
	runs := 0
	look := func(x engine.Rx) error {
		if runs++; runs > 20 {
			return errors.New("it is run again and again")
		}
		rows, err := x.Query(query, nil)
		if err != nil {
			return err
		}
		for rows.Next() {
			continue
		}
		return errors.Join(rows.Err(), rows.Close())
	}
	for _, change := range []string{"ALTER TABLE kept ADD COLUMN more BIGINT", "ANALYZE kept"} {
		runs = 0
		if out := e.Read(t.Context(), "test", look); out.Err != nil {
			t.Fatal(out.Err)
		}
		runs = 0
		write(t, e, func(x engine.Tx) error { return look(x) })
		exec(t, e, change)
	}
}

func TestPostgres_StatementOfRemadeTypeIsPrepared(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	const remake = "CREATE DOMAIN amount AS BIGINT"
	runs := 0
	look := func(x engine.Rx) error {
		if runs++; runs > 20 {
			return errors.New("it is run again and again")
		}
		return x.Get(new(int64), "SELECT CAST(CAST(? AS amount) AS BIGINT)", []any{int64(1)})
	}
	for range 2 {
		exec(t, e, remake)
		runs = 0
		if out := e.Read(t.Context(), "test", look); out.Err != nil {
			t.Fatal(out.Err)
		}
		write(t, e, func(x engine.Tx) error { return look(x) })
		exec(t, e, "DROP DOMAIN amount")
	}
	if out := e.Read(t.Context(), "test", look); out.Err == nil || !strings.Contains(out.Err.Error(), "amount") {
		t.Errorf("without the type: %v", out.Err)
	}
}

func TestPostgresAChangeInAReadIsRefusedAtOnce(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	runs := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := e.Read(ctx, "test", func(x engine.Rx) error {
		if runs++; runs > 1 {
			cancel()
		}
		return x.Get(new(int64), "INSERT INTO kept VALUES (1) RETURNING n", nil)
	})
	if !errors.Is(out.Err, engine.ErrInvalid) || runs != 1 {
		t.Errorf("after %d runs: %v", runs, out.Err)
	}
}

// The context is one that the function made: nobody else ended anything.
func TestPostgres_CancelledQueryIsNotRetried(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	why := errors.New("enough")
	slow := func(runs *int) func(x engine.Rx) error {
		return func(x engine.Rx) error {
			if *runs++; *runs > 1 {
				return nil
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			rows, err := x.QueryContext(ctx, "SELECT n, repeat('x', 10000) FROM generate_series(1, 1000000) n", nil)
			if err != nil {
				return err
			}
			for rows.Next() {
				cancel(why)
			}
			return errors.Join(rows.Err(), rows.Close())
		}
	}
	var reads, writes int
	if out := e.Read(t.Context(), "test", slow(&reads)); !errors.Is(out.Err, why) || reads != 1 {
		t.Errorf("a read after %d runs: %v", reads, out.Err)
	}
	if out := e.Write(t.Context(), "test",
		func(x engine.Tx) error { return slow(&writes)(x) }); !errors.Is(out.Err, why) || writes != 1 {
		t.Errorf("a write after %d runs: %v", writes, out.Err)
	}
}

func TestPostgresRowsThatAreLeftOpenHaveABound(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	out := e.Read(t.Context(), "test", func(x engine.Rx) error {
		outer, err := x.Query("SELECT repeat('x', 1000000) FROM generate_series(1, 100)", nil)
		if err != nil {
			return err
		}
		if err := x.Get(new(int64), "SELECT 1", nil); err != nil { // this one is right
			t.Error(err)
		}
		n := 0
		for outer.Next() {
			n++
		}
		if n == 0 || n == 100 {
			t.Errorf("%d rows came", n)
		}
		return errors.Join(outer.Err(), outer.Close())
	})
	var f *engine.Failure
	if !errors.Is(out.Err, engine.ErrInvalid) || !errors.As(out.Err, &f) || f.Hint == "" {
		t.Errorf("it ended with %v", out.Err)
	}
}

// A statement in a loop has the rest of the rows read, and the race is lost there.
func TestPostgres_RaceLostInOpenRowsIsRetried(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, `CREATE FUNCTION loses(n INT, run INT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN
		IF n = 1000 AND run = 1 THEN RAISE SQLSTATE '40001'; END IF; RETURN n; END $$`)
	runs, rows := 0, 0
	write(t, e, func(x engine.Tx) error {
		runs++
		rows = 0
		open, err := x.Query("SELECT loses(n, CAST(? AS INT)) FROM generate_series(1, 2000) n", []any{runs})
		if err != nil {
			return err
		}
		for err == nil && open.Next() {
			rows++
			err = x.Get(new(int), "SELECT 1", nil)
		}
		return errors.Join(err, open.Close())
	})
	if runs != 2 || rows != 2000 {
		t.Errorf("%d runs, the last of %d rows", runs, rows)
	}
}

// The savepoint is asked for after the rows have failed, and so never made.
func TestPostgres_ErrorOfOpenRowsIsTold(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		open, err := x.Query("SELECT 1 / (1000 - n) FROM generate_series(1, 2000) n", nil)
		if err != nil || !open.Next() {
			t.Errorf("no row: %v", err)
		}
		within, err := x.Savepoint()
		if err != nil {
			return err
		}
		failed := x.Get(new(int), "SELECT 1", nil)
		return errors.Join(failed, within.RollBack(), open.Close())
	})
	if !strings.Contains(fmt.Sprint(out.Err), "division by zero") || strings.Contains(out.Err.Error(), "25P02") {
		t.Errorf("it ended with %v", out.Err)
	}
}

func TestPostgres_PanicInQueryContextEndsItsContext(t *testing.T) {
	set := config(t)
	set.Writers = 1
	e, err := postgres.Open(t.Context(), dbtest.Postgres(t), set)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close() //nolint:errcheck // a test of what comes before
	ctx, cancel := context.WithCancel(t.Context())
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		_, err := x.QueryContext(ctx, "SELECT CAST(? AS BIGINT)", []any{thrower{}})
		return err
	})
	if cancel(); !out.Panicked {
		t.Errorf("it ended with %+v", out)
	}
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
}

// A thrower is a driver.Valuer that panics.
type thrower struct{}

func (thrower) Value() (driver.Value, error) { panic("oh") }

// One function holds the queue of those who lost, and another one waits in it.
func TestPostgres_QueueWaitEndsWithContext(t *testing.T) {
	address := dbtest.Postgres(t)
	holder, waiter := open(t, address), open(t, address)
	exec(t, holder, "CREATE TABLE kept (name TEXT PRIMARY KEY, n BIGINT)")
	exec(t, holder, "INSERT INTO kept VALUES ('a', 0), ('b', 0)")
	loses := func(name string, queued func() error) func(engine.Tx) error {
		runs := 0
		return func(x engine.Tx) error {
			runs++
			if err := x.Get(new(int64), "SELECT n FROM kept WHERE name = ?", []any{name}); err != nil {
				return err
			}
			if runs > 2 {
				return queued()
			}
			dbtest.PostgresExec(t, address, "UPDATE selvedge.kept SET n = n + 1 WHERE name = '"+name+"'")
			_, err := x.Exec("UPDATE kept SET n = n + 1 WHERE name = ?", []any{name})
			return err
		}
	}
	held, leave, done := make(chan struct{}, 2), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- holder.Write(t.Context(), "hold",
			loses("a", func() error { held <- struct{}{}; <-leave; return nil })).Err
	}()
	dbtest.Receive(t, "one who has the queue", held)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	waited := make(chan error, 1)
	go func() {
		waited <- waiter.Write(ctx, "wait", loses("b", func() error { return errors.New("it was let in") })).Err
	}()
	dbtest.AwaitPostgresWaits(t, address, 1)
	cancel(why)
	if err := <-waited; !errors.Is(err, why) || !errors.Is(err, engine.ErrBusy) {
		t.Errorf("it ended with %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The server looks for the row that a foreign key names in the transaction's own snapshot: one that
// was committed since is not there.
func TestPostgres_NewRowOfOthersIsReferenced(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, "CREATE TABLE parents (id BIGINT PRIMARY KEY)")
	exec(t, e, "CREATE TABLE children (parent BIGINT REFERENCES parents (id))")
	insert := func(x engine.Tx, parent int64) error {
		_, err := x.Exec("INSERT INTO children VALUES (?)", []any{parent})
		return err
	}
	runs := 0
	write(t, e, func(x engine.Tx) error {
		if err := x.Get(new(int64), "SELECT 1", nil); err != nil {
			return err
		}
		if runs++; runs == 1 {
			dbtest.PostgresExec(t, address, "INSERT INTO selvedge.parents VALUES (1)")
		}
		return insert(x, 1)
	})
	runs = 0
	out := e.Write(t.Context(), "test", func(x engine.Tx) error { runs++; return insert(x, 2) })
	var f *engine.Failure
	if !errors.As(out.Err, &f) || f.Constraint != engine.OtherConstraint || runs != 4 {
		t.Errorf("after %d runs: %v", runs, out.Err)
	}
}

// Rows of the dead that something refers to stay, and cost no run of their own.
func TestPostgres_DeadOwnersStayInOneRun(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE claims (owner BIGINT REFERENCES owners (id))")
	exec(t, e, "INSERT INTO owners (token, pid, program, registered_at) SELECT decode(lpad(to_hex(n), 32, "+
		"'0'), 'hex'), 1, 'dead', 1 FROM generate_series(1, 10) n")
	exec(t, e, "INSERT INTO claims SELECT id FROM owners WHERE id % 2 = 0")
	runs := 0
	write(t, e, func(x engine.Tx) error {
		runs++
		_, _, err := x.ForgetDeadOwners(engine.BeforeOwners)
		return err
	})
	if n := get[int64](t, e, "SELECT count(*) FROM owners"); n != 5 || runs != 1 {
		t.Errorf("after %d runs %d are left", runs, n)
	}
}

func TestPostgresAWriteThatChangedNothingKeepsNoNumber(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	const numbers = "SELECT CAST(sum(outcome) AS BIGINT) FROM sessions"
	before := get[int64](t, e, numbers)
	write(t, e, func(x engine.Tx) error { return x.Get(new(int64), "SELECT count(*) FROM kept", nil) })
	if after := get[int64](t, e, numbers); after != before {
		t.Errorf("the numbers of the sessions were %d, and are %d", before, after)
	}
}

func TestPostgresAStatementKnowsWhoLives(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	var id int64
	write(t, e, func(x engine.Tx) (err error) { id, err = x.Owner(); return err })
	lives := func() (found bool) {
		write(t, e, func(x engine.Tx) error {
			return x.Get(&found, "SELECT "+x.AliveSQL("o.id")+" FROM owners AS o WHERE o.id = ?", []any{id})
		})
		return found
	}
	if !lives() {
		t.Error("this process lives, and is not found alive")
	}
	exec(t, e, "UPDATE owner_beats SET until = 0")
	if lives() {
		t.Error("one that died is found alive")
	}
}

// A lock goes with the commit, and so does the server's refusal of it.
func TestPostgres_StaleStatementInCommitIsPrepared(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "INSERT INTO kept VALUES (1)")
	for _, change := range []string{"ALTER TABLE kept ADD COLUMN more BIGINT", "ANALYZE kept"} {
		times := 0
		out := e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
			if times++; times > 20 {
				return errors.New("it is run again and again")
			}
			if err := x.Lock("SELECT * FROM kept", nil); err != nil {
				return err
			}
			_, err := x.ExecAndCommit("UPDATE kept SET n = n + 1", nil)
			return err
		})
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		exec(t, e, change)
	}
}

// Two others have the key, one after the other, and both times the transaction's snapshot shows neither.
func TestPostgres_ContendedKeyIsGivenInTheEnd(t *testing.T) {
	address := dbtest.Postgres(t)
	e := open(t, address)
	exec(t, e, "CREATE TABLE kept (name TEXT PRIMARY KEY)")
	runs := 0
	write(t, e, func(x engine.Tx) error {
		if err := x.Get(new(int64), "SELECT 1", nil); err != nil {
			return err
		}
		if runs++; runs <= 2 {
			dbtest.PostgresExec(t, address, "INSERT INTO selvedge.kept VALUES ('a')")
		}
		_, err := x.Exec("INSERT INTO kept VALUES ('a')", nil)
		if runs <= 2 {
			dbtest.PostgresExec(t, address, "DELETE FROM selvedge.kept")
		}
		return err
	})
	if runs != 3 {
		t.Errorf("it ran %d times", runs)
	}
}

func TestPostgresAFunctionOfTheServersMayChangeSomething(t *testing.T) {
	e := open(t, dbtest.Postgres(t))
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	exec(t, e, "CREATE FUNCTION keep(n BIGINT) RETURNS BIGINT LANGUAGE sql AS 'INSERT INTO selvedge.kept "+
		"VALUES (n) RETURNING n'")
	for n, query := range []string{
		"SELECT keep(?)", `SELECT "keep" /* it */ (?)`, "VALUES (keep(?))",
		"SELECT ? AS n INTO other",
	} {
		if out := e.WriteLocked(t.Context(), "test", func(x engine.Tx) error {
			rows, err := x.Query(query, []any{n})
			if err == nil {
				err = rows.Close()
			}
			return err
		}); out.Err != nil {
			t.Error(out.Err)
		}
	}
	if n := get[int64](t, e, "SELECT count(*) FROM kept"); n != 3 {
		t.Errorf("%d of 3 changes are there", n)
	}
	if n := get[int64](t, e, "SELECT count(*) FROM other"); n != 1 {
		t.Errorf("the other table has %d rows", n)
	}
}
