package workers_test

import (
	"context"
	"errors"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/workers"
)

func TestEventsAreDeliveredAsTheyCome(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		ctx, r := t.Context(), open(t, dbtest.OpenAt(t, path, db.Options{}), workers.RuntimeOptions{})
		const each = 40
		done := make(chan error, 2)
		for range 2 {
			worker := must(r.CreateWorker(ctx, taskRequest("talk")))(t).WorkerRef
			go func() {
				var err error
				for range each {
					if err == nil {
						_, err = r.SendInput(ctx, worker, workers.UserInput("x"))
					}
				}
				done <- err
			}()
		}
		want := uint64(1)
		for d, err := range r.FollowEvents(ctx, must(r.EventCursorFromStart(ctx))(t)) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Event.ID != want || d.Cursor.NextEventID != want+1 {
				t.Fatalf("event %d came, with cursor %+v, and not %d", d.Event.ID, d.Cursor, want)
			}
			if want == 3+2*each {
				break
			}
			want++
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFollowingEndsWithItsContextAndWithTheFile(t *testing.T) {
	d := must(db.Open(t.Context(), dbtest.Path(t), db.Options{}))(t)
	r := open(t, d, workers.RuntimeOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range r.FollowEvents(ctx, must(r.EventCursorFromStart(ctx))(t)) {
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}
	for _, err := range r.FollowEvents(t.Context(), must(r.EventCursorFromStart(t.Context()))(t)) {
		if err == nil {
			err = d.Close()
		} else if errors.Is(err, db.ErrClosed) {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestACursorBeforeWhatWasPrunedSaysSo(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	start := must(r.EventCursorFromStart(ctx))(t)
	worker := must(r.CreateWorker(ctx, taskRequest("prune")))(t).WorkerRef
	for range 1200 {
		must(r.SendInput(ctx, worker, workers.UserInput("x")))(t)
	}
	keep := workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 1101}
	if n := must(r.PruneEvents(ctx, keep))(t); n != 1100 {
		t.Errorf("%d events were removed", n)
	}
	if n := must(r.PruneEvents(ctx, keep))(t); n != 0 {
		t.Errorf("%d more were removed", n)
	}
	if _, err := r.ReadEvents(ctx, start, 1); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("reading from before: %v", err)
	}
	for _, err := range r.FollowEvents(ctx, start) {
		if !errors.Is(err, db.ErrCursorExpired) {
			t.Errorf("following from before: %v", err)
		}
	}
	first := must(r.EventCursorFromStart(ctx))(t)
	if batch := must(r.ReadEvents(ctx, first, 256))(t); first != keep || len(batch.Events) != 102 || batch.Events[0].ID != 1101 {
		t.Errorf("from %+v there are %d events", first, len(batch.Events))
	}
	if ack := must(r.SendInput(ctx, worker, workers.UserInput("x")))(t); ack.EventID != 1203 {
		t.Errorf("the next id is %d", ack.EventID)
	}
}

func TestPruningUnderAFollowerIsNoticedAndNothingIsSkippedSilently(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	worker := must(r.CreateWorker(ctx, taskRequest("prune")))(t).WorkerRef
	for range 600 {
		must(r.SendInput(ctx, worker, workers.UserInput("x")))(t)
	}
	want, expired := uint64(1), false
	for d, err := range r.FollowEvents(ctx, must(r.EventCursorFromStart(ctx))(t)) {
		if expired = errors.Is(err, db.ErrCursorExpired); err != nil {
			break
		}
		if d.Event.ID != want {
			t.Fatalf("event %d came, and not %d", d.Event.ID, want)
		}
		if want++; want == 10 {
			must(r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 500}))(t)
		}
	}
	if !expired {
		t.Error("nobody was told")
	}
}

func TestACursorBeforeTheLastEvents(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	worker := must(r.CreateWorker(ctx, taskRequest("count")))(t).WorkerRef
	for range 8 {
		must(r.SendInput(ctx, worker, workers.UserInput("x")))(t)
	}
	must(r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 6}))(t)
	for n, want := range map[uint64]int{0: 0, 1: 1, 5: 5, 6: 5, 1 << 63: 5} {
		if batch := must(r.ReadEvents(ctx, must(r.EventCursorBefore(ctx, n))(t), 100))(t); len(batch.Events) != want {
			t.Errorf("behind the cursor before the last %d events there are %d", n, len(batch.Events))
		}
	}
}
