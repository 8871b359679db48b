package documents

import (
	"context"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// WriteThing writes a thing as its file.
func (l Layout) WriteThing(ctx context.Context, t *tree.Tree, e tree.Entity, w io.Writer) (ok bool,
	err error,
) {
	store := l.Store(t.DB, t.Scope)
	var text []byte
	err = t.DB.Read(ctx, "show "+l.Name(), func(rx *db.Rx) error {
		row, there, err := store.Row(rx, e)
		if err == nil && there {
			text, ok, err = store.Text(rx, row)
		}
		return err
	})
	if err == nil && ok {
		_, err = w.Write(text)
	}
	return ok, err
}
