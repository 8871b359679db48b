//go:build postgres

package maintenance_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func TestPostgresAMovedFileAnswersAsItDid(t *testing.T) { movesThereAndBack(t, dbtest.Postgres(t)) }

// A server that writes the least WAL, and can have no standby, has all that a database needs. So has the
// default, with which the other tests run.
func TestPostgres_EveryWALLevelIsEnough(t *testing.T) {
	for _, level := range []string{"minimal", "replica"} {
		t.Run(level, func(t *testing.T) {
			server := dbtest.PostgresAlone(t, "..")
			dbtest.PostgresShell(t, "..", server, `psql -c "ALTER SYSTEM SET wal_level = `+level+`" \
	-c "ALTER SYSTEM SET max_wal_senders = 0"
pg_ctl restart -m fast -l server.log`)
			dbtest.AwaitPostgres(t, server, "it has the level", "SELECT current_setting('wal_level') = '"+level+"'")
			movesThereAndBack(t, server)
			followsOn(t, server+"&search_path=followed")

			d := dbtest.OpenAt(t, server+"&search_path=crashed", db.Options{})
			if err := started(t.Context(), d, "r"); err != nil {
				t.Fatal(err)
			}
			dbtest.PostgresShell(t, "..", server, "pg_ctl restart -m immediate -l server.log")
			traces := runs.NewStore(d, runs.Options{})
			if err := traces.AppendTurns(t.Context(), "a", "r", []runs.Turn{{}}); err != nil {
				t.Errorf("after a crash: %v", err)
			}
			if x, err := maintenance.Check(t.Context(), d); err != nil || len(x.Problems) > 0 {
				t.Errorf("the check says %v, %v", x.Problems, err)
			}
			if h, err := d.Health(t.Context()); err != nil || h.Server == nil {
				t.Errorf("the health is %+v, %v", h, err)
			}
		})
	}
}

func TestPostgresAMoveThatWasStoppedGoesOn(t *testing.T) {
	goesOn(t, func() string { return dbtest.Postgres(t) })
}

func TestPostgresAMoveIsAbandonedUntilItIsComplete(t *testing.T) { isAbandoned(t, dbtest.Postgres(t)) }

func TestPostgres_RefusedRowNamesWayOut(t *testing.T) { isRefused(t, dbtest.Postgres(t)) }

func TestPostgresAMoveNoticesEveryCell(t *testing.T) {
	noticesEveryCell(t, dbtest.Postgres(t), func(hex string) string { return `'\x` + hex + `'::BYTEA` },
		func(to, statements string) {
			dbtest.PostgresExec(t, to, `SET search_path = selvedge; SET session_replication_role = replica;
		DO $$ DECLARE c RECORD; BEGIN
FOR c IN SELECT conname AS name, conrelid::regclass AS of FROM pg_constraint WHERE contype = 'c'
	AND connamespace = 'selvedge'::regnamespace
LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.of, c.name); END LOOP; END $$; `+statements)
		})
}

func TestPostgresCursorsAndClaimsGoOnBehindAMove(t *testing.T) { goOnBehind(t, dbtest.Postgres(t)) }

func TestPostgresFollowersGoOnBehindAMove(t *testing.T) { followsOn(t, dbtest.Postgres(t)) }

func TestPostgres_ExportsSameAfterMove(t *testing.T) {
	exportsStay(t, dbtest.Postgres(t))
}

