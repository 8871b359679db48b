package workers

import (
	"context"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Retry imports a runtime again from its folder: the row of the quarantine holds only a part of it.
func (layout) Retry(_ context.Context, t *tree.Tree, q *tree.Aside, _ []byte) (p tree.Piece, reason string,
	err error,
) {
	const whole = "it is a piece of a runtime, which is taken as a whole, and "
	dir, err := tree.OpenFolder(t.Root, t.Options)
	if err == nil {
		t.Folder, err = layout{}.Root(dir)
	}
	if err != nil {
		return nil, whole + "its folder can't be opened: " + err.Error(), nil //nolint:nilerr // it is the reason
	}
	t.Root = t.Folder.Path()
	path, _, _ := strings.Cut(q.Path, "/")
	if t.Folder.Lacks(path) {
		return nil, whole + "that is not in the folder any more", nil
	}
	imports, err := tree.HasFile(layout{}, t.Folder, func(one string) bool { return one == path })
	if err != nil || !imports {
		return nil, q.Reason, err
	}
	err = each(t, path, func(found *piece) error {
		if !found.stray {
			p = &again{found}
		}
		for _, f := range found.findings {
			if f.Path == q.Path && (found.stray || f.Offset == q.ByteOffset && f.What == q.What) {
				reason = f.Reason
			}
		}
		return nil
	})
	if err == nil && reason == "" && p == nil {
		reason = q.Reason
	}
	return p, reason, err
}

// again is a runtime that is imported again although its folder is unchanged.
type again struct{ *piece }

// Known is false.
func (*again) Known(*db.Rx, *tree.Part) (bool, error) { return false, nil }
