package live_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestAppendTellsOfAMissingRun(t *testing.T) {
	store := newStore(t, live.Options{MaxRuns: new(uint64(1))})
	evicted := create(t, store, "p")
	record(t, store, evicted.ID, live.AgentStart("p"))
	create(t, store, "q")
	for _, id := range []string{"never was", evicted.ID} {
		_, err := store.Append(t.Context(), id, live.Batch{Events: []live.Event{live.TextDelta("lost")}})
		if !errors.Is(err, db.ErrNotFound) || db.Hint(err) == "" {
			t.Errorf("%q gave %v, with the hint %q", id, err, db.Hint(err))
		}
	}
}

func TestAKeyedAppendIsDoneOnce(t *testing.T) {
	store := newStore(t, live.Options{})
	run := create(t, store, "p")
	record(t, store, run.ID, live.TextDelta("before"))
	batch := live.Batch{Key: "k", Events: []live.Event{live.TextDelta("a"), live.AgentEnd("b")}}
	first, err := store.Append(t.Context(), run.ID, batch)
	if err != nil || first.First != 1 || first.Repeated || first.Status != live.Completed {
		t.Fatalf("the first gave %+v, %v", first, err)
	}
	record(t, store, run.ID, live.TextDelta("between"))
	again, err := store.Append(t.Context(), run.ID, batch)
	if err != nil || again.First != 1 || !again.Repeated {
		t.Errorf("the repeat gave %+v, %v", again, err)
	}
	batch.Events = batch.Events[:1]
	if _, err := store.Append(t.Context(), run.ID, batch); !errors.Is(err, db.ErrConflict) {
		t.Errorf("other events under the key gave %v", err)
	}
	if n := len(eventsOf(t, store, run.ID)); n != 4 {
		t.Errorf("the run has %d events", n)
	}
	other := create(t, store, "p")
	if a, err := store.Append(t.Context(), other.ID, batch); err != nil || a.Repeated {
		t.Errorf("the key on another run gave %+v, %v", a, err)
	}
	for _, key := range []string{"a\x00b", strings.Repeat("x", txn.MaxID+1)} {
		if _, err := store.Append(t.Context(), run.ID, live.Batch{Key: key}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the key %q gave %v", key, err)
		}
	}
}

func TestAnAppendIsAllOrNothing(t *testing.T) {
	store := newStore(t, live.Options{})
	run := create(t, store, "p")
	_, err := store.Append(t.Context(), run.ID,
		live.Batch{Key: "k", Events: []live.Event{live.AgentEnd("a"), {}}})
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("no event gave %v", err)
	}
	if s := snapshotOf(t, store, run.ID); s.EventCount != 0 || s.Status != live.Created {
		t.Errorf("the run became %s", jsonOf(s))
	}
}

