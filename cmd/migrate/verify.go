package main

import (
	"context"

	"github.com/spf13/cobra"

	"selvedge/legacy"
)

func (a *app) verifyCommand() *cobra.Command {
	var followLinks bool
	c := &cobra.Command{
		Use:   "verify KIND DIR [--follow-links]",
		Short: "Compare an old tree with what was imported from it",
		Long: `verify reads the tree under DIR again and compares it with the file, record by record. Nothing is written. KIND is
` + kindNames() + `, or auto. The exit code is 3 when something differs, is not in the file, or lies in quarantine.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE: func(c *cobra.Command, args []string) error {
			return a.verify(c.Context(), args[0], args[1], followLinks)
		},
	}
	followLinksFlag(c, &followLinks)
	return c
}

func (a *app) verify(ctx context.Context, kind, dir string, followLinks bool) error {
	trees, saw, err := sources(kind, dir, followLinks)
	if err != nil {
		return err
	}
	answer, err := a.readTrees(ctx, trees, dir, legacy.Options{FollowLinks: followLinks}, legacy.Verify)
	if err != nil {
		return err
	}
	answer.Saw = saw
	return a.finishTrees(answer, "compared")
}