func TestPostgres_OpenHandleCannotWriteBesideMove(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Postgres(t), dbtest.Path(t)
	living, idle := dbtest.OpenAt(t, from, db.Options{}), dbtest.OpenAt(t, from, db.Options{Readers: 1})
	if err := started(ctx, idle, "before"); err != nil { // which an open run's owner is
		t.Fatal(err)
	}
	store := checkpoints.NewStore(living, checkpoints.Options{})
	if err := store.Save(ctx, &checkpoints.PausedWorkflow{
		RunID: "r", Workflow: checkpoints.Workflow{ID: "flow", Start: "gate"}, PausedStageID: "gate",
		OutputKey: "k", CreatedAt: theTime,
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Claim(ctx, "r"); err != nil {
		t.Fatal(err)
	}
	_, err := maintenance.Move(ctx, from, to, db.Options{})
	if e, ok := errors.AsType[*db.Error](err); !errors.Is(err, db.ErrBusy) || !ok ||
		!slices.Contains(e.HeldBy, os.Getpid()) {
		t.Fatalf("moved below a living owner: %v", err)
	}
	if err := started(ctx, idle, "still"); err != nil {
		t.Fatalf("a move that was refused keeps others from writing: %v", err)
	}
	// as if the process had been silent for long
	dbtest.PostgresExec(t, from, `UPDATE selvedge.owner_beats SET until = 0`)
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := started(ctx, idle, "after"); !errors.Is(err, db.ErrMoved) || !strings.Contains(err.Error(), to) {
		t.Errorf("who had it open before writes beside a move, or is not told where: %v", err)
	}
	if _, err := runs.NewStore(idle, runs.Options{}).ListRuns(ctx, "a"); err != nil {
		t.Errorf("who had it open before does not read any more: %v", err)
	}
	if !opened(ctx, to) {
		t.Error("what was moved is not there")
	}
}

// A move that waits for a transaction lets others claim meanwhile, whom it has to see behind that.
func TestPostgres_ClaimerBlocksWaitingMove(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Postgres(t), dbtest.Path(t)
	slow, living := dbtest.OpenAt(t, from, db.Options{}), dbtest.OpenAt(t, from, db.Options{})
	store := checkpoints.NewStore(living, checkpoints.Options{})
	if err := store.Save(ctx, &checkpoints.PausedWorkflow{
		RunID: "r", Workflow: checkpoints.Workflow{ID: "flow", Start: "gate"}, PausedStageID: "gate",
		OutputKey: "k", CreatedAt: theTime,
	}); err != nil {
		t.Fatal(err)
	}
	has, goOn, wrote, moved := make(chan bool, 1), make(chan bool), make(chan error, 1), make(chan error, 1)
	go func() {
		wrote <- slow.Write(ctx, "take long", func(tx *db.Tx) error {
			// of a table that a move shuts before others
			_, err := tx.Exec(`DELETE FROM agent_context_queries WHERE agent_id < 0`)
			has <- true
			<-goOn
			return err
		})
	}()
	<-has
	go func() {
		_, err := maintenance.Move(ctx, from, to, db.Options{LockTimeout: time.Minute})
		moved <- err
	}()
	dbtest.AwaitPostgresWaits(t, from, 1)
	_, _, err := store.Claim(ctx, "r")
	close(goOn)
	if err = errors.Join(err, <-wrote); err != nil {
		t.Fatal(err)
	}
	if err := <-moved; !errors.Is(err, db.ErrBusy) {
		t.Errorf("moved below a living owner: %v", err)
	}
}

func TestPostgres_MoveNamesBlockingTransaction(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Postgres(t), dbtest.Path(t)
	if err := dbtest.OpenAt(t, from, db.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	slow := func(statement string) (pid string, end func()) {
		c, err := pgconn.Connect(ctx, from+"&application_name=slow")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "BEGIN; "+statement).ReadAll(); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("process %d of the server (slow", c.PID()), func() {
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	refused := func(who string, err error) {
		t.Helper()
		if !errors.Is(err, db.ErrBusy) || !strings.Contains(err.Error(), who) ||
			!strings.Contains(db.Hint(err), "--wait") {
			t.Errorf("%v, in the way of which is %s); its hint is %q", err, who, db.Hint(err))
		}
	}
	bounded := db.Options{LockTimeout: 100 * time.Millisecond}
	who, end := slow("UPDATE selvedge.runs SET status = status")
	_, err := maintenance.Move(ctx, from, to, bounded)
	refused(who, err)
	end()
	stoppedAt(t, from, to, "copy")
	who, end = slow("SELECT * FROM selvedge.runs")
	_, err = maintenance.AbandonMove(ctx, from, to, bounded)
	refused(who, err)
	end()
	if _, err := maintenance.AbandonMove(ctx, from, to, bounded); err != nil {
		t.Error(err)
	}
}

func TestPostgresAConnectionThatIsLostStopsNoMove(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Postgres(t)
	filled(t, from, 1)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	told, n := map[string]int{}, 0
	watched := db.WithProgress(ctx, func(p db.Progress) {
		told[p.Step]++
		if n++; p.Step == "copy" && told[p.Step]%5 == 0 || p.Step == "compare" || p.Step == "open" {
			dbtest.PostgresExec(t, to, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE '%advisory%'`)
		}
	})
	if _, err := maintenance.Move(watched, from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := answers(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, to, want, got)
}

func TestPostgres_LongKeysAreNamedBeforehand(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Postgres(t)
	filled(t, from, 1)
	d := dbtest.OpenAt(t, from, db.Options{})
	long := words(rand.New(rand.NewPCG(3, 4)), 9000)
	err := runs.NewStore(d, runs.Options{}).WriteStarted(ctx,
		runs.Started{RunID: "long", AgentID: "a", Intent: long, StartedAt: theTime})
	if err = errors.Join(err, d.Close(), dbtest.OpenAt(t, to, db.Options{}).Close()); err != nil {
		t.Fatal(err)
	}
	dbtest.PostgresExec(t, to, `CREATE INDEX of_my_own ON selvedge.runs (intent)`)
	_, err = maintenance.Move(ctx, from, to, db.Options{})
	if !errors.Is(err, db.ErrUnsupported) || strings.Count(err.Error(), " of runs") != 1 {
		t.Errorf("%v", err)
	}
	if !opened(ctx, from) || opened(ctx, to) {
		t.Error("a move that was refused has begun")
	}
	dbtest.PostgresExec(t, to, `DROP INDEX selvedge.of_my_own`)
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil {
		t.Error(err)
	}
}

// Who fills a server holds it by a lock that goes with its connection. Another may then go on with the move.
func TestPostgres_ReplacedMoveWritesNoMore(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Postgres(t)
	filled(t, from, 1)
	var want []string
	overtake := func() {
		dbtest.PostgresExec(t, to, `SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
		dbtest.Await(t, "the server has ended it", func() bool {
			_, err := maintenance.Move(ctx, from, to, db.Options{})
			if err != nil && !errors.Is(err, db.ErrBusy) {
				t.Error(err)
			}
			return !errors.Is(err, db.ErrBusy)
		})
		d := dbtest.OpenAt(t, to, db.Options{})
		if err := errors.Join(started(ctx, d, "new"), d.Close()); err != nil {
			t.Error(err)
		}
		var err error
		if want, err = answers(ctx, to); err != nil {
			t.Error(err)
		}
	}
	lost := db.WithProgress(ctx, func(p db.Progress) {
		if p.Step == "copy" && p.Done > 0 && want == nil {
			var other sync.WaitGroup // a function that is told of progress calls no handle itself
			other.Go(overtake)
			other.Wait()
		}
	})
	if _, err := maintenance.Move(lost, from, to, db.Options{}); !errors.Is(err, db.ErrConflict) ||
		!strings.Contains(err.Error(), "another") {
		t.Errorf("who lost it: %v", err)
	}
	got, err := answers(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, to, want, got)
	d := dbtest.OpenAt(t, to, db.Options{})
	if err := started(ctx, d, "newer"); err != nil {
		t.Errorf("its numbers: %v", err)
	}
}

func TestPostgres_KilledMoveResumesOrIsAbandoned(t *testing.T) {
	survivesKills(t, dbtest.Postgres(t))
}

func dropped(t *testing.T, address string) {
	t.Helper()
	dbtest.PostgresExec(t, address, `DROP SCHEMA selvedge CASCADE`)
}

func TestPostgres_AbandonsHalfFilledTargetWithLostSource(t *testing.T) {
	isGivenUp(t, dbtest.Postgres(t), func(to string) { dropped(t, to) })
}

func TestPostgres_AbandonWithoutTargetStillChecksIt(t *testing.T) {
	looksAtTheTarget(t, dbtest.Postgres(t), func(to string) { dropped(t, to) })
}

func TestPostgres_MoveAbandonableUntilTargetOpens(t *testing.T) {
	isAbandonedUntilOpen(t, dbtest.Postgres(t), func(to, statement string) {
		dbtest.PostgresExec(t, to, `SET search_path = selvedge; SET selvedge.mover = 'on'; `+statement)
	})
}

// A full disk is told by the statement that writes (SQLSTATE 53100), in the middle of a table.
func TestPostgres_MoveToFullDiskResumesWithSpace(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Postgres(t)
	filled(t, from, 4)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	stoppedAt(t, from, to, "prepare")
	// moves: also what only says that the move goes on finds no room
	for _, table := range []string{"live_events", "run_records", "moves"} {
		dbtest.PostgresExec(t, to, `CREATE FUNCTION selvedge.is_full() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER is_full BEFORE INSERT
	OR UPDATE ON selvedge.`+table+` FOR EACH ROW EXECUTE FUNCTION selvedge.is_full()`)
		if _, err := maintenance.Move(ctx, from, to, db.Options{}); !errors.Is(err, db.ErrFull) {
			t.Fatalf("no room for %s: %v", table, err)
		}
		if opened(ctx, from) || opened(ctx, to) {
			t.Fatal("one of the two takes work")
		}
		dbtest.PostgresExec(t, to, `DROP FUNCTION selvedge.is_full() CASCADE`)
	}
	moveAlike(t, from, to, want)
}

func TestPostgresAPlannerKnowsWhatWasMovedToIt(t *testing.T) {
	from, to := dbtest.Path(t), dbtest.Postgres(t)
	d := dbtest.OpenAt(t, from, db.Options{Synchronous: db.SyncNormal})
	store := runs.NewStore(d, runs.Options{})
	for i := range 120 { // some more than the pages that are too few to be looked at
		if err := store.WriteStarted(t.Context(),
			runs.Started{
				RunID: fmt.Sprint("r", i), AgentID: "a",
				Intent: strings.Repeat("intent ", 140),
			}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Move(t.Context(), from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	if rows := dbtest.PostgresExec(t, to,
		`SELECT reltuples FROM pg_class WHERE oid = 'selvedge.runs'::regclass`); string(rows[0][0]) == "-1" {
		t.Error("the planner has no statistics: a page of a list may read and sort all of it")
	}
}

// A key with a NUL is nobody's id: a server keeps it in other words, and sorts it in another place.
func TestPostgres_KeySortedOnlyInFileStopsMove(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Postgres(t)
	filled(t, from, 1)
	pinned := func(statement string) {
		t.Helper()
		d := dbtest.OpenAt(t, from, db.Options{})
		err := d.Write(ctx, "by hand", func(tx *db.Tx) error { _, err := tx.Exec(statement); return err })
		if err = errors.Join(err, d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	pinned(`INSERT INTO retention_pins (scope, store, id, owner, pinned_at)
		VALUES (1, 'runs', 'a' || char(0), '', 1), (1, 'runs', 'ab', '', 1)`)
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); !errors.Is(err, db.ErrCorrupt) ||
		!strings.Contains(db.Hint(err), "--abandon --to") {
		t.Fatalf("%v; its hint is %q", err, db.Hint(err))
	}
	if opened(ctx, from) || opened(ctx, to) {
		t.Fatal("one of the two takes work")
	}
	if _, err := maintenance.AbandonMove(ctx, from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	// which is an id, and sorts alike
	pinned(`UPDATE retention_pins SET id = 'a' || char(0x10FFFF) WHERE id = 'a' || char(0)`)
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil {
		t.Error(err)
	}
}
