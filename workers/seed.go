package workers

import (
	"context"

	"selvedge/db"
	"selvedge/internal/workers"
)

// The calls of the worker runtime that this package took over, by their names and with their
// meaning. Where there is a better call for new programs, they name it.

// NewMemory makes a runtime that lives in memory, under a new id, until it is closed.
func NewMemory(ctx context.Context) (*Runtime, error) { return WithOptions(ctx, RuntimeOptions{}) }

// WithOptions makes a runtime that lives in memory until it is closed. [Open] takes a file, too.
func WithOptions(ctx context.Context, options RuntimeOptions) (*Runtime, error) {
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		return nil, err
	}
	r, err := Open(ctx, d, options)
	if err != nil {
		_ = d.Close() // nothing is in it
		return nil, err
	}
	r.private = true
	return r, nil
}

// Summary describes the runtime. All counts are kept, not counted.
func (r *Runtime) Summary(ctx context.Context) (s RuntimeSummary, err error) {
	err = r.db.Read(ctx, opGetRuntime, func(rx *db.Rx) error {
		row, err := r.row(rx, opGetRuntime)
		if err == nil {
			s = summaryOf(row, r.backend)
		}
		return err
	})
	return s, err
}

// Status is where the runtime stands.
func (r *Runtime) Status(ctx context.Context) (RuntimeStatus, error) {
	s, err := r.Summary(ctx)
	return s.Status, err
}

// CreateWorker makes a worker. One without a configuration bundle, and one without capabilities, is
// told of in the diagnostics. Refused are a task with a blank objective, a capability with a blank
// name, and any worker once the runtime is stopped.
func (r *Runtime) CreateWorker(ctx context.Context, request CreateWorkerRequest) (detail WorkerDetail,
	err error,
) {
	err = r.db.WriteLocked(ctx, opCreate, func(tx *db.Tx) error {
		detail, err = r.CreateWorkerTx(tx, request)
		return err
	})
	if err != nil {
		return WorkerDetail{}, refused(err)
	}
	return detail, nil
}

// SendInput puts an input behind the worker's transcript, and an event into the log: one
// transaction, whose cost depends neither on the number of workers nor on what they have heard.
// Refused are, in this order: any input once the runtime is stopped, a blank one, a worker of
// another runtime, one that is not there, and one that does not run. One whose outcome is unknown
// is repeated by [Runtime.RepeatInput].
func (r *Runtime) SendInput(ctx context.Context, worker WorkerRef,
	input WorkerInput,
) (ack WorkerInteractionAck, err error) {
	err = r.db.WriteLocked(ctx, opInput, func(tx *db.Tx) error {
		ack, err = r.SendInputTx(tx, worker, input)
		return err
	})
	if err != nil {
		return WorkerInteractionAck{}, refused(err)
	}
	return ack, nil
}

// StopWorker stops a worker. A nil reason is "worker stopped". A worker that has ended already
// stays as it is, and the answer tells how. Refused are, in this order: any worker once the runtime
// is stopped, one of another runtime, and one that is not there.
func (r *Runtime) StopWorker(ctx context.Context, worker WorkerRef, reason *string) (ack WorkerLifecycleAck,
	err error,
) {
	return r.endWorker(ctx, opStop, worker, WorkerStopped, reason)
}

// CancelWorker cancels a worker; all that is said of StopWorker holds. A nil reason is "worker cancelled".
func (r *Runtime) CancelWorker(ctx context.Context, worker WorkerRef,
	reason *string,
) (ack WorkerLifecycleAck, err error) {
	return r.endWorker(ctx, opCancel, worker, WorkerCancelled, reason)
}

func (r *Runtime) endWorker(ctx context.Context, op string, worker WorkerRef, as WorkerStatus,
	reason *string,
) (ack WorkerLifecycleAck, err error) {
	err = r.db.WriteEnd(ctx, op, func(tx *db.Tx) error {
		ack, err = r.end(tx, op, worker, as, reason)
		return err
	})
	if err != nil {
		return WorkerLifecycleAck{}, refused(err)
	}
	return ack, nil
}

// StopRuntime stops the runtime, for good, and every worker that runs; these get no events of their
// own. What is there can still be read. The answer is the id of the last event, also when the
// runtime was stopped before.
func (r *Runtime) StopRuntime(ctx context.Context) (event uint64, err error) {
	err = r.db.WriteEnd(ctx, opStopRuntime, func(tx *db.Tx) error {
		event, err = r.StopRuntimeTx(tx)
		return err
	})
	return event, err
}

