package live_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

func event(t testing.TB, text string) live.Event {
	t.Helper()
	e, err := live.NewEvent([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func sequences(events []live.RunEventRecord) (list []uint64) {
	for _, e := range events {
		list = append(list, e.Sequence)
	}
	return list
}

func TestEveryEventComesBackByteForByte(t *testing.T) {
	file, err := os.ReadFile("../../testdata/legacy/live/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for in := bufio.NewScanner(bytes.NewReader(file)); in.Scan(); {
		lines = append(lines, in.Text())
	}
	lines = append(lines, `{"type":"from_the_future","x":[1, 2.50,"\u00e9<>&"],"x":{}}`,
		`{ "note":"\/", "turn" : 18446744073709551615, "type":"turn_start" }`,
		`{"type":"text_delta","text":"\u2028","more":-0.0}`)
	store := newStore(t, live.Options{})
	run := create(t, store, "p")
	for _, line := range lines {
		record(t, store, run.ID, event(t, line))
	}
	for i, e := range eventsOf(t, store, run.ID) {
		if string(e.Event.JSON()) != lines[i] || e.Sequence != uint64(i) {
			t.Errorf("event %d came back as %d: %s", i, e.Sequence, e.Event.JSON())
		}
	}
}

func TestEventsThatCannotBeReadAreInvalid(t *testing.T) {
	for _, text := range []string{
		``, `null`, `"agent_start"`, `["text_delta","x"]`, `{}`, `{"text":"x"}`, `{"type":1}`,
		`{"type":"text_delta"}`, `{"type":"text_delta","text":5}`,
		`{"type":"text_delta","text":"a","text":"b"}`, `{"type":"turn_start","turn":-1}`,
		`{"type":"turn_start","turn":1.0}`, `{"type":"turn_start","turn":18446744073709551616}`,
		`{"type":"tool_end","id":"i","name":"n","output":"o","exit_code":2147483648}`,
		`{"type":"agent_end","text":"x"}`,
		`{"type":"step_end","step_id":"s","status":"done","step_number":1,"total_steps":1}`,
		`{"type":"text_delta","text":"x"} x`, `{"type":"text_delta","text":"` + "\xff" + `"}`,
		`{"type":"text_delta","text":"\ud800"}`, `{"type":"unknown",}`,
	} {
		if _, err := live.NewEvent([]byte(text)); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s gave %v", text, err)
		}
	}
	store := newStore(t, live.Options{})
	run := create(t, store, "p")
	if _, _, err := store.RecordEvent(context.Background(), run.ID, live.Event{}); !errors.Is(err,
		db.ErrInvalid) {
		t.Errorf("no event gave %v", err)
	}
	if n := snapshotOf(t, store, run.ID).EventCount; n != 0 {
		t.Errorf("%d events were counted", n)
	}
}

func TestCancelledIsFinal(t *testing.T) {
	store := newStore(t, live.Options{})
	run, err := store.CreateRun(context.Background(), "s", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.MarkCancelled(context.Background(), run.ID); err != nil {
		t.Fatal(err)
	}
	got := record(t, store, run.ID, live.AgentStart("late"), live.PlanningStart("late"), live.AgentEnd("late"),
		live.ErrorEvent("late"))
	if got.Status != live.Cancelled || got.Prompt != "" || got.ResultText != nil || got.Error != nil ||
		got.EventCount != 4 {
		t.Errorf("late events made the run %s", jsonOf(got))
	}
}

func TestRecordEvent_UnknownRunStoresNothing(t *testing.T) {
	ctx, store := context.Background(), newStore(t, live.Options{Scope: "never written"})
	if _, found, err := store.RecordEvent(ctx, "run-x", live.TextDelta("t")); found || err != nil {
		t.Errorf("record: %v, %v", found, err)
	}
	if _, found, err := store.MarkFailed(ctx, "run-x", "e"); found || err != nil {
		t.Errorf("mark failed: %v, %v", found, err)
	}
	if _, found, err := store.EventPage(ctx, "run-x", nil, 1); found || err != nil {
		t.Errorf("page: %v, %v", found, err)
	}
	if events := eventsOf(t, store, "run-x"); len(events) != 0 {
		t.Errorf("it has %d events", len(events))
	}
}

func TestIDsAreKeptAsTheyAre(t *testing.T) {
	ctx, store := context.Background(), newStore(t, live.Options{})
	ids := []string{"", "..", "a/b", `a\b`, "a_b", " ", "ü", strings.Repeat("x", txn.MaxID)}
	for _, id := range ids {
		if _, err := store.CreateRunWithID(ctx, id, id, "p"); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		if run := snapshotOf(t, store, id); run.ID != id || run.SessionID != id {
			t.Errorf("%q came back as %q of %q", id, run.ID, run.SessionID)
		}
	}
	for _, id := range []string{"a\x00b", strings.Repeat("x", txn.MaxID+1), "\xff"} {
		if _, err := store.CreateRunWithID(ctx, id, "s", "p"); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the run id %q gave %v", id, err)
		}
		if _, err := store.CreateRun(ctx, id, "p"); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the session id %q gave %v", id, err)
		}
	}
	if list, err := store.List(ctx); err != nil || len(list) != len(ids) {
		t.Errorf("%d of %d runs are listed: %v", len(list), len(ids), err)
	}
}

func TestReplaceRecordsStaysWithinItsScope(t *testing.T) {
	ctx := context.Background()
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	one, other := live.NewStore(d, live.Options{Scope: "one"}), live.NewStore(d, live.Options{Scope: "other"})
	create(t, one, "p")
	kept := create(t, other, "q")
	if err := one.ReplaceRecords(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if list, err := one.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("%d runs are left: %v", len(list), err)
	}
	snapshotOf(t, other, kept.ID)
}

func restored(t testing.TB, text string) []live.RunRecord {
	t.Helper()
	var records []live.RunRecord
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		t.Fatal(err)
	}
	return records
}

