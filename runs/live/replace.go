package live

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"selvedge/db"
	"selvedge/internal/live"
)

const sqlRowsByKey = live.SelectWhole + `WHERE r.scope = ? ORDER BY r.key`

// keepSame leaves the runs alone that are here as the first records have them, in their order, and takes all others out. A
// restore of what is here is then no change, to followers, too.
func (s *Store) keepSame(tx *db.Tx, scope int64, list []*RunRecord) (same int, err error) {
	var rows []live.WholeRow
	if err := tx.Select(&rows, sqlRowsByKey, scope); err != nil {
		return 0, err
	}
	for i := range rows {
		row := &rows[i]
		if same < len(list) && row.RunID == list[same].Snapshot.ID {
			holds, err := s.holds(tx, row, list[same])
			if err != nil {
				return 0, err
			}
			if holds {
				same++
				continue
			}
		}
		if err := row.Remove(tx); err != nil {
			return 0, err
		}
	}
	return same, nil
}

// holds reports whether a run that is here is what a record says, and within the caps.
func (s *Store) holds(tx *db.Tx, row *live.WholeRow, r *RunRecord) (bool, error) {
	theirs := r.stored()
	theirs.Snapshot.EventCount = theirs.NextSequence()
	if int64(len(r.Events)) != row.KeptEvents || s.caps.full(row.KeptEvents, row.KeptBytes) {
		return false, nil
	}
	ours, err := row.Record(&tx.Rx)
	if err != nil && !errors.Is(err, db.ErrCorrupt) {
		return false, err
	}
	return err == nil && bytes.Equal(ours.AppendJSON(nil), theirs.AppendJSON(nil)), nil
}

// lastOfEach gives the records in the order of creation, the last one of each id.
func lastOfEach(records []RunRecord) []*RunRecord {
	last := make(map[string]int, len(records))
	for i := range records {
		last[records[i].Snapshot.ID] = i
	}
	var list []*RunRecord
	for i := range records {
		if last[records[i].Snapshot.ID] == i {
			list = append(list, &records[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *RunRecord) int { return cmp.Compare(a.Snapshot.CreatedAtMs, b.Snapshot.CreatedAtMs) })
	return list
}
