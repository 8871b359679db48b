package live_test

import (
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func TestAppend_RepeatAfterSuccessDoesNothing(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	run := create(t, store, "p")
	batch := live.Batch{Events: []live.Event{live.TextDelta("a"), live.AgentEnd("b")}}
	for range 2 {
		if _, err := store.Append(t.Context(), run.ID, batch); err != nil {
			t.Fatal(err)
		}
	}
	var numbers []int64
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Select(&numbers, `SELECT batch FROM live_events WHERE batch IS NOT NULL ORDER BY id`)
	})
	if err != nil || len(numbers) != 2 || numbers[0] == numbers[1] {
		t.Fatalf("two appends left the numbers %d: %v", numbers, err)
	}
	again := batch
	again.Repeat = numbers[1]
	if a, err := store.Append(t.Context(), run.ID, again); err != nil || !a.Repeated || a.First != 2 {
		t.Errorf("the repeat of an append that was kept gave %+v, %v", a, err)
	}
	again.Repeat = numbers[1] + 1<<40
	if a, err := store.Append(t.Context(), run.ID, again); err != nil || a.Repeated || a.First != 4 {
		t.Errorf("the repeat of an append that was not kept gave %+v, %v", a, err)
	}
	if n := len(eventsOf(t, store, run.ID)); n != 6 {
		t.Errorf("the run has %d events", n)
	}
}

// A cap that removed the first events of an append does not hide it.
func TestAppend_RepeatFindsCappedBatch(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{MaxEventsPerRun: new(uint64(1))})
	run := create(t, store, "p")
	batch := live.Batch{Events: []live.Event{live.TextDelta("a"), live.TextDelta("b"), live.TextDelta("c")}}
	err := d.Write(t.Context(), "append", func(tx *db.Tx) error {
		batch.Repeat = tx.Batch() // which is that of this append, not of an earlier one
		_, err := store.AppendTx(tx, run.ID, batch)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := store.Append(t.Context(), run.ID, batch); err != nil || !a.Repeated || a.First != 0 {
		t.Errorf("the repeat gave %+v, %v", a, err)
	}
}

func TestAppend_RepeatsInOneTxStayApart(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	run := create(t, store, "p")
	var number int64
	both := func(repeat int64) (got [2]live.Appended, err error) {
		err = d.Write(t.Context(), "append", func(tx *db.Tx) (err error) {
			number = tx.Batch()
			for i, text := range []string{"a", "b"} {
				b := live.Batch{Events: []live.Event{live.TextDelta(text), live.AgentEnd(text)}, Repeat: repeat}
				if got[i], err = store.AppendTx(tx, run.ID, b); err != nil {
					return err
				}
			}
			return nil
		})
		return got, err
	}
	if _, err := both(0); err != nil {
		t.Fatal(err)
	}
	if got, err := both(number); err != nil || got[0].First != 0 || got[1].First != 2 || !got[1].Repeated {
		t.Errorf("the repeats gave %+v, %v", got, err)
	}
}

// Every row's checksum is that of what the declaration says, also after changes and a restore.
func TestChecksumsCoverWhatTheSchemaSays(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{Scope: "s", MaxEventsPerRun: new(uint64(3))})
	run := create(t, store, "")
	record(t, store, run.ID, live.AgentStart("p"), live.TextDelta("1"), live.TextDelta("2"), live.AgentEnd("t"),
		live.ErrorEvent("e"))
	if _, _, err := store.MarkCancelled(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	other := live.NewStore(d, live.Options{})
	odd := fmt.Sprintf(restoredRun, 1, uint64(18446744073709551615), uint64(18446744073709551614),
		`{"sequence":9223372036854775808,"timestamp_ms":5,"event":{"type":"x"},"note":1}`)
	if err := other.ReplaceRecords(t.Context(), restored(t, odd)); err != nil {
		t.Fatal(err)
	}
	for table, rows := range map[string]int{"live_runs": 2, "live_texts": 2, "live_events": 4} {
		if n := dbtest.CheckSums(t, d, table); n != rows {
			t.Errorf("%d rows of %s were checked", n, table)
		}
	}
}
