package live

import (
	"context"
	"iter"

	"selvedge/db"
)

// A RunEventPage is a part of a run's events, and how it lies among them.
type RunEventPage struct {
	Events                  []RunEventRecord
	FirstAvailableSequence  *uint64 // of the oldest event that is kept; nil: none is
	LatestSequenceExclusive uint64  // the run's event count
	NextAfterSequence       *uint64 // of the last event in the page, else the cursor that was given
	RetentionGap            bool    // events behind the cursor were removed: the page does not begin where it was asked to
	HasMore                 bool
}

const (
	sqlEvents      = `SELECT id, sequence, recorded_at, event, raw FROM live_events WHERE id >= ? AND id < ? ORDER BY id LIMIT ?`
	sqlEventsAfter = `SELECT id, sequence, recorded_at, event, raw FROM live_events WHERE id >= ? AND id < ? AND sequence > ? ORDER BY id LIMIT ?`
)

// eventPageSize is how many events iterators read in one transaction.
const eventPageSize = 500

type eventRow struct {
	ID         int64  `db:"id"`
	Sequence   *int64 `db:"sequence"`
	RecordedAt int64  `db:"recorded_at"`
	Event      []byte `db:"event"`
	Raw        []byte `db:"raw"`
}

func (w *eventRow) record() (RunEventRecord, error) {
	if w.Raw != nil {
		m, reason := wholeMembers(w.Raw, 0)
		var e RunEventRecord
		if reason == "" {
			e, reason = m.eventRecord(true)
		}
		if reason != "" {
			return e, damaged(w.ID, reason)
		}
		return e, nil
	}
	e := RunEventRecord{TimestampMs: timeValue(w.RecordedAt, nil)}
	if w.Sequence != nil {
		e.Sequence = uint64(*w.Sequence)
	} else {
		e.Sequence = uint64(w.ID) & maxPlace
	}
	var reason string
	if e.Event, reason = readEvent(w.Event, true); reason != "" {
		return e, damaged(w.ID, reason)
	}
	return e, nil
}

func damaged(id int64, reason string) error {
	return &db.Error{Op: "read live event", Err: errDamaged(id, reason)}
}

// Events gives all events of a run that are kept, in order, from one snapshot. A run that is not here has none.
func (s *Store) Events(ctx context.Context, runID string) (events []RunEventRecord, err error) {
	err = s.read(ctx, "read live events", runID, func(rx *db.Rx, scope int64) error {
		row, found, err := findRun(rx, scope, runID)
		if err != nil || !found {
			return err
		}
		events, err = row.events(rx, row.first(), -1)
		return err
	})
	return events, err
}

// EventPage gives at most limit events behind the sequence after, nil for the beginning; found is false for a run that is
// not here. A limit of 0 gives none and says how the run stands. Its cost depends on the page alone.
//
// db.ErrInvalid: the limit is negative.
func (s *Store) EventPage(ctx context.Context, runID string, after *uint64, limit int) (page RunEventPage, found bool, err error) {
	const why = "page live events"
	if limit < 0 {
		return page, false, &db.Error{Op: why, Err: errLimit(limit)}
	}
	err = s.read(ctx, why, runID, func(rx *db.Rx, scope int64) error {
		row, ok, err := findRun(rx, scope, runID)
		found = ok
		if err != nil || !ok {
			return err
		}
		page, err = row.page(rx, after, limit)
		return err
	})
	return page, found && err == nil, err
}

func (w *runRow) page(rx *db.Rx, after *uint64, limit int) (page RunEventPage, err error) {
	page = RunEventPage{LatestSequenceExclusive: w.count(), NextAfterSequence: after}
	oldest, err := w.events(rx, w.first(), 1)
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
	past := after != nil && start == 0 // behind the largest number there is: nothing can be
	page.RetentionGap = !past && start < w.count() && (len(oldest) == 0 || start < oldest[0].Sequence)
	if past {
		return page, nil
	}
	if page.Events, err = w.eventsFrom(rx, after, start, limit+1); err != nil {
		return page, err
	}
	if page.HasMore = len(page.Events) > limit; page.HasMore {
		page.Events = page.Events[:limit]
	}
	if n := len(page.Events); n > 0 {
		page.NextAfterSequence = &page.Events[n-1].Sequence
	}
	return page, nil
}

// eventsFrom gives events of sequence start and later, which is one behind after.
func (w *runRow) eventsFrom(rx *db.Rx, after *uint64, start uint64, limit int) ([]RunEventRecord, error) {
	if w.Places == nil {
		if start > maxPlace {
			return nil, nil
		}
		return w.events(rx, w.first()+int64(start), limit)
	}
	if after == nil {
		return w.events(rx, w.first(), limit)
	}
	if *after < maxInt64 {
		return selectEvents(rx, sqlEventsAfter, w.first(), w.end(), int64(*after), limit)
	}
	// The column has one number for all of them.
	events, err := selectEvents(rx, sqlEventsAfter, w.first(), w.end(), int64(maxInt64-1), -1)
	if err != nil {
		return nil, err
	}
	var later []RunEventRecord
	for _, e := range events {
		if e.Sequence > *after && len(later) < limit {
			later = append(later, e)
		}
	}
	return later, nil
}

// events gives at most limit events from an id on; a negative limit is none.
func (w *runRow) events(rx *db.Rx, from int64, limit int) ([]RunEventRecord, error) {
	return selectEvents(rx, sqlEvents, from, w.end(), limit)
}

func selectEvents(rx *db.Rx, query string, args ...any) ([]RunEventRecord, error) {
	var rows []eventRow
	if err := rx.Select(&rows, query, args...); err != nil {
		return nil, err
	}
	events := make([]RunEventRecord, len(rows))
	for i := range rows {
		var err error
		if events[i], err = rows[i].record(); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// EachEvent gives the events of a run one by one, read in pages: no transaction is open while the caller's loop runs.
// Events that are added meanwhile are seen, too. After an error there is nothing more.
//
// db.ErrCursorExpired: events that were not read yet were removed meanwhile, or the run was replaced.
func (s *Store) EachEvent(ctx context.Context, runID string) iter.Seq2[RunEventRecord, error] {
	return func(yield func(RunEventRecord, error) bool) {
		at := place{}
		for {
			events, found, err := s.eventsBehind(ctx, runID, &at, eventPageSize)
			if err != nil {
				yield(RunEventRecord{}, err)
				return
			}
			for _, e := range events {
				if !yield(e.RunEventRecord, nil) {
					return
				}
			}
			if !found || len(events) < eventPageSize {
				return
			}
		}
	}
}
