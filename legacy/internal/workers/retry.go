package workers

import (
	"context"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Retry takes a runtime again as it lies in its folder, where that could bring in what the row
// says: what is kept of it is a piece of a thing that is taken as a whole.
func (Layout) Retry(_ context.Context, t *tree.Tree, q *tree.Aside, _ []byte) (p tree.Piece, reason string,
	err error,
) {
	if t.Folder, err = openRoot(t); err != nil {
		return nil, "it is a piece of a runtime, which is taken as a whole, and its folder can't be opened: " + err.Error(), nil //nolint:nilerr // is said
	}
	t.Root = t.Folder.Path()
	path, _, _ := strings.Cut(q.Path, "/")
	if t.Folder.Lacks(path) {
		return nil, "it is a piece of a runtime, which is taken as a whole, and that is not in the " +
			"folder any more", nil
	}
	imports := false // else it lies beside a runtime
	if err = (Layout{}).Walk(t.Folder, func(one string) error {
		imports = imports || one == path
		return nil
	}, func(string, string) error { return nil }); err != nil || !imports {
		return nil, q.Reason, err
	}
	err = each(t, path, func(r *runtime) error {
		p = &again{r}
		for _, f := range r.findings {
			if f.Path == q.Path && f.Offset == q.ByteOffset && f.What == q.What {
				reason = f.Reason
			}
		}
		return nil
	}, func(s *stray) error {
		if s.finding.Path == q.Path {
			reason = s.finding.Reason
		}
		return nil
	})
	if err == nil && reason == "" && p == nil {
		reason = q.Reason
	}
	return p, reason, err
}

// openRoot opens the folder that the paths of a source are below.
func openRoot(t *tree.Tree) (tree.Folder, error) {
	dir, err := tree.OpenFolder(t.Root, t.Options)
	if err != nil {
		return dir, err
	}
	return Layout{}.Root(dir)
}

// again is a runtime that is taken once more although its folder is as it was.
type again struct{ *runtime }

// Known is false.
func (*again) Known(*db.Rx, *tree.Part) (bool, error) { return false, nil }
