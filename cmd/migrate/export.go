package main

import (
	"context"

	"github.com/spf13/cobra"

	"selvedge/legacy"
)

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export KIND DIR",
		Short: "Write the old layout, for a program of the old kind",
		Long: `export writes the scope's records in the old layout into DIR, which must be empty or missing. A program of the old kind
reads it and goes on from there. KIND is ` + kindNames() + `. Records that came from an import leave byte for byte as they came. What old
file names can't hold is left out and named; then the exit code is 3.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE:              func(c *cobra.Command, args []string) error { return a.export(c.Context(), args[0], args[1]) },
	}
}

func (a *app) export(ctx context.Context, kind, dir string) error {
	if kind == autoKind {
		return usage("export can't guess a kind; name one: %s", kindNames())
	}
	k, err := kindByName(kind)
	if err != nil {
		return err
	}
	if dir == "" {
		return usage("the name of the folder is empty")
	}
	answer, err := a.readTrees(ctx, []legacy.Found{{Kind: k, Dir: dir}}, dir, legacy.Options{}, legacy.Export)
	if err != nil {
		return err
	}
	return a.finishTrees(answer, "exported")
}
