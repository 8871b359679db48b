package live

import (
	"context"
	"fmt"

	"selvedge/db"
)

// RecordEvent adds an event to a run and moves the run on. The snapshot is the run's after it; found is false, and nothing
// is stored, for a run that is not here.
//
// db.ErrInvalid: the event was not made by NewEvent, or the run has no sequence left.
func (s *Store) RecordEvent(ctx context.Context, runID string, event Event) (run RunSnapshot, found bool, err error) {
	err = s.write(ctx, "record live event", runID, func(tx *db.Tx, scope int64) error {
		run, found, err = s.recordEvent(tx, scope, runID, event)
		return err
	})
	return run, found && err == nil, err
}

// RecordEvents is RecordEvent for several events of a run: all are stored or none.
func (s *Store) RecordEvents(ctx context.Context, runID string, events []Event) (run RunSnapshot, found bool, err error) {
	err = s.write(ctx, "record live events", runID, func(tx *db.Tx, scope int64) error {
		for _, event := range events {
			if run, found, err = s.recordEvent(tx, scope, runID, event); err != nil || !found {
				return err
			}
		}
		if len(events) > 0 {
			return nil
		}
		row, ok, err := findRun(&tx.Rx, scope, runID)
		run, found = row.snapshot(), ok
		return err
	})
	return run, found && err == nil, err
}

// recordEvent takes the next sequence and stores the event. The run's row is the lock: here the one writer holds it, on a
// database with several it is read for update.
func (s *Store) recordEvent(tx *db.Tx, scope int64, runID string, event Event) (RunSnapshot, bool, error) {
	if err := event.check(); err != nil {
		return RunSnapshot{}, false, err
	}
	row, found, err := findRun(&tx.Rx, scope, runID)
	if err != nil || !found {
		return RunSnapshot{}, false, err
	}
	record := RunEventRecord{Sequence: row.count(), TimestampMs: nowMillis(&tx.Rx), Event: event}
	place := row.nextPlace()
	if uint64(place) > maxPlace || record.Sequence+1 == 0 {
		return RunSnapshot{}, false, fmt.Errorf("%w: the run has no sequence left", db.ErrInvalid)
	}
	if err := row.insertEvent(tx, place, &record); err != nil {
		return RunSnapshot{}, false, err
	}
	words := row.apply(event)
	row.setCount(record.Sequence + 1)
	row.setUpdated(record.TimestampMs)
	if row.Places != nil {
		*row.Places++
	}
	row.KeptEvents++
	row.KeptBytes += record.size()
	if err := row.move(tx); err != nil {
		return RunSnapshot{}, false, err
	}
	if words {
		if err := row.setTexts(tx); err != nil {
			return RunSnapshot{}, false, err
		}
	}
	return row.snapshot(), true, s.caps.trim(tx, row)
}

// nextPlace is the lower half of the next event's id.
func (w *runRow) nextPlace() int64 {
	if w.Places != nil {
		return *w.Places
	}
	return w.EventCount
}

// apply moves the run's status and texts on; words is true when a text changed.
func (w *runRow) apply(event Event) (words bool) {
	if w.Status == Cancelled {
		return false
	}
	switch event.kind {
	case "agent_start":
		w.Status = Executing
		if w.Prompt == "" && event.field != "" {
			w.Prompt = event.field
			return true
		}
	case "planning_start":
		w.Status = Planning
	case "step_start", "tool_start", "turn_start":
		if w.Status != Planning {
			w.Status = Executing
		}
	case "agent_end":
		w.Status = Completed
		w.ResultText, w.Error = &event.field, nil
		return true
	case "error":
		w.Status = Failed
		w.Error = &event.field
		return true
	}
	return false
}

const (
	sqlOldestEvents = `SELECT e.id, CASE WHEN e.raw IS NOT NULL THEN length(e.raw)
	ELSE 38 + length(coalesce(e.sequence, e.id & 4294967295)) + length(e.recorded_at / 1000000) + length(e.event) END AS size
FROM live_events AS e WHERE e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ?`
	sqlDropEvents = `DELETE FROM live_events WHERE id >= ? AND id <= ?`
	sqlSetKept    = `UPDATE live_runs SET kept_events = ?, kept_bytes = ? WHERE key = ?`
)

// trim takes the oldest events out until the caps hold.
func (c caps) trim(tx *db.Tx, w *runRow) error {
	before := w.KeptEvents
	for w.KeptEvents > 0 && (c.events.over(w.KeptEvents) > 0 || c.bytes.over(w.KeptBytes) > 0) {
		var oldest []struct {
			ID   int64 `db:"id"`
			Size int64 `db:"size"`
		}
		const some = 256
		if err := tx.Select(&oldest, sqlOldestEvents, w.first(), w.end(), min(some, max(1, c.events.over(w.KeptEvents)))); err != nil {
			return err
		}
		if len(oldest) == 0 {
			return fmt.Errorf("%w: live run %q counts events that are not there", db.ErrCorrupt, w.RunID)
		}
		last := w.first()
		for _, e := range oldest {
			if c.events.over(w.KeptEvents) == 0 && c.bytes.over(w.KeptBytes) == 0 {
				break
			}
			last = e.ID
			w.KeptEvents--
			w.KeptBytes -= e.Size
		}
		if _, err := tx.Exec(sqlDropEvents, w.first(), last); err != nil {
			return err
		}
	}
	if w.KeptEvents == before {
		return nil
	}
	_, err := tx.Exec(sqlSetKept, w.KeptEvents, w.KeptBytes, w.Key)
	return err
}
