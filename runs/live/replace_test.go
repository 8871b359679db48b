package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// many are records with more events than one transaction writes.
func many(name string, runs, events int) []live.RunRecord {
	records := make([]live.RunRecord, runs)
	for i := range records {
		records[i].Snapshot = live.RunSnapshot{
			ID: fmt.Sprint("run-", i), SessionID: name, Status: live.Executing,
			CreatedAtMs: uint64(i / 2),
		}
		for n := range events {
			records[i].Events = append(records[i].Events,
				live.RunEventRecord{Sequence: uint64(n), Event: live.TextDelta(name)})
		}
	}
	return records
}

// seen says what the records of a scope are of, and how many events they have.
func seen(t testing.TB, store *live.Store) string {
	t.Helper()
	records, err := store.Records(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	of, events := map[string]int{}, 0
	for _, r := range records {
		of[r.Snapshot.SessionID]++
		events += len(r.Events)
	}
	return fmt.Sprint(of, " ", events)
}

func rows(t testing.TB, d *db.DB, table string) (n int) {
	t.Helper()
	err := d.Read(context.Background(), "count",
		func(rx *db.Rx) error { return rx.Get(&n, "SELECT count(*) FROM "+table) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// watched opens a file once more, and calls back after each transaction that wrote.
func watched(t testing.TB, path string, wrote func()) *db.DB {
	return dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Write {
			wrote()
		}
	}})
}

func TestAReplacementIsSeenWholeAndWrittenInParts(t *testing.T) {
	path := dbtest.Path(t)
	reader := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(reader, live.Options{})
	if err := store.ReplaceRecords(t.Context(), many("old", 3, 4_000)); err != nil {
		t.Fatal(err)
	}
	states, parts, before := []string{seen(t, store)}, 0, rows(t, reader, "live_events")
	d := watched(t, path, func() {
		if state := seen(t, store); state != states[len(states)-1] {
			states = append(states, state)
		}
		now := rows(t, reader, "live_events")
		if now > before {
			parts++
		}
		before = now
	})
	if err := live.NewStore(d, live.Options{}).ReplaceRecords(t.Context(), many("new", 4, 3_500)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"map[old:3] 12000", "map[new:4] 14000"}; !slices.Equal(states, want) {
		t.Errorf("a reader saw %q", states)
	}
	if parts < 2 {
		t.Errorf("%d transactions wrote all events", parts)
	}
	if left, events := rows(t, d, "live_leavings"), rows(t, d, "live_events"); left != 0 || events != 14_000 {
		t.Errorf("%d runs are left, and %d events are there", left, events)
	}
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range list {
		if run.ID != fmt.Sprint("run-", i) || run.EventCount != 3_500 {
			t.Errorf("run %d is %s with %d events", i, run.ID, run.EventCount)
		}
	}
}

// A number for each of many runs is asked for before the moment at which they are seen, too.
func TestAReplacementOfManyRunsIsPreparedInParts(t *testing.T) {
	path := dbtest.Path(t)
	reader := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(reader, live.Options{})
	if err := store.ReplaceRecords(t.Context(), many("old", 600, 0)); err != nil {
		t.Fatal(err)
	}
	states, prepared := []string{seen(t, store)}, 0
	d := watched(t, path, func() {
		if state := seen(t, store); state != states[len(states)-1] {
			states = append(states, state)
		}
		prepared = max(prepared, rows(t, reader, "live_leavings"))
	})
	if err := live.NewStore(d, live.Options{}).ReplaceRecords(t.Context(), many("new", 500, 0)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"map[old:600] 0", "map[new:500] 0"}; !slices.Equal(states, want) {
		t.Errorf("a reader saw %q", states)
	}
	if left := rows(t, d, "live_leavings"); prepared != 500 || left != 0 {
		t.Errorf("%d runs had their numbers before, and %d are left", prepared, left)
	}
}

// One gap, and then the new run from its beginning.
func TestAFollowerOfAReplacedRunIsToldOnce(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	if err := store.ReplaceRecords(t.Context(), many("old", 1, 4_500)); err != nil {
		t.Fatal(err)
	}
	cursor, err := store.CursorBefore(t.Context(), "run-0", 0)
	if err != nil {
		t.Fatal(err)
	}
	all := store.FollowAll(t.Context(), live.Filter{})
	if err := store.ReplaceRecords(t.Context(), many("new", 1, 4_200)); err != nil {
		t.Fatal(err)
	}
	gone, events := 0, 0
	for item, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		switch item.What {
		case db.Gap:
			gone++
		case db.Written:
			if item.Item.Sequence != uint64(events) {
				t.Fatalf("event %d comes after %d", item.Item.Sequence, events)
			}
			events++
		}
		if gone == 1 && events == 4_200 {
			break
		}
	}
	for _, err := range store.Follow(t.Context(), "run-0", cursor) {
		if !errors.Is(err, db.ErrCursorExpired) {
			t.Errorf("the old run's cursor gave %v", err)
		}
		break
	}
}

