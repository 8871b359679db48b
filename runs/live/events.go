package live

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/live"
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

// eventPageSize is how many events iterators read in one transaction.
const eventPageSize = 500

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
		row, ok, err := live.FindRow(rx, scope, runID)
		found = ok
		if err != nil || !ok {
			return err
		}
		page, err = pageOf(rx, row, after, int64(limit))
		return err
	})
	return page, found && err == nil, err
}

func pageOf(rx *db.Rx, w *live.Row, after *uint64, limit int64) (page RunEventPage, err error) {
	page = RunEventPage{LatestSequenceExclusive: w.Count(), NextAfterSequence: after}
	oldest, err := w.Events(rx, 0, 1)
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
	page.RetentionGap = !past && start < w.Count() && (len(oldest) == 0 || start < oldest[0].Sequence)
	events, err := w.EventsBehind(rx, after, limit+1)
	if err != nil {
		return page, err
	}
	if page.HasMore = int64(len(events)) > limit; page.HasMore {
		events = events[:limit]
	}
	page.Events = eventRecordsOf(events)
	if n := len(page.Events); n > 0 {
		page.NextAfterSequence = &page.Events[n-1].Sequence
	}
	return page, nil
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
