package live_test

import (
	"context"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// session gives a store with a session of some runs of so many events each, and its last run.
func session(b *testing.B, runs, events int) (*live.Store, string) {
	b.Helper()
	ctx := context.Background()
	store := live.NewStore(dbtest.Open(b, db.Options{}), live.Options{})
	text := live.TextDelta("some words of an answer, as they come from a model, a few at a time")
	list := make([]live.Event, events)
	for i := range list {
		list[i] = text
	}
	last := ""
	for range runs {
		run, err := store.CreateRun(ctx, "session-1", "fix tests")
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := store.RecordEvent(ctx, run.ID, list...); err != nil {
			b.Fatal(err)
		}
		last = run.ID
	}
	return store, last
}

func BenchmarkEventPage(b *testing.B) {
	store, run := session(b, 1, 20000)
	after := uint64(15000)
	for b.Loop() {
		if _, _, err := store.EventPage(context.Background(), run, &after, 50); err != nil {
			b.Fatal(err)
		}
	}
}
