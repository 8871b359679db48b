package legacy

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// The last record of an open trace, and the last event of a runtime, have no other row that needs them.
func TestCheck_NoticesLostLastRecords(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "damaged.db")
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	open := folder{"a/r.jsonl": startedLine("a", "r") + turnLine(0) + turnLine(1)}.in(t, t.TempDir())
	trees := map[Kind]string{Runs: open, Workers: treesOfAll(t)[Workers]}
	for kind, dir := range trees {
		if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "ours"}); err != nil {
		t.Fatal(err)
	}
	for lost, rows := range map[string]string{
		"was taken up to line 3 of run r, which is lost": `run_records WHERE id = (SELECT max(id) FROM run_records
	WHERE id >> 24 = (SELECT key FROM runs WHERE run_id = 'r'))`,
		" events of runtime ": `worker_events WHERE id = (SELECT max(id) FROM worker_events
	WHERE id >> 40 = (SELECT min(key) FROM worker_runtimes WHERE created_at IS NULL))`,
		"says that its last event is at place": `worker_events WHERE id = (SELECT max(id) FROM worker_events
	WHERE id >> 40 = (SELECT max(key) FROM worker_runtimes WHERE created_at IS NOT NULL))`,
	} {
		if problems := checked(t, d); strings.Contains(problems, lost) {
			t.Errorf("before: %s", problems)
		}
		err := d.Write(ctx, "lose a row", func(tx *db.Tx) error {
			n, err := tx.Exec("DELETE FROM " + rows)
			if err == nil && n != 1 {
				t.Errorf("%d rows of %s", n, rows)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if problems := checked(t, d); !strings.Contains(problems, lost) {
			t.Errorf("not noticed: %s; the check says: %s", lost, problems)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	mended := filepath.Join(t.TempDir(), "mended.db")
	if _, err := maintenance.Salvage(ctx, path, mended, maintenance.SalvageOptions{}); err != nil {
		t.Fatal(err)
	}
	d = dbtest.OpenAt(t, mended, db.Options{})
	if problems := checked(t, d); problems != "" {
		t.Errorf("salvaged: %s", problems)
	}
	for kind, dir := range trees {
		if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
			t.Error(err)
		}
	}
}

// checked returns the problems that the check of a file finds, in words.
func checked(t *testing.T, d *db.DB) string {
	t.Helper()
	x, err := maintenance.Examine(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range x.Problems {
		found = append(found, p.Detail)
	}
	return strings.Join(found, "\n")
}

// An imported runtime may have the empty id, which elsewhere stands for a new one.
func TestCheck_StartsNoRuntime(t *testing.T) {
	d, _ := fileAt(t)
	dir := t.TempDir()
	newNovelTree(3, 5023).files(Workers).below(t, dir)
	if _, err := Import(context.Background(), d, Workers, dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if problems := checked(t, d); problems != "" {
		t.Error(problems)
	}
	if _, err := maintenance.Check(context.Background(), d); err != nil {
		t.Error(err)
	}
	if ids := selected[string](t, d, `SELECT runtime_id FROM worker_runtimes`); len(ids) != 1 || ids[0] != "" {
		t.Errorf("there are %q", ids)
	}
}
