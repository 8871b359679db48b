package main

import (
	"context"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

var _ = register("Trees:", 30, func(a *app) *cobra.Command {
	return a.answering(&cobra.Command{
		Use:   "export KIND DIR",
		Short: "Write the old layout, for a program of the old kind",
		Long: `export writes the scope's records in the old layout into DIR, which must be empty or missing. A
program of the old kind reads it and goes on from there. KIND is ` + kindNames() + `. Records that came
from an import leave byte for byte as they came. What old file names can't hold is left out and named; then
the exit code is 3.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE: func(c *cobra.Command, args []string) error {
			return a.export(c.Context(), args[0], args[1])
		},
	}, treeAnswer{})
})

func (a *app) export(ctx context.Context, name, dir string) error {
	if name == autoKind {
		return usage("export can't guess a kind; name one: %s", kindNames())
	}
	k, err := kindByName(name)
	if err != nil {
		return err
	}
	if dir == "" {
		return usage("the name of the folder is empty")
	}
	var answer treeAnswer
	err = a.with(ctx, toRead, func(d *db.DB) error {
		files, err := a.filesOf(ctx, d, k)
		if err != nil {
			return err
		}
		bar := a.newProgress(name, "files")
		defer bar.finish()
		o := legacy.Options{Scope: a.scope, Progress: func(at legacy.Progress) { bar.show(at.Files, files) }}
		answer.Report, err = legacy.Export(ctx, d, k, dir, o)
		return err
	})
	if err != nil {
		return err
	}
	return a.finishTrees(answer, "exported")
}

// filesOf returns the approximate number of files that a kind of tree has. Their size is known only
// once they are written.
func (a *app) filesOf(ctx context.Context, d *db.DB, kind legacy.Kind) (n int64, err error) {
	if !a.watched() {
		return 0, nil
	}
	query := map[legacy.Kind]string{
		legacy.Runs:        `SELECT count(*) FROM runs WHERE scope = ?`,
		legacy.Agents:      `SELECT count(*) FROM agents WHERE scope = ? AND put_aside_at IS NULL`,
		legacy.Checkpoints: `SELECT count(*) FROM checkpoints WHERE scope = ?`,
		legacy.Live:        `SELECT count(DISTINCT session_id) FROM live_runs WHERE scope = ?`,
		legacy.Workers: `SELECT 2 * count(*) + 2 * (SELECT count(*) FROM worker_runtimes AS r
			JOIN workers AS w ON w.runtime = r.key WHERE r.scope = ?1) FROM worker_runtimes WHERE scope = ?1`,
	}[kind]
	err = d.Read(ctx, "count the files of an export", func(rx *db.Rx) error {
		scope, _, err := rx.Store().Scope(a.scope)
		if err != nil {
			return err
		}
		return rx.Get(&n, query, scope)
	})
	return n, err
}