// What was to stay because it is the same is not, any more.
func TestReplace_KeepsConcurrentWrites(t *testing.T) {
	path := dbtest.Path(t)
	other := live.NewStore(dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal}), live.Options{})
	if err := other.ReplaceRecords(t.Context(), many("same", 1, 3)); err != nil {
		t.Fatal(err)
	}
	var once atomic.Bool
	d := watched(t, path, func() {
		if once.CompareAndSwap(false, true) {
			record(t, other, "run-0", live.TextDelta("meanwhile"))
			create(t, other, "meanwhile")
		}
	})
	records := many("same", 3, 4_000)
	records[0].Events = records[0].Events[:3]
	if err := live.NewStore(d, live.Options{}).ReplaceRecords(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, other); got != "map[same:3] 8003" {
		t.Errorf("there is %s", got)
	}
	if left, events := rows(t, d, "live_leavings"), rows(t, d, "live_events"); left != 0 || events != 8_003 {
		t.Errorf("%d runs are left, and %d events are there", left, events)
	}
}

func TestAReplacementThatIsGivenUpChangesNothing(t *testing.T) {
	path := dbtest.Path(t)
	store := live.NewStore(dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal}), live.Options{})
	if err := store.ReplaceRecords(t.Context(), many("old", 1, 3)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	d := watched(t, path, func() { cancel(errors.New("given up")) })
	err := live.NewStore(d, live.Options{}).ReplaceRecords(ctx, many("new", 1, 9_000))
	if err == nil || !errors.Is(err, context.Cause(ctx)) {
		t.Errorf("it gave %v", err)
	}
	if got := seen(t, store); got != "map[old:1] 3" {
		t.Errorf("there is %s", got)
	}
	if left, events := rows(t, d, "live_leavings"), rows(t, d, "live_events"); left != 0 || events != 3 {
		t.Errorf("%d runs are left, and %d events are there", left, events)
	}
}