// ListWorkers gives all workers in the order of their ids, from one snapshot. Lists that may be
// long are read in parts with [Runtime.Page] and [Runtime.All].
func (r *Runtime) ListWorkers(ctx context.Context) (list []WorkerSummary, err error) {
	err = r.db.Read(ctx, opList, func(rx *db.Rx) error {
		rows, err := r.list(rx, WorkerFilter{}, nil, db.NoLimit)
		if err != nil {
			return err
		}
		list = []WorkerSummary{}
		for worker, err := range rows {
			if err != nil {
				return err
			}
			list = append(list, worker)
		}
		return nil
	})
	return list, err
}

// WorkerDetail is [Runtime.Get].
func (r *Runtime) WorkerDetail(ctx context.Context, worker WorkerRef) (WorkerDetail, error) {
	return r.Get(ctx, worker)
}

// TranscriptProjection gives a part of a worker's transcript. The limit is checked before the
// worker; 0 is allowed, and gives no entries. [Runtime.TranscriptPage] gives pages of any
// transcript.
func (r *Runtime) TranscriptProjection(ctx context.Context, worker WorkerRef,
	query TranscriptQuery,
) (p TranscriptProjection, err error) {
	if query.Limit > r.limits.MaxTranscriptProjectionItems {
		return p, limitTooLarge(query.Limit, r.limits.MaxTranscriptProjectionItems)
	}
	err = r.db.Read(ctx, opTranscript, func(rx *db.Rx) error {
		p, err = r.projection(rx, worker, query)
		return err
	})
	return p, refused(err)
}

func (r *Runtime) projection(rx *db.Rx, worker WorkerRef, query TranscriptQuery) (p TranscriptProjection,
	err error,
) {
	w, err := r.worker(rx, worker)
	if err != nil {
		return p, err
	}
	total := uint64(w.TranscriptLen)
	p = TranscriptProjection{
		WorkerRef: worker, Start: query.Start, Limit: query.Limit, TotalItems: total,
		Items: []TranscriptEntry{},
	}
	if query.Start >= total {
		return p, nil
	}
	end := total
	if query.Limit < total-query.Start {
		end = query.Start + query.Limit
		p.NextStart = &end
	}
	rows, err := w.Entries(rx, int64(query.Start), int64(end-query.Start))
	own := workers.Ref{RuntimeID: string(r.id), WorkerID: w.WorkerID}
	for i := range rows {
		p.Items = append(p.Items, entryOf(rows[i].Entry(own)))
	}
	return p, err
}

// EventCursorFromStart points before the first event that is kept.
func (r *Runtime) EventCursorFromStart(ctx context.Context) (EventCursor, error) {
	row, err := r.readRow(ctx, "find first event")
	if err != nil {
		return EventCursor{}, err
	}
	c := EventCursor{RuntimeID: r.id, NextEventID: 1}
	switch {
	case row.FirstPosition == 1:
	case row.Ordered():
		c.NextEventID = uint64(row.FirstPosition)
	default:
		c.Position = uint64(row.FirstPosition)
	}
	return c, nil
}

// EventCursorNow points behind the last event.
func (r *Runtime) EventCursorNow(ctx context.Context) (EventCursor, error) {
	row, err := r.readRow(ctx, "find last event")
	if err != nil {
		return EventCursor{}, err
	}
	return EventCursor{RuntimeID: r.id, NextEventID: lastBefore(row.NextEventID) + 1}, nil
}

func (r *Runtime) readRow(ctx context.Context, why string) (row *workers.RuntimeRow, err error) {
	err = r.db.Read(ctx, why, func(rx *db.Rx) error {
		row, err = r.row(rx, why)
		return err
	})
	return row, err
}

// SubscribeEvents checks the cursor and hands it back: the caller polls with ReadEvents.
// [Runtime.Follow] delivers.
func (r *Runtime) SubscribeEvents(cursor EventCursor) (EventSubscription, error) {
	if err := r.ensureOwnCursor(cursor); err != nil {
		return EventSubscription{}, err
	}
	return EventSubscription{RuntimeID: r.id, Cursor: cursor, Mode: SubscriptionPollOnly}, nil
}

// ReadEvents gives at most limit events from the cursor on, and the cursor behind them. A limit of
// 0 gives none, and tells whether there are more. Where events from the cursor on were pruned it is
// db.ErrCursorExpired: EventCursorFromStart gives the place to go on from. [Runtime.EventsPage]
// gives pages of any log, and never skips or repeats.
func (r *Runtime) ReadEvents(ctx context.Context, cursor EventCursor, limit uint64) (batch RuntimeEventBatch,
	err error,
) {
	if err := r.ensureOwnCursor(cursor); err != nil {
		return batch, err
	}
	if limit > r.limits.MaxEventBatchItems {
		return batch, limitTooLarge(limit, r.limits.MaxEventBatchItems)
	}
	err = r.db.Read(ctx, opEvents, func(rx *db.Rx) error {
		batch, err = r.readEvents(rx, cursor, limit)
		return err
	})
	return batch, err
}