const restoredRun = `[{"snapshot":{"id":"r","session_id":"s","status":"executing","prompt":"p","created_at_ms":%d,"updated_at_ms":%d,"event_count":%d,"later":{"a":[1]}},"events":[%s]}]`

func TestRestoredCountersGoOn(t *testing.T) {
	const delta = `{"sequence":%d,"timestamp_ms":5,"event":{"type":"text_delta","text":"t"},"note":1}`
	for _, test := range []struct {
		count     uint64
		sequences []uint64
		next      uint64
	}{
		{0, nil, 0},
		{7, nil, 7},
		{0, []uint64{0, 1}, 2},
		{99, []uint64{0}, 99},
		{2, []uint64{5, 7}, 8},
		{120, []uint64{100, 101, 119}, 120},
		{1, []uint64{7, 7, 2}, 3},
		{0, []uint64{9223372036854775808}, 9223372036854775809},
		{18446744073709551614, nil, 18446744073709551614},
	} {
		t.Run(fmt.Sprint(test.count, test.sequences), func(t *testing.T) {
			store := newStore(t, live.Options{})
			var events []string
			for _, n := range test.sequences {
				events = append(events, fmt.Sprintf(delta, n))
			}
			text := fmt.Sprintf(restoredRun, 1, uint64(18446744073709551615), test.count, strings.Join(events, ","))
			if err := store.ReplaceRecords(context.Background(), restored(t, text)); err != nil {
				t.Fatal(err)
			}
			if n := snapshotOf(t, store, "r").EventCount; n != test.next {
				t.Errorf("the count is %d, not %d", n, test.next)
			}
			before, err := store.Records(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Replace(text, fmt.Sprintf(`"event_count":%d,`, test.count),
				fmt.Sprintf(`"event_count":%d,`, test.next), 1)
			if got := "[" + string(jsonOf(before[0])) + "]"; got != want {
				t.Errorf("came back as %s, not %s", got, want)
			}
			record(t, store, "r", live.TextDelta("next"))
			all := eventsOf(t, store, "r")
			if got := all[len(all)-1].Sequence; got != test.next || len(all) != len(events)+1 {
				t.Errorf("the next event has sequence %d, not %d", got, test.next)
			}
		})
	}
}

func TestACountNearTheLastPlaceGoesOn(t *testing.T) {
	for _, count := range []uint64{1<<32 - 2, 1<<32 - 1, 1 << 32} {
		store := newStore(t, live.Options{})
		event := fmt.Sprintf(`{"sequence":%d,"timestamp_ms":5,"event":{"type":"text_delta","text":"t"},"note":1}`,
			count-1)
		if err := store.ReplaceRecords(context.Background(),
			restored(t, fmt.Sprintf(restoredRun, 1, 1, count, event))); err != nil {
			t.Fatal(err)
		}
		record(t, store, "r", live.TextDelta("a"), live.TextDelta("b"), live.TextDelta("c"))
		if got, want := sequences(eventsOf(t, store, "r")),
			[]uint64{count - 1, count, count + 1, count + 2}; !slices.Equal(got, want) {
			t.Errorf("the sequences are %d, not %d", got, want)
		}
	}
}

func TestARunWithoutSequencesLeftRefusesEvents(t *testing.T) {
	store := newStore(t, live.Options{})
	text := fmt.Sprintf(restoredRun, 1, 1, uint64(18446744073709551615), "")
	if err := store.ReplaceRecords(context.Background(), restored(t, text)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.RecordEvent(context.Background(), "r", live.TextDelta("t")); !errors.Is(err,
		db.ErrInvalid) {
		t.Errorf("one more event gave %v", err)
	}
}

func TestARefusedReplacementChangesNothing(t *testing.T) {
	ctx, store := context.Background(), newStore(t, live.Options{})
	kept := create(t, store, "p")
	good := live.RunRecord{Snapshot: live.RunSnapshot{ID: "good", Status: live.Created}}
	for name, bad := range map[string]live.RunRecord{
		"status": {Snapshot: live.RunSnapshot{ID: "bad", Status: "paused"}},
		"id":     {Snapshot: live.RunSnapshot{ID: "a\x00b", Status: live.Created}},
		"text":   {Snapshot: live.RunSnapshot{ID: "bad", Status: live.Created, Prompt: "\xff"}},
		"event":  {Snapshot: live.RunSnapshot{ID: "bad", Status: live.Created}, Events: []live.RunEventRecord{{}}},
	} {
		if err := store.ReplaceRecords(ctx, []live.RunRecord{good, bad}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("a bad %s gave %v", name, err)
		}
		snapshotOf(t, store, kept.ID)
	}
}

func TestPagesFindTheirPlaceAmongIrregularSequences(t *testing.T) {
	ctx, store := context.Background(), newStore(t, live.Options{})
	const delta = `{"sequence":%d,"timestamp_ms":5,"event":{"type":"text_delta","text":"t"}}`
	for _, list := range [][]uint64{
		{0, 1, 5, 6, 90},
		{7, 7, 2, 9},
		{1, 9223372036854775900, 9223372036854775901},
	} {
		var events []string
		for _, n := range list {
			events = append(events, fmt.Sprintf(delta, n))
		}
		if err := store.ReplaceRecords(ctx, restored(t,
			fmt.Sprintf(restoredRun, 1, 1, 0, strings.Join(events, ",")))); err != nil {
			t.Fatal(err)
		}
		for _, after := range []uint64{
			0, 1, 2, 5, 6, 7, 8, 89, 90, 1 << 40, 9223372036854775899,
			9223372036854775900, 18446744073709551615,
		} {
			page, _, err := store.EventPage(ctx, "r", &after, 100)
			if err != nil {
				t.Fatal(err)
			}
			var want []uint64
			for _, n := range list {
				if n > after {
					want = append(want, n)
				}
			}
			if got := sequences(page.Events); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d behind %d: %d, not %d", list, after, got, want)
			}
		}
	}
}

func TestListPagesMeetEveryRunOnce(t *testing.T) {
	ctx := context.Background()
	clock := dbtest.NewClock(clockBase)
	store := live.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now}),
		live.Options{})
	var want []string
	for i := range 23 {
		run, err := store.CreateRun(ctx, fmt.Sprint("session ", i%2), "p")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, run.ID)
		if i%3 == 0 {
			clock.Advance(1e6)
		}
	}
	var got []string
	for at := (db.At{Limit: 5}); ; {
		page, err := store.Page(ctx, live.Filter{}, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.Items {
			got = append(got, run.ID)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the pages have %v, not %v", got, want)
	}
	session, cancelled := "session 1", 0
	if _, _, err := store.MarkCancelled(ctx, want[1]); err != nil {
		t.Fatal(err)
	}
	for run, err := range store.All(ctx,
		live.Filter{Session: &session, Statuses: []live.RunStatus{live.Cancelled}, Since: clockBase}) {
		if err != nil || run.ID != want[1] {
			t.Fatalf("%q, %v", run.ID, err)
		}
		cancelled++
	}
	if cancelled != 1 {
		t.Errorf("%d runs pass the filter", cancelled)
	}
	for _, cursor := range []string{"x", "bA", "ZQAA"} {
		if _, err := store.Page(ctx, live.Filter{}, db.At{After: cursor}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the cursor %q gave %v", cursor, err)
		}
	}
}

// A filter, its bounds to the millisecond, and several statuses at once: always what a look at all
// runs would give, in order.
func TestPagesShowWhatPassesTheFilter(t *testing.T) {
	ctx := t.Context()
	clock := dbtest.NewClock(clockBase)
	store := live.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now}),
		live.Options{})
	var all []live.RunSnapshot
	for i := range 24 {
		run, err := store.CreateRun(ctx, fmt.Sprint("session ", i%2), "p")
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 1:
			run = record(t, store, run.ID, live.AgentStart("p"))
		case 2:
			run = record(t, store, run.ID, live.AgentEnd("t"))
		}
		all = append(all, run)
		if i%3 == 0 {
			clock.Advance(time.Millisecond)
		}
	}
	session := "session 1"
	third := time.UnixMilli(int64(all[3].CreatedAtMs))
	filters := []live.Filter{
		{},
		{Session: &session},
		{Statuses: []live.RunStatus{live.Executing}},
		{Statuses: []live.RunStatus{live.Executing, live.Completed, live.Executing}},
		{Session: &session, Statuses: []live.RunStatus{live.Executing, live.Created}},
		{Since: third},
		{Since: third.Add(time.Nanosecond)},
		{Until: third},
		{
			Since: third, Until: third.Add(2 * time.Millisecond),
			Statuses: []live.RunStatus{live.Created, live.Completed},
		},
	}
	for _, f := range filters {
		f.Newest = true
		filters = append(filters, f)
	}
	for _, f := range filters {
		var want, got []string
		for _, run := range all {
			created := time.UnixMilli(int64(run.CreatedAtMs))
			if (f.Session == nil || run.SessionID == *f.Session) &&
				(len(f.Statuses) == 0 || slices.Contains(f.Statuses, run.Status)) &&
				!created.Before(f.Since) && (f.Until.IsZero() || created.Before(f.Until)) {
				want = append(want, run.ID)
			}
		}
		if f.Newest {
			slices.Reverse(want)
		}
		at := db.At{Limit: 3}
		for page, err := store.Page(ctx, f, at); ; page, err = store.Page(ctx, f, at) {
			if err != nil {
				t.Fatal(err)
			}
			for _, run := range page.Items {
				got = append(got, run.ID)
			}
			if at.After = page.Next; at.After == "" {
				break
			}
		}
		if !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%+v shows %d runs, not %d", f, len(got), len(want))
		}
		got = nil
		for run, err := range store.All(ctx, f) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, run.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("all of %+v are %d runs, not %d", f, len(got), len(want))
		}
	}
	for _, limit := range []int{-1, 1001} {
		if _, err := store.Page(ctx, live.Filter{}, db.At{Limit: limit}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("the limit %d gave %v", limit, err)
		}
	}
}

