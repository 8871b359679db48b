package maintenance_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// stoppedAt moves until a step says its first word, or where it is "copy" until rows have come.
func stoppedAt(t *testing.T, from, to, step string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := db.WithProgress(ctx, func(p db.Progress) {
		if p.Step == step && (step != "copy" || p.Done > 0) {
			stop()
		}
	})
	if _, err := maintenance.Move(told, from, to, db.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was not stopped at %s: %v", step, err)
	}
}

func takenAway(t *testing.T, path string) {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestMove_AbandonsHalfFilledTargetWithLostSource(t *testing.T) {
	isGivenUp(t, dbtest.Path(t), func(to string) { takenAway(t, to) })
}

// isGivenUp loses the source of a move that is under way, and does then what every error of who
// comes to the target says.
func isGivenUp(t *testing.T, to string, drop func(to string)) {
	ctx := t.Context()
	from, backup := dbtest.Path(t), filepath.Join(t.TempDir(), "backup.db")
	filled(t, from, 1)
	copyOf(t, from, backup)
	stoppedAt(t, from, to, "copy")
	takenAway(t, from)
	for what, try := range map[string]func() error{
		"open":    func() error { _, err := db.Open(ctx, to, db.Options{}); return err },
		"move":    func() error { _, err := maintenance.Move(ctx, backup, to, db.Options{}); return err },
		"abandon": func() error { _, err := maintenance.AbandonMove(ctx, backup, to, db.Options{}); return err },
		"itself":  func() error { _, err := maintenance.AbandonMove(ctx, to, "", db.Options{}); return err },
	} {
		var err error
		dbtest.Await(t, "the server has ended the move", func() bool {
			err = try()
			return !errors.Is(err, db.ErrBusy)
		})
		if !errors.Is(err, db.ErrMoved) || !strings.Contains(db.Hint(err), "DROP SCHEMA") ||
			!strings.Contains(db.Hint(err), "remove this file") {
			t.Errorf("%s: %v; its hint is %q", what, err, db.Hint(err))
		}
	}
	if !opened(ctx, backup) {
		t.Fatal("a move that was refused has shut its source")
	}
	drop(to)
	if _, err := maintenance.Move(ctx, backup, to, db.Options{}); err != nil || !opened(ctx, to) {
		t.Error(err)
	}
}

// A source that lost the end of its move, as a server may that failed over, would take work beside
// its target.
func TestMove_AbandonWithoutTargetStillChecksIt(t *testing.T) {
	looksAtTheTarget(t, dbtest.Path(t), func(to string) { takenAway(t, to) })
}

func looksAtTheTarget(t *testing.T, to string, drop func(to string)) {
	ctx := t.Context()
	from, kept := dbtest.Path(t), filepath.Join(t.TempDir(), "kept.db")
	filled(t, from, 1)
	stoppedAt(t, from, to, "complete")
	laidAside(t, from, kept)
	if _, err := maintenance.Move(ctx, from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	laidAside(t, kept, from)
	_, err := maintenance.AbandonMove(ctx, from, "", db.Options{})
	if !errors.Is(err, db.ErrMoved) || opened(ctx, from) {
		t.Errorf("given back beside what takes its work: %v", err)
	}
	elsewhere := dbtest.Path(t)
	if err := dbtest.OpenAt(t, elsewhere, db.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.AbandonMove(ctx, from, elsewhere, db.Options{}); !errors.Is(err, db.ErrInvalid) ||
		opened(ctx, from) {
		t.Errorf("given back by the word of another place: %v", err)
	}
	drop(to)
	did, err := maintenance.AbandonMove(ctx, from, "", db.Options{})
	if err != nil || did.Swept || !opened(ctx, from) {
		t.Errorf("not given back where the target is gone: %+v, %v", did, err)
	}
}

func TestMove_UnreachableTargetKeepsSourceUntilLost(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), filepath.Join(t.TempDir(), "to.db")
	filled(t, from, 1)
	stoppedAt(t, from, to, "copy")
	if err := os.WriteFile(to, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := maintenance.AbandonMove(ctx, from, "", db.Options{}); err == nil ||
		!strings.Contains(db.Hint(err), "--lost") || opened(ctx, from) {
		t.Errorf("%v; its hint is %q", err, db.Hint(err))
	}
	if did, err := maintenance.AbandonMoveToLost(ctx, from, db.Options{}); err != nil || did.To != to ||
		!opened(ctx, from) {
		t.Errorf("%+v, %v", did, err)
	}
}

// What a move compares may differ when its source is complete already: then too there is a way back.
func TestAMoveIsAbandonedUntilItsTargetIsOpen(t *testing.T) {
	isAbandonedUntilOpen(t, dbtest.Path(t), func(to, statement string) { execFile(t, to, statement) })
}

// isAbandonedUntilOpen has somebody change a row behind everybody's back.
func isAbandonedUntilOpen(t *testing.T, to string, exec func(to, statement string)) {
	ctx := t.Context()
	from := dbtest.Path(t)
	filled(t, from, 1)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	stoppedAt(t, from, to, "open")
	exec(to, `UPDATE runs SET intent = 'another' WHERE key = (SELECT min(key) FROM runs)`)
	report, err := maintenance.Move(ctx, from, to, db.Options{})
	if !errors.Is(err, db.ErrConflict) || len(report.Differs) == 0 ||
		!strings.Contains(db.Hint(err), "--abandon --to") {
		t.Fatalf("%+v, %v; its hint is %q", report.Differs, err, db.Hint(err))
	}
	if _, err := maintenance.AbandonMove(ctx, from, "", db.Options{}); !errors.Is(err, db.ErrMoved) ||
		!strings.Contains(db.Hint(err), "--abandon --to") || opened(ctx, from) {
		t.Errorf("given back beside a target that may be opened: %v; its hint is %q", err, db.Hint(err))
	}
	did, err := maintenance.AbandonMove(ctx, from, to, db.Options{})
	if err != nil || !did.Swept || !opened(ctx, from) {
		t.Fatalf("%+v, %v", did, err)
	}
	moveAlike(t, from, to, want)
}

func TestMove_TooOldFileIsNamed(t *testing.T) {
	ctx := t.Context()
	path, to := dbtest.Path(t), dbtest.Path(t)
	if _, err := maintenance.Migrate(ctx, path, db.Options{SchemaVersion: 19}); err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]func() error{
		"move":    func() error { _, err := maintenance.Move(ctx, path, to, db.Options{}); return err },
		"abandon": func() error { _, err := maintenance.AbandonMove(ctx, path, "", db.Options{}); return err },
	} {
		if err := try(); !errors.Is(err, db.ErrInvalid) || !strings.Contains(db.Hint(err), "migrate up") {
			t.Errorf("%s: %v; its hint is %q", what, err, db.Hint(err))
		}
	}
}
