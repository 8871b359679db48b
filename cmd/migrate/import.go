package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/legacy"
)

var _ = register("Trees:", 10, func(a *app) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import KIND DIR [--up] [--follow-links] [--yes]",
		Short: "Bring an old tree into the file",
		Long: `import brings the tree under DIR, the folder that the old program was given, into the file and
makes the file where it is missing; a file with an older schema is migrated only with --up. KIND is
` + kindNames() + `, or auto, which says what it recognised, also in folders two levels below, as in a home
folder, and asks whether it is meant. For runs DIR is the car folder or its runs/.

DIR is never changed. Of what lies in it only regular files are read, and links out of it are followed only
with --follow-links. An import can be stopped and run again at any point; run twice it adds nothing, and a
tree that has grown is picked up where it was. What can't be read goes into quarantine with its file,
offset, reason and bytes; then, or when something differs from what is in the file and was left as it is,
the exit code is 3.

What the old program did since an import is done here, too: an agent or a checkpoint that it has changed,
claimed, finished or removed, and that was not touched here, is changed, claimed or gone here. One that was
touched here is named, and stays as it is until somebody decides with imports resolve; a checkpoint can't
be claimed before that. So once a move is over, don't import a folder again whose files you have removed. A
folder that is not the one that was imported before (it has another device or inode, can't be read, or is
gone, as where a volume is not mounted) changes nothing: import asks whether it is meant to be followed
from now on, and without --yes, where nobody can be asked, the exit code is 2.`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTree,
		RunE: func(c *cobra.Command, args []string) error {
			return a.importTrees(c.Context(), args[0], args[1], f)
		},
	}
	c.Flags().BoolVar(&f.up, "up", false, "bring the file to this program's schema first")
	followLinksFlag(c, &f.followLinks)
	c.Flags().BoolVar(&f.yes, "yes", false,
		"don't ask whether what auto recognised is meant, nor whether a folder is meant that is not the one "+
			"that was imported before")
	return a.answering(c, treeAnswer{})
})

type importFlags struct{ up, followLinks, yes bool }

func (a *app) importTrees(ctx context.Context, kind, dir string, f importFlags) error {
	o := legacy.Options{Scope: a.scope, FollowLinks: f.followLinks, OtherFolder: f.yes}
	trees, saw, err := a.sources(kind, dir, f.followLinks)
	if err == nil && saw != nil {
		err = a.confirmSeen(saw, f.yes)
	}
	if err != nil {
		return cmp.Or(a.lostTree(ctx, kind, dir, o), err)
	}
	var answer treeAnswer
	err = a.with(ctx, db.Options{KeepSchema: !f.up}, func(d *db.DB) (err error) {
		if o.OtherFolder, err = a.confirmOther(ctx, d, trees, o); err == nil {
			answer, err = a.workTrees(ctx, d, trees, dir, o, legacy.Import)
		}
		return err
	})
	if err != nil {
		return a.stopped(answer, err)
	}
	answer.Saw = saw
	return a.finishTrees(answer, "imported")
}

// confirmOther asks for confirmation if trees are not the folders that were imported before.
func (a *app) confirmOther(
	ctx context.Context, d *db.DB, trees []legacy.Found, o legacy.Options,
) (bool, error) {
	if o.OtherFolder {
		return true, nil
	}
	var others []string
	for _, t := range trees {
		err := legacy.CheckFollowed(ctx, d, t.Kind, t.Dir, o)
		if errors.Is(err, legacy.ErrOtherFolder) {
			others = append(others, printable(err.Error()))
		} else if err != nil {
			return false, err
		}
	}
	if len(others) == 0 {
		return false, nil
	}
	return true, a.confirm(false, "follow another folder from now on (%s), as if the old program had "+
		"made it so", strings.Join(others, "; "))
}

// lostTree asks the same if no tree is found there.
func (a *app) lostTree(ctx context.Context, kind, dir string, o legacy.Options) (lost error) {
	kinds := legacy.Kinds()
	if kind != autoKind {
		kinds = []legacy.Kind{legacy.Kind(kind)}
	}
	trees := each(kinds, func(k legacy.Kind) legacy.Found { return legacy.Found{Kind: k, Dir: dir} })
	err := a.with(ctx, toRead, func(d *db.DB) error {
		_, lost = a.confirmOther(ctx, d, trees, o)
		return nil
	})
	if err != nil {
		return nil // without a file, nothing was imported
	}
	return lost
}

// confirmSeen asks whether to import what auto recognised, since other programs have folders of
// these names too.
func (a *app) confirmSeen(saw []legacy.Found, yes bool) error {
	list := each(saw, func(t legacy.Found) string {
		return line("%s (%s) in %s", string(t.Kind), t.Description, t.Dir)
	})
	return a.confirm(yes, "import %s", strings.Join(list, ", "))
}
