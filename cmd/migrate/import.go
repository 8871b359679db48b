package main

import (
	"context"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

func (a *app) importCommand() *cobra.Command {
	var up bool
	c := &cobra.Command{
		Use:   "import KIND DIR [--up]",
		Short: "Bring an old tree into the file",
		Long: `import brings the tree under DIR, the folder that the old program was given, into the file and makes the file where it
is missing; a file with an older schema is migrated only with --up. KIND is ` + kindNames() + `, or auto, which says what it recognised, also in folders two levels below, as in a home folder. For runs DIR is the car folder or its runs/.

DIR is never changed. An import can be stopped and run again at any point; run twice it adds nothing, and a tree that has
grown is picked up where it was. What can't be read goes into quarantine with its file, offset, reason and bytes; then, or
when something differs from what is in the file and was left as it is, the exit code is 3.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE:              func(c *cobra.Command, args []string) error { return a.importTrees(c.Context(), args[0], args[1], up) },
	}
	c.Flags().BoolVar(&up, "up", false, "bring the file to this program's schema first")
	return c
}

func (a *app) importTrees(ctx context.Context, kind, dir string, up bool) error {
	trees, saw, err := sources(kind, dir)
	if err != nil {
		return err
	}
	var answer treeAnswer
	err = a.withOptions(ctx, db.Options{KeepSchema: !up}, func(d *db.DB) (err error) {
		answer, err = a.workTrees(ctx, d, trees, dir, legacy.Import)
		return err
	})
	if err != nil {
		return stopped(answer, err)
	}
	answer.Saw = saw
	return a.finishTrees(answer, "imported")
}
