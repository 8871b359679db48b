package maintenance_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestRootMove_FullDiskResumesWithSpace(t *testing.T) {
	ctx := t.Context()
	folder := dbtest.SmallDisk(t, "size=24m")
	from, to, filler := dbtest.Path(t), filepath.Join(folder, "to.db"), filepath.Join(folder, "filler")
	filled(t, from, 4)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	stoppedAt(t, from, to, "copy") // the file is there, and has its first rows
	fill, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 1<<12); err == nil; {
		_, err = fill.Write(piece)
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // whoever tries again meets the same
		if _, err := maintenance.Move(ctx, from, to, db.Options{}); !errors.Is(err, db.ErrFull) {
			t.Fatalf("onto a full disk: %v", err)
		}
		if opened(ctx, from) || opened(ctx, to) {
			t.Fatal("one of the two takes work")
		}
	}
	if err := os.Truncate(filler, 0); err != nil {
		t.Fatal(err)
	}
	moveAlike(t, from, to, want)
}
