package live

import (
	"context"
	"errors"

	"selvedge/db"
	"selvedge/internal/live"
)

// The calls of the session store that this package took over, by their names and with their meaning. A run that is not here
// is found false, and no error; new programs are better served by the calls that each names.

// RecordEvent adds an event to a run and moves the run on. The snapshot is the run's after it; found is false, and nothing
// is stored, for a run that is not here. [Store.Append] tells that as an error, can be repeated, and does not read the run's
// texts for an answer.
//
// db.ErrInvalid: the event was not made by NewEvent, or the run has no sequence left.
func (s *Store) RecordEvent(ctx context.Context, runID string, event Event) (run RunSnapshot, found bool, err error) {
	return s.RecordEvents(ctx, runID, []Event{event})
}

// RecordEvents is RecordEvent for several events of a run: all are stored or none.
func (s *Store) RecordEvents(ctx context.Context, runID string, events []Event) (run RunSnapshot, found bool, err error) {
	err = s.write(ctx, opAppend, runID, func(tx *db.Tx, scope int64) error {
		row, _, err := s.append(tx, scope, runID, Batch{Events: events})
		if found = err == nil; err != nil {
			return err
		}
		whole, err := row.Whole(&tx.Rx)
		run = snapshotOf(whole.Snapshot())
		return err
	})
	return foundOrNot(run, found, err)
}

// foundOrNot is an answer in which a run that is not here is no error.
func foundOrNot(run RunSnapshot, found bool, err error) (RunSnapshot, bool, error) {
	switch {
	case errors.Is(err, db.ErrNotFound):
		return RunSnapshot{}, false, nil
	case err != nil || !found:
		return RunSnapshot{}, false, err
	}
	return run, true, nil
}

// MarkFailed fails a run from outside, with what went wrong. A cancelled run stays as it is. found is false for a run that
// is not here.
func (s *Store) MarkFailed(ctx context.Context, runID, message string) (run RunSnapshot, found bool, err error) {
	return s.mark(ctx, "mark live run failed", runID, func(tx *db.Tx, row *live.Row) error { return fail(tx, row, message) })
}

// MarkCancelled cancels a run, whatever its status. found is false for a run that is not here.
func (s *Store) MarkCancelled(ctx context.Context, runID string) (run RunSnapshot, found bool, err error) {
	return s.mark(ctx, "mark live run cancelled", runID, cancel)
}

func (s *Store) mark(ctx context.Context, why, runID string, change func(*db.Tx, *live.Row) error) (run RunSnapshot, found bool, err error) {
	err = s.write(ctx, why, runID, func(tx *db.Tx, scope int64) error {
		row, ok, err := live.FindRow(&tx.Rx, scope, runID)
		if found = ok; err != nil || !ok {
			return err
		}
		if err := change(tx, row); err != nil {
			return err
		}
		whole, err := row.Whole(&tx.Rx)
		run = snapshotOf(whole.Snapshot())
		return err
	})
	return foundOrNot(run, found, err)
}

// Snapshot is what the run sums up to; found is false for a run that is not here.
func (s *Store) Snapshot(ctx context.Context, runID string) (run RunSnapshot, found bool, err error) {
	err = s.read(ctx, "read live run", runID, func(rx *db.Rx, scope int64) error {
		found, run, err = s.snapshot(rx, scope, runID)
		return err
	})
	return foundOrNot(run, found, err)
}

// Events gives all events of a run that are kept, in order, from one snapshot. A run that is not here has none.
// [Store.EachEvent] reads them in pages.
func (s *Store) Events(ctx context.Context, runID string) (events []RunEventRecord, err error) {
	err = s.read(ctx, "read live events", runID, func(rx *db.Rx, scope int64) error {
		row, found, err := live.FindRow(rx, scope, runID)
		if err != nil || !found {
			return err
		}
		stored, err := row.Events(rx, 0, live.NoLimit)
		events = eventRecordsOf(stored)
		return err
	})
	return events, err
}

// List gives all runs of the scope in the order of their creation, from one snapshot. Runs of the same millisecond are in
// the order in which they were added.
func (s *Store) List(ctx context.Context) ([]RunSnapshot, error) {
	items, _, err := s.list(ctx, Filter{}, listPlace{-1, -1}, live.NoLimit)
	return items, err
}

// Records gives all runs of the scope with the events that are kept, in the order of List, from one snapshot.
func (s *Store) Records(ctx context.Context) (records []RunRecord, err error) {
	err = s.readScope(ctx, "read live records", func(rx *db.Rx, scope int64) error {
		records = nil
		var rows []live.WholeRow
		if err := rx.Select(&rows, sqlRuns, scope, -1, -1, int64(live.NoLimit)); err != nil {
			return err
		}
		for i := range rows {
			record, err := rows[i].Record(rx)
			if err != nil {
				return err
			}
			records = append(records, recordOf(record))
		}
		return nil
	})
	return records, err
}
