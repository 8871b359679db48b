package db_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

func TestLongCallsTellHowFarTheyAre(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "a.db"), filepath.Join(dir, "copy.db")
	d, err := db.Open(t.Context(), path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, d, numbers)
	fill(t, d, 1)
	write(t, d, "DELETE FROM numbers")
	told := func(name string, call func(context.Context) error, want ...string) {
		t.Helper()
		var steps []string
		over := false
		err := call(db.WithProgress(t.Context(), func(p db.Progress) {
			if over || p.Done < 0 || p.Done > p.Total {
				t.Errorf("%s, which is over: %v, tells %+v", name, over, p)
			}
			if len(steps) == 0 || steps[len(steps)-1] != p.Step {
				steps = append(steps, p.Step)
			}
		}))
		if over = true; err != nil || !slices.Equal(steps, want) {
			t.Errorf("%s has the steps %q, want %q; %v", name, steps, want, err)
		}
	}
	told("GiveBack", func(ctx context.Context) error { return maintenance.GiveBack(ctx, d) }, "give back")
	told("Check", func(ctx context.Context) error { _, err := d.Check(ctx); return err }, "check")
	told("Backup", func(ctx context.Context) error { return d.Backup(ctx, copied) }, "copy", "check")
	told("Scrub", func(ctx context.Context) error { return maintenance.Scrub(ctx, d) }, "write anew")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	told("Compact", func(ctx context.Context) error {
		_, err := maintenance.Compact(ctx, path, db.Options{})
		return err
	}, "copy", "check")
	told("Restore", func(ctx context.Context) error {
		_, err := maintenance.Restore(ctx, copied, path, db.Options{})
		return err
	}, "copy", "check")
	told("Salvage", func(ctx context.Context) error {
		_, err := maintenance.Salvage(ctx, path, filepath.Join(dir, "salvaged.db"), maintenance.SalvageOptions{})
		return err
	}, "salvage", "check", "read")
	dbtest.Check(t, path)
}