// More runs than an iterator reads at a time.
func TestAllGivesEveryRun(t *testing.T) {
	store := newStore(t, live.Options{})
	records := make([]live.RunRecord, 450)
	for i := range records {
		records[i].Snapshot = live.RunSnapshot{
			ID: fmt.Sprintf("r%03d", i), Status: live.Created,
			CreatedAtMs: uint64(i / 7),
		}
	}
	if err := store.ReplaceRecords(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	n := 0
	for run, err := range store.All(t.Context(), live.Filter{}) {
		if err != nil || run.ID != records[n].Snapshot.ID {
			t.Fatalf("run %d is %q: %v", n, run.ID, err)
		}
		n++
	}
	if n != len(records) {
		t.Errorf("%d runs came", n)
	}
}

func TestFindGivesWhatBeginsWithAPrefix(t *testing.T) {
	store := newStore(t, live.Options{})
	for _, id := range []string{"a", "a\U0010FFFFb", "ab", "b", "aé"} {
		if _, err := store.CreateRunWithID(t.Context(), id, "s", "p"); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]string{
		"":  {"a", "ab", "aé", "a\U0010FFFFb", "b"},
		"a": {"a", "ab", "aé", "a\U0010FFFFb"}, "a\U0010FFFF": {"a\U0010FFFFb"}, "c": nil,
	} {
		if got, err := store.Find(t.Context(), prefix, 0); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q finds %q, not %q: %v", prefix, got, want, err)
		}
	}
	if got, err := store.Find(t.Context(), "a", 2); err != nil || len(got) != 2 {
		t.Errorf("two of them are %q: %v", got, err)
	}
	if _, err := store.Find(t.Context(), "\xff", 1); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("what is no text gave %v", err)
	}
}