// An event that says nothing in words leaves the run's words unread.
func TestAnAppendDoesNotReadThePrompt(t *testing.T) {
	store := newStore(t, live.Options{})
	run := create(t, store, strings.Repeat("p", 1<<20))
	batch := live.Batch{Events: []live.Event{live.TextDelta("x")}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const appends = 20
	for range appends {
		if _, err := store.Append(t.Context(), run.ID, batch); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / appends; each > 100_000 {
		t.Errorf("an append beside a prompt of 1 MiB allocates %d bytes", each)
	}
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// What is recorded can be read in every way: as a record, from its JSON, from a file.
func TestEvent_DepthIsBoundedLikeFile(t *testing.T) {
	store := newStore(t, live.Options{})
	deepest := 0
	for levels := 118; levels <= 128; levels++ {
		e, err := live.NewEvent([]byte(`{"type":"later","deep":` + nested(levels) + `}`))
		if err != nil {
			if !errors.Is(err, db.ErrInvalid) {
				t.Error(err)
			}
			continue
		}
		deepest = levels
		records := []live.RunRecord{{
			Snapshot: live.RunSnapshot{ID: "deep", Status: live.Created},
			Events:   []live.RunEventRecord{{Event: e, Further: []byte(`{"later":1}`)}},
		}}
		if err := store.ReplaceRecords(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		got, err := store.Records(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var back live.RunRecord
		if err := back.UnmarshalJSON(jsonOf(got[0])); err != nil {
			t.Errorf("%d levels: the record is not read back: %v", levels, err)
		}
	}
	if deepest != 122 {
		t.Errorf("the deepest member that an event can have is %d levels deep", deepest)
	}
}

// Files from before have events that no file can hold. They are read.
func TestADeepEventOfAnEarlierVersionIsRead(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := live.NewStore(d, live.Options{})
	run := create(t, store, "p")
	record(t, store, run.ID, live.TextDelta("x"), live.TextDelta("y"))
	event := `{"type":"later","deep":` + nested(126) + `}`
	err := d.Write(t.Context(), "as before", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE live_events SET event = ?, type = 'later', raw = CASE WHEN id & 1 = 1
			THEN ? END, checksum = NULL`,
			[]byte(event), []byte(`{"sequence":1,"timestamp_ms":1,"event":`+event+`,"more":1}`))
		if err == nil {
			_, err = tx.Exec(`UPDATE live_runs SET checksum = NULL, kept_bytes = (
    SELECT sum(CASE WHEN raw IS NOT NULL THEN length(raw)
    ELSE 38 + 1 + length(recorded_at / 1000000) + length(event) END) FROM live_events)`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(t, store, run.ID); len(events) != 2 || string(events[0].Event.JSON()) != event ||
		string(events[1].Event.JSON()) != event {
		t.Errorf("%d events came back", len(events))
	}
}

// A cap far below what is kept holds after a few calls, none of which takes long.
func TestALoweredCapIsReachedInSteps(t *testing.T) {
	for name, o := range map[string]live.Options{
		"events": {MaxEventsPerRun: new(uint64(10))},
		"bytes":  {MaxEventBytesPerRun: new(uint64(700))},
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
			store := live.NewStore(d, live.Options{})
			run := create(t, store, "p")
			batch := live.Batch{Events: slices.Repeat([]live.Event{live.TextDelta("hello")}, 10_000)}
			if _, err := store.Append(t.Context(), run.ID, batch); err != nil {
				t.Fatal(err)
			}
			store = live.NewStore(d, o)
			kept := 10_000
			for call := range 5 {
				record(t, store, run.ID, live.TextDelta("hello"))
				now := len(eventsOf(t, store, run.ID))
				if gone := kept + 1 - now; gone > 4001 || call < 2 && gone < 4000 {
					t.Errorf("call %d took %d events out", call, gone)
				}
				kept = now
			}
			if kept > 10 {
				t.Errorf("%d events are kept", kept)
			}
			all := eventsOf(t, store, run.ID)
			if last := all[len(all)-1].Sequence; last != 10_004 {
				t.Errorf("the last event has sequence %d", last)
			}
		})
	}
}

// A cap on runs far below what is there holds after a few calls, too.
func TestALoweredCapOnRunsIsReachedInSteps(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	err := d.Write(t.Context(), "fill", func(tx *db.Tx) (err error) {
		for n := 0; n < 450 && err == nil; n++ {
			_, err = store.CreateRunWithIDTx(tx, fmt.Sprint("run-", n), "session", "p")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	store = live.NewStore(d, live.Options{MaxRuns: new(uint64(10))})
	for call, want := range []int{251, 52, 10} {
		create(t, store, "p")
		list, err := store.List(t.Context())
		if err != nil || len(list) != want {
			t.Errorf("behind call %d there are %d runs, not %d: %v", call, len(list), want, err)
		}
	}
}

// Its events are more than one transaction removes.
func TestACapOnRunsTakesALargeRunAtOnce(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{MaxRuns: new(uint64(1))})
	large := create(t, store, "p")
	if _, err := store.Append(t.Context(), large.ID,
		live.Batch{Events: slices.Repeat([]live.Event{live.TextDelta("x")}, 9_000)}); err != nil {
		t.Fatal(err)
	}
	next := create(t, store, "next")
	if list, err := store.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != next.ID {
		t.Errorf("there are %v: %v", list, err)
	}
	if events, left := rows(t, d, "live_events"), rows(t, d, "live_leavings"); events+left != 0 {
		t.Errorf("%d events and %d runs are left", events, left)
	}
}

// Two scopes in one file: the cap of one takes its own runs, also those that lie behind many of the other.
func TestCap_RemovesOldestOfScope(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	other := live.NewStore(d, live.Options{Scope: "other"})
	store := live.NewStore(d, live.Options{Scope: "capped", MaxRuns: new(uint64(3))})
	for i := range 8 {
		create(t, other, "stays")
		create(t, store, fmt.Sprint(i))
	}
	var left []string
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range list {
		left = append(left, run.Prompt)
	}
	if !slices.Equal(left, []string{"5", "6", "7"}) {
		t.Errorf("%v are left", left)
	}
	if list, err := other.List(t.Context()); err != nil || len(list) != 8 {
		t.Errorf("%d runs of the other scope are left: %v", len(list), err)
	}
}

func TestARestoreOfWhatIsHereChangesNothing(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	for _, id := range []string{"a", "b", "c"} {
		if _, err := store.CreateRunWithID(t.Context(), id, "s", "p"); err != nil {
			t.Fatal(err)
		}
		record(t, store, id, live.TextDelta("0"), live.TextDelta("1"))
	}
	keys := func() (list []string) {
		err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
			return rx.Select(&list, `SELECT run_id || ' ' || key FROM live_runs ORDER BY key`)
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := keys()
	records, err := store.Records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.ReplaceRecords(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if after := keys(); !slices.Equal(before, after) {
		t.Errorf("%q became %q", before, after)
	}
	records[1].Events = records[1].Events[:1]
	if err := store.ReplaceRecords(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	after := keys()
	if after[0] != before[0] || after[1] == before[1] || len(after) != 3 {
		t.Errorf("%q became %q", before, after)
	}
	if n := len(eventsOf(t, store, "b")); n != 1 {
		t.Errorf("the changed run has %d events", n)
	}
}
