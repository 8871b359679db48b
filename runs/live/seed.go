package live

import (
	"context"
	"errors"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// The calls of the original session store, with its names and meaning. For a run that does not
// exist, found is false and there is no error. New programs should use the calls that each comment
// names.

// CreateRun adds a run under a new id, "run-" and a UUID.
func (s *Store) CreateRun(ctx context.Context, sessionID, prompt string) (RunSnapshot, error) {
	return s.CreateRunWithID(ctx, newID(), sessionID, prompt)
}

// CreateRunWithID adds a run under the caller's id. It replaces a run of that id and its events;
// [Store.ReserveRunWithID] does not. db.ErrConflict: that run is held.
func (s *Store) CreateRunWithID(ctx context.Context, id, sessionID, prompt string) (RunSnapshot, error) {
	run, err := within(ctx, stores.On(s.db, txn.LiveRuns).Write, opCreate,
		func(tx *db.Tx) (RunSnapshot, error) { return s.CreateRunWithIDTx(tx, id, sessionID, prompt) })
	if err == nil {
		_ = s.dropLeftovers(ctx) // an error would mean that the run was not created
	}
	return run, err
}

// ReserveRunWithID adds a run under the caller's id unless it exists, so that a start can be
// repeated safely. Of concurrent callers, in any process, one adds it and all get it.
func (s *Store) ReserveRunWithID(ctx context.Context, id, sessionID, prompt string) (Reservation, error) {
	r, err := within(ctx, stores.On(s.db, txn.LiveRuns).Write, opReserve,
		func(tx *db.Tx) (Reservation, error) { return s.ReserveRunWithIDTx(tx, id, sessionID, prompt) })
	if err == nil && !r.Existing {
		_ = s.dropLeftovers(ctx) // of a run that a cap removed; an error is not about this one
	}
	return r, err
}

// RecordEvent adds events to a run, all or none, and moves the run on. The snapshot is the run's
// after them; found is false, and nothing is stored, for a run that does not exist. [Store.Append]
// reports that as an error, can be repeated, and does not read the run's texts for an answer.
//
// db.ErrInvalid: an event was not made by NewEvent, or the run has no sequence left. db.ErrConflict:
// the run is held.
func (s *Store) RecordEvent(ctx context.Context, runID string, events ...Event) (run RunSnapshot, found bool,
	err error,
) {
	err = s.write(ctx, writing(s.db, events), opAppend, runID, func(tx *db.Tx, scope int64) error {
		row, _, err := s.append(tx, scope, runID, Batch{Events: events})
		if found = err == nil; err != nil {
			return err
		}
		run, err = row.seen(&tx.Rx)
		return err
	})
	switch {
	case errors.Is(err, db.ErrNotFound):
		return RunSnapshot{}, false, nil
	case err != nil:
		return RunSnapshot{}, false, err
	}
	return run, found, nil
}

// MarkFailed fails a run from outside, with an error message, and ends the lease by which it is held.
// A cancelled run stays as it is. found is false for a run that does not exist. Followers receive the
// new status.
func (s *Store) MarkFailed(ctx context.Context, runID, message string) (run RunSnapshot, found bool,
	err error,
) {
	return stores.Find(ctx, stores.On(s.db, txn.LiveRuns).End, opFail,
		func(tx *db.Tx) (RunSnapshot, bool, error) { return s.MarkFailedTx(tx, runID, message) })
}

// MarkCancelled cancels a run, whatever its status, and ends the lease by which it is held. found is
// false for a run that does not exist. Followers receive the new status.
func (s *Store) MarkCancelled(ctx context.Context, runID string) (run RunSnapshot, found bool, err error) {
	return stores.Find(ctx, stores.On(s.db, txn.LiveRuns).End, opCancel,
		func(tx *db.Tx) (RunSnapshot, bool, error) { return s.MarkCancelledTx(tx, runID) })
}

// Snapshot returns the snapshot of a run; found is false for a run that does not exist.
func (s *Store) Snapshot(ctx context.Context, runID string) (run RunSnapshot, found bool, err error) {
	err = s.read(ctx, "read live run", runID, func(rx *db.Rx, scope int64) error {
		found, run, err = s.snapshot(rx, scope, runID)
		return err
	})
	if err != nil {
		return RunSnapshot{}, false, err
	}
	return run, found, nil
}

// Events returns all events of a run that are kept, in order, read in one transaction. A run that
// does not exist has none. [Store.EachEvent] reads them in pages.
func (s *Store) Events(ctx context.Context, runID string) (events []RunEventRecord, err error) {
	err = s.read(ctx, "read live events", runID, func(rx *db.Rx, scope int64) error {
		row, found, err := findRow(rx, scope, runID)
		if err != nil || !found {
			return err
		}
		events, err = row.events(rx, 0, paging.NoLimit)
		return err
	})
	return events, err
}

// List returns all runs of the scope in order of creation, read in one transaction. Runs of the
// same millisecond are in the order in which they were added. [Store.Page] and [Store.All] read
// long lists in parts.
func (s *Store) List(ctx context.Context) ([]RunSnapshot, error) {
	var rows []wholeRow
	err := s.readScope(ctx, opList, func(rx *db.Rx, scope int64) (err error) {
		rows, err = list(rx, scope, Filter{}, beginning, nil)
		return err
	})
	runs := make([]RunSnapshot, len(rows))
	for i := range rows {
		runs[i] = rows[i].snapshot()
	}
	return runs, err
}

// Records returns all runs of the scope with the events that are kept, in the order of List, read
// in one transaction.
func (s *Store) Records(ctx context.Context) (records []RunRecord, err error) {
	err = s.readScope(ctx, "read live records", func(rx *db.Rx, scope int64) error {
		records = nil
		rows, err := list(rx, scope, Filter{}, beginning, nil)
		if err != nil {
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

// A RunEventPage is a page of a run's events, and its place among them.
type RunEventPage struct {
	Events                  []RunEventRecord
	FirstAvailableSequence  *uint64 // of the oldest event that is kept; nil: none is
	LatestSequenceExclusive uint64  // the run's event count
	NextAfterSequence       *uint64 // of the last event in the page, else the given sequence
	RetentionGap            bool    // events at the beginning of the page were removed
	HasMore                 bool
}

// EventPage returns at most limit events after a sequence, nil for the beginning; found is false
// for a run that does not exist. A limit of 0 returns no events, but the rest of the page. Its cost
// depends on the page alone.
//
// db.ErrInvalid: the limit is negative.
func (s *Store) EventPage(ctx context.Context, runID string, after *uint64, limit int) (page RunEventPage,
	found bool, err error,
) {
	const why = "page live events"
	if limit < 0 {
		return page, false, &db.Error{
			Op:  why,
			Err: txn.Invalid("ask for 1 or more", "the limit is %d", limit),
		}
	}
	err = s.read(ctx, why, runID, func(rx *db.Rx, scope int64) error {
		row, ok, err := findRow(rx, scope, runID)
		found = ok
		if err != nil || !ok {
			return err
		}
		page, err = pageOf(rx, row, after, int64(limit))
		return err
	})
	return page, found && err == nil, err
}

func pageOf(rx *db.Rx, w *runRow, after *uint64, limit int64) (page RunEventPage, err error) {
	page = RunEventPage{LatestSequenceExclusive: w.count(), NextAfterSequence: after}
	oldest, err := w.events(rx, 0, 1)
	if err != nil {
		return page, err
	}
	start := uint64(0)
	if after != nil {
		start = *after + 1
	}
	if len(oldest) > 0 {
		page.FirstAvailableSequence = &oldest[0].Sequence
	}
	past := after != nil && start == 0 // nothing follows the largest number
	page.RetentionGap = !past && start < w.count() && (len(oldest) == 0 || start < oldest[0].Sequence)
	events, err := w.eventsAfter(rx, after, limit+1)
	if err != nil {
		return page, err
	}
	if page.HasMore = int64(len(events)) > limit; page.HasMore {
		events = events[:limit]
	}
	page.Events = events
	if n := len(page.Events); n > 0 {
		page.NextAfterSequence = &page.Events[n-1].Sequence
	}
	return page, nil
}

// ReplaceRecords replaces all runs of the scope, running ones too; an empty list clears it. Of
// records with one id the last wins, with its events. A run's event count becomes the next event's
// sequence: the largest of the recorded count, its last sequence plus 1, and the number of its
// events. Caps apply: runs created first are removed first.
//
// Readers see all of the old runs or all of the new ones: it is one transaction, except that many
// events are written before it and deleted after it in short transactions, and are invisible
// meanwhile. It holds the writer for about 40 µs per run, however many events these have
// (docs/decisions/0016). After an error nothing has changed.
//
// db.ErrInvalid: an id is not possible, a status is unknown, a text is not UTF-8, or an event was
// not made by NewEvent. db.ErrConflict: a run that would be removed or replaced is held.
func (s *Store) ReplaceRecords(ctx context.Context, records []RunRecord) error {
	for i := range records {
		if err := records[i].check(); err != nil {
			return &db.Error{Op: opReplace, Entity: "live run", ID: records[i].Snapshot.ID, Err: err}
		}
	}
	list := lastOfEach(records)
	return s.replace(ctx, list[over(s.caps.runs, int64(len(list))):])
}
