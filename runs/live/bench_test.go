package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs/live"
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
		if _, _, err := store.RecordEvents(ctx, run.ID, list); err != nil {
			b.Fatal(err)
		}
		last = run.ID
	}
	return store, last
}

// BenchmarkRecordEvent is one event, durable. SessionSave is what the original does to make one durable, but for the disk:
// it writes the session's whole file, and doesn't wait for it.
func BenchmarkRecordEvent(b *testing.B) {
	ctx, event := context.Background(), live.TextDelta("some words of an answer, as they come from a model, a few at a time")
	for _, events := range []int{10, 1000, 20000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			store, run := session(b, 10, events)
			for b.Loop() {
				if _, _, err := store.RecordEvent(ctx, run, event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("callers=8", func(b *testing.B) {
		store, run := session(b, 1, 10)
		var failed atomic.Pointer[error]
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, _, err := store.RecordEvent(ctx, run, event); err != nil {
					failed.Store(&err)
				}
			}
		})
		if err := failed.Load(); err != nil {
			b.Fatal(*err)
		}
	})
}

func BenchmarkSessionSave(b *testing.B) {
	store, _ := session(b, 10, 1000)
	records, err := store.Records(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "session-1.json")
	for b.Loop() {
		var out []byte
		var w live.FileWriter
		for _, r := range records {
			out = w.Record(out, r.AppendJSON(nil), false)
		}
		if err := os.WriteFile(file, w.End(out), 0o600); err != nil {
			b.Fatal(err)
		}
	}
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