func TestAMissingRunIsNotFound(t *testing.T) {
	for _, scope := range []string{"", "never written"} {
		store := live.NewStore(dbtest.Open(t, db.Options{}), live.Options{Scope: scope})
		_, get := store.Get(t.Context(), "no such run")
		_, page := store.EventsPage(t.Context(), "no such run", db.At{})
		for what, err := range map[string]error{
			"get": get, "page": page,
			"delete": store.Delete(t.Context(), "no such run"),
		} {
			if !errors.Is(err, db.ErrNotFound) || db.Hint(err) == "" {
				t.Errorf("%s gave %v", what, err)
			}
		}
	}
}

func TestARunThatIsHeldKeepsAllItsEvents(t *testing.T) {
	store := live.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), live.Options{})
	held, err := store.Begin(t.Context(), live.Start{ID: "r", SessionID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	const events = 4_001 // more than go in one transaction
	if _, err := held.Append(t.Context(),
		slices.Repeat([]live.Event{live.TextDelta("x")}, events)...); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), "r"); !errors.Is(err, db.ErrConflict) {
		t.Errorf("it was deleted: %v", err)
	}
	page, err := store.EventsPage(t.Context(), "r", db.At{Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Items[0].What != db.Written {
		t.Errorf("it begins with %+v, %v", page.Items, err)
	}
}

func TestDeleteTakesEverythingThatBelongsToARun(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	store := live.NewStore(d, live.Options{})
	run, stays := create(t, store, "p"), create(t, store, "q")
	record(t, store, stays.ID, live.TextDelta("x"))
	const events = 9_000 // more than go in one transaction
	if _, err := store.Append(t.Context(), run.ID,
		live.Batch{Key: "k", Events: slices.Repeat([]live.Event{live.TextDelta("x")}, events)}); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	err := d.Read(t.Context(), "count", func(rx *db.Rx) error {
		for table, want := range map[string]int{
			"live_runs": 1, "live_texts": 1, "live_events": 1,
			"live_append_keys": 0,
		} {
			var n int
			if err := rx.Get(&n, `SELECT count(*) FROM `+table); err != nil {
				return err
			}
			if n != want {
				t.Errorf("%s has %d rows left", table, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
