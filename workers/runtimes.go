package workers

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/workers"
)

// Runtimes are the runtimes of a scope.
type Runtimes struct {
	db    *db.DB
	scope string
}

// NewRuntimes gives the runtimes of a scope; "" is the default scope. Nothing is read or written.
func NewRuntimes(d *db.DB, scope string) *Runtimes { return &Runtimes{db: d, scope: scope} }

// A RuntimeFilter says which runtimes a list shows. The zero value is all of them.
type RuntimeFilter struct {
	// Status is the one to show; "" is any.
	Status RuntimeStatus
}

func (f RuntimeFilter) check() error {
	switch f.Status {
	case "", RuntimeRunning, RuntimeStopped:
		return nil
	}
	return db.Invalid("use running or stopped", "%q is no status of a runtime", f.Status)
}

// scopeIn gives the number of the scope in a transaction, which must be one of the same file; ok is
// false where nothing was ever written to it.
func (s *Runtimes) scopeIn(rx *db.Rx) (scope int64, ok bool, err error) {
	if err := rx.Of(s.db); err != nil {
		return 0, false, err
	}
	return rx.Scope(s.scope)
}

const (
	opGetRuntime    = "summarize runtime"
	opListRuntimes  = "list runtimes"
	opFindRuntimes  = "find runtimes"
	opDeleteRuntime = "delete runtime"

	runtimesName = "runtimes" // in cursors
)

// Get describes a runtime. db.ErrNotFound: there is none of that id.
func (s *Runtimes) Get(ctx context.Context, id RuntimeID) (summary RuntimeSummary, err error) {
	err = s.db.Read(ctx, opGetRuntime, func(rx *db.Rx) error {
		summary, err = s.GetTx(rx, id)
		return err
	})
	return summary, err
}

// GetTx is Get inside a transaction.
func (s *Runtimes) GetTx(rx *db.Rx, id RuntimeID) (RuntimeSummary, error) {
	row, err := s.find(rx, opGetRuntime, id)
	if err != nil {
		return RuntimeSummary{}, err
	}
	return summaryOf(row, backendOf(s.db)), nil
}

func backendOf(d *db.DB) RuntimeBackendKind {
	if d.Path() == ":memory:" {
		return BackendMemory
	}
	return BackendFsStore
}

func summaryOf(row *workers.RuntimeRow, backend RuntimeBackendKind) RuntimeSummary {
	return RuntimeSummary{
		RuntimeID: RuntimeID(row.RuntimeID), DisplayName: row.DisplayName, Backend: backend,
		Status:      RuntimeStatus(row.Status),
		WorkerCount: uint64(row.Running + row.Stopped + row.Cancelled), ActiveWorkerCount: uint64(row.Running),
		StoppedWorkerCount: uint64(row.Stopped), CancelledWorkerCount: uint64(row.Cancelled),
		DiagnosticCount: uint64(row.Diagnostics), Limits: limitsOf(row),
	}
}

