package workers_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// written leaves out what is no event.
func written(items iter.Seq2[workers.Followed, error]) iter.Seq2[workers.Followed, error] {
	return func(yield func(workers.Followed, error) bool) {
		for item, err := range items {
			if (err != nil || item.What == db.Written) && !yield(item, err) {
				return
			}
		}
	}
}

// told spells an item: the id of an event, the word of a status, "gap" or "gone".
func told(f workers.Followed) string {
	switch {
	case f.Gone:
		return "gone"
	case f.What == db.Gap:
		return "gap"
	case f.What == db.StatusChanged:
		return f.Status
	}
	return fmt.Sprint(f.Item.ID)
}

// toldUntil follows up to an item.
func toldUntil(t *testing.T, items iter.Seq2[workers.Followed, error], last string) (list []string,
	cursor string,
) {
	t.Helper()
	return dbtest.ToldUntil(t, items, told, last)
}

func lastError(items iter.Seq2[workers.Followed, error]) (last error) {
	for _, err := range items {
		last = err
	}
	return last
}

func TestEventsAreDeliveredAsTheyCome(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		ctx, r := t.Context(), open(t, dbtest.OpenAt(t, path, db.Options{}), workers.RuntimeOptions{})
		const each = 200 // together more than are read at a time
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
		for item, err := range written(r.Follow(ctx, "")) {
			if err != nil {
				t.Fatal(err)
			}
			if item.Item.ID != want || item.Of != r.RuntimeID() {
				t.Fatalf("event %d came, and not %d", item.Item.ID, want)
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
		if got, _ := toldUntil(t, r.Follow(ctx, ""), fmt.Sprint(3+2*each)); len(got) != 3+2*each {
			t.Errorf("what is there is told as %d items", len(got))
		}
	}
}

func TestFollowersHearThatTheRuntimeStopped(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	_, cursor := toldUntil(t, r.Follow(ctx, ""), "1")
	must(r.StopRuntime(ctx))(t)
	if got, _ := toldUntil(t, r.Follow(ctx, cursor), "stopped"); !slices.Equal(got, []string{"2", "stopped"}) {
		t.Errorf("a follower heard %v", got)
	}
}

func TestFollowing_EndsWithContextAndFile(t *testing.T) {
	d := must(db.Open(t.Context(), dbtest.Path(t), db.Options{}))(t)
	r := open(t, d, workers.RuntimeOptions{})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for _, err := range r.Follow(ctx, "") {
		cancel(why)
		last = err
	}
	if !errors.Is(last, why) {
		t.Errorf("it ended with %v", last)
	}
	for _, err := range r.Follow(t.Context(), "") {
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
	_, early := toldUntil(t, r.Follow(ctx, ""), "7")
	keep := workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 1101}
	read, removed := 0, int64(0)
	var ended error
	for _, err := range r.EachEvent(ctx) {
		if read++; read == 1 {
			removed = must(r.PruneEvents(ctx, keep))(t)
		}
		ended = err
	}
	if !errors.Is(ended, db.ErrCursorExpired) {
		t.Errorf("who reads all ends with %v after %d", ended, read)
	}
	if removed != 1100 {
		t.Errorf("%d events were removed", removed)
	}
	if n := must(r.PruneEvents(ctx, keep))(t); n != 0 {
		t.Errorf("%d more were removed", n)
	}
	if _, err := r.ReadEvents(ctx, start, 1); !errors.Is(err, db.ErrCursorExpired) {
		t.Errorf("reading from before: %v", err)
	}
	got, behind := toldUntil(t, r.Follow(ctx, early), "1102")
	if !slices.Equal(got, []string{"gap", "1101", "1102"}) {
		t.Errorf("following from before tells %v", got)
	}
	if page := must(r.EventsPage(ctx, db.At{After: early, Limit: 2}))(t); page.Items[0].What != db.Gap ||
		page.Items[1].Item.ID != 1101 {
		t.Errorf("a page from before is %+v", page.Items)
	}
	if page := must(r.EventsPage(ctx, db.At{Limit: 1}))(t); page.Items[0].Item.ID != 1101 || page.Next == "" {
		t.Errorf("the first page is %+v", page)
	}
	first := must(r.EventCursorFromStart(ctx))(t)
	if batch := must(r.ReadEvents(ctx, first, 256))(t); first != keep || len(batch.Events) != 102 ||
		batch.Events[0].ID != 1101 {
		t.Errorf("from %+v there are %d events", first, len(batch.Events))
	}
	if ack := must(r.SendInput(ctx, worker, workers.UserInput("x")))(t); ack.EventID != 1203 {
		t.Errorf("the next id is %d", ack.EventID)
	}
	if got, _ := toldUntil(t, r.Follow(ctx, behind), "1203"); len(got) != 101 {
		t.Errorf("behind event 1102 there are %d", len(got))
	}
}

// A prune holds the writer for a few hundred events at a time.
func TestAPruneGoesInShortTransactions(t *testing.T) {
	var turns atomic.Int64
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Observe: func(o db.Observation) {
		if o.Why == "prune events" {
			turns.Add(1)
		}
	}})
	r := open(t, d, workers.RuntimeOptions{})
	worker := must(r.CreateWorker(t.Context(), taskRequest("prune")))(t).WorkerRef
	for range 1200 {
		must(r.SendInput(t.Context(), worker, workers.UserInput("x")))(t)
	}
	must(r.PruneEvents(t.Context(), workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 1203}))(t)
	if n := turns.Load(); n != 3 {
		t.Errorf("1,202 events went in %d transactions", n)
	}
}

