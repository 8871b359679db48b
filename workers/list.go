package workers

import (
	"context"
	"errors"
	"iter"

	"selvedge/db"
	"selvedge/internal/workers"
)

// A WorkerFilter says which workers a list shows. The zero value is all of them.
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

// Get tells all about a worker but what was said to it. db.ErrNotFound: there is no such worker.
func (r *Runtime) Get(ctx context.Context, worker WorkerRef) (detail WorkerDetail, err error) {
	err = r.db.Read(ctx, opGet, func(rx *db.Rx) error {
		detail, err = r.GetTx(rx, worker)
		return err
	})
	return detail, refused(err)
}

// GetTx is Get inside a transaction.
func (r *Runtime) GetTx(rx *db.Rx, worker WorkerRef) (detail WorkerDetail, err error) {
	if err := errors.Join(rx.Of(r.db), r.ensureOwn(worker)); err != nil {
		return detail, err
	}
	var row workers.SummaryRow
	ok, err := rx.Find(&row, workers.SelectSummaries+` AND w.worker_id = ?`, r.key, string(worker.WorkerID))
	if err == nil && !ok {
		err = workerNotFound(worker)
	}
	if err != nil {
		return detail, err
	}
	stored, err := row.WholeRequest(rx)
	if err != nil {
		return detail, corrupted("read worker", err)
	}
	request := requestOf(stored)
	return WorkerDetail{
		WorkerRef: worker, RuntimeID: r.id, WorkerID: worker.WorkerID, Status: WorkerStatus(row.Status),
		Intent: request.Intent, Profile: request.Profile, ConfigBundle: request.ConfigBundle,
		RequestedCapabilities: request.RequestedCapabilities, WorkspaceRefs: request.WorkspaceRefs,
		MountRefs:     request.MountRefs,
		TranscriptLen: uint64(row.TranscriptLen), LastEventID: uint64(row.LastEventID),
	}, nil
}

// Page gives a page of the workers that pass the filter, in the order of their ids, as docs/CLI.md
// promises. Those that run are found in an index; those that ended are picked out.
func (r *Runtime) Page(ctx context.Context, filter WorkerFilter, at db.At) (page db.Page[WorkerSummary],
	err error,
) {
	err = r.db.Read(ctx, opList, func(rx *db.Rx) error {
		page, err = r.PageTx(rx, filter, at)
		return err
	})
	return page, err
}

// PageTx is Page inside a transaction.
func (r *Runtime) PageTx(rx *db.Rx, filter WorkerFilter, at db.At) (page db.Page[WorkerSummary], err error) {
	page, err = r.page(rx, filter, at)
	if err != nil {
		return page, &db.Error{Op: opList, Hint: db.Hint(err), Err: err}
	}
	return page, nil
}

func (r *Runtime) page(rx *db.Rx, filter WorkerFilter, at db.At) (page db.Page[WorkerSummary], err error) {
	room, err := at.Room()
	if err == nil {
		err = rx.Of(r.db)
	}
	if err != nil {
		return page, err
	}
	var behind *string
	if at.After != "" {
		var of [1]int64
		behind = new(string)
		if err := rx.ReadCursor(listName, at.After, of[:], behind); err != nil {
			return page, err
		}
		if of[0] != r.key {
			return page, db.NotThisCursor(at.After)
		}
	}
	rows, err := r.list(rx, filter, behind, int64(room.Items)+1)
	if err != nil {
		return page, err
	}
	return db.FillPage(room, rows, (*WorkerSummary).weight, func(w *WorkerSummary) string {
		return rx.Cursor(listName, []int64{r.key}, string(w.WorkerID))
	})
}

func (w *WorkerSummary) weight() int {
	n := 256 + len(w.WorkerID) + len(w.Intent.Objective) + len(w.Intent.Role) + len(w.Profile.Value)
	if w.Intent.Purpose != nil {
		n += len(*w.Intent.Purpose)
	}
	return n
}

// All gives the workers that pass the filter one by one, in the order of Page: see [db.AllPages]. A
// worker keeps its place in that order.
func (r *Runtime) All(ctx context.Context, filter WorkerFilter) iter.Seq2[WorkerSummary, error] {
	return db.AllPages(func(at db.At) (db.Page[WorkerSummary], error) { return r.Page(ctx, filter, at) })
}

// list gives at most limit workers behind an id.
func (r *Runtime) list(rx *db.Rx, filter WorkerFilter, behind *string,
	limit int64,
) (iter.Seq2[WorkerSummary, error], error) {
	query, args := workers.SelectSummaries, []any{r.key}
	switch filter.Status {
	case "":
	case WorkerRunning:
		query += ` AND w.status = 'running'` // written out, so that the index of those is seen to hold all
	case WorkerStopped, WorkerCancelled:
		query, args = query+` AND w.status = ?`, append(args, string(filter.Status))
	default:
		return nil, db.Invalid("use running, stopped or cancelled", "%q is no status of a worker", filter.Status)
	}
	if behind != nil {
		query, args = query+` AND w.worker_id > ?`, append(args, *behind)
	}
	return db.Each(rx, r.summary, query+` ORDER BY w.worker_id LIMIT `+db.BoundLimit, append(args, limit)...),
		nil
}

func (r *Runtime) summary(row *workers.SummaryRow) (WorkerSummary, error) {
	id, request := WorkerID(row.WorkerID), row.Request()
	return WorkerSummary{
		WorkerRef: NewWorkerRef(r.id, id), RuntimeID: r.id, WorkerID: id, Status: WorkerStatus(row.Status),
		Intent: intentOf(request.Intent), Profile: profileOf(request.Profile),
		RequestedCapabilityCount: row.Capabilities,
		HasConfigBundle:          row.ConfigBundle != nil, TranscriptLen: uint64(row.TranscriptLen),
		LastEventID: uint64(row.LastEventID),
	}, nil
}

// Find gives the workers whose id begins with prefix, in the order of their ids; at most limit of
// them, with the rules of a page.
func (r *Runtime) Find(ctx context.Context, prefix string, limit int) (found []WorkerRef, err error) {
	err = r.db.Read(ctx, opFind, func(rx *db.Rx) error {
		found, err = r.FindTx(rx, prefix, limit)
		return err
	})
	return found, err
}

const sqlFindIDs = `SELECT worker_id FROM workers WHERE runtime = ? AND worker_id >= ? AND worker_id < ?
	ORDER BY worker_id LIMIT ` + db.BoundLimit

// FindTx is Find inside a transaction.
func (r *Runtime) FindTx(rx *db.Rx, prefix string, limit int) (found []WorkerRef, err error) {
	room, err := db.At{Limit: limit}.Room()
	if err == nil {
		err = errors.Join(rx.Of(r.db), db.CheckID("worker", prefix))
	}
	if err != nil {
		return nil, &db.Error{Op: opFind, Hint: db.Hint(err), Err: err}
	}
	var ids []string
	err = rx.Select(&ids, sqlFindIDs, r.key, prefix, db.AfterPrefix(prefix), room.Items)
	for _, id := range ids {
		found = append(found, NewWorkerRef(r.id, WorkerID(id)))
	}
	return found, err
}

// Delete takes a worker away, with its transcript. What the log and the diagnostics tell of it
// stays, without its name. db.ErrNotFound: there is no such worker.
func (r *Runtime) Delete(ctx context.Context, worker WorkerRef) error {
	return refused(r.db.Reclaim(ctx, opDelete, func(tx *db.Tx) error { return r.DeleteTx(tx, worker) }))
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
	if err := row.RemoveWorker(tx, w); err != nil {
		return err
	}
	return row.Save(tx)
}