func (s *Runtimes) find(rx *db.Rx, op string, id RuntimeID) (*workers.RuntimeRow, error) {
	if err := db.CheckID("runtime", string(id)); err != nil {
		return nil, &db.Error{Op: op, Entity: "runtime", Err: err}
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil {
		return nil, err
	}
	if ok {
		row, found, err := workers.FindRuntime(rx, scope, string(id))
		if err != nil || found {
			return row, err
		}
	}
	return nil, runtimeGone(op, id)
}

// Page gives a page of the runtimes that pass the filter, in the order of their ids, as docs/CLI.md promises.
func (s *Runtimes) Page(ctx context.Context, filter RuntimeFilter, at db.At) (page db.Page[RuntimeSummary],
	err error,
) {
	err = s.db.Read(ctx, opListRuntimes, func(rx *db.Rx) error {
		page, err = s.PageTx(rx, filter, at)
		return err
	})
	return page, err
}

// PageTx is Page inside a transaction.
func (s *Runtimes) PageTx(rx *db.Rx, filter RuntimeFilter, at db.At) (page db.Page[RuntimeSummary],
	err error,
) {
	page, err = s.page(rx, filter, at)
	if err != nil {
		return page, &db.Error{Op: opListRuntimes, Hint: db.Hint(err), Err: err}
	}
	return page, nil
}

func (s *Runtimes) page(rx *db.Rx, filter RuntimeFilter, at db.At) (page db.Page[RuntimeSummary], err error) {
	room, err := at.Room()
	if err == nil {
		err = filter.check()
	}
	if err != nil {
		return page, err
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil {
		return page, err
	}
	behind := ""
	if at.After != "" {
		var of [1]int64
		if err := rx.ReadCursor(runtimesName, at.After, of[:], &behind); err != nil {
			return page, err
		}
		if of[0] != scope {
			return page, db.NotThisCursor(at.After)
		}
	}
	if !ok {
		return page, nil
	}
	rows, err := workers.RuntimesBehind(rx, scope, behind, at.After == "", string(filter.Status),
		int64(room.Items)+1)
	if err != nil {
		return page, err
	}
	items := func(yield func(RuntimeSummary, error) bool) {
		for i := range rows {
			if !yield(summaryOf(&rows[i], backendOf(s.db)), nil) {
				return
			}
		}
	}
	return db.FillPage(room, items, func(r *RuntimeSummary) int { return 256 + len(r.RuntimeID) },
		func(r *RuntimeSummary) string {
			return rx.Cursor(runtimesName, []int64{scope}, string(r.RuntimeID))
		})
}

// All gives the runtimes that pass the filter one by one, in the order of Page: see [db.AllPages].
// A runtime keeps its place in that order.
func (s *Runtimes) All(ctx context.Context, filter RuntimeFilter) iter.Seq2[RuntimeSummary, error] {
	return db.AllPages(func(at db.At) (db.Page[RuntimeSummary], error) { return s.Page(ctx, filter, at) })
}

// Find gives the ids of runtimes that begin with prefix, in their order; at most limit of them,
// with the rules of a page.
func (s *Runtimes) Find(ctx context.Context, prefix string, limit int) (found []RuntimeID, err error) {
	err = s.db.Read(ctx, opFindRuntimes, func(rx *db.Rx) error {
		found, err = s.FindTx(rx, prefix, limit)
		return err
	})
	return found, err
}

const (
	sqlFindRuntimes = `SELECT runtime_id FROM worker_runtimes WHERE scope = ? AND runtime_id >= ?
		AND runtime_id < ? ORDER BY runtime_id LIMIT ` + db.BoundLimit
	sqlRuntimeHeads = `SELECT key, runtime_id AS of, next_event_position - 1 AS seen, status
FROM worker_runtimes WHERE key > ? AND key <= ? AND +scope = ? ORDER BY key`
)

// FindTx is Find inside a transaction.
func (s *Runtimes) FindTx(rx *db.Rx, prefix string, limit int) (found []RuntimeID, err error) {
	room, err := db.At{Limit: limit}.Room()
	if err == nil {
		err = db.CheckID("runtime", prefix)
	}
	if err != nil {
		return nil, &db.Error{Op: opFindRuntimes, Hint: db.Hint(err), Err: err}
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok {
		return nil, err
	}
	err = rx.Select(&found, sqlFindRuntimes, scope, prefix, db.AfterPrefix(prefix), room.Items)
	return found, err
}

// FollowAll delivers what comes from this call on to the logs of the runtimes that pass the filter,
// from when they pass on: their events, each new status, and gaps where events were pruned or a
// runtime was removed. New runtimes come from their beginning. Inside a log the order is its own,
// none twice and none left out without a gap; between logs it is that in which they were met. Each
// item has the cursor of its own runtime, for [Runtime.Follow]. The loop may be run once; it ends
// as that of Follow does.
func (s *Runtimes) FollowAll(ctx context.Context, filter RuntimeFilter) iter.Seq2[Followed, error] {
	if err := filter.check(); err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, &db.Error{Op: opFollow, Err: err}) }
	}
	return db.FollowAll(ctx, s.db, stream, [2]string{s.scope, string(filter.Status)},
		db.Heads[RuntimeID]{Between: func(rx *db.Rx, behind, last int64) (heads []db.Head[RuntimeID], err error) {
			scope, ok, err := s.scopeIn(rx)
			if err != nil || !ok {
				return nil, err
			}
			err = rx.Select(&heads, sqlRuntimeHeads, behind, last, scope)
			for i := range heads {
				heads[i].Out = filter.Status != "" && filter.Status != RuntimeStatus(heads[i].Status)
			}
			return heads, err
		}})
}

// Of gives the runtime whose log a cursor points into. db.ErrInvalid: it is no such cursor.
// db.ErrCursorExpired: the runtime was removed.
func (s *Runtimes) Of(ctx context.Context, cursor string) (id RuntimeID, err error) {
	err = s.db.Read(ctx, opFollow, func(rx *db.Rx) error {
		id, err = s.OfTx(rx, cursor)
		return err
	})
	return id, err
}

// OfTx is Of inside a transaction.
func (s *Runtimes) OfTx(rx *db.Rx, cursor string) (RuntimeID, error) {
	scope, ok, err := s.scopeIn(rx)
	if err != nil {
		return "", err
	}
	at, err := stream.ReadCursor(rx, cursor)
	if err != nil {
		return "", err
	}
	row, found, err := workers.RuntimeByKey(rx, at.Key)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", errRemoved()
	case !ok || row.Scope != scope:
		return "", db.NotThisCursor(cursor)
	}
	return RuntimeID(row.RuntimeID), nil
}

// Delete takes a runtime away, with its workers, its log and its diagnostics. What it holds goes in
// several transactions, a few thousand rows in each, so that none holds the writer for long; the
// runtime itself goes last. db.ErrNotFound: there is none of that id.
func (s *Runtimes) Delete(ctx context.Context, id RuntimeID) error {
	for more := true; more; {
		err := s.db.Reclaim(ctx, opDeleteRuntime, func(tx *db.Tx) error {
			row, err := s.find(&tx.Rx, opDeleteRuntime, id)
			if err != nil {
				return err
			}
			more, err = row.Shrink(tx, deleted)
			if err != nil || more {
				return err
			}
			return row.Remove(tx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleted is how many rows one transaction takes away: less than 50 ms of the writer's time.
const deleted = 4000

// DeleteTx is Delete inside a transaction of the caller's, which is as long as the runtime is large.
func (s *Runtimes) DeleteTx(tx *db.Tx, id RuntimeID) error {
	row, err := s.find(&tx.Rx, opDeleteRuntime, id)
	if err != nil {
		return err
	}
	return row.Remove(tx)
}
