package workers

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Runtimes are the runtimes of a scope.
type Runtimes struct {
	db    *db.DB
	scope string
}

// NewRuntimes returns the runtimes of a scope; "" is the default scope. It reads and writes
// nothing.
func NewRuntimes(d *db.DB, scope string) *Runtimes { return &Runtimes{db: d, scope: scope} }

// A RuntimeFilter selects the runtimes of a list. The zero value selects all of them.
type RuntimeFilter struct {
	// Status is the one to show; "" is any.
	Status RuntimeStatus
}

func (f RuntimeFilter) check() error {
	switch f.Status {
	case "", Running, Stopped:
		return nil
	}
	return txn.Invalid("use running or stopped", "%q is no status of a runtime", f.Status)
}

// scopeIn returns the number of the scope; ok is false if nothing was ever written to it. A
// transaction of another file is an error.
func (s *Runtimes) scopeIn(rx *db.Rx) (int64, bool, error) { return stores.Scope(rx, s.db, s.scope) }

const (
	opGetRuntime    = "summarize runtime"
	opListRuntimes  = "list runtimes"
	opFindRuntimes  = "find runtimes"
	opDeleteRuntime = "delete runtime"

	runtimesName = "runtimes" // in cursors
)

// Get describes a runtime. A missing one is db.ErrNotFound.
func (s *Runtimes) Get(ctx context.Context, id RuntimeID) (RuntimeSummary, error) {
	return call(ctx, s.db.Read, opGetRuntime, stores.Bind(s.GetTx, id))
}

// GetTx is Get inside a transaction.
func (s *Runtimes) GetTx(rx *db.Rx, id RuntimeID) (RuntimeSummary, error) {
	row, err := s.find(rx, opGetRuntime, id)
	if err != nil {
		return RuntimeSummary{}, err
	}
	return row.summary(backendOf(s.db)), nil
}

func backendOf(d *db.DB) string {
	if d.Path() == ":memory:" {
		return backendMemory
	}
	return backendFile
}

func (w *runtimeRow) summary(backend string) RuntimeSummary {
	return RuntimeSummary{
		RuntimeID: w.RuntimeID, DisplayName: w.DisplayName, Backend: backend, Status: w.Status,
		WorkerCount: uint64(w.Running + w.Stopped + w.Cancelled), ActiveWorkerCount: uint64(w.Running),
		StoppedWorkerCount: uint64(w.Stopped), CancelledWorkerCount: uint64(w.Cancelled),
		DiagnosticCount: uint64(w.Diagnostics), Limits: w.limits(),
	}
}

func (s *Runtimes) find(rx *db.Rx, op string, id RuntimeID) (*runtimeRow, error) {
	if err := txn.CheckID("runtime", string(id)); err != nil {
		return nil, &db.Error{Op: op, Entity: "runtime", Err: err}
	}
	if err := rx.Store().Of(s.db.Store()); err != nil {
		return nil, err
	}
	row, found, err := findRuntime(rx, s.scope, id)
	if err == nil && !found {
		err = runtimeGone(op, id)
	}
	return row, err
}

// Page returns a page of the runtimes that pass the filter, in the order of their ids, as
// docs/CLI.md promises.
func (s *Runtimes) Page(ctx context.Context, f RuntimeFilter, at db.At) (db.Page[RuntimeSummary], error) {
	return call(ctx, s.db.Read, opListRuntimes, stores.Bind2(s.PageTx, f, at))
}

// PageTx is Page inside a transaction.
func (s *Runtimes) PageTx(rx *db.Rx, f RuntimeFilter, at db.At) (page db.Page[RuntimeSummary], err error) {
	defer named(opListRuntimes, &err)
	room, err := paging.RoomFor(at.Limit)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return page, err
	}
	scope, ok, err := s.scopeIn(rx)
	if err != nil {
		return page, err
	}
	behind, err := behindCursor(rx, runtimesName, at.After, scope)
	if err != nil || !ok {
		return page, err
	}
	query, args := selectRuntimes+` WHERE scope = ?`, []any{scope}
	if behind != nil {
		query, args = query+` AND runtime_id > ?`, append(args, *behind)
	}
	if f.Status != "" {
		query, args = query+` AND status = ?`, append(args, string(f.Status))
	}
	summary := func(row *runtimeRow) (RuntimeSummary, error) { return row.summary(backendOf(s.db)), nil }
	rows := txn.Each(rx.Store(), summary, query+` ORDER BY runtime_id LIMIT `+paging.BoundLimit,
		append(args, int64(room.Items)+1)...)
	return stores.FillPage(room, rows, func(r *RuntimeSummary) int { return 256 + len(r.RuntimeID) },
		func(r *RuntimeSummary) string {
			return rx.Store().Cursor(runtimesName, []int64{scope}, string(r.RuntimeID))
		})
}

