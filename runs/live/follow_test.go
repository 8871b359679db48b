package live_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// written leaves out what is no event.
func written(items iter.Seq2[live.Followed, error]) iter.Seq2[live.Followed, error] {
	return func(yield func(live.Followed, error) bool) {
		for item, err := range items {
			if (err != nil || item.What == db.Written) && !yield(item, err) {
				return
			}
		}
	}
}

func lastError(t *testing.T, s *live.Store, runID, cursor string) (last error) {
	t.Helper()
	for _, err := range s.Follow(t.Context(), runID, cursor) {
		last = err
	}
	return last
}

// told spells an item: the sequence of an event, the word of a status, "gap" or "gone".
func told(f live.Followed) string {
	switch {
	case f.Gone:
		return "gone"
	case f.What == db.Gap:
		return "gap"
	case f.What == db.StatusChanged:
		return f.Status
	}
	return fmt.Sprint(f.Item.Sequence)
}

// toldUntil follows a run up to an item.
func toldUntil(t *testing.T, items iter.Seq2[live.Followed, error], last string) (list []string,
	cursor string,
) {
	t.Helper()
	return dbtest.ToldUntil(t, items, told, last)
}

func TestFollowDeliversEventsOfAnotherHandleAndResumes(t *testing.T) {
	path := dbtest.Path(t)
	reader := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	writer := live.NewStore(dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal}), live.Options{})
	run := create(t, writer, "p")
	const there = 300 // more than are read at a time
	batch := live.Batch{Events: slices.Repeat([]live.Event{live.TextDelta("x")}, there)}
	if _, err := writer.Append(t.Context(), run.ID, batch); err != nil {
		t.Fatal(err)
	}
	want, cursor := uint64(0), ""
	for e, err := range written(reader.Follow(t.Context(), run.ID, "")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Item.Sequence != want || e.Of != run.ID {
			t.Fatalf("event %d of %q came, not %d", e.Item.Sequence, e.Of, want)
		}
		if want == 7 {
			cursor = e.Cursor
		}
		if want++; want == there+5 {
			break
		}
		if want >= there {
			record(t, writer, run.ID, live.TextDelta("more"))
		}
	}
	next := uint64(8)
	for e, err := range written(reader.Follow(t.Context(), run.ID, cursor)) {
		if err != nil || e.Item.Sequence != next {
			t.Fatalf("event %d came in place of %d: %v", e.Item.Sequence, next, err)
		}
		if next++; next == there+5 {
			break
		}
	}
}

func TestFollowersHearOfMarks(t *testing.T) {
	for name, mark := range map[string]func(*live.Store, string) error{
		"cancelled": func(s *live.Store, id string) error {
			_, _, err := s.MarkCancelled(context.Background(), id)
			return err
		},
		"failed": func(s *live.Store, id string) error {
			_, _, err := s.MarkFailed(context.Background(), id, "why")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t, live.Options{})
			run := create(t, store, "p")
			all := store.FollowAll(t.Context(), live.Filter{})
			record(t, store, run.ID, live.AgentStart("p"))
			var got []string
			cursor := ""
			for item, err := range store.Follow(t.Context(), run.ID, "") {
				if err != nil {
					t.Fatal(err)
				}
				if got, cursor = append(got, told(item)), item.Cursor; told(item) == "executing" {
					if err := mark(store, run.ID); err != nil { // no event comes with it
						t.Fatal(err)
					}
				}
				if item.What == db.StatusChanged && live.RunStatus(item.Status).Ended() {
					break
				}
			}
			if want := []string{"0", "executing", name}; !slices.Equal(got, want) {
				t.Errorf("a follower heard %v, not %v", got, want)
			}
			if got, _ := toldUntil(t, all, name); !slices.Contains(got, "0") {
				t.Errorf("who follows all heard %v", got)
			}
			record(t, store, run.ID, live.TextDelta("late"))
			if got, _ := toldUntil(t, store.Follow(t.Context(), run.ID, cursor), "1"); len(got) != 1 {
				t.Errorf("behind its cursor a follower heard %v", got)
			}
		})
	}
}

