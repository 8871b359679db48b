package workers

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/internal/workers"
)

// A Followed is what a follower of runtimes is told: an event of the log, a new status of the
// runtime, or a gap where events were pruned or the runtime was removed.
type Followed = db.Followed[RuntimeID, RuntimeEvent]

const opFollow = "follow runtimes"

// stream is how runtimes are followed. Positions are places in the log.
var stream = db.Stream[RuntimeID, RuntimeEvent]{
	Op: opFollow, Name: "runtime", Born: workers.Running, Table: "worker_runtimes", Key: "key", End: logEnd,
	Read: readStretch,
}

// Follow delivers the events of the log that stand behind a cursor, first those that are there and
// then each as it comes, by whichever process, in the order of the log, none twice and none left
// out without a gap, and each new status of the runtime. The cursor is one of Follow,
// [Runtimes.FollowAll], [Runtime.EventsPage] or [Runtime.CursorBefore]; "" is the beginning. No
// transaction is open while the caller's loop runs, and nothing is read while nothing comes to the
// runtime.
//
// It goes on until the caller leaves the loop, or gives an error and ends: the cause once ctx ends,
// db.ErrClosed, or db.ErrCursorExpired when the runtime was removed. A cursor of another runtime is
// db.ErrInvalid.
func (r *Runtime) Follow(ctx context.Context, cursor string) iter.Seq2[Followed, error] {
	return db.Follow(ctx, r.db, stream, func(rx *db.Rx) (db.Place, error) {
		_, at, err := r.placeIn(rx, opFollow, cursor)
		return at, err
	})
}

// CursorBefore gives the cursor with which the last events of the log come first, at most that many
// of those that are kept; 0 events is the end, for what is yet to come. db.ErrInvalid: events is
// negative.
func (r *Runtime) CursorBefore(ctx context.Context, events int64) (cursor string, err error) {
	err = r.db.Read(ctx, opFollow, func(rx *db.Rx) error {
		cursor, err = r.CursorBeforeTx(rx, events)
		return err
	})
	return cursor, err
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (r *Runtime) CursorBeforeTx(rx *db.Rx, events int64) (string, error) {
	if events < 0 {
		return "", &db.Error{
			Op: opFollow, Entity: "runtime", ID: string(r.id), Hint: "ask for 0 or more",
			Err: fmt.Errorf("%w: %d events", db.ErrInvalid, events),
		}
	}
	row, at, err := r.placeIn(rx, opFollow, "")
	if err != nil {
		return "", err
	}
	at.Seen = max(row.FirstPosition, row.NextPosition-events) - 1
	if events == 0 {
		at.Status = row.Status
	}
	return stream.Cursor(rx, at), nil
}

const opEvents = "read events"

// EventsPage gives a page of the log, in its order, whatever the runtime's limits. Its cursors are
// those of [Runtime.Follow], which goes on behind the last item; where events behind the cursor
// were pruned, the first item is a gap.
func (r *Runtime) EventsPage(ctx context.Context, at db.At) (page db.Page[Followed], err error) {
	err = r.db.Read(ctx, opEvents, func(rx *db.Rx) error {
		page, err = r.EventsPageTx(rx, at)
		return err
	})
	return page, err
}

// EventsPageTx is EventsPage inside a transaction.
func (r *Runtime) EventsPageTx(rx *db.Rx, at db.At) (page db.Page[Followed], err error) {
	row, place, err := r.placeIn(rx, opEvents, at.After)
	if err != nil {
		return page, err
	}
	if at.After == "" {
		place.Seen = row.FirstPosition - 1 // what was pruned before is not asked for
	}
	return stream.Page(rx, place, at)
}

// EachEvent gives the events of the log that are kept one by one, read in pages: no transaction is
// open while the caller's loop runs, and events that come meanwhile are seen. After an error there
// is nothing more. db.ErrCursorExpired: events that were not read yet were pruned meanwhile, or the
// runtime was removed.
func (r *Runtime) EachEvent(ctx context.Context) iter.Seq2[RuntimeEvent, error] {
	return func(yield func(RuntimeEvent, error) bool) {
		for f, err := range db.AllPages(func(at db.At) (db.Page[Followed],
			error,
		) {
			return r.EventsPage(ctx, at)
		}) {
			if err == nil && f.What == db.Gap {
				err = db.CursorExpired(f.Reason)
			}
			if !yield(f.Item, err) || err != nil {
				return
			}
		}
	}
}

// placeIn is the runtime's row, and the place in its log that a cursor points at; "" is the beginning.
func (r *Runtime) placeIn(rx *db.Rx, op, cursor string) (row *workers.RuntimeRow, at db.Place, err error) {
	if err := rx.Of(r.db); err != nil {
		return nil, at, err
	}
	at.Key = r.key
	if cursor != "" {
		if at, err = stream.ReadCursor(rx, cursor); err != nil {
			return nil, at, err
		}
	}
	if at.Key != r.key {
		_, other, err := workers.RuntimeByKey(rx, at.Key)
		switch {
		case err != nil:
			return nil, at, err
		case other:
			return nil, at, db.NotThisCursor(cursor)
		}
		return nil, at, errRemoved()
	}
	row, found, err := workers.RuntimeByKey(rx, r.key)
	if err == nil && !found && cursor == "" { // behind a cursor it is who reads on that finds nothing
		err = r.gone(op)
	}
	return row, at, err
}

func errRemoved() error { return db.CursorExpired("the runtime was removed") }

func logEnd(rx *db.Rx, key int64) (db.Place, bool, error) {
	row, found, err := workers.RuntimeByKey(rx, key)
	if err != nil || !found {
		return db.Place{}, false, err
	}
	return db.Place{Key: key, Seen: row.NextPosition - 1, Status: row.Status}, true, nil
}

// readStretch reads what stands behind a place.
func readStretch(rx *db.Rx, at db.Place, room db.Room) (got db.Stretch[RuntimeID, RuntimeEvent], err error) {
	row, found, err := workers.RuntimeByKey(rx, at.Key)
	if err == nil && !found {
		err = errRemoved()
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Status, got.Seen = RuntimeID(row.RuntimeID), row.Status, at.Seen
	if at.Seen < row.FirstPosition-1 {
		got.Lost = "events that come next were pruned"
	}
	for event, err := range row.EachEvent(rx, at.Seen+1, int64(room.Items)+1) {
		if err != nil {
			return got, err
		}
		if got.More = !room.Take(event.Weight()); got.More {
			return got, nil
		}
		got.Seen = event.Place()
		e, err := event.Event(row.RuntimeID)
		if err != nil {
			return got, corrupted("read events", err)
		}
		got.Items = append(got.Items, db.Placed[RuntimeEvent]{Position: got.Seen, Item: eventOf(e)})
	}
	got.Seen = max(at.Seen, row.NextPosition-1) // an imported log may end before its next place
	return got, nil
}
