package runs

import (
	"context"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Forms is the one file of a run.
func (layout) Forms(path string) []string { return []string{path} }

// WriteThing writes a run as its file.
func (l layout) WriteThing(ctx context.Context, t *tree.Tree, e tree.Entity, w io.Writer) (ok bool,
	err error,
) {
	err = t.DB.Read(ctx, "show run", func(rx *db.Rx) error {
		_, ok, err = l.Find(rx, t.Scope, e)
		return err
	})
	if err != nil || !ok {
		return false, err
	}
	c := traceContent{roomOf(t), e}
	return true, c.each(ctx, func(text []byte, lf bool) error {
		_, err := w.Write(text)
		if err == nil && lf {
			_, err = w.Write([]byte{'\n'})
		}
		return err
	})
}