func TestACapLeavesAGap(t *testing.T) {
	store := newStore(t, live.Options{MaxEventsPerRun: new(uint64(2))})
	run := create(t, store, "p")
	record(t, store, run.ID, live.TextDelta("0"))
	_, cursor := toldUntil(t, store.Follow(t.Context(), run.ID, ""), "0")
	record(t, store, run.ID, live.TextDelta("1"), live.TextDelta("2"))
	if got, _ := toldUntil(t, store.Follow(t.Context(), run.ID, cursor), "2"); !slices.Equal(got,
		[]string{"1", "2"}) {
		t.Errorf("nothing unread went, and a follower heard %v", got)
	}
	record(t, store, run.ID, live.TextDelta("3"))
	got, after := toldUntil(t, store.Follow(t.Context(), run.ID, cursor), "3")
	if !slices.Equal(got, []string{"gap", "2", "3"}) {
		t.Errorf("event 1 went, and a follower heard %v", got)
	}
	for item, err := range store.Follow(t.Context(), run.ID, cursor) { // the gap's own cursor is behind it
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := toldUntil(t, store.Follow(t.Context(), run.ID, item.Cursor), "3"); !slices.Equal(got,
			[]string{"2", "3"}) {
			t.Errorf("behind the gap a follower heard %v", got)
		}
		break
	}
	record(t, store, run.ID, live.TextDelta("4"))
	if got, _ := toldUntil(t, store.Follow(t.Context(), run.ID, after), "4"); !slices.Equal(got, []string{"4"}) {
		t.Errorf("behind event 3 a follower heard %v", got)
	}
}

func TestFollowSaysWhatIsWrongWithItsCursor(t *testing.T) {
	store := newStore(t, live.Options{})
	run, other := create(t, store, "p"), create(t, store, "q")
	record(t, store, run.ID, live.TextDelta("0"))
	_, cursor := toldUntil(t, store.Follow(t.Context(), run.ID, ""), "0")
	for name, c := range map[string]struct {
		run, cursor string
		want        error
	}{
		"another run's":  {other.ID, cursor, db.ErrInvalid},
		"no cursor":      {run.ID, "x", db.ErrInvalid},
		"no such run":    {"no such run", "", db.ErrNotFound},
		"a list's":       {run.ID, "AAlsaXZlIHJ1bnMCAg", db.ErrInvalid},
		"not even an id": {"a\x00b", "", db.ErrInvalid},
	} {
		if err := lastError(t, store, c.run, c.cursor); !errors.Is(err, c.want) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	if _, err := store.CreateRunWithID(t.Context(), run.ID, "s", "again"); err != nil {
		t.Fatal(err)
	}
	if err := lastError(t, store, run.ID, cursor); !errors.Is(err, db.ErrCursorExpired) || db.Hint(err) == "" {
		t.Errorf("a cursor of a run that was replaced gave %v", err)
	}
	if err := store.Delete(t.Context(), run.ID); err != nil {
		t.Fatal(err)
	}
	if err := lastError(t, store, run.ID, cursor); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a cursor of a run that was removed gave %v", err)
	}
}

// ending runs a loop to its end, with each done in its body.
func ending(items iter.Seq2[live.Followed, error], each func()) (last error) {
	for _, err := range items {
		each()
		last = err
	}
	return last
}

func TestFollowEndsWithTheCauseOfItsContext(t *testing.T) {
	store := newStore(t, live.Options{})
	run := create(t, store, "p")
	why := errors.New("enough")
	for name, follow := range map[string]func(context.Context) iter.Seq2[live.Followed, error]{
		"one": func(ctx context.Context) iter.Seq2[live.Followed, error] { return store.Follow(ctx, run.ID, "") },
		"all": func(ctx context.Context) iter.Seq2[live.Followed,
			error] {
			return store.FollowAll(ctx, live.Filter{})
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		items := follow(ctx)
		record(t, store, run.ID, live.TextDelta("x"))
		last := ending(items, func() { cancel(why) })
		cancel(nil)
		if !errors.Is(last, why) {
			t.Errorf("%s ended with %v", name, last)
		}
	}
}

func TestACursorBeforeTheLastEvents(t *testing.T) {
	ctx, store := t.Context(), newStore(t, live.Options{MaxEventsPerRun: new(uint64(3))})
	run := create(t, store, "p")
	for range 5 {
		record(t, store, run.ID, live.TextDelta("x"))
	}
	for n, first := range []uint64{5, 5, 4, 3, 3} {
		cursor, err := store.CursorBefore(ctx, run.ID, int64(n))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			record(t, store, run.ID, live.TextDelta("to come"))
		}
		for e, err := range store.Follow(ctx, run.ID, cursor) {
			if err != nil || e.What != db.Written || e.Item.Sequence != first {
				t.Errorf("before the last %d events: event %d comes first, %v", n, e.Item.Sequence, err)
			}
			break
		}
	}
	if _, err := store.CursorBefore(ctx, run.ID, -1); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("-1 events gave %v", err)
	}
	if _, err := store.CursorBefore(ctx, "no such run", 1); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("no such run gave %v", err)
	}
}

