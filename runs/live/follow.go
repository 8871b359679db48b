package live

import (
	"context"
	"iter"

	"selvedge/db"
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
