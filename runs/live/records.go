package live

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"selvedge/db"
)

const sqlDropRuns = `DELETE FROM live_runs WHERE scope = ?`

// Records gives all runs of the scope with the events that are kept, in the order of List, from one snapshot.
func (s *Store) Records(ctx context.Context) (records []RunRecord, err error) {
	err = s.readScope(ctx, "read live records", func(rx *db.Rx, scope int64) error {
		records = nil
		var rows []runRow
		if err := rx.Select(&rows, sqlRuns, scope, -1, -1, -1); err != nil {
			return err
		}
		for i := range rows {
			record, err := rows[i].record(rx)
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		return nil
	})
	return records, err
}

func (w *runRow) record(rx *db.Rx) (RunRecord, error) {
	events, err := w.events(rx, w.first(), -1)
	return RunRecord{Snapshot: w.snapshot(), Events: events}, err
}

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
				var row runRow
				if found, err = rx.Find(&row, sqlRuns, scope, created, key, 1); err != nil || !found {
					return err
				}
				created, key = row.CreatedAt, row.Key
				record, err = row.record(rx)
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
		if err := records[i].check(); err != nil {
			return &db.Error{Op: why, Entity: "live run", ID: records[i].Snapshot.ID, Err: err}
		}
	}
	list := lastOfEach(records)
	return s.db.Write(ctx, why, func(tx *db.Tx) error {
		scope, err := tx.Scope(s.scope)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(sqlDropRuns, scope); err != nil {
			return err
		}
		for _, r := range list {
			if err := s.add(tx, scope, r); err != nil {
				return fmt.Errorf("live run %q: %w", r.Snapshot.ID, err)
			}
		}
		return nil
	})
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

func (r *RunRecord) check() error {
	s := &r.Snapshot
	if err := db.CheckID("run", s.ID); err != nil {
		return err
	}
	if err := db.CheckID("session", s.SessionID); err != nil {
		return err
	}
	if !s.Status.Known() {
		return fmt.Errorf("%w: the status %q is unknown", db.ErrInvalid, s.Status)
	}
	for what, text := range map[string]*string{"prompt": &s.Prompt, "result text": s.ResultText, "error": s.Error} {
		if text != nil {
			if err := checkText(what, *text); err != nil {
				return err
			}
		}
	}
	if err := checkFurther(s.Further); err != nil {
		return err
	}
	for i := range r.Events {
		if err := r.Events[i].Event.check(); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if err := checkFurther(r.Events[i].Further); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func checkFurther(text []byte) error {
	if text == nil {
		return nil
	}
	m, reason := wholeMembers(text, 0)
	if reason == "" && m.array {
		reason = "it is an array"
	}
	if reason != "" {
		return fmt.Errorf("%w: the further members can't be read: %s", db.ErrInvalid, reason)
	}
	return nil
}