// The gaps between restored events are nobody's loss: a cap that takes what was delivered leaves no gap.
func TestACapBehindTheCursorLeavesNoGap(t *testing.T) {
	store := newStore(t, live.Options{MaxEventsPerRun: new(uint64(2))})
	restored := live.RunRecord{Snapshot: live.RunSnapshot{ID: "r", Status: live.Executing}}
	for _, n := range []uint64{0, 5} {
		restored.Events = append(restored.Events,
			live.RunEventRecord{Sequence: n, TimestampMs: 1, Event: live.TextDelta(fmt.Sprint(n))})
	}
	if err := store.ReplaceRecords(t.Context(), []live.RunRecord{restored}); err != nil {
		t.Fatal(err)
	}
	_, cursor := toldUntil(t, store.Follow(t.Context(), "r", ""), "0")
	record(t, store, "r", live.TextDelta("6")) // takes event 0 out, which was delivered
	if got, _ := toldUntil(t, store.Follow(t.Context(), "r", cursor), "6"); !slices.Equal(got,
		[]string{"5", "6", "executing"}[:2]) {
		t.Errorf("a follower heard %v", got)
	}
	record(t, store, "r", live.TextDelta("7")) // takes event 5 out, which was not
	if got, _ := toldUntil(t, store.Follow(t.Context(), "r", cursor), "7"); !slices.Equal(got,
		[]string{"gap", "6", "7"}) {
		t.Errorf("a follower heard %v", got)
	}
}

// A run whose counter is ahead of its events: who has read them all waits, reads nothing meanwhile,
// and hears of the next.
func TestFollowWaitsBehindRestoredEvents(t *testing.T) {
	var reads atomic.Int64
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Why == "follow live runs" {
			reads.Add(1)
		}
	}})
	store, other := live.NewStore(d, live.Options{}), live.NewStore(d, live.Options{Scope: "other"})
	if err := store.ReplaceRecords(t.Context(),
		restored(t, fmt.Sprintf(restoredRun, 1, 1, 99,
			`{"sequence":4,"timestamp_ms":5,"event":{"type":"text_delta","text":"t"}}`))); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	var got []string
	for item, err := range store.Follow(t.Context(), "r", "") {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, told(item)); told(item) == "executing" {
			go func() {
				var err error
				for range 30 {
					if err == nil {
						_, err = other.CreateRun(context.Background(), "s", "p")
					}
				}
				if err == nil {
					_, _, err = store.RecordEvent(context.Background(), "r", live.TextDelta("next"))
				}
				done <- err
			}()
		}
		if told(item) == "99" {
			break
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"4", "executing", "99"}) {
		t.Errorf("a follower heard %v", got)
	}
	if n := reads.Load(); n > 5 {
		t.Errorf("the run was read %d times", n)
	}
}

// A page of what is heavy must not take the whole list, or stream, into memory first.
func TestAPageReadsLittleMoreThanItHolds(t *testing.T) {
	store := newStore(t, live.Options{})
	const heavy = 12
	text := strings.Repeat("x", paging.MaxBytes)
	var run live.RunSnapshot
	for range heavy {
		run = create(t, store, text)
	}
	for range heavy {
		record(t, store, run.ID, live.TextDelta(text))
	}
	for name, read := range map[string]func() (items int, err error){
		"Page": func() (int, error) {
			page, err := store.Page(t.Context(), live.Filter{}, db.At{})
			return len(page.Items), err
		},
		"Page of two statuses": func() (int, error) {
			page, err := store.Page(t.Context(),
				live.Filter{Statuses: []live.RunStatus{live.Created, live.Executing}}, db.At{})
			return len(page.Items), err
		},
		"EventsPage": func() (int, error) {
			page, err := store.EventsPage(t.Context(), run.ID, db.At{})
			return len(page.Items), err
		},
		"Follow": func() (items int, err error) {
			for _, err = range store.Follow(t.Context(), run.ID, "") {
				return 1, err
			}
			return 0, nil
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		items, err := read()
		runtime.ReadMemStats(&after)
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; err != nil || items != 1 || mib > heavy/2 {
			t.Errorf("%s of %d things of 1 MiB gave %d of them (%v) and allocated %d MiB", name, heavy, items, err,
				mib)
		}
	}
}
