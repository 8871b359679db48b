package maintenance_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func TestAMovedFileAnswersAsItDid(t *testing.T) { movesThereAndBack(t, dbtest.Path(t)) }

// movesThereAndBack moves a file with data of all stores to a place and on to another file, and
// asks all stores each time.
func movesThereAndBack(t *testing.T, place string) {
	ctx := t.Context()
	from, back := dbtest.Path(t), dbtest.Path(t)
	filled(t, from, 1)
	odd(t, from)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	var proofs []string
	for _, way := range [][2]string{{from, place}, {place, back}} {
		report, err := maintenance.Move(ctx, way[0], way[1], db.Options{})
		if err != nil {
			t.Fatalf("%v\n%+v", err, report.Differs)
		}
		if report.SHA256 != report.ToSHA256 || len(report.Differs) > 0 {
			t.Errorf("%+v", report)
		}
		proofs = append(proofs, report.SHA256)
		got, err := answers(ctx, way[1])
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, way[1], want, got)
		if _, err := db.Open(ctx, way[0], db.Options{}); !errors.Is(err, db.ErrMoved) ||
			!strings.Contains(err.Error(), report.To) {
			t.Errorf("what was moved is open for writing: %v", err)
		}
		dbtest.OpenAt(t, way[0], db.Options{ReadOnly: true})
	}
	if proofs[0] == "" || len(slices.Compact(proofs)) != 1 {
		t.Errorf("proofs: %q", proofs)
	}
}

// moveAlike moves a database, and expects the answers that there were.
func moveAlike(t *testing.T, from, to string, want []string) {
	t.Helper()
	if _, err := maintenance.Move(t.Context(), from, to, db.Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := answers(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, to, want, got)
}

func sameLines(t *testing.T, where string, want, got []string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Errorf("%s answers\n%.300s\nand not\n%.300s", where, got[i], want[i])
			return
		}
	}
	if len(want) != len(got) {
		t.Errorf("%s answers %d lines, and not %d", where, len(got), len(want))
	}
}

// odd adds what is rare: texts that no text of a server can be, nothing in place of bytes, and a
// run whose parent came later.
func odd(t *testing.T, path string) {
	t.Helper()
	ctx := t.Context()
	d := dbtest.OpenAt(t, path, db.Options{Now: atTheTime})
	s := runs.NewStore(d, runs.Options{})
	if err := s.WriteStarted(ctx, runs.Started{
		RunID: "odd", AgentID: "agent", Intent: "a\x00b\U0010FFFFc",
		StartedAt: theTime,
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteStarted(ctx, runs.Started{
		RunID: "later", AgentID: "agent",
		StartedAt: theTime,
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(ctx, "an odd row", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE runs SET parent = (SELECT max(key) FROM runs) WHERE run_id = 'odd'`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// stopped is a move that is stopped at the nth word that it gives of itself. It reports whether it
// came to that.
func stopped(t *testing.T, from, to string, at int) (bool, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n := 0
	told := db.WithProgress(ctx, func(db.Progress) {
		if n++; n == at {
			stop()
		}
	})
	_, err := maintenance.Move(told, from, to, db.Options{})
	return n >= at, err
}

func TestAMoveThatWasStoppedGoesOn(t *testing.T) { goesOn(t, func() string { return dbtest.Path(t) }) }

func goesOn(t *testing.T, place func() string) {
	ctx := t.Context()
	whole := dbtest.Path(t)
	filled(t, whole, 1)
	want, err := answers(ctx, whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, every := range []int{1, 2, 7} {
		from, to := filepath.Join(t.TempDir(), "from.db"), place()
		copyOf(t, whole, from)
		for tries := 0; ; tries++ {
			came, err := stopped(t, from, to, 1+every*(tries+1))
			if !came && err == nil {
				break
			}
			if err == nil {
				break // it was stopped behind its last step
			}
			if !errors.Is(err, context.Canceled) || tries > 1000 {
				t.Fatalf("stopped for the %d. time: %v", tries+1, err)
			}
			if opened(ctx, from) && opened(ctx, to) {
				t.Fatal("both take work")
			}
		}
		got, err := answers(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		sameLines(t, to, want, got)
	}
}

// opened reports whether a database takes work, and goes on with what was begun.
func opened(ctx context.Context, path string) bool {
	d, err := db.Open(ctx, path, db.Options{MustExist: true})
	if err != nil {
		return false
	}
	any := false
	for _, err = range runs.NewStore(d, runs.Options{}).All(ctx, runs.Filter{}) {
		any = true
		break
	}
	return errors.Join(err, d.Close()) == nil && any
}

// copyOf makes a copy of a file, as a backup is one.
func copyOf(t *testing.T, from, to string) {
	t.Helper()
	d := dbtest.OpenAt(t, from, db.Options{})
	if err := d.Backup(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if !opened(t.Context(), to) { // which makes it a file of its own
		t.Fatal("the copy can't be opened")
	}
}
