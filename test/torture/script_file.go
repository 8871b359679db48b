package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
)

// openScript makes the file, closes it and opens it again.
func openScript() script {
	open := op{name: "open", do: func(ctx context.Context,
		s *session,
	) error {
		return s.open(ctx, db.Options{})
	}}
	return script{
		name: "open", closed: true,
		first: wholeBirth,
		ops: []op{
			open,
			whenOpen(startOp("run-1")),
			{name: "close", do: func(_ context.Context, s *session) error { return s.close() }},
			open,
			whenOpen(turnsOp("run-1", "one", 1, 100)),
		},
	}
}

// wholeBirth examines a file that no process has opened for writing since: it is there, or it is
// not, or it has no schema yet.
func wholeBirth(ctx context.Context, folder string) error {
	s := &session{folder: folder}
	err := s.open(ctx, db.Options{ReadOnly: true, AnySchema: true})
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open to read: %w", err)
	}
	have, err := s.db.Schema(ctx)
	if err == nil && have.Version != 0 && have.Version != maintenance.SchemaVersion() {
		err = fmt.Errorf("the new file has schema %d", have.Version)
	}
	return errors.Join(err, s.close())
}

// whenOpen opens the file once more if opening it failed.
func whenOpen(o op) op {
	do := o.do
	o.do = func(ctx context.Context, s *session) error {
		if s.db == nil {
			if err := s.open(ctx, db.Options{}); err != nil {
				return err
			}
		}
		return do(ctx, s)
	}
	return o
}

// recoverScript opens a file that a killed process left, with a WAL that holds everything.
func recoverScript() script {
	sc := openScript()
	sc.name, sc.abandoned, sc.first = "recover", true, nil
	sc.prepare = func(ctx context.Context, s *session) error {
		return errors.Join(start(ctx, s, "run-0"),
			traces(s).AppendTurns(ctx, agent, "run-0", turns("old", 3, 5000)))
	}
	sc.whole = func(ctx context.Context, s *session) error {
		what, err := lookForTurns("run-0", "old", 3, 5000)(ctx, s)
		if err == nil && what != done {
			err = fmt.Errorf("what was there before is %s", what)
		}
		return err
	}
	return sc
}

// walScript appends to a WAL that is about to be moved into the file and begun again.
func walScript() script {
	sc := script{
		name: "wal", abandoned: true,
		prepare: func(ctx context.Context, s *session) error {
			if err := start(ctx, s, "run-0"); err != nil {
				return err
			}
			for i := range 3 {
				if err := traces(s).AppendTurns(ctx, agent, "run-0",
					turns(fmt.Sprint("old", i), 1, 5_300_000)); err != nil {
					return err
				}
			}
			return start(ctx, s, "run-1")
		},
	}
	for i := range 4 {
		sc.ops = append(sc.ops, turnsOp("run-1", fmt.Sprint("new", i), 1, 200_000))
	}
	return sc
}

// retentionScript removes the runs that are too many. It does so in batches, and a part of it may
// have been done.
func retentionScript() script {
	const have, kept = 30, 5
	limits := runs.RetentionConfig{MaxPerAgent: kept, MaxAgeDays: 10_000}
	return script{
		name: "retention",
		prepare: func(ctx context.Context, s *session) error {
			for i := range have {
				run := fmt.Sprintf("run-%02d", i)
				if err := errors.Join(start(ctx, s, run), traces(s).AppendTurns(ctx, agent, run, turns("old", 3, 1000)),
					endOp(run).do(ctx, s)); err != nil {
					return err
				}
			}
			return nil
		},
		ops: []op{
			{
				name: "gc", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := runs.NewStore(s.db, runs.Options{Retention: &limits}).GC(ctx)
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					list, err := traces(s).ListRuns(ctx, agent)
					if err != nil {
						return "", err
					}
					list = slices.DeleteFunc(list, func(r runs.RunSummary) bool {
						return !strings.HasPrefix(r.RunID,
							"run-")
					})
					return parts(have-len(list), have-kept), wholeRuns(ctx, s, list)
				},
			},
			startOp("next"),
		},
	}
}