func TestPrune_BeyondEndTakesAll(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	must(r.CreateWorker(ctx, taskRequest("x")))(t)
	for _, beyond := range []uint64{1000, math.MaxUint64} {
		must(r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: beyond}))(t)
	}
	if first := must(r.EventCursorFromStart(ctx))(t); first.NextEventID != 3 {
		t.Errorf("it begins with %+v", first)
	}
	if w := must(r.CreateWorker(ctx, taskRequest("x")))(t); w.LastEventID != 3 {
		t.Errorf("the next event is %d", w.LastEventID)
	}
}

func TestPrune_FollowerNoticesGap(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	worker := must(r.CreateWorker(ctx, taskRequest("prune")))(t).WorkerRef
	for range 600 {
		must(r.SendInput(ctx, worker, workers.UserInput("x")))(t)
	}
	want, gaps := uint64(1), 0
	for item, err := range r.Follow(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if item.What == db.Gap {
			gaps, want = gaps+1, 500
			continue
		}
		if item.Item.ID != want {
			t.Fatalf("event %d came, and not %d", item.Item.ID, want)
		}
		if want == 602 {
			break
		}
		if want++; want == 10 {
			must(r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 500}))(t)
		}
	}
	if gaps != 1 {
		t.Errorf("%d gaps were told", gaps)
	}
}

func TestACursorBeforeTheLastEvents(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	worker := must(r.CreateWorker(ctx, taskRequest("count")))(t).WorkerRef
	for range 8 {
		must(r.SendInput(ctx, worker, workers.UserInput("x")))(t)
	}
	must(r.PruneEvents(ctx, workers.EventCursor{RuntimeID: r.RuntimeID(), NextEventID: 6}))(t)
	for n, want := range map[int64]int{0: 0, 1: 1, 5: 5, 6: 5, math.MaxInt64: 5} {
		page := must(r.EventsPage(ctx, db.At{After: must(r.CursorBefore(ctx, n))(t)}))(t)
		if len(page.Items) != want {
			t.Errorf("behind the cursor before the last %d events there are %d", n, len(page.Items))
		}
	}
	if _, err := r.CursorBefore(ctx, -1); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("-1 events gave %v", err)
	}
}

func TestACursorBelongsToItsRuntime(t *testing.T) {
	ctx, d := t.Context(), dbtest.Open(t, db.Options{})
	a, b := open(t, d, workers.RuntimeOptions{RuntimeID: "a"}),
		open(t, d, workers.RuntimeOptions{RuntimeID: "b"})
	all := workers.NewRuntimes(d, "")
	_, cursor := toldUntil(t, a.Follow(ctx, ""), "1")
	if id, err := all.Of(ctx, cursor); err != nil || id != "a" {
		t.Errorf("the cursor is of %q: %v", id, err)
	}
	if err := lastError(b.Follow(ctx, cursor)); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("another runtime's cursor gave %v", err)
	}
	if err := lastError(b.Follow(ctx, "x")); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("no cursor gave %v", err)
	}
	if _, err := workers.NewRuntimes(d, "other").Of(ctx, cursor); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a cursor of another scope gave %v", err)
	}
	if err := all.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"its own": lastError(a.Follow(ctx, cursor)), "another": lastError(b.Follow(ctx, cursor)),
	} {
		if !errors.Is(err, db.ErrCursorExpired) {
			t.Errorf("%s runtime took the cursor of one that was removed: %v", what, err)
		}
	}
	if err := lastError(a.Follow(ctx, "")); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a removed runtime gave %v", err)
	}
}

func TestFollowAllDeliversEveryLogInItsOrder(t *testing.T) {
	ctx, path := t.Context(), dbtest.Path(t)
	all := workers.NewRuntimes(dbtest.OpenAt(t, path, db.Options{}), "").FollowAll(ctx, workers.RuntimeFilter{})
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	elsewhere := open(t, d, workers.RuntimeOptions{RuntimeID: "a", Scope: "other"})
	must(elsewhere.CreateWorker(ctx, taskRequest("not told")))(t)
	next := map[workers.RuntimeID]uint64{}
	for _, id := range []workers.RuntimeID{"a", "b"} {
		r := open(t, d, workers.RuntimeOptions{RuntimeID: id})
		for range 5 {
			must(r.CreateWorker(ctx, taskRequest("x")))(t)
		}
	}
	removed := false
	for item, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		if item.Gone {
			if item.Of != "b" || !removed {
				t.Errorf("%q is gone", item.Of)
			}
			break
		}
		if next[item.Of]++; item.Item.ID != next[item.Of] {
			t.Fatalf("event %d of %q came, not %d", item.Item.ID, item.Of, next[item.Of])
		}
		if next["a"] == 6 && next["b"] == 6 {
			removed = true
			if err := workers.NewRuntimes(d, "").Delete(ctx, "b"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, err := range workers.NewRuntimes(d, "").FollowAll(ctx, workers.RuntimeFilter{Status: "paused"}) {
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("an unknown status gave %v", err)
		}
	}
}

func TestEachEventIsThatOfTheLog(t *testing.T) {
	ctx, r := t.Context(), openMemory(t, workers.RuntimeOptions{})
	for range 3 {
		must(r.CreateWorker(ctx, taskRequest("talk")))(t)
	}
	var whole, first int
	for _, err := range r.EachEvent(ctx) {
		if whole++; err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range r.EachEvent(ctx) { // the loop may be left
		if first++; err != nil {
			t.Fatal(err)
		}
		break
	}
	page, err := r.EventsPage(ctx, db.At{})
	if err != nil || whole != len(page.Items) || whole < 3 || first != 1 {
		t.Errorf("%d and %d events of %d, %v", whole, first, len(page.Items), err)
	}
}