// named adds the call that failed to an error.
func named(op string, err *error) {
	if *err != nil {
		*err = &db.Error{Op: op, Hint: db.Hint(*err), Err: *err}
	}
}

// behindCursor returns the id before the position of a list's cursor, or nil for the list's
// beginning. A list belongs to an owner, the number of its scope or runtime.
func behindCursor(rx *db.Rx, list, cursor string, owner int64) (*string, error) {
	if cursor == "" {
		return nil, nil
	}
	var behind string
	err := rx.Store().ReadListCursor(list, cursor, []int64{owner}, &behind)
	return &behind, err
}

// All iterates over the runtimes that pass the filter, in the order of Page: see [paging.All]. A
// runtime keeps its place in that order.
func (s *Runtimes) All(ctx context.Context, filter RuntimeFilter) iter.Seq2[RuntimeSummary, error] {
	return paging.All(func(at db.At) (db.Page[RuntimeSummary], error) { return s.Page(ctx, filter, at) })
}

// Find returns the ids of runtimes that begin with prefix, in their order; at most limit of them,
// with the rules of a page.
func (s *Runtimes) Find(ctx context.Context, prefix string, limit int) ([]RuntimeID, error) {
	return call(ctx, s.db.Read, opFindRuntimes, stores.Bind2(s.FindTx, prefix, limit))
}

const (
	sqlFindRuntimes = `SELECT runtime_id FROM worker_runtimes WHERE scope = ? AND runtime_id >= ?
		AND runtime_id < ? ORDER BY runtime_id LIMIT ` + paging.BoundLimit
	sqlRuntimeHeads = `SELECT key, runtime_id AS of, next_event_position - 1 AS seen, status,
	CASE WHEN ? IN ('', status) THEN 0 ELSE 1 END AS out
FROM worker_runtimes WHERE key > ? AND key <= ? AND +scope = ? ORDER BY key`
)

// FindTx is Find inside a transaction.
func (s *Runtimes) FindTx(rx *db.Rx, prefix string, limit int) (found []RuntimeID, err error) {
	defer named(opFindRuntimes, &err)
	return stores.FindPrefix[RuntimeID](rx, s.db, s.scope, "runtime", prefix, limit, sqlFindRuntimes)
}

// FollowAll delivers what is added, from this call on, to the logs of the runtimes that pass the
// filter: their events, each new status, and gaps where events were pruned or a runtime was
// removed. A runtime that passes later is followed from then on; a new runtime from its beginning.
// The events of a log come in its order, none twice and none left out without a gap; the logs come
// in any order. Each item has the cursor of its own runtime, for [Runtime.Follow]. The loop may be
// run once; it ends as Follow's loop does.
func (s *Runtimes) FollowAll(ctx context.Context, filter RuntimeFilter) iter.Seq2[Followed, error] {
	if err := filter.check(); err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, &db.Error{Op: opFollow, Err: err}) }
	}
	return stores.FollowScope(ctx, s.db, stream, s.scope, sqlRuntimeHeads, []any{string(filter.Status)})
}

// Of returns the runtime whose log a cursor points into. Any other cursor is db.ErrInvalid; a
// removed runtime is db.ErrCursorExpired.
func (s *Runtimes) Of(ctx context.Context, cursor string) (RuntimeID, error) {
	return call(ctx, s.db.Read, opFollow, stores.Bind(s.OfTx, cursor))
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
	row, found, err := find[runtimeRow](rx, sqlRuntimeByKey, at.Key)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", txn.CursorExpired(whyGone)
	case !ok || row.Scope != scope:
		return "", txn.NotThisCursor(cursor)
	}
	return row.RuntimeID, nil
}

// Delete removes a runtime with its workers, its log and its diagnostics. It removes a few thousand
// rows in a transaction, so that none holds the writer for long, and the runtime itself in the
// last. A missing runtime is db.ErrNotFound.
func (s *Runtimes) Delete(ctx context.Context, id RuntimeID) error {
	for more := true; more; {
		err := stores.On(s.db, txn.Parts).Remove(ctx, opDeleteRuntime, func(tx *db.Tx) error {
			row, err := s.find(&tx.Rx, opDeleteRuntime, id)
			if err != nil {
				return err
			}
			more, err = row.shrink(tx, deleted)
			if err != nil || more {
				return err
			}
			return row.remove(tx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deleted is how many rows one transaction removes: less than 50 ms of the writer's time.
const deleted = 4000

// DeleteTx is Delete inside a transaction of the caller's, which then removes the whole runtime.
func (s *Runtimes) DeleteTx(tx *db.Tx, id RuntimeID) error {
	row, err := s.find(&tx.Rx, opDeleteRuntime, id)
	if err != nil {
		return err
	}
	return row.remove(tx)
}
