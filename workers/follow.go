package workers

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Followed is what a follower of runtimes receives: an event of the log, a new status of the
// runtime, or a gap where events were pruned or the runtime was removed.
type Followed = db.Followed[RuntimeID, RuntimeEvent]

const opFollow = "follow runtimes"

// stream is how runtimes are followed. Positions are places in the log.
var stream = stores.Stream[RuntimeID, RuntimeEvent]{
	Op: opFollow, Name: "runtime", Born: Running, Table: "worker_runtimes", Key: "key",
	Gone: whyGone, End: sqlLogEnd, Read: readStretch,
}

// Follow delivers the events after a cursor and each new status of the runtime: first the existing
// ones, then new ones, from any process. Events come in the order of the log. None comes twice, and
// none is left out without a gap. The cursor is one of Follow, [Runtimes.FollowAll],
// [Runtime.EventsPage] or [Runtime.CursorBefore]; "" is the beginning. No transaction is open while
// the caller's loop runs, and nothing is read while the runtime does not change.
//
// It ends when the caller leaves the loop, or with an error: the cause of ctx, db.ErrClosed, or
// db.ErrCursorExpired when the runtime was removed. A cursor of another runtime is db.ErrInvalid.
func (r *Runtime) Follow(ctx context.Context, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, r.db, stream, func(rx *db.Rx) (stores.Place, error) {
		_, at, err := r.placeIn(rx, opFollow, cursor)
		return at, err
	})
}

// CursorBefore returns the cursor before the last events of the log, at most that many; for 0, the
// cursor at its end. Negative events are db.ErrInvalid.
func (r *Runtime) CursorBefore(ctx context.Context, events int64) (string, error) {
	return call(ctx, r.db.Read, opFollow, stores.Bind(r.CursorBeforeTx, events))
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (r *Runtime) CursorBeforeTx(rx *db.Rx, events int64) (string, error) {
	if events < 0 {
		return "", r.failed(opFollow, txn.Invalid("ask for 0 or more", "%d events", events))
	}
	row, at, err := r.placeIn(rx, opFollow, "")
	if err != nil {
		return "", err
	}
	at.Seen = max(row.FirstPosition, row.NextPosition-events) - 1
	if events == 0 {
		at.Status = string(row.Status)
	}
	return stream.Cursor(rx, at), nil
}

const opEvents = "read events"

// EventsPage returns a page of the log, in its order. The runtime's limits do not apply. Its
// cursors are those of [Runtime.Follow]. If events after the cursor were pruned, the first item is
// a gap.
func (r *Runtime) EventsPage(ctx context.Context, at db.At) (db.Page[Followed], error) {
	return call(ctx, r.db.Read, opEvents, stores.Bind(r.EventsPageTx, at))
}

// EventsPageTx is EventsPage inside a transaction.
func (r *Runtime) EventsPageTx(rx *db.Rx, at db.At) (page db.Page[Followed], err error) {
	row, place, err := r.placeIn(rx, opEvents, at.After)
	if err != nil {
		return page, err
	}
	if at.After == "" {
		place.Seen = row.FirstPosition - 1 // earlier events were pruned before this call
	}
	return stream.Page(rx, place, at)
}

// EachEvent iterates over the events of the log, page by page, and over those added meanwhile. No
// transaction is open while the caller's loop runs. An error ends the iteration.
// db.ErrCursorExpired: events that were not read yet were pruned, or the runtime was removed.
func (r *Runtime) EachEvent(ctx context.Context) iter.Seq2[RuntimeEvent, error] {
	return func(yield func(RuntimeEvent, error) bool) {
		pages := func(at db.At) (db.Page[Followed], error) { return r.EventsPage(ctx, at) }
		for f, err := range paging.All(pages) {
			if err == nil && f.What == db.Gap {
				err = txn.CursorExpired(f.Reason)
			}
			if !yield(f.Item, err) || err != nil {
				return
			}
		}
	}
}

// placeIn returns the runtime's row, and the place in its log that a cursor points at; "" is the
// beginning.
func (r *Runtime) placeIn(rx *db.Rx, op, cursor string) (row *runtimeRow, at stores.Place, err error) {
	if err := rx.Store().Of(r.db.Store()); err != nil {
		return nil, at, err
	}
	at, err = stream.PlaceIn(rx, cursor, func() (key int64, found bool, err error) {
		row, found, err = find[runtimeRow](rx, sqlRuntimeByKey, r.key)
		if err == nil && !found && cursor == "" {
			err = runtimeGone(op, r.id)
		}
		return r.key, found, err
	})
	return row, at, err
}

const whyGone = "the runtime was removed"

const sqlLogEnd = `SELECT key, next_event_position - 1 AS seen, status FROM worker_runtimes WHERE key = ?`

// readStretch reads the events after a place.
func readStretch(
	rx *db.Rx, at stores.Place, room paging.Room,
) (got stores.Stretch[RuntimeID, RuntimeEvent], err error) {
	row, found, err := find[runtimeRow](rx, sqlRuntimeByKey, at.Key)
	if err == nil && !found {
		err = txn.CursorExpired(whyGone)
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Status, got.Seen = row.RuntimeID, string(row.Status), at.Seen
	if at.Seen < row.FirstPosition-1 {
		got.Lost = "events that come next were pruned"
	}
	for event, err := range row.eachEvent(rx, at.Seen+1, int64(room.Items)+1) {
		if err != nil {
			return got, err
		}
		if got.More = !room.Take(event.weight()); got.More {
			return got, nil
		}
		got.Seen = event.place()
		e, err := event.event(row.RuntimeID)
		if err != nil {
			return got, err
		}
		got.Items = append(got.Items, stores.Placed[RuntimeEvent]{Position: got.Seen, Item: e})
	}
	got.Seen = max(at.Seen, row.NextPosition-1) // an imported log may end before its next place
	return got, nil
}