// The numbers that a failed transaction took are nobody's, and the next replacement's.
func TestAReplacementGivesUpNothingOfAnother(t *testing.T) {
	path := dbtest.Path(t)
	plain := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	err := plain.Write(t.Context(), "refuse an event", func(tx *db.Tx) error {
		_, err := tx.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON live_events
			WHEN instr(CAST(NEW.event AS TEXT), 'bad') BEGIN SELECT RAISE(ABORT, 'refused'); END`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wrote, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	parts := 0
	other := watched(t, path, func() {
		if parts++; parts == 1 {
			close(wrote)
			<-goOn
		}
	})
	failed := false
	d := watched(t, path, func() {
		if failed {
			return
		}
		failed = true
		go func() {
			done <- live.NewStore(other, live.Options{Scope: "other"}).ReplaceRecords(context.Background(),
				many("other", 1, 9_000))
		}()
		<-wrote
	})
	if err := live.NewStore(d, live.Options{}).ReplaceRecords(t.Context(), many("bad", 1, 9_000)); err == nil {
		t.Error("nothing was refused")
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the other one: %v", err)
	}
	if left, events := rows(t, plain, "live_leavings"),
		rows(t, plain, "live_events"); left != 0 || events != 9_000 {
		t.Errorf("%d runs are left, and %d events are there", left, events)
	}
	if err := plain.Write(t.Context(), "as before",
		func(tx *db.Tx) error { _, err := tx.Exec(`DROP TRIGGER refuse`); return err }); err != nil {
		t.Fatal(err)
	}
}

// replaceProgram replaces what is there, and dies behind its first transaction.
func replaceProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{Observe: func(o db.Observation) {
		if o.Write {
			fmt.Println("wrote")
			select {} // until it is killed
		}
	}})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, live.NewStore(d, live.Options{}).ReplaceRecords(ctx, many("new", 1, 9_000)))
	return nil
}

// Numbers that a living process has reserved are passed by in one look, however many they are, and
// not by transactions that write.
func TestARemovalPassesByWhatALivingReplacementReserved(t *testing.T) {
	written := 0
	d := dbtest.Open(t, db.Options{Observe: func(o db.Observation) {
		if o.Why == "delete live run" && o.Write {
			written++
		}
	}})
	store := live.NewStore(d, live.Options{})
	if err := store.ReplaceRecords(t.Context(), many("old", 2, 3)); err != nil {
		t.Fatal(err)
	}
	err := d.Write(t.Context(), "reserve", func(tx *db.Tx) error {
		owner, err := tx.Store().Owner()
		if err == nil {
			_, err = tx.Exec(`WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
INSERT INTO live_leavings (run, owner_id) SELECT 1000000 + i, CASE WHEN i % 1000 > 0 THEN ? END
	FROM n`, owner)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "run-0"); err != nil {
		t.Fatal(err)
	}
	if left := rows(t, d, "live_leavings"); left != 2997 || written > 4 {
		t.Errorf("%d transactions that write, and %d numbers are left", written, left)
	}
}

func TestReplace_DeadReplacementsRowsAreRemoved(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	store := live.NewStore(d, live.Options{})
	if err := store.ReplaceRecords(t.Context(), many("old", 1, 3)); err != nil {
		t.Fatal(err)
	}
	p := dbtest.Start(t, "replace", path)
	p.Expect("wrote")
	prune := func() {
		t.Helper()
		if _, err := store.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Prune(t.Context(), db.Policy{}); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	if left, events := rows(t, d, "live_leavings"), rows(t, d, "live_events"); left != 1 || events == 3 {
		t.Errorf("beside a living process %d runs are left, and %d events are there", left, events)
	}
	p.Kill()
	prune()
	if left, events := rows(t, d, "live_leavings"), rows(t, d, "live_events"); left != 0 || events != 3 {
		t.Errorf("%d runs are left, and %d events are there", left, events)
	}
	if got := seen(t, store); got != "map[old:1] 3" {
		t.Errorf("there is %s", got)
	}
}

func TestCapsHoldForWhatReplaces(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{MaxRuns: new(uint64(2)), MaxEventsPerRun: new(uint64(2_500))})
	if err := store.ReplaceRecords(t.Context(), many("new", 3, 9_000)); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, store); got != "map[new:2] 5000" {
		t.Errorf("there is %s", got)
	}
	events := eventsOf(t, store, "run-2")
	if events[0].Sequence != 6_500 || rows(t, d, "live_events") != 5_000 {
		t.Errorf("the first event is %d, and %d are there", events[0].Sequence, rows(t, d, "live_events"))
	}
	for item, err := range store.Follow(t.Context(), "run-2", "") {
		if err != nil || item.What != db.Gap {
			t.Errorf("a follower is told %v first: %v", item, err)
		}
		break
	}
}

func TestCap_RemovedRunLeavesNothing(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{MaxRuns: new(uint64(1))})
	for name, add := range map[string]func(id string) error{
		"Begin": func(id string) error {
			r, err := store.Begin(t.Context(), live.Start{ID: id, SessionID: "s"})
			if err == nil {
				err = r.Release(t.Context())
			}
			return err
		},
		"ReserveRunWithID": func(id string) error {
			_,
				err := store.ReserveRunWithID(t.Context(), id, "s", "p")
			return err
		},
		"CreateRunWithID": func(id string) error {
			_,
				err := store.CreateRunWithID(t.Context(), id, "s", "p")
			return err
		},
	} {
		if err := store.ReplaceRecords(t.Context(), many("old", 1, 4_500)); err != nil {
			t.Fatal(err)
		}
		if err := add(name); err != nil {
			t.Fatal(err)
		}
		if left, events := rows(t, d, "live_leavings"), rows(t, d, "live_events"); left != 0 || events != 0 {
			t.Errorf("behind %s %d runs are left, and %d events are there", name, left, events)
		}
	}
}
