package legacy

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/runs"
)

// runsDoor is the import door of the run store.
type runsDoor struct{ *runs.Store }

func ref(e entity) runs.RunRef { return runs.RunRef{AgentID: e.group, RunID: e.id} }

const (
	sqlRunStands = `
SELECT key, coalesce((SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24), 0) AS last
FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

	// The sizes of what a row's line is made of, without reading it.
	sqlLineSizes = `
SELECT coalesce(octet_length(raw), 0) + coalesce(octet_length(prompt), 0) + coalesce(octet_length(parameters), 0) + coalesce(octet_length(output), 0)
FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT ?`
)

func (s runsDoor) state(rx *db.Rx, e entity) (stored, bool, error) {
	var row struct {
		Key  int64 `db:"key"`
		Last int64 `db:"last"`
	}
	scope, ok, err := rx.Scope(s.Scope())
	if err != nil || !ok {
		return stored{}, false, err
	}
	ok, err = rx.Find(&row, sqlRunStands, scope, e.id, e.group)
	return stored{row: row.Key, last: row.Last}, ok, err
}

func (s runsDoor) append(tx *db.Tx, e entity, records []record) (stored, error) {
	lines := make([]runs.Line, len(records))
	for i := range records {
		lines[i] = records[i].value.(runs.Line)
	}
	if err := s.ImportRecords(tx, ref(e), lines); err != nil {
		return stored{}, err
	}
	now, ok, err := s.state(&tx.Rx, e)
	if err == nil && !ok {
		err = fmt.Errorf("%w: the run is gone after its import", db.ErrCorrupt)
	}
	return now, err
}

func (s runsDoor) remove(tx *db.Tx, e entity) error {
	_, err := s.DeleteImported(tx, ref(e))
	return err
}

func (s runsDoor) lines(rx *db.Rx, e entity, after int64, maxBytes int) ([]storedLine, error) {
	const most = 512
	now, ok, err := s.state(rx, e)
	if err != nil || !ok {
		return nil, err
	}
	var sizes []int
	if err := rx.Select(&sizes, sqlLineSizes, now.row<<24|after, (now.row+1)<<24, most); err != nil {
		return nil, err
	}
	limit := 0
	for total := 0; limit < len(sizes) && (limit == 0 || total+sizes[limit] <= maxBytes); limit++ {
		total += sizes[limit]
	}
	if limit == 0 {
		return nil, nil
	}
	page, err := s.LinesTx(rx, ref(e), after, limit)
	lines := make([]storedLine, len(page))
	for i, line := range page {
		lines[i] = storedLine{sequence: line.Sequence, text: line.Text}
	}
	return lines, err
}

func (s runsDoor) entities(ctx context.Context) iter.Seq2[entity, error] {
	return func(yield func(entity, error) bool) {
		for r, err := range s.Refs(ctx) {
			if !yield(entity{r.AgentID, r.RunID}, err) {
				return
			}
		}
	}
}
