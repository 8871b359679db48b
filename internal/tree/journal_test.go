package tree

import (
	"context"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestJournal_EndingImportIsNotKilled(t *testing.T) {
	ctx, d := context.Background(), dbtest.Open(t, db.Options{})
	running := &Tree{DB: d, Report: newPart("runs", "", "/tree")}
	begin := func(tx *db.Tx) (err error) {
		if running.Source, err = addSource(tx, "", "runs", "/tree"); err != nil {
			return err
		}
		return running.beginEntry(tx)
	}
	if err := d.Write(ctx, "begin", begin); err != nil {
		t.Fatal(err)
	}
	killed, err := JournalEntry(ctx, d, running.entry.id)
	if err != nil || killed.Outcome != Killed {
		t.Fatalf("without a reservation: %+v, %v", killed, err)
	}
	var seen entryRow
	err = d.Read(ctx, "look", func(rx *db.Rx) (err error) {
		seen, err = findEntry(rx, running.entry.id)
		return err
	})
	if err != nil || seen.Outcome != "" {
		t.Fatalf("%+v, %v", seen, err)
	}
	if err := d.Write(ctx, "end", func(tx *db.Tx) error { return running.endEntry(ctx, tx, nil) }); err != nil {
		t.Fatal(err)
	}
	if err := seen.judge(ctx, d); err != nil || seen.Outcome != Complete || seen.EndedAt == nil {
		t.Errorf("it ended after the look: %+v, %v", seen, err)
	}
}
