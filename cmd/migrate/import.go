package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

func (a *app) importCommand() *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import KIND DIR [--up] [--follow-links] [--yes]",
		Short: "Bring an old tree into the file",
		Long: `import brings the tree under DIR, the folder that the old program was given, into the file and makes the file where it
is missing; a file with an older schema is migrated only with --up. KIND is ` + kindNames() + `, or auto, which says what it recognised, also in folders two levels below, as in a home folder, and asks whether it is meant. For runs DIR is the car folder or its runs/.

DIR is never changed. Of what lies in it only regular files are read, and links out of it are followed only with --follow-links. An import can be stopped and run again at any point; run twice it adds nothing, and a tree that has
grown is picked up where it was. What can't be read goes into quarantine with its file, offset, reason and bytes; then, or
when something differs from what is in the file and was left as it is, the exit code is 3.

What the old program did since an import is done here, too: an agent or a checkpoint that it has changed, claimed, finished or
removed, and that was not touched here, is changed, claimed or gone here. One that was touched here is named, and stays as it is
until somebody decides with imports resolve; a checkpoint can't be claimed before that. So once a move is over, don't import
a folder again whose files you have removed.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE:              func(c *cobra.Command, args []string) error { return a.importTrees(c.Context(), args[0], args[1], f) },
	}
	c.Flags().BoolVar(&f.up, "up", false, "bring the file to this program's schema first")
	followLinksFlag(c, &f.followLinks)
	c.Flags().BoolVar(&f.yes, "yes", false, "with auto: don't ask whether what was recognised is meant")
	return c
}

type importFlags struct{ up, followLinks, yes bool }

func (a *app) importTrees(ctx context.Context, kind, dir string, f importFlags) error {
	trees, saw, err := a.sources(kind, dir, f.followLinks)
	if err == nil && saw != nil {
		err = a.confirmSeen(saw, f.yes)
	}
	if err != nil {
		return err
	}
	var answer treeAnswer
	err = a.withOptions(ctx, db.Options{KeepSchema: !f.up}, func(d *db.DB) (err error) {
		answer, err = a.workTrees(ctx, d, trees, dir, legacy.Options{FollowLinks: f.followLinks}, legacy.Import)
		return err
	})
	if err != nil {
		return a.stopped(answer, err)
	}
	answer.Saw = saw
	return a.finishTrees(answer, "imported")
}

// confirmSeen asks whether what auto recognised is meant: other programs have folders of these names, too.
func (a *app) confirmSeen(saw []sawTree, yes bool) error {
	var list []string
	for _, s := range saw {
		list = append(list, fmt.Sprintf("%s (%s) in %s", s.Kind, printable(s.Description), printable(s.Source)))
	}
	return a.confirm(yes, "import %s", strings.Join(list, ", "))
}
