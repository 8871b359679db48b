package workers

import (
	"context"
	"slices"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// The calls of the old worker runtime, with their old names and behaviour. Some name a better call
// for new programs.

// NewMemory creates a runtime in memory, under a new id, which lasts until it is closed.
func NewMemory(ctx context.Context) (*Runtime, error) { return WithOptions(ctx, RuntimeOptions{}) }

// WithOptions creates a runtime in memory, which lasts until it is closed. [Open] also takes a
// file.
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

// Summary describes the runtime. Its counts are stored: no rows are counted.
func (r *Runtime) Summary(ctx context.Context) (s RuntimeSummary, err error) {
	row, err := r.readRow(ctx, opGetRuntime)
	if err == nil {
		s = row.summary(r.backend)
	}
	return s, err
}

// Status is the status of the runtime.
func (r *Runtime) Status(ctx context.Context) (RuntimeStatus, error) {
	s, err := r.Summary(ctx)
	return s.Status, err
}

// CreateWorker creates a worker. A diagnostic notes a worker without a configuration bundle, and
// one without capabilities. It refuses a task with a blank objective, a capability with a blank
// name, and any worker once the runtime is stopped.
func (r *Runtime) CreateWorker(ctx context.Context, request CreateWorkerRequest) (WorkerDetail, error) {
	return call(ctx, stores.On(r.db, txn.Runtimes).Write, opCreate, stores.Bind(r.CreateWorkerTx, request))
}

// SendInput appends an input to the worker's transcript and an event to the log, in one
// transaction. Its cost depends neither on the number of workers nor on the length of the
// transcript. It refuses, in this order: any input once the runtime is stopped, a blank one, a
// worker of another runtime, a missing worker, and one that does not run. An input with an unknown
// outcome can be repeated: see WorkerInput.Repeat.
func (r *Runtime) SendInput(ctx context.Context, worker WorkerRef, input WorkerInput) (WorkerInteractionAck,
	error,
) {
	return call(ctx, stores.On(r.db, txn.Runtimes).Write, opInput, stores.Bind2(r.SendInputTx, worker, input))
}

// StopWorker stops a worker. A nil reason is "worker stopped". A worker that has ended already
// stays unchanged, and the answer has its status. It refuses, in this order: any worker once the
// runtime is stopped, a worker of another runtime, and a missing one.
func (r *Runtime) StopWorker(ctx context.Context, worker WorkerRef, reason *string) (WorkerLifecycleAck,
	error,
) {
	return call(ctx, stores.On(r.db, txn.Runtimes).End, stopping.op,
		stores.Bind2(r.StopWorkerTx, worker, reason))
}

// CancelWorker is like StopWorker, but cancels the worker. A nil reason is "worker cancelled".
func (r *Runtime) CancelWorker(ctx context.Context, worker WorkerRef, reason *string) (WorkerLifecycleAck,
	error,
) {
	return call(ctx, stores.On(r.db, txn.Runtimes).End, cancelling.op,
		stores.Bind2(r.CancelWorkerTx, worker, reason))
}

// StopRuntime stops the runtime for good, and every running worker, without separate events. The
// runtime can still be read. StopRuntime returns the id of the last event, even if the runtime was
// stopped before.
func (r *Runtime) StopRuntime(ctx context.Context) (event uint64, err error) {
	return call(ctx, stores.On(r.db, txn.Runtimes).End, opStopRuntime, r.StopRuntimeTx)
}

// ListWorkers returns all workers in the order of their ids, from one snapshot. [Runtime.Page] and
// [Runtime.All] read long lists in parts.
func (r *Runtime) ListWorkers(ctx context.Context) ([]WorkerSummary, error) {
	return call(ctx, r.db.Read, opList, func(rx *db.Rx) ([]WorkerSummary, error) {
		rows, err := r.list(rx, WorkerFilter{}, nil, paging.NoLimit)
		if err != nil {
			return nil, err
		}
		list := []WorkerSummary{}
		for worker, err := range rows {
			if err != nil {
				return nil, err
			}
			list = append(list, worker)
		}
		return list, nil
	})
}

// WorkerDetail is [Runtime.Get].
func (r *Runtime) WorkerDetail(ctx context.Context, worker WorkerRef) (WorkerDetail, error) {
	return r.Get(ctx, worker)
}

// TranscriptProjection returns a part of a worker's transcript. The limit is checked before the
// worker; 0 returns no entries. [Runtime.TranscriptPage] returns pages of any transcript.
func (r *Runtime) TranscriptProjection(ctx context.Context, worker WorkerRef,
	query TranscriptQuery,
) (p TranscriptProjection, err error) {
	if query.Limit > r.limits.MaxTranscriptProjectionItems {
		return p, limitTooLarge(query.Limit, r.limits.MaxTranscriptProjectionItems)
	}
	return call(ctx, r.db.Read, opTranscript, stores.Bind2(r.projection, worker, query))
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
	for row, err := range w.eachEntry(rx, int64(query.Start), int64(end-query.Start)) {
		if err != nil {
			return p, err
		}
		p.Items = append(p.Items, row.entry(worker))
	}
	return p, nil
}

// EventCursorFromStart points before the first event of the log.
func (r *Runtime) EventCursorFromStart(ctx context.Context) (EventCursor, error) {
	row, err := r.readRow(ctx, "find first event")
	if err != nil {
		return EventCursor{}, err
	}
	c := EventCursor{RuntimeID: r.id, NextEventID: 1}
	switch {
	case row.FirstPosition == 1:
	case row.ordered():
		c.NextEventID = uint64(row.FirstPosition)
	default:
		c.Position = uint64(row.FirstPosition)
	}
	return c, nil
}

// EventCursorNow points after the last event.
func (r *Runtime) EventCursorNow(ctx context.Context) (EventCursor, error) {
	row, err := r.readRow(ctx, "find last event")
	if err != nil {
		return EventCursor{}, err
	}
	return EventCursor{RuntimeID: r.id, NextEventID: lastBefore(row.NextEventID) + 1}, nil
}

func (r *Runtime) readRow(ctx context.Context, op string) (*runtimeRow, error) {
	return call(ctx, r.db.Read, op, stores.Bind(r.row, op))
}

// SubscribeEvents checks the cursor and returns it: the caller polls with ReadEvents.
// [Runtime.Follow] delivers.
func (r *Runtime) SubscribeEvents(cursor EventCursor) (EventSubscription, error) {
	if err := r.ensureOwnCursor(cursor); err != nil {
		return EventSubscription{}, err
	}
	return EventSubscription{RuntimeID: r.id, Cursor: cursor, Mode: "poll_only"}, nil
}

// ReadEvents returns at most limit events from the cursor on, and the cursor after them. A limit of
// 0 returns none, but reports whether there are more. If events from the cursor on were pruned, the
// error is db.ErrCursorExpired; continue from EventCursorFromStart. [Runtime.EventsPage] returns
// pages of any log, and never skips or repeats.
func (r *Runtime) ReadEvents(ctx context.Context, cursor EventCursor, limit uint64) (batch RuntimeEventBatch,
	err error,
) {
	if err := r.ensureOwnCursor(cursor); err != nil {
		return batch, err
	}
	if limit > r.limits.MaxEventBatchItems {
		return batch, limitTooLarge(limit, r.limits.MaxEventBatchItems)
	}
	return call(ctx, r.db.Read, opEvents, stores.Bind2(r.readEvents, cursor, limit))
}

// readEvents reads from the cursor's place on. In an imported log with ids that repeat or go back,
// it reads from the beginning the events with ids not below the cursor's.
func (r *Runtime) readEvents(rx *db.Rx, cursor EventCursor, limit uint64) (RuntimeEventBatch, error) {
	batch := RuntimeEventBatch{RuntimeID: r.id, Cursor: cursor, Events: []RuntimeEvent{}}
	row, err := r.row(rx, opEvents)
	if err != nil {
		return batch, err
	}
	position, placed := placeOf(row, cursor)
	if row.FirstPosition > 1 && position < uint64(row.FirstPosition) {
		return batch, &db.Error{
			Op: opEvents, Entity: "runtime", ID: string(r.id), Err: db.ErrCursorExpired,
			Hint: "go on from EventCursorFromStart; what lay between is gone",
		}
	}
	from, most := int64(0), int64(paging.NoLimit)
	if placed {
		if position >= uint64(row.NextPosition) {
			return batch, nil
		}
		from, most = int64(position), int64(min(limit, uint64(row.NextPosition)))+1
	}
	var seen []uint64
	for event, err := range row.eachEvent(rx, from, most) {
		if err != nil {
			return batch, err
		}
		seen = append(seen, event.number())
		if !placed && event.number() < cursor.NextEventID || uint64(len(batch.Events)) == limit {
			continue
		}
		e, err := event.event(r.id)
		if err != nil {
			return batch, err
		}
		batch.Events = append(batch.Events, e)
		batch.Cursor = EventCursor{RuntimeID: r.id, NextEventID: e.ID + 1}
		if placed && !row.ordered() {
			batch.Cursor.Position = uint64(event.place()) + 1
		}
	}
	if placed {
		batch.HasMore = len(seen) > len(batch.Events)
	} else {
		batch.HasMore = len(seen) > 0 && slices.Max(seen) >= batch.Cursor.NextEventID
	}
	return batch, nil
}

// placeOf returns the place in the log that the cursor points at. placed is false if the ids of the
// log don't determine it; then the place is at or after position.
func placeOf(row *runtimeRow, c EventCursor) (position uint64, placed bool) {
	switch {
	case c.Position > 0:
		return c.Position, true
	case row.ordered():
		return c.NextEventID, true
	}
	return c.NextEventID, false
}

const opDiagnostics = "read diagnostics"

// Diagnostics returns all diagnostics, oldest first.
func (r *Runtime) Diagnostics(ctx context.Context) ([]RuntimeDiagnostic, error) {
	return call(ctx, r.db.Read, opDiagnostics, r.DiagnosticsTx)
}

// DiagnosticsTx is Diagnostics inside a transaction.
func (r *Runtime) DiagnosticsTx(rx *db.Rx) ([]RuntimeDiagnostic, error) {
	row, err := r.row(rx, opDiagnostics)
	if err != nil {
		return nil, err
	}
	list, _, err := row.diagnostics(rx)
	return list, err
}
