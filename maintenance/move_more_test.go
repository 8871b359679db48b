package maintenance_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/legacy"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

func TestAMoveIsAbandonedUntilItIsComplete(t *testing.T) { isAbandoned(t, dbtest.Path(t)) }

func isAbandoned(t *testing.T, to string) {
	ctx := t.Context()
	from := dbtest.Path(t)
	filled(t, from, 1)
	for _, sweep := range []bool{true, false, true} {
		for at := 5; ; at++ { // until it is stopped when rows have come there
			if came, err := stopped(t, from, to, at); !came || !errors.Is(err, t.Context().Err()) && err == nil {
				t.Fatalf("it was not stopped: %v", err)
			}
			if _, err := db.Open(ctx, to, db.Options{ReadOnly: true}); errors.Is(err, db.ErrMoved) {
				break
			}
		}
		if _, err := db.Open(ctx, from, db.Options{}); !errors.Is(err, db.ErrMoved) {
			t.Errorf("what is under way is open for writing: %v", err)
		}
		place := ""
		if sweep {
			place = to
		}
		did, err := maintenance.AbandonMove(ctx, from, place, db.Options{})
		if err != nil || did.Swept != sweep {
			t.Fatalf("%+v, %v", did, err)
		}
		if !opened(ctx, from) {
			t.Error("what was given back takes no work")
		}
		if sweep {
			d := dbtest.OpenAt(t, to, db.Options{})
			problems, err := d.Check(ctx)
			stats, failed := d.Stats(ctx)
			if err = errors.Join(err, failed, d.Close()); err != nil || len(problems) > 0 {
				t.Errorf("what was swept: %v, %v", problems, err)
			}
			for _, table := range stats.Tables {
				if table.Rows > 1 && table.Name != "moves" && table.Name != "goose_db_version" {
					t.Errorf("%s has %d rows", table.Name, table.Rows)
				}
			}
		}
	}
	report, err := maintenance.Move(ctx, from, to, db.Options{})
	if err != nil || !opened(ctx, to) {
		t.Fatal(err)
	}
	if _, err := maintenance.AbandonMove(ctx, from, to, db.Options{}); !errors.Is(err, db.ErrMoved) {
		t.Errorf("a complete move was abandoned: %v", err)
	}
	if again, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil || !again.Already ||
		again.SHA256 != report.SHA256 {
		t.Errorf("%+v, %v", again, err)
	}
}

// What was moved stays as it was, and a copy of it is no more than that: no newer program writes it either.
func TestUp_MovedFileSaysSo(t *testing.T) {
	ctx := t.Context()
	from, copied, place := dbtest.Path(t), filepath.Join(t.TempDir(), "copied.db"), dbtest.Path(t)
	filled(t, from, 1)
	if _, err := maintenance.Move(ctx, from, dbtest.Path(t), db.Options{}); err != nil {
		t.Fatal(err)
	}
	d := dbtest.OpenAt(t, from, db.Options{ReadOnly: true})
	if err := errors.Join(d.Backup(ctx, copied), d.Close()); err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"up": func() error { _, err := maintenance.Migrate(ctx, from, db.Options{}); return err },
		"down": func() error {
			_, err := maintenance.Migrate(ctx, from, db.Options{SchemaVersion: 19})
			return err
		},
		"up a copy": func() error { _, err := maintenance.Migrate(ctx, copied, db.Options{}); return err },
		"compact":   func() error { _, err := maintenance.Compact(ctx, from, db.Options{}); return err },
		"restore":   func() error { _, err := maintenance.Restore(ctx, copied, place, db.Options{}); return err },
	} {
		if err := try(); !errors.Is(err, db.ErrMoved) || strings.Contains(db.Hint(err), "newer") {
			t.Errorf("%s: %v; its hint is %q", what, err, db.Hint(err))
		}
	}
}

func TestAMoveIsRefusedWhileTheFileIsOpen(t *testing.T) {
	from, to := dbtest.Path(t), filepath.Join(t.TempDir(), "to.db")
	filled(t, from, 1)
	d := dbtest.OpenAt(t, from, db.Options{})
	_, err := maintenance.Move(t.Context(), from, to, db.Options{LockTimeout: 200 * time.Millisecond})
	if !errors.Is(err, db.ErrBusy) {
		t.Error(err)
	}
	if err := runs.NewStore(d, runs.Options{}).WriteStarted(t.Context(),
		runs.Started{RunID: "on", AgentID: "a", StartedAt: theTime}); err != nil {
		t.Errorf("who has it open can't write any more: %v", err)
	}
}

