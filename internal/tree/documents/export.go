package documents

import (
	"cmp"
	"context"
	"os"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Export writes every thing of the scope to where it came from, or to where the old program would
// put it.
func (l Layout) Export(ctx context.Context, t *tree.Tree) error {
	if folder := l.Folder(); folder != "" {
		t.Root = tree.Below(t.Root, folder)
		if err := os.MkdirAll(t.Root, 0o700); err != nil {
			return err
		}
	}
	all := tree.Each(ctx, t.DB, "list "+l.Name(), func(rx *db.Rx, last *tree.Entity, page *[]tree.Entity) error {
		return l.Page(rx, t.Source.Scope, *last, page)
	})
	return tree.ForEach(all, func(e *tree.Entity) error { return l.exportOne(ctx, t, *e) })
}

func (l Layout) exportOne(ctx context.Context, t *tree.Tree, e tree.Entity) error {
	var path, problem string
	var text []byte
	err := t.DB.Read(ctx, "export "+l.Name(), func(rx *db.Rx) error {
		row, ok, err := rowOf(rx, l, t.Source.Scope, e)
		if err != nil || !ok {
			return err // removed meanwhile
		}
		held, fromFile, err := t.Source.Holder(rx, e, row)
		if err != nil {
			return err
		}
		if path = string(held.Path); !fromFile {
			path, problem = l.Path(e)
		}
		text, _, err = l.Text(rx, row)
		return err
	})
	if err != nil || text == nil {
		return err
	}
	if problem == "" {
		problem, err = t.Write(path, text)
	}
	switch {
	case err != nil:
		return err
	case problem != "":
		t.Report.LeaveOut(path, l.Title(e)+": "+problem)
	default:
		t.Report.CountAll(tree.Tally{l.Tables()[0].Noun: 1}, tree.New)
	}
	return nil
}

// ReadBack decodes a document.
func (l Layout) ReadBack(root tree.Folder, path string,
	say func(file string, line int, reason string),
) error {
	f := readFile(l.Kind, root, path)
	reason := cmp.Or(f.reason, f.flaw, l.Unlisted(path))
	say(path, tree.LineIn(reason), reason)
	return nil
}

// GivesBack is true for every document.
func (Layout) GivesBack(tree.Folder, string) bool { return true }
