package workers

import (
	"context"
	"errors"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A WorkerFilter selects the workers of a list. The zero value selects all of them.
type WorkerFilter struct {
	// Status is the one to show; "" is any.
	Status WorkerStatus
}

const (
	opGet    = "show worker"
	opList   = "list workers"
	opFind   = "find workers"
	opDelete = "delete worker"

	listName = "workers" // in cursors
)

// Get describes a worker, without its transcript. A missing worker is db.ErrNotFound.
func (r *Runtime) Get(ctx context.Context, worker WorkerRef) (WorkerDetail, error) {
	return call(ctx, r.db.Read, opGet, stores.Bind(r.GetTx, worker))
}

// GetTx is Get inside a transaction.
func (r *Runtime) GetTx(rx *db.Rx, worker WorkerRef) (detail WorkerDetail, err error) {
	if err := errors.Join(rx.Store().Of(r.db.Store()), r.ensureOwn(worker)); err != nil {
		return detail, err
	}
	var row summaryRow
	ok, err := rx.Find(&row, selectSummaries+` AND w.worker_id = ?`, r.key, string(worker.WorkerID))
	if err == nil && !ok {
		err = workerNotFound(worker)
	}
	if err != nil {
		return detail, err
	}
	request, err := row.wholeRequest(rx)
	if err != nil {
		return detail, err
	}
	return row.detail(r.id, request), nil
}

// Page returns a page of the workers that pass the filter, in the order of their ids, as
// docs/CLI.md promises. An index finds those that run; the others are filtered.
func (r *Runtime) Page(ctx context.Context, filter WorkerFilter, at db.At) (db.Page[WorkerSummary], error) {
	return call(ctx, r.db.Read, opList, stores.Bind2(r.PageTx, filter, at))
}

// PageTx is Page inside a transaction.
func (r *Runtime) PageTx(rx *db.Rx, filter WorkerFilter, at db.At) (page db.Page[WorkerSummary], err error) {
	defer named(opList, &err)
	room, err := paging.RoomFor(at.Limit)
	if err == nil {
		err = rx.Store().Of(r.db.Store())
	}
	if err != nil {
		return page, err
	}
	behind, err := behindCursor(rx, listName, at.After, r.key)
	if err != nil {
		return page, err
	}
	rows, err := r.list(rx, filter, behind, int64(room.Items)+1)
	if err != nil {
		return page, err
	}
	return stores.FillPage(room, rows, (*WorkerSummary).weight, func(w *WorkerSummary) string {
		return rx.Store().Cursor(listName, []int64{r.key}, string(w.WorkerID))
	})
}

func (w *WorkerSummary) weight() int {
	n := 256 + len(w.WorkerID) + len(w.Intent.Objective) + len(w.Intent.Role) + len(w.Profile.Value)
	if w.Intent.Purpose != nil {
		n += len(*w.Intent.Purpose)
	}
	return n
}

// All iterates over the workers that pass the filter, in the order of Page: see [paging.All]. A
// worker keeps its place in that order.
func (r *Runtime) All(ctx context.Context, filter WorkerFilter) iter.Seq2[WorkerSummary, error] {
	return paging.All(func(at db.At) (db.Page[WorkerSummary], error) { return r.Page(ctx, filter, at) })
}

// list returns at most limit workers after an id; nil is the beginning.
func (r *Runtime) list(rx *db.Rx, filter WorkerFilter, behind *string,
	limit int64,
) (iter.Seq2[WorkerSummary, error], error) {
	query, args := selectSummaries, []any{r.key}
	switch filter.Status {
	case "":
	case Running:
		query += ` AND w.status = 'running'` // a constant, for the partial index
	case Stopped, Cancelled:
		query, args = query+` AND w.status = ?`, append(args, string(filter.Status))
	default:
		return nil, txn.Invalid("use running, stopped or cancelled", "%q is no status of a worker", filter.Status)
	}
	if behind != nil {
		query, args = query+` AND w.worker_id > ?`, append(args, *behind)
	}
	return txn.Each(rx.Store(), func(row *summaryRow) (WorkerSummary, error) { return row.summary(r.id), nil },
		query+` ORDER BY w.worker_id LIMIT `+paging.BoundLimit, append(args, limit)...), nil
}

func (w *summaryRow) summary(runtime RuntimeID) WorkerSummary {
	request := w.request()
	return WorkerSummary{
		WorkerRef: NewWorkerRef(runtime, w.WorkerID), RuntimeID: runtime, WorkerID: w.WorkerID, Status: w.Status,
		Intent: request.Intent, Profile: request.Profile, RequestedCapabilityCount: w.Capabilities,
		HasConfigBundle: request.ConfigBundle != nil, TranscriptLen: uint64(w.TranscriptLen),
		LastEventID: uint64(w.LastEventID),
	}
}

// Find returns the workers with ids that begin with prefix, in the order of their ids; at most
// limit of them, with the rules of a page.
func (r *Runtime) Find(ctx context.Context, prefix string, limit int) ([]WorkerRef, error) {
	return call(ctx, r.db.Read, opFind, stores.Bind2(r.FindTx, prefix, limit))
}

const sqlFindIDs = `SELECT worker_id FROM workers WHERE runtime = ? AND worker_id >= ? AND worker_id < ?
	ORDER BY worker_id LIMIT ` + paging.BoundLimit

// FindTx is Find inside a transaction.
func (r *Runtime) FindTx(rx *db.Rx, prefix string, limit int) (found []WorkerRef, err error) {
	room, err := paging.RoomFor(limit)
	if err == nil {
		err = errors.Join(rx.Store().Of(r.db.Store()), txn.CheckID("worker", prefix))
	}
	if err != nil {
		return nil, &db.Error{Op: opFind, Hint: db.Hint(err), Err: err}
	}
	var ids []WorkerID
	err = rx.Select(&ids, sqlFindIDs, r.key, prefix, paging.AfterPrefix(prefix), room.Items)
	for _, id := range ids {
		found = append(found, NewWorkerRef(r.id, id))
	}
	return found, err
}

// Delete removes a worker with its transcript. Its events and diagnostics stay, without its name. A
// missing worker is db.ErrNotFound.
func (r *Runtime) Delete(ctx context.Context, worker WorkerRef) error {
	remove := stores.On(r.db, txn.Runtimes).Remove
	return refused(remove(ctx, opDelete, func(tx *db.Tx) error { return r.DeleteTx(tx, worker) }))
}

// DeleteTx is Delete inside a transaction of the caller's.
func (r *Runtime) DeleteTx(tx *db.Tx, worker WorkerRef) error {
	row, err := r.lockedRow(tx, opDelete)
	if err != nil {
		return err
	}
	w, err := r.worker(&tx.Rx, worker)
	if err != nil {
		return err
	}
	if err := row.removeWorker(tx, w); err != nil {
		return err
	}
	return row.save(tx)
}
