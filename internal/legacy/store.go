package legacy

import (
	"context"
	"iter"

	"selvedge/db"
)

// stored is where a thing stands in its store: its row, and the sequence of its last line. They tell whether it was
// touched since it was imported: the row is gone or another one, or the last line is a later one.
type stored struct{ row, last int64 }

// A storedLine is a line of a thing, as an export writes it, without its line feed.
type storedLine struct {
	sequence int64
	text     []byte
}

// store is the import door of a store, as the core uses it for one scope.
type store interface {
	// state says where e stands.
	state(rx *db.Rx, e entity) (stored, bool, error)
	// append puts records behind what is there of e, and makes e where it is missing, also for no records. It returns
	// where e stands then.
	append(tx *db.Tx, e entity, records []record) (stored, error)
	// remove takes out e with everything that belongs to it.
	remove(tx *db.Tx, e entity) error
	// lines gives the next lines of e behind the sequence after: about maxBytes of them, and at least one where there is
	// one.
	lines(rx *db.Rx, e entity, after int64, maxBytes int) ([]storedLine, error)
	// entities gives the things of the scope, always in the same order, for an export.
	entities(ctx context.Context) iter.Seq2[entity, error]
}

// content is a thing as the bytes of a file of the old layout.
type content struct {
	d      *db.DB
	store  store
	source source // any of the scope and kind
	e      entity
}

// contentPage is how many bytes of lines are read in one transaction.
const contentPage = 1 << 20

// each calls visit for every line. lf is false for a last line that has no line feed.
func (c content) each(ctx context.Context, visit func(text []byte, lf bool) error) error {
	var held holderRow
	var isHeld bool
	var pending *storedLine
	flush := func(more bool) error {
		if pending != nil {
			if err := visit(pending.text, more || !isHeld || !held.OpenLine || pending.sequence != held.LastSequence); err != nil {
				return err
			}
		}
		if isHeld && len(held.Tail) > 0 && (pending == nil && held.LastSequence == 0 || pending != nil && pending.sequence == held.LastSequence) {
			return visit(held.Tail, more)
		}
		return nil
	}
	for after := int64(0); ; {
		var page []storedLine
		err := c.d.Read(ctx, "read lines for comparison or export", func(rx *db.Rx) (err error) {
			if after == 0 {
				s, ok, err := c.store.state(rx, c.e)
				if err != nil || !ok {
					return err
				}
				if held, isHeld, err = c.source.holder(rx, c.e, s.row); err != nil {
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