func (r *Runtime) readEvents(rx *db.Rx, cursor EventCursor, limit uint64) (RuntimeEventBatch, error) {
	batch := RuntimeEventBatch{RuntimeID: r.id, Cursor: cursor, Events: []RuntimeEvent{}}
	row, err := r.row(rx, opEvents)
	if err != nil {
		return batch, err
	}
	position, placed := placeOf(row, cursor)
	if row.FirstPosition > 1 && position < uint64(row.FirstPosition) {
		return batch, r.expired()
	}
	if !placed {
		return r.searchEvents(rx, row, batch, limit)
	}
	if position >= uint64(row.NextPosition) {
		return batch, nil
	}
	most := min(limit, uint64(row.NextPosition)) + 1
	rows, err := row.Events(rx, int64(position), int64(most))
	if err != nil {
		return batch, err
	}
	if uint64(len(rows)) > limit {
		rows, batch.HasMore = rows[:limit], true
	}
	for i := range rows {
		e, err := rows[i].Event(row.RuntimeID)
		if err != nil {
			return batch, corrupted("read events", err)
		}
		batch.Events = append(batch.Events, eventOf(e))
		batch.Cursor = EventCursor{RuntimeID: r.id, NextEventID: e.ID + 1}
		if !row.Ordered() {
			batch.Cursor.Position = uint64(rows[i].Place()) + 1
		}
	}
	return batch, nil
}

// placeOf is where in the log the cursor points. placed is false where the ids of the log tell no
// place; then position is only what the place can't be before.
func placeOf(row *workers.RuntimeRow, c EventCursor) (position uint64, placed bool) {
	switch {
	case c.Position > 0:
		return c.Position, true
	case row.Ordered():
		return c.NextEventID, true
	}
	return c.NextEventID, false
}

func (r *Runtime) expired() error {
	return &db.Error{
		Op: opEvents, Entity: "runtime", ID: string(r.id), Err: db.ErrCursorExpired,
		Hint: "go on from EventCursorFromStart; what lay between is gone",
	}
}

// searchEvents goes by the ids of an imported log in which they repeat or go back: from the
// beginning, whatever is not below the cursor's id.
func (r *Runtime) searchEvents(rx *db.Rx, row *workers.RuntimeRow, batch RuntimeEventBatch,
	limit uint64,
) (RuntimeEventBatch, error) {
	rows, err := row.Events(rx, 0, db.NoLimit)
	if err != nil {
		return batch, err
	}
	next := batch.Cursor.NextEventID
	for i := range rows {
		if rows[i].Number() < next || uint64(len(batch.Events)) == limit {
			continue
		}
		e, err := rows[i].Event(row.RuntimeID)
		if err != nil {
			return batch, corrupted("read events", err)
		}
		batch.Events = append(batch.Events, eventOf(e))
	}
	if n := len(batch.Events); n > 0 {
		batch.Cursor.NextEventID = batch.Events[n-1].ID + 1
	}
	for i := range rows {
		batch.HasMore = batch.HasMore || rows[i].Number() >= batch.Cursor.NextEventID
	}
	return batch, nil
}

const opDiagnostics = "read diagnostics"

// Diagnostics gives all diagnostics, oldest first.
func (r *Runtime) Diagnostics(ctx context.Context) (list []RuntimeDiagnostic, err error) {
	err = r.db.Read(ctx, opDiagnostics, func(rx *db.Rx) error {
		list, err = r.DiagnosticsTx(rx)
		return err
	})
	return list, err
}

// DiagnosticsTx is Diagnostics inside a transaction.
func (r *Runtime) DiagnosticsTx(rx *db.Rx) ([]RuntimeDiagnostic, error) {
	row, err := r.row(rx, opDiagnostics)
	if err != nil {
		return nil, err
	}
	rows, err := row.AllDiagnostics(rx)
	list := make([]RuntimeDiagnostic, len(rows))
	for i := range rows {
		d, err := rows[i].Diagnostic(row.RuntimeID)
		if err != nil {
			return nil, corrupted(opDiagnostics, err)
		}
		list[i] = diagnosticOf(d)
	}
	return list, err
}