func wholeRuns(ctx context.Context, s *session, list []runs.RunSummary) error {
	for _, run := range list {
		if what, err := lookForTurns(run.RunID, "old", 3, 1000)(ctx, s); err != nil || what != done {
			return fmt.Errorf("the turns of %s are %s: %w", run.RunID, what, err)
		}
	}
	return nil
}

// backupScript copies the file while it is in use.
func backupScript() script {
	copyOf := func(s *session) string { return filepath.Join(s.folder, "copy.db") }
	return script{
		name: "backup",
		prepare: func(ctx context.Context, s *session) error {
			return errors.Join(start(ctx, s, "run-0"),
				traces(s).AppendTurns(ctx, agent, "run-0", turns("old", 3, 5000)))
		},
		ops: []op{
			startOp("run-1"),
			{
				name: "backup",
				do:   func(ctx context.Context, s *session) error { return s.db.Backup(ctx, copyOf(s)) },
				look: func(ctx context.Context, s *session) (trace, error) { return lookForCopy(ctx, s, copyOf(s)) },
				left: func(s *session) []string {
					entries, _ := os.ReadDir(s.folder) // what can't be read has nothing to be blamed for
					var names []string
					for _, e := range entries {
						if strings.Contains(e.Name(), "copy.db") {
							names = append(names, e.Name())
						}
					}
					return names
				},
			},
			startOp("run-2"),
		},
	}
}

// lookForCopy opens a backup as a user of it would.
func lookForCopy(ctx context.Context, s *session, path string) (_ trace, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return absent, nil
	}
	c := &session{folder: s.folder}
	if c.db, err = db.Open(ctx, path, db.Options{ReadOnly: true}); err != nil {
		return "", fmt.Errorf("open the copy: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if problems := c.check(ctx); len(problems) > 0 {
		return "", errors.New(strings.Join(problems, "; "))
	}
	return lookForTurns("run-0", "old", 3, 5000)(ctx, c)
}

// oldSchema is the version of the file that migrateScript begins with.
const oldSchema = 3

// migrateScript opens a file of an older schema.
func migrateScript() script {
	const insert = `
INSERT INTO runs (scope, agent_id, run_id, intent, started_at, status, others)
	VALUES (?, ?, ?, 'be tortured', ?, 'in_progress', 0)`
	return script{
		name: "migrate", closed: true, schema: oldSchema,
		prepare: func(ctx context.Context, s *session) error {
			return s.db.Write(ctx, "prepare", func(tx *db.Tx) error {
				scope, err := tx.Store().Scope("")
				if err != nil {
					return err
				}
				for i := range 40 {
					if _, err := tx.Exec(insert, scope, agent, fmt.Sprintf("old-%02d", i),
						db.Nanos(theClock())); err != nil {
						return err
					}
				}
				return nil
			})
		},
		ops: []op{
			{name: "open", do: func(ctx context.Context,
				s *session,
			) error {
				return s.open(ctx, db.Options{LockTimeout: time.Second})
			}},
			whenOpen(startOp("run-1")),
		},
		first: wholeSchema,
		whole: func(ctx context.Context, s *session) error {
			list, err := traces(s).ListRuns(ctx, agent)
			n := 0
			for _, run := range list {
				if strings.HasPrefix(run.RunID, "old-") {
					n++
				}
			}
			if err == nil && n != 40 {
				err = fmt.Errorf("of 40 old runs %d are there", n)
			}
			return err
		},
	}
}

// wholeSchema examines a file before it is migrated: all of an upgrade has happened, or nothing.
func wholeSchema(ctx context.Context, folder string) (err error) {
	s := &session{folder: folder}
	if s.db, err = db.Open(ctx, s.path(), db.Options{ReadOnly: true, AnySchema: true}); err != nil {
		return fmt.Errorf("open without migrating: %w", err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	have, err := s.db.Schema(ctx)
	if err == nil && have.Version != oldSchema && have.Version != maintenance.SchemaVersion() {
		err = fmt.Errorf("the file has schema %d, between %d and %d", have.Version, oldSchema,
			maintenance.SchemaVersion())
	}
	return err
}
