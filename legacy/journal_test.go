package legacy

import (
	"context"
	"errors"
	"os"
	"testing"

	"selvedge/db"
)

func TestJournal_SaysWhoImportedAndHowEnded(t *testing.T) {
	ctx := context.Background()
	dir := folder{"a/r.jsonl": startedLine("a", "r") + turnLine(0)}.make(t)
	bad := folder{"a/s.jsonl": startedLine("a", "s") + "{no record\n"}.make(t)
	d := emptyFile(t)
	var during []Entry
	if _, err := Import(ctx, d, Runs, dir, Options{Program: "carrier 2", Progress: func(p Progress) {
		if p.Bytes > 0 {
			page, err := Journal(ctx, d, "", db.At{})
			if err != nil {
				t.Error(err)
			}
			during = page.Items
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if len(during) != 1 || during[0].Outcome != Running || during[0].EndedAt != nil {
		t.Errorf("while it runs: %+v", during)
	}
	if _, err := Import(ctx, d, Runs, bad, Options{}); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(ctx)
	if _, err := Import(stopped, d, Runs, dir, Options{Progress: func(p Progress) {
		if p.Bytes > 0 {
			stop()
		}
	}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	page, err := Journal(ctx, d, "", db.At{Limit: 2})
	if err != nil || len(page.Items) != 2 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := Journal(ctx, d, "", db.At{After: page.Next})
	if err != nil || len(rest.Items) != 1 || rest.Next != "" {
		t.Fatalf("%+v, %v", rest, err)
	}
	for i, want := range []Outcome{Stopped, Partial} {
		if e := page.Items[i]; e.Outcome != want || e.EndedAt == nil {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	first := rest.Items[0]
	if first.Outcome != Complete || first.Program != "carrier 2" || first.PID != os.Getpid() ||
		first.User == "" || first.Counts["turn"].New != 1 || first.Files.New != 1 {
		t.Errorf("%+v", first)
	}
	if e, err := JournalEntry(ctx, d, first.ID); err != nil || e.ID != first.ID || e.Kind != "runs" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := JournalEntry(ctx, d, 99); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("no such import: %v", err)
	}
}
