package runs

import (
	"context"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// traceContent is the content of a run as a file of the old layout.
type traceContent struct {
	*tree.Tree
	e tree.Entity
}

// contentPage is how many bytes of lines one transaction reads.
const contentPage = 1 << 20

// each calls visit for every line. lf is false for a last line without a line feed.
func (c traceContent) each(ctx context.Context, visit func(text []byte, lf bool) error) error {
	var held tree.Holder
	var s stored
	var lines []storedLine // the last one may have no line feed
	tail := func(after int64) {
		if len(held.Tail) > 0 && held.LastSequence == after {
			lines = append(lines, storedLine{after, held.Tail})
		}
	}
	for after, first, more := int64(0), true, true; more; first = false {
		var page []storedLine
		err := c.DB.Read(ctx, "read lines for comparison or export", func(rx *db.Rx) (err error) {
			if first {
				found := false
				if s, found, err = stateOf(rx, c.Source.Scope, c.e); err != nil || !found {
					return err
				}
				if held, _, err = c.Source.Holder(rx, c.e, s.Row); err != nil {
					return err
				}
			}
			page, _, err = readLines(rx, s.Row, after, contentPage)
			return err
		})
		if err != nil {
			return err
		}
		if first {
			tail(0)
		}
		for _, line := range page {
			lines, after = append(lines, line), line.sequence
			tail(after)
		}
		more = len(page) > 0
		for ; len(lines) > 1 || len(lines) == 1 && !more; lines = lines[1:] {
			open := held.OpenLine || len(held.Tail) > 0
			lf := len(lines) > 1 || !open || lines[0].sequence != held.LastSequence
			if err := visit(lines[0].text, lf); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the run as its file.
func (c traceContent) write(ctx context.Context, w io.Writer) error {
	return c.each(ctx, func(text []byte, lf bool) error {
		_, err := w.Write(text)
		if err == nil && lf {
			_, err = w.Write(newline)
		}
		return err
	})
}

// WriteThing writes a run as its file. ok is false if the run does not exist.
func (layout) WriteThing(ctx context.Context, t *tree.Tree, e tree.Entity, w io.Writer) (ok bool, err error) {
	err = t.DB.Read(ctx, "show run", func(rx *db.Rx) error {
		if t.Source.Scope, _, err = rx.Store().Scope(t.Scope); err == nil {
			_, ok, err = stateOf(rx, t.Source.Scope, e)
		}
		return err
	})
	if err != nil || !ok {
		return false, err
	}
	return true, traceContent{t, e}.write(ctx, w)
}
