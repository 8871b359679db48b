package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/maintenance"
)

// Copies of the file that users lay into its place: as it was at rest, and a backup.
const (
	restCopy   = "rest.db"
	backupCopy = "copy.db"
)

// makeCopies makes both of a file with a run.
func makeCopies(ctx context.Context, s *session) error {
	err := errors.Join(start(ctx, s, "run-0"), s.db.Backup(ctx, filepath.Join(s.folder, backupCopy)), s.close())
	if err == nil {
		err = copyFile(s.path(), filepath.Join(s.folder, restCopy))
	}
	return errors.Join(err, s.open(ctx, db.Options{}))
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// foreignScript writes through WALs that begin, restart, are truncated and are removed. Whatever
// remains of the last one, it is never applied to a copy that is laid over the file, and always
// to the file itself, wherever both lie.
func foreignScript() script {
	open := op{name: "open", do: func(ctx context.Context,
		s *session,
	) error {
		return s.open(ctx, db.Options{})
	}}
	checkpoint := op{name: "checkpoint", do: movesWAL}
	giveBack := whenOpen(op{
		name: "give back",
		do:   giveBack,
	})
	return script{
		name: "foreign", closed: true, prepare: makeCopies,
		first: func(ctx context.Context, folder string) error {
			return errors.Join(elsewhereOpens(ctx, folder), layCopies(ctx, folder))
		},
		ops: []op{
			open,
			whenOpen(startOp("run-1")),
			giveBack,
			whenOpen(turnsOp("run-1", "one", 1, 100)),
			{name: "close", do: func(_ context.Context, s *session) error { return s.close() }},
			open,
			whenOpen(turnsOp("run-1", "two", 3, 1_500_000)), // more than the page cache holds
			checkpoint,
			whenOpen(turnsOp("run-1", "three", 1, 100)),
			checkpoint,
			whenOpen(turnsOp("run-1", "four", 3, 1_500_000)),
		},
	}
}

// movesWAL checkpoints the WAL into the file, as any program with SQLite may: the next commit
// restarts it, over the earlier content.
func movesWAL(ctx context.Context, s *session) error {
	pool, err := sql.Open("sqlite", "file:"+s.path())
	if err != nil {
		return err
	}
	_, err = pool.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return errors.Join(err, pool.Close())
}

// elsewhereOpens opens a copy of the file with its WAL, under another name.
func elsewhereOpens(ctx context.Context, folder string) error {
	return inCopy(folder, func(s *session) error {
		for _, suffix := range []string{"", "-wal"} {
			err := os.Rename(s.path()+suffix, filepath.Join(s.folder, backupCopy+suffix))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		d, err := db.Open(ctx, filepath.Join(s.folder, backupCopy), db.Options{Now: theClock})
		if err != nil {
			return fmt.Errorf("a copy of the file and its WAL: %w", err)
		}
		s.db = d
		return whole(ctx, s, "the copy of the file and its WAL")
	})
}

// layCopies lays each copy over the file and opens that: it is refused, and nothing is changed, or
// it is the copy.
func layCopies(ctx context.Context, folder string) (failed error) {
	for _, name := range []string{restCopy, backupCopy} {
		failed = errors.Join(failed, inCopy(folder, func(s *session) error {
			if err := copyFile(filepath.Join(s.folder, name), s.path()); err != nil {
				return err
			}
			err := s.open(ctx, db.Options{})
			if errors.Is(err, db.ErrReplaced) {
				return sameFile(filepath.Join(s.folder, name), s.path())
			}
			if err != nil {
				return fmt.Errorf("%s over the file: %w", name, err)
			}
			what, err := startOp("run-1").look(ctx, s)
			if err == nil && what != absent {
				err = fmt.Errorf("%s over the file: what came later is %s", name, what)
			}
			return errors.Join(err, whole(ctx, s, name+" over the file"))
		}))
	}
	return failed
}

// inCopy runs fn on a copy of the folder, which is removed behind it.
func inCopy(folder string, fn func(s *session) error) (err error) {
	s := &session{}
	if s.folder, err = os.MkdirTemp(filepath.Dir(folder), "laid-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(), os.RemoveAll(s.folder)) }()
	if err := os.CopyFS(s.folder, os.DirFS(folder)); err != nil {
		return err
	}
	return fn(s)
}

func whole(ctx context.Context, s *session, what string) error {
	if problems := s.check(ctx); len(problems) > 0 {
		return fmt.Errorf("%s: %s", what, strings.Join(problems, "; "))
	}
	return nil
}

func sameFile(a, b string) error {
	one, err := os.ReadFile(a)
	other, errOther := os.ReadFile(b)
	if err = errors.Join(err, errOther); err == nil && !slices.Equal(one, other) {
		err = fmt.Errorf("%s was refused and changed", a)
	}
	return err
}

// restoreForeignScript restores a backup where a copy was laid over the file, beside the WAL that a
// killed program left.
func restoreForeignScript() script {
	begin := whenOpen(startOp("run-2"))
	next := begin.do
	begin.do = func(ctx context.Context, s *session) error {
		if s.db == nil {
			if err := moveAway(ctx, s.folder); err != nil {
				return err
			}
		}
		return next(ctx, s)
	}
	return script{
		name: "restore-foreign", closed: true, abandoned: true,
		prepare: func(ctx context.Context, s *session) error {
			err := errors.Join(makeCopies(ctx, s), start(ctx, s, "run-1"))
			return errors.Join(err, os.Rename(filepath.Join(s.folder, restCopy), s.path()))
		},
		first: moveAway,
		ops: []op{
			{
				name: "restore",
				do: func(ctx context.Context, s *session) error {
					_, err := maintenance.Restore(ctx, filepath.Join(s.folder, backupCopy), s.path(), db.Options{})
					return err
				},
			},
			begin,
		},
		whole: func(ctx context.Context, s *session) error {
			for run, want := range map[string]trace{"run-0": done, "run-1": absent} {
				what, err := startOp(run).look(ctx, s)
				if err == nil && what != want {
					err = fmt.Errorf("%s is %s", run, what)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// moveAway follows the hint about a foreign WAL.
func moveAway(ctx context.Context, folder string) error {
	s := &session{folder: folder}
	err := s.open(ctx, db.Options{ReadOnly: true})
	if errors.Is(err, db.ErrReplaced) {
		return os.Rename(s.path()+"-wal", s.path()+"-wal.old")
	}
	return errors.Join(err, s.close())
}
