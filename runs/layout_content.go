package runs

import (
	"context"

	"selvedge/db"
	"selvedge/internal/tree"
)

// content is a thing as the bytes of a file of the old layout.
type traceContent struct {
	*room
	e tree.Entity
}

// contentPage is how many bytes of lines are read in one transaction.
const contentPage = 1 << 20

// each calls visit for every line. lf is false for a last line that has no line feed.
func (c traceContent) each(ctx context.Context, visit func(text []byte, lf bool) error) error {
	var held tree.Holder
	var isHeld bool
	var pending *storedLine
	flush := func(more bool) error {
		if pending != nil {
			if err := visit(pending.text, more || !isHeld || !held.OpenLine ||
				pending.sequence != held.LastSequence); err != nil {
				return err
			}
		}
		if isHeld && len(held.Tail) > 0 && (pending == nil && held.LastSequence == 0 || pending != nil &&
			pending.sequence == held.LastSequence) {
			return visit(held.Tail, more)
		}
		return nil
	}
	for after := int64(0); ; {
		var page []storedLine
		err := c.DB.Read(ctx, "read lines for comparison or export", func(rx *db.Rx) (err error) {
			if after == 0 {
				s, ok, err := c.store.state(rx, c.e)
				if err != nil || !ok {
					return err
				}
				if held, isHeld, err = c.Source.Holder(rx, c.e, s.Row); err != nil {
					return err
				}
			}
			page, err = c.store.lines(rx, c.e, after, contentPage)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			if after > 0 || isHeld && held.LastSequence == 0 {
				if err := flush(true); err != nil {
					return err
				}
			}
			pending, after = &page[i], page[i].sequence
		}
		if len(page) == 0 {
			return flush(false)
		}
	}
}
