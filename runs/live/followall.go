package live

import (
	"context"
	"iter"
	"time"

	"selvedge/db"
)

// FollowAll delivers what is recorded from this call on in the runs of the scope, or in those of one session where session
// is not nil. New runs begin with the oldest event that is kept. Inside a run nothing is left out or comes twice; between
// runs the order is that in which they were met. The loop may be run once; like that of [Store.Follow] it ends without an
// error when ctx ends.
//
// There is no cursor for all runs together: no order across runs is kept, so each cursor belongs to its run, for
// [Store.Follow].
//
// db.ErrCursorExpired: events that were seen to be there were removed before they were read, by a cap or with their run.
// That a run goes of which nothing was to come is no error; one that came and went between two looks is not seen.
//
// After a commit it looks at the rows of all live runs of the file, about 1 ms for 1,000 of them, and it looks no more than
// a fifth of the time.
func (s *Store) FollowAll(ctx context.Context, session *string) (iter.Seq2[FollowedEvent, error], error) {
	watching, stop := context.WithCancel(ctx)
	changes, err := s.db.Changes(watching)
	f := followed{store: s, session: session, places: map[int64]place{}}
	if err == nil {
		err = f.begin(ctx)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return func(yield func(FollowedEvent, error) bool) {
		defer stop()
		if err := f.follow(ctx, changes, yield); err != nil && ctx.Err() == nil {
			yield(FollowedEvent{}, err)
		}
	}, nil
}

// restFactor is how much longer than a look the rest after it takes.
const restFactor = 4

const whyFollowAll = "follow live runs"

// followed is how far the runs of a FollowAll were read.
type followed struct {
	store   *Store
	session *string
	places  map[int64]place // by key
}

// An eventEnd is how far the events of a run went when it was looked at.
type eventEnd struct {
	Key   int64  `db:"key"`
	RunID string `db:"run_id"`
	Next  int64  `db:"next"` // the place of the event to come
}

const sqlEventEnds = `SELECT key, run_id, coalesce(places, event_count) AS next FROM live_runs
WHERE +scope = ? AND session_id = coalesce(?, session_id) ORDER BY key`

func (f *followed) look(ctx context.Context) (ends []eventEnd, err error) {
	err = f.store.readScope(ctx, whyFollowAll, func(rx *db.Rx, scope int64) error {
		ends = ends[:0]
		return rx.Select(&ends, sqlEventEnds, scope, f.session)
	})
	return ends, err
}

// begin leaves out what is there.
func (f *followed) begin(ctx context.Context) error {
	ends, err := f.look(ctx)
	for _, e := range ends {
		f.places[e.Key] = place{run: e.Key, next: e.Next}
	}
	return err
}

// follow returns nil when the loop was left.
func (f *followed) follow(ctx context.Context, changes <-chan struct{}, yield func(FollowedEvent, error) bool) error {
	for range changes {
		began := time.Now()
		ends, err := f.look(ctx)
		if err != nil {
			return err
		}
		took := time.Since(began)
		before := f.places
		f.places = make(map[int64]place, len(ends)) // without those that went
		for _, e := range ends {
			at, known := before[e.Key]
			if !known && e.Next == 0 {
				at.run = e.Key
			}
			if at.next < e.Next {
				if left, err := f.deliver(ctx, e, &at, yield); left || err != nil {
					return err
				}
			}
			f.places[e.Key] = at
		}
		select {
		case <-time.After(restFactor * took):
		case <-ctx.Done():
		}
	}
	return &db.Error{Op: whyFollowAll, Err: db.ErrClosed}
}

// deliver gives the events behind a place to yield, at least those that were there at the look, and moves the place on; left
// is true when yield has enough.
func (f *followed) deliver(ctx context.Context, end eventEnd, at *place, yield func(FollowedEvent, error) bool) (left bool, err error) {
	for at.next < end.Next {
		events, found, err := f.store.eventsBehind(ctx, end.RunID, at, eventPageSize)
		if err == nil && (!found || at.run != end.Key) {
			err = named(whyFollowAll, end.RunID, errExpired("the run was removed or replaced before its events were read"))
		}
		if err != nil {
			return false, err
		}
		for _, e := range events {
			if !yield(e, nil) {
				return true, nil
			}
		}
		if len(events) < eventPageSize {
			break
		}
	}
	return false, nil
}
