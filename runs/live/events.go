package live

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const opEvents = "read live events"

// EventsPage returns a page of the events of a run that are kept, in order. Its cursors are those
// of [Store.Follow], which continues after the last item. If a cap removed events after the
// cursor, the first item is a gap. db.ErrNotFound: there is no such run. db.ErrCursorExpired: the
// cursor's run was removed or replaced.
func (s *Store) EventsPage(ctx context.Context, runID string, at db.At) (page db.Page[Followed], err error) {
	return stores.Get(ctx, s.db.Read, opEvents,
		func(rx *db.Rx) (db.Page[Followed], error) { return s.EventsPageTx(rx, runID, at) })
}

// EventsPageTx is EventsPage inside a transaction.
func (s *Store) EventsPageTx(rx *db.Rx, runID string, at db.At) (page db.Page[Followed], err error) {
	row, place, err := s.placeIn(rx, runID, at.After)
	if err == nil {
		if at.After == "" {
			place.Seen = row.FirstPlace // no gap for what was removed before
		}
		page, err = stream.Page(rx, place, at)
	}
	return page, named(opEvents, runID, err)
}

// EachEvent returns the events of a run that are kept, read in pages: no transaction is open while
// the caller's loop runs, and it sees events that are added meanwhile. The loop ends at an error.
//
// db.ErrNotFound: there is no such run. db.ErrCursorExpired: unread events were removed meanwhile,
// or the run was removed or replaced.
func (s *Store) EachEvent(ctx context.Context, runID string) iter.Seq2[RunEventRecord, error] {
	return func(yield func(RunEventRecord, error) bool) {
		page := func(at db.At) (db.Page[Followed], error) { return s.EventsPage(ctx, runID, at) }
		for f, err := range paging.All(page) {
			if err == nil && f.What == db.Gap {
				err = named(opEvents, runID, txn.CursorExpired(f.Reason))
			}
			if !yield(f.Item, err) || err != nil {
				return
			}
		}
	}
}
