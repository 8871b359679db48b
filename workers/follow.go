package workers

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
)

// A Delivery is an event and the cursor behind it: what to go on from after a restart, once the event is dealt with.
type Delivery struct {
	Event  RuntimeEvent
	Cursor EventCursor
}

// followed is the number of events that FollowEvents reads at a time.
const followed = 256

// FollowEvents delivers the events from the cursor on, first those that are there and then each as it comes, by whichever
// process, in the order of the log, none twice and none left out. No transaction is open while the caller's loop runs, and
// nothing is read while nothing is committed to the file.
//
// It goes on until the caller leaves the loop, or gives an error and ends: the cause once ctx ends, db.ErrClosed, or
// db.ErrCursorExpired when events that were not delivered yet were removed. A cursor with an id beyond the last event waits
// for that one.
func (r *Runtime) FollowEvents(ctx context.Context, from EventCursor) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the watch
		if err := r.follow(ctx, from, func(d Delivery) bool { return yield(d, nil) }); err != nil {
			yield(Delivery{}, err)
		}
	}
}

// follow returns nil when deliver said that it has enough.
func (r *Runtime) follow(ctx context.Context, from EventCursor, deliver func(Delivery) bool) error {
	if err := r.ensureOwnCursor(from); err != nil {
		return err
	}
	// The watch comes before the first look: what is committed between them is told.
	changes, err := r.db.Changes(ctx)
	if err != nil {
		return err
	}
	position := uint64(0)
	for {
		found, state, err := r.look(ctx, from, &position)
		if err != nil {
			return err
		}
		for _, f := range found {
			position = f.position + 1
			if !deliver(Delivery{Event: f.event, Cursor: f.behind(r.id, state)}) {
				return nil
			}
		}
		if len(found) == followed {
			continue
		}
		if _, open := <-changes; !open {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &db.Error{Op: "follow events", Err: db.ErrClosed}
		}
	}
}

// look gives what there is from the position on; a position of 0 is not known yet, and is taken from the cursor.
func (r *Runtime) look(ctx context.Context, from EventCursor, position *uint64) (found []placedEvent, state runtimeState, err error) {
	const op = "follow events"
	err = r.db.Read(ctx, op, func(rx *db.Rx) error {
		if state, err = r.state(rx); err != nil {
			return err
		}
		if *position == 0 {
			if *position, err = r.placeOf(rx, from, state); err != nil {
				return err
			}
		}
		if expired(state, *position) {
			return r.expired(op)
		}
		found, err = r.eventsFrom(rx, *position, followed-1, state)
		return err
	})
	return found, state, err
}

const sqlFirstFrom = `
SELECT e.id FROM worker_events AS e
WHERE e.id > ? AND e.id < ? AND coalesce(e.event_id, e.id & 1099511627775) >= ? ORDER BY e.id LIMIT 1`

// placeOf turns a cursor into a place. In a log whose ids repeat or go back, an id stands for the first event that has it or
// a higher one.
func (r *Runtime) placeOf(rx *db.Rx, from EventCursor, state runtimeState) (uint64, error) {
	position, placed := state.place(from)
	if placed {
		return max(position, 1), nil
	}
	if expired(state, position) {
		return 0, r.expired("follow events")
	}
	base := r.key << logBits
	var id int64
	ok, err := rx.Find(&id, sqlFirstFrom, base, base+1<<logBits, int64(from.NextEventID))
	if err == nil && !ok {
		return uint64(state.NextEventPosition), nil
	}
	return uint64(id & (1<<logBits - 1)), err
}

// EventCursorBefore points before the last events of the log, at most that many of those that are kept; 0 events is the
// end, for what is yet to come.
func (r *Runtime) EventCursorBefore(ctx context.Context, events uint64) (EventCursor, error) {
	s, err := r.readState(ctx, "find last events")
	if err != nil {
		return EventCursor{}, err
	}
	position := uint64(s.NextEventPosition) - min(events, uint64(s.NextEventPosition-s.FirstEventPosition))
	if s.inOrder() {
		return EventCursor{RuntimeID: r.id, NextEventID: position}, nil
	}
	return EventCursor{RuntimeID: r.id, NextEventID: 1, Position: position}, nil
}

// pruneBatch is the number of events that PruneEvents removes in one transaction.
const pruneBatch = 500

const (
	sqlPrunePlace  = `SELECT id FROM worker_events WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ?`
	sqlPruneEvents = `DELETE FROM worker_events WHERE id > ? AND id < ?`
	sqlPruned      = `UPDATE worker_runtimes SET first_event_position = ? WHERE key = ?`
)

// PruneEvents removes the events before the cursor, a few hundred in a transaction, and says how many they were. Ids are
// not given again; a cursor before the first event kept is db.ErrCursorExpired from then on. Transcripts stay.
func (r *Runtime) PruneEvents(ctx context.Context, before EventCursor) (removed int64, err error) {
	if err := r.ensureOwnCursor(before); err != nil {
		return 0, err
	}
	for {
		more := false
		var n int64
		err := r.db.Write(ctx, "prune events", func(tx *db.Tx) error {
			n, more, err = r.prune(tx, before)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
		if !more {
			return removed, nil
		}
	}
}

func (r *Runtime) prune(tx *db.Tx, before EventCursor) (removed int64, more bool, err error) {
	state, err := r.state(&tx.Rx)
	if err != nil {
		return 0, false, err
	}
	end, placed := state.place(before)
	if !placed {
		return 0, false, &db.Error{Op: "prune events", Entity: "runtime", ID: string(r.id), Err: fmt.Errorf(
			"%w: the ids of this log repeat or go back; take the cursor from FollowEvents", db.ErrInvalid)}
	}
	end = min(end, uint64(state.NextEventPosition))
	if end <= uint64(state.FirstEventPosition) {
		return 0, false, nil
	}
	base := r.key << logBits
	stop := base | int64(end)
	var next int64
	if more, err = tx.Find(&next, sqlPrunePlace, base|state.FirstEventPosition, stop, pruneBatch); err != nil {
		return 0, false, err
	}
	if more {
		stop = next
	}
	if removed, err = tx.Exec(sqlPruneEvents, base, stop); err != nil {
		return 0, false, err
	}
	_, err = tx.Exec(sqlPruned, stop&(1<<logBits-1), r.key)
	return removed, more, err
}
