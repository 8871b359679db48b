package legacy

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	traces "selvedge/internal/runs"
)

// runsDoor is the import door of the run store.
type runsDoor struct {
	traces.Table
	d *db.DB
}

func ref(e entity) traces.Ref { return traces.Ref{AgentID: e.group, RunID: e.id} }

func (s runsDoor) state(rx *db.Rx, e entity) (stored, bool, error) {
	at, ok, err := s.Standing(rx, ref(e))
	return stored{row: at.Row, last: at.Lines}, ok, err
}

func (s runsDoor) append(tx *db.Tx, e entity, records []record) (stored, error) {
	lines := make([]traces.Line, len(records))
	for i := range records {
		lines[i] = records[i].value.(traces.Line)
	}
	if err := s.Import(tx, ref(e), lines); err != nil {
		return stored{}, err
	}
	now, ok, err := s.state(&tx.Rx, e)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the run is gone after its import", db.ErrCorrupt)
	}
	return now, err
}

func (s runsDoor) remove(tx *db.Tx, e entity) error {
	_, err := s.Delete(tx, ref(e))
	return err
}

func (s runsDoor) lines(rx *db.Rx, e entity, after int64, maxBytes int) ([]storedLine, error) {
	page, err := s.LinesTx(rx, ref(e), after, maxBytes)
	lines := make([]storedLine, len(page))
	for i, line := range page {
		lines[i] = storedLine{sequence: line.Sequence, text: line.Text}
	}
	return lines, err
}

func (s runsDoor) entities(ctx context.Context) iter.Seq2[entity, error] {
	return func(yield func(entity, error) bool) {
		for r, err := range s.Refs(ctx, s.d) {
			if !yield(entity{r.AgentID, r.RunID}, err) {
				return
			}
		}
	}
}
