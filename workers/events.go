package workers

import (
	"context"

	"selvedge/db"
)

const (
	eventColumns = `SELECT e.id, e.event_id, w.worker_id, e.kind, e.message, CASE WHEN e.worker IS NULL THEN e.raw END AS raw
FROM worker_events AS e LEFT JOIN workers AS w ON w.key = e.worker
`
	sqlEventsFrom = eventColumns + `WHERE e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ?`
	sqlDiagnosed  = `
SELECT d.id, d.diagnostic_id AS event_id, w.worker_id, d.severity AS kind, d.code, d.message, CASE WHEN d.worker IS NULL THEN d.raw END AS raw
FROM worker_diagnostics AS d LEFT JOIN workers AS w ON w.key = d.worker
WHERE d.id > ? AND d.id < ? ORDER BY d.id`
)

// EventCursorFromStart points before the first event that is kept.
func (r *Runtime) EventCursorFromStart(ctx context.Context) (EventCursor, error) {
	s, err := r.readState(ctx, "find first event")
	if err != nil {
		return EventCursor{}, err
	}
	c := EventCursor{RuntimeID: r.id, NextEventID: 1}
	switch {
	case s.FirstEventPosition == 1:
	case s.inOrder():
		c.NextEventID = uint64(s.FirstEventPosition)
	default:
		c.Position = uint64(s.FirstEventPosition)
	}
	return c, nil
}

// EventCursorNow points behind the last event.
func (r *Runtime) EventCursorNow(ctx context.Context) (EventCursor, error) {
	s, err := r.readState(ctx, "find last event")
	if err != nil {
		return EventCursor{}, err
	}
	return EventCursor{RuntimeID: r.id, NextEventID: lastBefore(s.NextEventID) + 1}, nil
}

func (r *Runtime) readState(ctx context.Context, why string) (s runtimeState, err error) {
	err = r.db.Read(ctx, why, func(rx *db.Rx) error {
		s, err = r.state(rx)
		return err
	})
	return s, err
}

// SubscribeEvents checks the cursor and hands it back: the caller polls with ReadEvents. FollowEvents delivers.
func (r *Runtime) SubscribeEvents(cursor EventCursor) (EventSubscription, error) {
	if err := r.ensureOwnCursor(cursor); err != nil {
		return EventSubscription{}, err
	}
	return EventSubscription{RuntimeID: r.id, Cursor: cursor, Mode: SubscriptionPollOnly}, nil
}

// ReadEvents gives at most limit events from the cursor on, and the cursor behind them. A limit of 0 gives none, and tells
// whether there are more. Where events from the cursor on were removed it is db.ErrCursorExpired: EventCursorFromStart
// gives the place to go on from.
func (r *Runtime) ReadEvents(ctx context.Context, cursor EventCursor, limit uint64) (batch RuntimeEventBatch, err error) {
	if err := r.ensureOwnCursor(cursor); err != nil {
		return batch, err
	}
	if limit > r.limits.MaxEventBatchItems {
		return batch, limitTooLarge(limit, r.limits.MaxEventBatchItems)
	}
	err = r.db.Read(ctx, "read events", func(rx *db.Rx) error {
		batch, err = r.readEvents(rx, cursor, limit)
		return err
	})
	return batch, err
}

func (r *Runtime) readEvents(rx *db.Rx, cursor EventCursor, limit uint64) (RuntimeEventBatch, error) {
	batch := RuntimeEventBatch{RuntimeID: r.id, Cursor: cursor, Events: []RuntimeEvent{}}
	state, err := r.state(rx)
	if err != nil {
		return batch, err
	}
	position, placed := state.place(cursor)
	if expired(state, position) {
		return batch, r.expired("read events")
	}
	if !placed {
		return r.searchEvents(rx, batch, limit)
	}
	found, err := r.eventsFrom(rx, position, limit, state)
	if err != nil {
		return batch, err
	}
	if uint64(len(found)) > limit {
		found, batch.HasMore = found[:limit], true
	}
	for _, f := range found {
		batch.Events = append(batch.Events, f.event)
		batch.Cursor = f.behind(r.id, state)
	}
	return batch, nil
}

// place is where in the log the cursor points. placed is false where the ids of the log tell no place; then position is
// only what the place can't be before.
func (s *runtimeState) place(c EventCursor) (position uint64, placed bool) {
	switch {
	case c.Position > 0:
		return c.Position, true
	case s.inOrder():
		return c.NextEventID, true
	}
	return c.NextEventID, false
}

func expired(s runtimeState, position uint64) bool {
	return s.FirstEventPosition > 1 && position < uint64(s.FirstEventPosition)
}

func (r *Runtime) expired(op string) error {
	return &db.Error{Op: op, Entity: "runtime", ID: string(r.id), Err: db.ErrCursorExpired, Hint: "go on from EventCursorFromStart; what lay between is gone"}
}

// A placedEvent is an event and its place in the log.
type placedEvent struct {
	event    RuntimeEvent
	position uint64
}

