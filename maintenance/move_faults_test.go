package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// A source whose last commit was lost, as by a server that failed over or by a copy that was laid
// back, knows nothing of its move's end.
func TestMove_SourceWithoutEndMarkStaysClosed(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Path(t)
	filled(t, from, 1)
	kept := filepath.Join(t.TempDir(), "kept.db")
	ctxStop, stop := context.WithCancel(ctx)
	told := db.WithProgress(ctxStop, func(p db.Progress) {
		if p.Step == "complete" {
			stop()
		}
	})
	if _, err := maintenance.Move(told, from, to, db.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	laidAside(t, from, kept)
	want, err := maintenance.Move(ctx, from, to, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	laidAside(t, kept, from)
	_, err = maintenance.AbandonMove(ctx, from, to, db.Options{})
	if !errors.Is(err, db.ErrMoved) || opened(ctx, from) {
		t.Errorf("given back beside what takes its work: %v", err)
	}
	got, err := maintenance.Move(ctx, from, to, db.Options{})
	if err != nil || !got.Already || got.SHA256 != want.SHA256 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = maintenance.AbandonMove(ctx, from, "", db.Options{})
	if !errors.Is(err, db.ErrMoved) || opened(ctx, from) {
		t.Errorf("given back: %v", err)
	}
}

// A target may lose what came last, while the source is shut for ever already.
func TestMove_LostRowsAreCopiedAgain(t *testing.T) {
	ctx := t.Context()
	from, to := dbtest.Path(t), dbtest.Path(t)
	filled(t, from, 1)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "kept.db")
	until := func(step string) {
		t.Helper()
		ctx, stop := context.WithCancel(ctx)
		n := 0
		told := db.WithProgress(ctx, func(p db.Progress) {
			if n++; p.Step == step && (step != "copy" || n > 6) {
				stop()
			}
		})
		if _, err := maintenance.Move(told, from, to, db.Options{}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	until("copy")
	laidAside(t, to, kept)
	until("open")
	laidAside(t, kept, to)
	moveAlike(t, from, to, want)
}

// laidAside copies a file that nobody has open.
func laidAside(t *testing.T, from, to string) {
	t.Helper()
	for _, beside := range []string{"-wal", "-shm"} {
		if err := os.Remove(to + beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	bytes, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, bytes, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := os.Stat(from + "-wal"); err == nil && rest.Size() > 0 {
		t.Fatal("what was closed has a WAL")
	}
}

// mover moves one place to another, and stops with the word of a step until it is killed.
func mover(args []string) error {
	ctx := db.WithProgress(context.Background(), func(p db.Progress) {
		if p.Step == args[2] && (p.Step != "copy" || p.Done > 0) {
			fmt.Println(p.Step)
			_, _ = io.Copy(io.Discard, os.Stdin) // whose end never comes
		}
	})
	return unheld(func() error {
		_, err := maintenance.Move(ctx, args[0], args[1], db.Options{})
		return err
	})
}

// unheld calls again as long as a server has not ended the connection of a process that was killed.
func unheld(call func() error) (err error) {
	for err = call(); errors.Is(err, db.ErrBusy); {
		err = call()
	}
	return err
}

func TestMove_KilledResumesOrIsAbandoned(t *testing.T) { survivesKills(t, dbtest.Path(t)) }

func survivesKills(t *testing.T, to string) {
	ctx := t.Context()
	from := dbtest.Path(t)
	filled(t, from, 1)
	want, err := answers(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	kill := func(step string) {
		t.Helper()
		p := dbtest.Start(t, "mover", from, to, step)
		p.Expect(step)
		p.Kill()
		if opened(ctx, from) && opened(ctx, to) {
			t.Fatalf("both take work behind a kill at %s", step)
		}
	}
	for _, step := range []string{"look", "shut", "prepare", "copy", "compare", "complete", "open"} {
		kill(step)
		err := unheld(func() error {
			_, err := maintenance.AbandonMove(ctx, from, to, db.Options{})
			return err
		})
		switch step {
		case "look", "shut":
			if !errors.Is(err, db.ErrNotFound) {
				t.Errorf("abandoned behind a kill at %s: %v", step, err)
			}
		default:
			if err != nil || !opened(ctx, from) {
				t.Errorf("abandoned behind a kill at %s: %v", step, err)
			}
			kill(step)
		}
	}
	if err := unheld(func() error {
		_, err := maintenance.Move(ctx, from, to, db.Options{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	got, err := answers(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	sameLines(t, to, want, got)
}