func TestATargetThatHoldsAnythingIsRefused(t *testing.T) {
	from, to := dbtest.Path(t), dbtest.Path(t)
	filled(t, from, 1)
	d := dbtest.OpenAt(t, to, db.Options{})
	if err := runs.NewStore(d, runs.Options{}).WriteStarted(t.Context(),
		runs.Started{RunID: "r", AgentID: "a", StartedAt: theTime}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Move(t.Context(), from, to, db.Options{}); !errors.Is(err, db.ErrConflict) ||
		!opened(t.Context(), from) {
		t.Error(err)
	}
}

func TestMove_RefusedRowNamesWayOut(t *testing.T) { isRefused(t, dbtest.Path(t)) }

// SQLite's own shell checks no foreign keys.
func isRefused(t *testing.T, to string) {
	from := filepath.Join(t.TempDir(), "from.db")
	filled(t, from, 1)
	execFile(t, from, "PRAGMA foreign_keys = off; DELETE FROM scopes WHERE name = 'other'")
	_, err := maintenance.Move(t.Context(), from, to, db.Options{})
	if !errors.Is(err, db.ErrCorrupt) || !strings.Contains(db.Hint(err), "--abandon --to ") {
		t.Errorf("%v; the hint is %q", err, db.Hint(err))
	}
	_, err = maintenance.AbandonMove(t.Context(), from, to, db.Options{})
	if err != nil || !opened(t.Context(), from) {
		t.Errorf("the source is not given back: %v", err)
	}
}

func TestCursorsAndClaimsGoOnBehindAMove(t *testing.T) { goOnBehind(t, dbtest.Path(t)) }

func goOnBehind(t *testing.T, to string) {
	ctx := t.Context()
	from := dbtest.Path(t)
	filled(t, from, 1)
	d := dbtest.OpenAt(t, from, db.Options{})
	traces := runs.NewStore(d, runs.Options{})
	var want []string
	for r, err := range traces.All(ctx, runs.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r.RunID)
	}
	first, err := traces.Page(ctx, runs.Filter{}, db.At{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	there := dbtest.OpenAt(t, to, db.Options{})
	traces = runs.NewStore(there, runs.Options{})
	got := []string{first.Items[0].RunID}
	for at := first.Next; at != ""; {
		page, err := traces.Page(ctx, runs.Filter{}, db.At{After: at, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Items {
			got = append(got, r.RunID)
		}
		at = page.Next
	}
	sameLines(t, to, want, got)

	if n, err := checkpoints.NewStore(there, checkpoints.Options{}).Recover(ctx); err != nil || n != 1 {
		t.Errorf("%d claims of the process that had them there, %v", n, err)
	}
	var ids []int64 // a new row has a number that none has had
	err = there.Write(ctx, "a new scope", func(tx *db.Tx) error {
		var highest int64
		if err := tx.Get(&highest, `SELECT max(id) FROM scopes`); err != nil {
			return err
		}
		ids = append(ids[:0], highest)
		_, err := tx.Exec(`INSERT INTO scopes (name) VALUES ('new')`)
		if err == nil {
			err = tx.Get(&highest, `SELECT id FROM scopes WHERE name = 'new'`)
		}
		ids = append(ids, highest)
		return err
	})
	if err != nil || ids[1] <= ids[0] {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestExportsAreTheSameBehindAMove(t *testing.T) {
	exportsStay(t, dbtest.Path(t), "small", "awkward")
}

// exportsStay imports recorded trees, those of these names or all, each into a scope, moves all of
// it to a place and back, and compares the exports.
func exportsStay(t *testing.T, place string, names ...string) {
	ctx := t.Context()
	from, back := dbtest.Path(t), dbtest.Path(t)
	d := dbtest.OpenAt(t, from, db.Options{Synchronous: db.SyncNormal})
	type taken struct {
		kind  legacy.Kind
		scope string
	}
	var trees []taken
	for _, kind := range legacy.Kinds() {
		list, err := replay.Trees(string(kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, tree := range list {
			if len(names) > 0 && !slices.Contains(names, path.Base(tree.Name)) {
				continue
			}
			dir := t.TempDir()
			if err := tree.Unpack(dir); err != nil {
				t.Fatal(err)
			}
			found, err := legacy.Recognise(dir, legacy.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if f.Kind != kind {
					continue
				}
				if _, err := legacy.Import(ctx, d, kind, f.Dir, legacy.Options{Scope: tree.Name}); err != nil {
					t.Fatalf("%s: %v", tree.Name, err)
				}
				trees = append(trees, taken{kind, tree.Name})
			}
		}
	}
	exports := func(d *db.DB) map[string]string {
		files := map[string]string{}
		for _, one := range trees {
			out := filepath.Join(t.TempDir(), "out")
			if _, err := legacy.Export(ctx, d, one.kind, out, legacy.Options{Scope: one.scope}); err != nil {
				t.Fatalf("%s: %v", one.scope, err)
			}
			err := fs.WalkDir(os.DirFS(out), ".", func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				text, err := os.ReadFile(filepath.Join(out, name))
				files[path.Join(one.scope, name)] = string(text)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	want := exports(d)
	if err := d.Close(); err != nil || len(trees) < 8 {
		t.Fatalf("%d trees, %v", len(trees), err)
	}
	for _, way := range [][2]string{{from, place}, {place, back}} {
		if _, err := maintenance.Move(ctx, way[0], way[1], db.Options{}); err != nil {
			t.Fatal(err)
		}
		d := dbtest.OpenAt(t, way[1], db.Options{})
		got := exports(d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if got[name] != text {
				t.Errorf("from %s %s leaves as other bytes", way[1], name)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%d files leave %s, and not %d", len(got), way[1], len(want))
		}
	}
}
