package live

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/live"
)

// Follow gives the events of a run as they are recorded, by whichever process, without gaps or repeats, until ctx ends: the
// loop then ends without an error. It starts behind the event that cursor was given with, "" for the oldest event that is
// kept. Nothing polls: db.DB.Changes wakes it. After an error there is nothing more.
//
// db.ErrNotFound: there is no such run. db.ErrCursorExpired: events behind the cursor were removed by a cap, or the run was
// removed or replaced, before the call or during it.
func (s *Store) Follow(ctx context.Context, runID, cursor string) iter.Seq2[FollowedEvent, error] {
	const why = "follow live run"
	return func(yield func(FollowedEvent, error) bool) {
		at, err := parseCursor(cursor)
		if err != nil {
			yield(FollowedEvent{}, &db.Error{Op: why, Entity: "live run", ID: runID, Err: err})
			return
		}
		watching, stop := context.WithCancel(ctx)
		defer stop()
		changes, err := s.db.Changes(watching)
		if err != nil {
			if ctx.Err() == nil {
				yield(FollowedEvent{}, named(why, runID, err))
			}
			return
		}
		for {
			events, found, err := s.eventsBehind(ctx, runID, &at, eventPageSize)
			if ctx.Err() != nil {
				return
			}
			if err == nil && !found {
				err = &db.Error{Op: why, Entity: "live run", ID: runID, Err: db.ErrNotFound}
			}
			if err != nil {
				yield(FollowedEvent{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if len(events) == eventPageSize {
				continue
			}
			if _, open := <-changes; !open {
				if ctx.Err() == nil {
					yield(FollowedEvent{}, &db.Error{Op: why, Entity: "live run", ID: runID, Err: db.ErrClosed})
				}
				return
			}
		}
	}
}

const sqlFirstOfLast = `SELECT min(last.id) FROM (SELECT id FROM live_events WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?) AS last`

// CursorBefore gives the cursor with which the last events of a run come first, at most that many of those that are kept; 0
// events is the end, for what is yet to come. db.ErrNotFound: there is no such run. db.ErrInvalid: events is negative.
func (s *Store) CursorBefore(ctx context.Context, runID string, events int) (cursor string, err error) {
	const why = "find last live events"
	if events < 0 {
		return "", &db.Error{Op: why, Entity: "live run", ID: runID, Err: errLimit(events)}
	}
	found := false
	err = s.read(ctx, why, runID, func(rx *db.Rx, scope int64) error {
		row, ok, err := live.FindRow(rx, scope, runID)
		if found = ok; err != nil || !ok {
			return err
		}
		var first *int64
		if err := rx.Get(&first, sqlFirstOfLast, row.First(), row.End(), events); err != nil {
			return err
		}
		at := place{run: row.Key, next: row.NextPlace()}
		if first != nil {
			at.next = *first - row.First()
		}
		cursor = at.cursor()
		return nil
	})
	if err == nil && !found {
		err = &db.Error{Op: why, Entity: "live run", ID: runID, Err: db.ErrNotFound}
	}
	return cursor, err
}
