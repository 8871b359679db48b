//go:build postgres

package postgres_test

import (
	"errors"
	"testing"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/postgres"
	"selvedge/test/dbtest"
)

const (
	often = 20 * time.Millisecond
	never = time.Hour
	root  = "../.."
)

func count(t *testing.T, e *postgres.Engine) int64 {
	t.Helper()
	return get[int64](t, e, "SELECT count(*) FROM kept")
}

func insert(t *testing.T, e *postgres.Engine, n int64) callback.Outcome {
	t.Helper()
	return e.Write(t.Context(), "test", func(x engine.Tx) error {
		_, err := x.Exec("INSERT INTO kept VALUES (?)", []any{n})
		return err
	})
}

// keep makes the table, and waits until the standby has it.
func keep(t *testing.T, e *postgres.Engine) {
	t.Helper()
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	dbtest.Await(t, "the standby has the table", func() bool {
		return get[bool](t, e, `SELECT EXISTS (SELECT 1 FROM pg_stat_replication
			WHERE replay_lsn >= pg_current_wal_insert_lsn())`)
	})
}

// A primary that was replaced goes on, and says what was true before. Nothing about its connections tells.
func TestPostgres_ReadersLeaveReplacedPrimary(t *testing.T) {
	postgres.WithScouts(t, often)
	pair := dbtest.NewPostgresPair(t, root)
	e := open(t, pair.Both)
	keep(t, e)
	changes, err := e.Watch(t.Context(), engine.NoStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, e); n != 0 {
		t.Fatalf("%d rows", n)
	}
	pair.Promote()
	elsewhere := open(t, pair.Standby)
	if out := insert(t, elsewhere, 1); out.Err != nil {
		t.Fatal(out.Err)
	}
	for count(t, e) != 1 { // until it does
		dbtest.Receive(t, "a change that tells of the new primary", changes.Changes)
	}
	if out := insert(t, e, 2); out.Err != nil {
		t.Fatal(out.Err)
	}
	if n := count(t, elsewhere); n != 2 {
		t.Errorf("%d rows are on the new primary", n)
	}
	// The new primary falls silent, and the one that it replaced does not.
	pair.Pause(pair.Standby)
	e.SetPatience(often)
	if out := insert(t, e, 3); !errors.Is(out.Err, engine.ErrIO) &&
		!errors.Is(out.Err, engine.ErrOutcomeUnknown) {
		t.Errorf("a write without a primary: %v", out.Err)
	}
	if n := count(t, open(t, pair.Primary)); n != 0 {
		t.Errorf("%d rows were written to a primary that was replaced", n)
	}
}

// Nobody asks the hosts for a handle that nobody uses, so its next read does.
func TestPostgres_IdleHandleAsksBeforeReading(t *testing.T) {
	postgres.WithScouts(t, never)
	pair := dbtest.NewPostgresPair(t, root)
	e := open(t, pair.Both)
	keep(t, e)
	if n := count(t, e); n != 0 {
		t.Fatalf("%d rows", n)
	}
	pair.Promote()
	if out := insert(t, open(t, pair.Standby), 1); out.Err != nil {
		t.Fatal(out.Err)
	}
	e.ForgetPrimary()
	if n := count(t, e); n != 1 {
		t.Errorf("it read %d rows", n)
	}
}

func TestPostgres_WriteMovesFromStalledServer(t *testing.T) {
	postgres.WithScouts(t, often)
	pair := dbtest.NewPostgresPair(t, root)
	e := open(t, pair.Both)
	keep(t, e)
	tries := 0
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		var n int64
		if err := x.Get(&n, "SELECT count(*) FROM kept", nil); err != nil {
			return err
		}
		if tries++; tries == 1 {
			pair.Pause(pair.Primary)
			pair.Promote()
		}
		_, err := x.Exec("INSERT INTO kept VALUES (?)", []any{n})
		return err
	})
	if n := count(t, e); out.Err != nil || n != 1 || tries < 2 {
		t.Errorf("%d rows after %d tries: %v", n, tries, out.Err)
	}
}

