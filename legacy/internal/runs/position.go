package runs

import (
	"context"
	"iter"

	"selvedge/db"
	traces "selvedge/internal/runs"
	"selvedge/internal/tree"
)

// stored is where a thing stands in its store: its row, and the sequence of its last line. They
// tell whether it was touched since it was imported: the row is gone or another one, or the last
// line is a later one.
type stored struct{ row, last int64 }

// A storedLine is a line of a thing, as an export writes it, without its line feed.
type storedLine struct {
	sequence int64
	text     []byte
}

// A store is the run store as an import knows it, for one scope.
type store struct {
	traces.Table
	d *db.DB
}

func ref(e tree.Entity) traces.Ref { return traces.Ref{AgentID: e.Group, RunID: e.ID} }

// state says where e stands.
func (s store) state(rx *db.Rx, e tree.Entity) (stored, bool, error) {
	at, ok, err := s.Standing(rx, ref(e))
	return stored{row: at.Row, last: at.Lines}, ok, err
}

// append puts records behind what is there of e or, where nothing is (a nil was), makes e, also for
// no records. It returns where e stands then.
func (s store) append(tx *db.Tx, e tree.Entity, was *stored, records []record) (stored, error) {
	lines := make([]traces.Line, len(records))
	for i := range records {
		lines[i] = records[i].line
	}
	if was == nil {
		at, err := s.ImportNew(tx, ref(e), lines)
		return stored{row: at.Row, last: at.Lines}, err
	}
	return stored{row: was.row, last: was.last + int64(len(lines))}, s.Import(tx, ref(e), lines)
}

// prefetch names what is about to be asked of e, which has this row; 0 where it is not there.
func (s store) prefetch(f *tree.Prefetcher, e tree.Entity, row int64) error {
	f.About("run " + e.Group + "\x00" + e.ID)
	return s.Prefetch(f.Rx, ref(e), row, f.Ask)
}

// remove takes out e with everything that belongs to it.
func (s store) remove(tx *db.Tx, e tree.Entity) error {
	_, err := s.Delete(tx, ref(e))
	return err
}

// lines gives the next lines of e behind the sequence after: about maxBytes of them, and at least
// one where there is one.
func (s store) lines(rx *db.Rx, e tree.Entity, after int64, maxBytes int) ([]storedLine, error) {
	page, err := s.LinesTx(rx, ref(e), after, maxBytes)
	lines := make([]storedLine, len(page))
	for i, line := range page {
		lines[i] = storedLine{sequence: line.Sequence, text: line.Text}
	}
	return lines, err
}

// entities gives the runs of the scope, always in the same order.
func (s store) entities(ctx context.Context) iter.Seq2[tree.Entity, error] {
	return func(yield func(tree.Entity, error) bool) {
		for r, err := range s.Refs(ctx, s.d) {
			if !yield(tree.Entity{Group: r.AgentID, ID: r.RunID}, err) {
				return
			}
		}
	}
}
