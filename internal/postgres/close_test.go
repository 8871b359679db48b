//go:build postgres

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

func TestPostgresASecondCloseSaysWhatTheFirstDid(t *testing.T) {
	e, err := postgres.Open(t.Context(), dbtest.Postgres(t), config(t))
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if out := e.Write(t.Context(), "test", func(engine.Tx) error { return nil }); !errors.Is(out.Err,
		engine.ErrClosed) {
		t.Errorf("a write behind it: %v", out.Err)
	}
}

func TestPostgresCloseWaitsForTheCallsUnderWay(t *testing.T) {
	address := dbtest.Postgres(t)
	look := open(t, address)
	exec(t, look, "CREATE TABLE kept (n BIGINT)")
	e, err := postgres.Open(t.Context(), address, config(t))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		go func() { closed <- e.Close() }()
		dbtest.Await(t, "new calls are refused", func() bool {
			return errors.Is(e.Read(t.Context(), "test", func(engine.Rx) error { return nil }).Err, engine.ErrClosed)
		})
		select {
		case err := <-closed:
			t.Errorf("it was closed (%v) under a write", err)
		default:
		}
		_, err := x.Exec("INSERT INTO kept VALUES (1)", nil)
		return err
	})
	if n := count(t, look); out.Err != nil || n != 1 {
		t.Errorf("%d rows: %v", n, out.Err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Every connection says goodbye, and none waits for the answer that another one gets.
func TestPostgresCloseWaitsForASilentServerOnce(t *testing.T) {
	postgres.WithClosePatience(t, never)
	gate := dbtest.NewPostgresGate(t, dbtest.Postgres(t))
	e, err := postgres.Open(t.Context(), gate.Address, config(t))
	if err != nil {
		t.Fatal(err)
	}
	const each = 3
	var inside, done sync.WaitGroup
	inside.Add(2 * each)
	for range each {
		done.Go(func() {
			e.Read(t.Context(), "test", func(engine.Rx) error { inside.Done(); inside.Wait(); return nil })
		})
		done.Go(func() {
			e.Write(t.Context(), "test", func(engine.Tx) error { inside.Done(); inside.Wait(); return nil })
		})
	}
	done.Wait()
	gate.Shut()
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	for range 2 * each {
		dbtest.Receive(t, "a goodbye of each connection", gate.Held)
	}
	gate.Open()
	if err := dbtest.Receive(t, "the end of Close", closed); err != nil {
		t.Error(err)
	}
}

// The last handle of a database gives its process's number up, and waits for a row. Others are
// opened and closed meanwhile.
func TestPostgresWhoLeavesKeepsNobodyFromOpening(t *testing.T) {
	postgres.WithClosePatience(t, never)
	address, other := dbtest.Postgres(t), dbtest.Postgres(t)
	e, err := postgres.Open(t.Context(), address, config(t))
	if err != nil {
		t.Fatal(err)
	}
	write(t, e, func(x engine.Tx) error { _, err := x.Owner(); return err })
	keeper, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keeper.Exec(t.Context(),
		"BEGIN; SELECT id FROM selvedge.owners FOR UPDATE").ReadAll(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	dbtest.AwaitPostgres(t, address, "it waits to give up its number",
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM "+
			"owners%' AND datname = current_database()")
	second, err := postgres.Open(t.Context(), other, config(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-closed:
		t.Errorf("it was closed before: %v", err)
	default:
	}
	if err := keeper.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestPostgres_BeatsEndWithTheirHandle(t *testing.T) {
	postgres.WithBeats(t, 10*time.Millisecond)
	address := dbtest.Postgres(t)
	first, err := postgres.Open(t.Context(), address+"&application_name=first", config(t))
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, address+"&application_name=second")
	var ids [2]int64
	for i, e := range []*postgres.Engine{first, second} {
		write(t, e, func(x engine.Tx) (err error) { ids[i], err = x.Owner(); return err })
	}
	sessions := func(program string, n int) {
		t.Helper()
		dbtest.AwaitPostgres(t, address, program, fmt.Sprintf(
			"SELECT count(*) = %d FROM pg_stat_activity WHERE application_name = '%s' AND query LIKE 'WITH "+
				"beaten%%' AND datname = current_database()", n, program))
	}
	sessions("first", 1)
	sessions("second", 1)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	sessions("first", 0)
	write(t, second, func(x engine.Tx) error {
		for i, want := range []engine.Life{engine.LifeDead, engine.LifeAlive} {
			if life, err := x.Life(ids[i]); life != want || err != nil {
				t.Errorf("handle %d: %v, %v", i, life, err)
			}
		}
		return nil
	})
}

// The server has no connection left, or takes none: so it lives, and what is slow there is left alone.
func TestPostgres_SlowStatementOfOnlyServerIsKept(t *testing.T) {
	postgres.WithScouts(t, never) // but when they are asked to
	address, other := dbtest.Postgres(t), dbtest.Postgres(t)
	e := open(t, address)
	e.SetPatience(1)
	holder := holding(t, address, "SELECT pg_advisory_xact_lock(1)")
	name := get[string](t, e, "SELECT current_database()")
	done := make(chan error, 1)
	go func() {
		done <- e.Write(t.Context(), "test", func(x engine.Tx) error {
			_, err := x.Exec("SELECT pg_advisory_xact_lock(1)", nil)
			return err
		}).Err
	}()
	dbtest.AwaitPostgres(t, address, "the statement is slow",
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()")
	takes := func(connections string) {
		dbtest.PostgresExec(t, other, fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS %s", name, connections))
	}
	takes("false")
	e.EndWhatIsSilent(t.Context())
	takes("true")
	select {
	case err := <-done:
		t.Fatal("it ended: ", err)
	default:
	}
	if _, err := holder.Exec(t.Context(), "ROLLBACK").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPostgres_HostLookEndsWithContext(t *testing.T) {
	postgres.WithScouts(t, never)
	e := open(t, dbtest.Postgres(t)+",/nowhere")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.ForgetPrimary()
	e.WhileHostsAreAsked(func() { e.Look(ctx) })
}
