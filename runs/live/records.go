package live

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"selvedge/db"
	"selvedge/internal/live"
)

// EachRecord gives the runs of the scope with their events one by one, each from a snapshot of its own: no transaction is
// open while the caller's loop runs, and runs that come or go meanwhile may or may not be seen, none twice. After an error
// there is nothing more.
func (s *Store) EachRecord(ctx context.Context) iter.Seq2[RunRecord, error] {
	return func(yield func(RunRecord, error) bool) {
		created, key := int64(-1), int64(-1)
		for {
			var record RunRecord
			found := false
			err := s.readScope(ctx, "read live records", func(rx *db.Rx, scope int64) (err error) {
				var row live.WholeRow
				if found, err = rx.Find(&row, sqlRuns, scope, created, key, 1); err != nil || !found {
					return err
				}
				created, key = row.CreatedAt, row.Key
				stored, err := row.Record(rx)
				record = recordOf(stored)
				return err
			})
			if err != nil {
				yield(RunRecord{}, err)
				return
			}
			if !found || !yield(record, nil) {
				return
			}
		}
	}
}

// ReplaceRecords replaces all runs of the scope, those that are running too, in one transaction; no records clear it. Of
// records with one id the last wins, with its events. A run's count becomes what the next event's sequence has to be: the
// largest of the count it names, its last sequence and 1, and the number of its events. Caps hold: runs that were created
// first go first.
//
// db.ErrInvalid, with nothing changed: an id is not possible, a status is unknown, a text is not UTF-8, an event was not
// made by NewEvent.
func (s *Store) ReplaceRecords(ctx context.Context, records []RunRecord) error {
	const why = "replace live records"
	for i := range records {
		stored := records[i].stored()
		if err := stored.Check(); err != nil {
			return &db.Error{Op: why, Entity: "live run", ID: records[i].Snapshot.ID, Err: err}
		}
	}
	list := s.caps.kept(lastOfEach(records))
	return s.db.Write(ctx, why, func(tx *db.Tx) error {
		scope, err := tx.Scope(s.scope)
		if err != nil {
			return err
		}
		same, err := s.keepSame(tx, scope, list)
		if err != nil {
			return err
		}
		for _, r := range list[same:] {
			if err := s.add(tx, scope, r); err != nil {
				return fmt.Errorf("live run %q: %w", r.Snapshot.ID, err)
			}
		}
		return nil
	})
}

const sqlRuns = live.SelectWhole + `WHERE r.scope = ? AND (r.created_at, r.key) > (?, ?) ORDER BY r.created_at, r.key LIMIT ?`

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
