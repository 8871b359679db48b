package live_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs/live"
)

// follow gives the next events of a loop, and how the loop ended.
func follow(ctx context.Context, s *live.Store, runID, cursor string) (<-chan live.FollowedEvent, <-chan error) {
	events, ended := make(chan live.FollowedEvent), make(chan error, 1)
	go func() {
		defer close(events)
		for e, err := range s.Follow(ctx, runID, cursor) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				ended <- nil
				return
			}
		}
		ended <- nil
	}()
	return events, ended
}

func TestFollowDeliversEventsOfAnotherHandleAndResumes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	path := dbtest.Path(t)
	reader := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	writer := live.NewStore(dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal}), live.Options{})
	run := create(t, writer, "p")
	record(t, writer, run.ID, live.TextDelta("0"))
	events, ended := follow(ctx, reader, run.ID, "")
	first := <-events
	for i := range 5 {
		record(t, writer, run.ID, live.TextDelta(fmt.Sprint(i+1)))
		if e := <-events; e.Sequence != uint64(i+1) {
			t.Fatalf("event %d came after %d", e.Sequence, i)
		}
	}
	cancel()
	for range events { //nolint:revive // until the loop has ended
	}
	if err := <-ended; err != nil {
		t.Errorf("the loop ended with %v", err)
	}
	next := uint64(1)
	again, stop := context.WithCancel(context.Background())
	defer stop()
	events, _ = follow(again, reader, run.ID, first.Cursor)
	for next < 6 {
		if e := <-events; e.Sequence != next {
			t.Fatalf("event %d came in place of %d", e.Sequence, next)
		}
		next++
	}
}

func lastError(t *testing.T, s *live.Store, runID, cursor string) error {
	t.Helper()
	for _, err := range s.Follow(context.Background(), runID, cursor) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestFollowSaysWhenItsCursorExpired(t *testing.T) {
	ctx, store := context.Background(), newStore(t, live.Options{MaxEventsPerRun: live.AtMost(2)})
	run := create(t, store, "p")
	record(t, store, run.ID, live.TextDelta("0"))
	following, stop := context.WithCancel(ctx)
	events, _ := follow(following, store, run.ID, "")
	cursor := (<-events).Cursor
	stop()
	record(t, store, run.ID, live.TextDelta("1"), live.TextDelta("2"))
	following, stop = context.WithCancel(ctx)
	defer stop()
	events, _ = follow(following, store, run.ID, cursor)
	if e := <-events; e.Sequence != 1 {
		t.Fatalf("event %d came in place of 1", e.Sequence)
	}
	record(t, store, run.ID, live.TextDelta("3"))
	if err := lastError(t, store, run.ID, cursor); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a cursor before a gap gave %v", err)
	}
	if _, err := store.CreateRunWithID(ctx, run.ID, "s", "again"); err != nil {
		t.Fatal(err)
	}
	if err := lastError(t, store, run.ID, cursor); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a cursor of a run that was replaced gave %v", err)
	}
	if err := lastError(t, store, "no such run", ""); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("no such run gave %v", err)
	}
	if err := lastError(t, store, run.ID, "x"); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("no cursor gave %v", err)
	}
}

func TestACursorBeforeTheLastEvents(t *testing.T) {
	ctx, store := t.Context(), newStore(t, live.Options{MaxEventsPerRun: live.AtMost(3)})
	run := create(t, store, "p")
	for range 5 {
		record(t, store, run.ID, live.TextDelta("x"))
	}
	for n, first := range []uint64{5, 5, 4, 3, 3} {
		cursor, err := store.CursorBefore(ctx, run.ID, n)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			record(t, store, run.ID, live.TextDelta("to come"))
		}
		for e, err := range store.Follow(ctx, run.ID, cursor) {
			if err != nil || e.Sequence != first {
				t.Errorf("before the last %d events: event %d comes first, %v", n, e.Sequence, err)
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

// The gaps between restored events are nobody's loss: a cap that takes what was delivered expires no cursor.
func TestACapBehindTheCursorExpiresNothing(t *testing.T) {
	store := newStore(t, live.Options{MaxEventsPerRun: live.AtMost(2)})
	restore := func(id string, sequences ...uint64) (list []live.RunRecord) {
		r := live.RunRecord{Snapshot: live.RunSnapshot{ID: id, Status: live.Executing}}
		for _, n := range sequences {
			r.Events = append(r.Events, live.RunEventRecord{Sequence: n, TimestampMs: 1, Event: live.TextDelta(fmt.Sprint(n))})
		}
		return append(list, r)
	}
	if err := store.ReplaceRecords(t.Context(), restore("r", 0, 5)); err != nil {
		t.Fatal(err)
	}
	cursor := ""
	for e, err := range store.Follow(t.Context(), "r", "") {
		if err != nil {
			t.Fatal(err)
		}
		cursor = e.Cursor
		break
	}
	record(t, store, "r", live.TextDelta("6")) // takes event 0 out, which was delivered
	for e, err := range store.Follow(t.Context(), "r", cursor) {
		if err != nil || e.Sequence != 5 {
			t.Fatalf("event %d came, %v", e.Sequence, err)
		}
		break
	}
	record(t, store, "r", live.TextDelta("7")) // takes event 5 out, which was not
	if err := lastError(t, store, "r", cursor); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("a cursor before what a cap took gave %v", err)
	}
}