// behind is the cursor behind the event.
func (f placedEvent) behind(id RuntimeID, s runtimeState) EventCursor {
	c := EventCursor{RuntimeID: id, NextEventID: f.event.ID + 1}
	if !s.inOrder() {
		c.Position = f.position + 1
	}
	return c
}

type eventRow struct {
	ID       int64   `db:"id"`
	EventID  *int64  `db:"event_id"`
	WorkerID *string `db:"worker_id"`
	Kind     string  `db:"kind"`
	Code     string  `db:"code"` // of a diagnostic
	Message  string  `db:"message"`
	Raw      []byte  `db:"raw"`
}

// eventsFrom gives the events from a place on: at most limit, and one more where there is one.
func (r *Runtime) eventsFrom(rx *db.Rx, position, limit uint64, s runtimeState) ([]placedEvent, error) {
	if position >= uint64(s.NextEventPosition) {
		return nil, nil
	}
	var rows []eventRow
	base := r.key << logBits
	most := min(limit, uint64(s.NextEventPosition)) + 1
	if err := rx.Select(&rows, sqlEventsFrom, base|int64(position), base|s.NextEventPosition, int64(most)); err != nil {
		return nil, err
	}
	list := make([]placedEvent, 0, len(rows))
	for i := range rows {
		e, err := r.event(&rows[i])
		if err != nil {
			return nil, err
		}
		list = append(list, placedEvent{event: e, position: uint64(rows[i].ID & (1<<logBits - 1))})
	}
	return list, nil
}

func (row *eventRow) number() uint64 {
	if row.EventID != nil {
		return uint64(*row.EventID)
	}
	return uint64(row.ID & (1<<logBits - 1))
}

func (r *Runtime) event(row *eventRow) (RuntimeEvent, error) {
	e := RuntimeEvent{ID: row.number(), Kind: RuntimeEventKind(row.Kind), Message: row.Message}
	switch {
	case row.WorkerID != nil:
		ref := NewWorkerRef(r.id, WorkerID(*row.WorkerID))
		e.WorkerRef = &ref
	case row.Raw != nil: // it may name a worker that is not of this runtime
		kept, _, err := Reader{RuntimeID: r.id, Later: true}.Event(row.Raw)
		if err != nil {
			return e, corrupt("read events", err)
		}
		e.WorkerRef = kept.WorkerRef
	}
	return e, nil
}

// searchEvents answers as the original does on an imported log whose ids repeat or go back: from the beginning, whatever
// is not below the cursor's id.
func (r *Runtime) searchEvents(rx *db.Rx, batch RuntimeEventBatch, limit uint64) (RuntimeEventBatch, error) {
	base := r.key << logBits
	next := batch.Cursor.NextEventID
	var past []uint64 // ids behind the page or before the cursor
	for found, err := range rx.Query(sqlEventsFrom, base, base+1<<logBits, noLimit) {
		if err != nil {
			return batch, err
		}
		var row eventRow
		if err := found.ScanStruct(&row); err != nil {
			return batch, err
		}
		if row.number() < next || uint64(len(batch.Events)) == limit {
			past = append(past, row.number())
			continue
		}
		e, err := r.event(&row)
		if err != nil {
			return batch, err
		}
		batch.Events = append(batch.Events, e)
	}
	if n := len(batch.Events); n > 0 {
		batch.Cursor.NextEventID = batch.Events[n-1].ID + 1
	}
	for _, id := range past {
		batch.HasMore = batch.HasMore || id >= batch.Cursor.NextEventID
	}
	for _, e := range batch.Events {
		batch.HasMore = batch.HasMore || e.ID >= batch.Cursor.NextEventID
	}
	return batch, nil
}

// Diagnostics gives all diagnostics, oldest first.
func (r *Runtime) Diagnostics(ctx context.Context) (list []RuntimeDiagnostic, err error) {
	err = r.db.Read(ctx, "read diagnostics", func(rx *db.Rx) error {
		list, err = r.readDiagnostics(rx)
		return err
	})
	return list, err
}

func (r *Runtime) readDiagnostics(rx *db.Rx) ([]RuntimeDiagnostic, error) {
	var rows []eventRow
	base := r.key << logBits
	if err := rx.Select(&rows, sqlDiagnosed, base, base+1<<logBits); err != nil {
		return nil, err
	}
	list := make([]RuntimeDiagnostic, 0, len(rows))
	for i := range rows {
		row := &rows[i]
		d := RuntimeDiagnostic{ID: row.number(), Severity: DiagnosticSeverity(row.Kind), Code: row.Code, Message: row.Message}
		switch {
		case row.WorkerID != nil:
			ref := NewWorkerRef(r.id, WorkerID(*row.WorkerID))
			d.WorkerRef = &ref
		case row.Raw != nil:
			kept, err := decodeDiagnostic(trimBlanks(row.Raw))
			if err != nil {
				return nil, corrupt("read diagnostics", err)
			}
			d.WorkerRef = kept.WorkerRef
		}
		list = append(list, d)
	}
	return list, nil
}
