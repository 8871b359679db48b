package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
)

// Operations on a whole file, with no handle open on it, except for redaction.

// worked makes a file with runs, some of which were removed.
func worked(ctx context.Context, s *session) error {
	for i := range 6 {
		run := fmt.Sprint("run-", i)
		if err := errors.Join(start(ctx, s, run), traces(s).AppendTurns(ctx, agent, run, turns("old", 3, 5000)),
			endOp(run).do(ctx, s)); err != nil {
			return err
		}
		if i >= 3 {
			if err := traces(s).Delete(ctx, runs.RunRef{RunID: run, AgentID: agent}); err != nil {
				return err
			}
		}
	}
	return nil
}

// wholeWork is all that worked left.
func wholeWork(ctx context.Context, s *session) error {
	for i := range 3 {
		what, err := lookForTurns(fmt.Sprint("run-", i), "old", 3, 5000)(ctx, s)
		if err == nil && what != done {
			err = fmt.Errorf("run-%d is %s", i, what)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compactScript rewrites a file without its free pages.
func compactScript() script {
	return script{
		name: "compact", closed: true, prepare: worked, whole: wholeWork,
		ops: []op{
			{
				name: "compact",
				do: func(ctx context.Context, s *session) error {
					_, err := maintenance.Compact(ctx, s.path(), db.Options{})
					return err
				},
			},
			whenOpen(startOp("next")),
		},
	}
}

// salvageScript salvages the file's content into a new file.
func salvageScript() script {
	newFile := func(s *session) string { return filepath.Join(s.folder, "salvaged.db") }
	return script{
		name: "salvage", closed: true, prepare: worked, whole: wholeWork,
		ops: []op{
			{
				name: "salvage",
				do: func(ctx context.Context, s *session) error {
					_, err := maintenance.Salvage(ctx, s.path(), newFile(s), maintenance.SalvageOptions{})
					return err
				},
				look: func(ctx context.Context, s *session) (_ trace, err error) {
					if _, err := os.Stat(newFile(s)); errors.Is(err, fs.ErrNotExist) {
						return absent, nil
					} else if err != nil {
						return "", err
					}
					c := &session{folder: s.folder}
					if c.db, err = db.Open(ctx, newFile(s), db.Options{ReadOnly: true}); err != nil {
						return "", fmt.Errorf("open the new file: %w", err)
					}
					defer func() { err = errors.Join(err, c.close()) }()
					if problems := c.check(ctx); len(problems) > 0 {
						return "", errors.New(strings.Join(problems, "; "))
					}
					return done, wholeWork(ctx, c)
				},
				left: func(s *session) (names []string) {
					entries, _ := os.ReadDir(s.folder) // what can't be read has nothing to be blamed for
					for _, e := range entries {
						if strings.Contains(e.Name(), "salvaged.db") {
							names = append(names, e.Name())
						}
					}
					return names
				},
			},
			whenOpen(startOp("next")),
		},
	}
}

// redactScript erases a word wherever it occurs.
func redactScript() script {
	const have = 4
	secret := regexp.MustCompile("hunter2")
	return script{
		name: "redact",
		prepare: func(ctx context.Context, s *session) error {
			for i := range have {
				run := fmt.Sprint("run-", i)
				err := errors.Join(start(ctx, s, run), traces(s).AppendTurns(ctx, agent, run, turns("hunter2", 2, 3000)))
				if err != nil {
					return err
				}
			}
			return errors.Join(start(ctx, s, "kept"), traces(s).AppendTurns(ctx, agent, "kept", turns("old", 3, 5000)))
		},
		whole: func(ctx context.Context, s *session) error {
			what, err := lookForTurns("kept", "old", 3, 5000)(ctx, s)
			if err == nil && what != done {
				err = fmt.Errorf("what nobody redacted is %s", what)
			}
			return err
		},
		ops: []op{
			{
				name: "redact", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := maintenance.Redact(ctx, s.db, maintenance.Redaction{Pattern: secret})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					found, err := maintenance.PlanRedaction(ctx, s.db, maintenance.Redaction{Pattern: secret})
					return parts(2*have-int(found.Rows()), 2*have), err
				},
			},
			startOp("next"),
		},
	}
}

// downScript migrates the file back to an older schema; opening it migrates it up again.
func downScript() script {
	return script{
		name: "down", closed: true, prepare: worked,
		whole: wholeWork,
		ops: []op{
			{
				name: "down",
				do: func(ctx context.Context, s *session) error {
					_, err := maintenance.Migrate(ctx, s.path(), db.Options{SchemaVersion: maintenance.SchemaVersion() - 1})
					return err
				},
			},
			whenOpen(startOp("next")),
		},
	}
}
