package live

import (
	"context"
	"iter"

	"selvedge/db"
)

const opEvents = "read live events"

// EventsPage gives a page of the events of a run that are kept, in order. Its cursors are those of
// [Store.Follow], which goes on behind the last item; where a cap took events behind the cursor,
// the first item is a gap. db.ErrNotFound: there is no such run. db.ErrCursorExpired: the run that
// the cursor is of was removed or replaced.
func (s *Store) EventsPage(ctx context.Context, runID string, at db.At) (page db.Page[Followed], err error) {
	err = s.db.Read(ctx, opEvents, func(rx *db.Rx) error {
		page, err = s.EventsPageTx(rx, runID, at)
		return err
	})
	return page, err
}

// EventsPageTx is EventsPage inside a transaction.
func (s *Store) EventsPageTx(rx *db.Rx, runID string, at db.At) (page db.Page[Followed], err error) {
	row, place, err := s.placeIn(rx, runID, at.After)
	if err == nil {
		if at.After == "" {
			place.Seen = row.FirstPlace // what was removed before is not asked for
		}
		page, err = stream.Page(rx, place, at)
	}
	return page, named(opEvents, runID, err)
}

// EachEvent gives the events of a run that are kept one by one, read in pages: no transaction is
// open while the caller's loop runs, and events that are added meanwhile are seen. After an error
// there is nothing more.
//
// db.ErrNotFound: there is no such run. db.ErrCursorExpired: events that were not read yet were
// removed meanwhile, or the run was removed or replaced.
func (s *Store) EachEvent(ctx context.Context, runID string) iter.Seq2[RunEventRecord, error] {
	return func(yield func(RunEventRecord, error) bool) {
		for f, err := range db.AllPages(func(at db.At) (db.Page[Followed],
			error,
		) {
			return s.EventsPage(ctx, runID, at)
		}) {
			if err == nil && f.What == db.Gap {
				err = named(opEvents, runID, db.CursorExpired(f.Reason))
			}
			if !yield(f.Item, err) || err != nil {
				return
			}
		}
	}
}