// Nobody takes the place of the only server there is.
func TestPostgres_WriteOnOnlyStalledServerEnds(t *testing.T) {
	postgres.WithScouts(t, often)
	pair := dbtest.NewPostgresPair(t, root)
	e := open(t, pair.Primary)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		if _, err := x.Exec("INSERT INTO kept VALUES (1)", nil); err != nil {
			return err
		}
		pair.Pause(pair.Primary)
		e.SetPatience(often)
		_, err := x.Exec("INSERT INTO kept VALUES (2)", nil)
		return err
	})
	if !errors.Is(out.Err, engine.ErrIO) {
		t.Errorf("it said %v", out.Err)
	}
}

func TestPostgresOpenWaitsWhileAPrimaryIsBeingChosen(t *testing.T) {
	pair := dbtest.NewPostgresPair(t, root)
	exec(t, open(t, pair.Primary), "CREATE TABLE kept (n BIGINT)")
	pair.Pause(pair.Primary)
	opened, set := make(chan error, 1), config(t)
	go func() {
		e, err := postgres.Open(t.Context(), pair.Both, set)
		if err == nil {
			err = e.Close()
		}
		opened <- err
	}()
	pair.Promote()
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// The row by which a commit is settled did not come to a new primary: then the commit did not either.
func TestPostgres_PrimaryWithoutRowLacksCommit(t *testing.T) {
	direct := dbtest.Postgres(t)
	address, c := through(t, direct)
	e, look := open(t, address), open(t, direct)
	exec(t, e, "CREATE TABLE kept (n BIGINT)")
	if out := insert(t, e, 1); out.Err != nil {
		t.Fatal(out.Err)
	}
	tries := 0
	out := e.Write(t.Context(), "test", func(x engine.Tx) error {
		if _, err := x.Exec("INSERT INTO kept VALUES (2)", nil); err != nil {
			return err
		}
		if tries++; tries == 1 {
			dbtest.PostgresExec(t, direct, "DELETE FROM selvedge.sessions")
			c.arm(1, before) // which commits
		}
		return nil
	})
	// a further session may have lost its row, too
	if n := count(t, look); out.Err != nil || n != 2 || tries < 2 {
		t.Errorf("%d rows after %d tries: %v", n, tries, out.Err)
	}
}

// A migration whose wait for the standbys was cancelled is the server's alone: Open goes on when a
// later commit came through.
func TestPostgresAMigrationWaitsForTheStandbys(t *testing.T) {
	address := dbtest.PostgresAlone(t, root)
	standbys := func(names string) {
		dbtest.PostgresExec(t, address, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'")
		dbtest.PostgresExec(t, address, "SELECT pg_reload_conf()")
	}
	waiting := func(what string) [][][]byte {
		return dbtest.PostgresExec(t, address,
			"SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '"+what+"%'")
	}
	standbys("nobody")
	dbtest.AwaitPostgres(t, address, "the server has heard of it",
		"SELECT current_setting('synchronous_standby_names') = 'nobody'")
	opened, set := make(chan error, 1), config(t)
	go func() {
		e, err := postgres.Open(t.Context(), address, set)
		if err == nil {
			err = e.Close()
		}
		opened <- err
	}()
	var first [][][]byte
	dbtest.Await(t, "a commit waits", func() bool { first = waiting("COMMIT"); return len(first) > 0 })
	dbtest.PostgresExec(t, address, "SELECT pg_cancel_backend("+string(first[0][0])+")")
	dbtest.Await(t, "a later commit waits", func() bool {
		select {
		case err := <-opened:
			t.Fatalf("it said that it was done (%v) while no standby has it", err)
		default:
		}
		return len(waiting("UPDATE")) > 0
	})
	standbys("")
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
