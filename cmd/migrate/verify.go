package main

import (
	"context"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

var _ = register("Trees:", 20, func(a *app) *cobra.Command {
	var followLinks bool
	c := &cobra.Command{
		Use:   "verify KIND DIR [--follow-links]",
		Short: "Prove that all of an old tree is in the file",
		Long: `verify imports the tree under DIR once more, into a file of its own (in memory, or where the tree
has more than 16 MiB in a folder beside the file), which it removes again. Every row that this gives is
compared with the file, both ways: ids, columns, order, limits, and what is in quarantine. Nothing is
written to the file. KIND is ` + kindNames() + `, or auto.

It ends with one line: what was read, the SHA-256 of it, and whether DIR can go. It can when nothing
differs, nothing lies in quarantine, and nothing is in DIR that no store has; a script asks for
proof.whole. The SHA-256 is that of a list with a line for each file that was read, sorted by path: its
SHA-256 in hex, its size in bytes and its path below source, with a space between each. The exit code is 3
when something differs, is not in the file, or lies in quarantine; what is in DIR and in no store leaves it
at 0.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE: func(c *cobra.Command, args []string) error {
			return a.verify(c.Context(), args[0], args[1], followLinks)
		},
	}
	followLinksFlag(c, &followLinks)
	return a.answering(c, treeAnswer{})
})

func (a *app) verify(ctx context.Context, kind, dir string, followLinks bool) error {
	trees, saw, err := a.sources(kind, dir, followLinks)
	if err != nil {
		return err
	}
	answer := treeAnswer{Saw: saw}
	err = a.with(ctx, toRead, func(d *db.DB) error {
		bar := a.newProgress(kind, "")
		defer bar.finish()
		total, reports, err := legacy.VerifyAll(ctx, d, dir, trees,
			legacy.Options{Scope: a.scope, Progress: bar.update, FollowLinks: followLinks})
		if answer.Report = total; len(reports) > 1 {
			answer.Parts = reports
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.finishTrees(answer, "compared")
}
