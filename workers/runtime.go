package workers

import (
	"context"
	"errors"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Runtime is a set of workers with their transcripts, one log of events and one list of
// diagnostics. Its methods are safe for concurrent use. Processes that open the same file, scope
// and id share one runtime.
type Runtime struct {
	db      *db.DB
	private bool // the database is the runtime's own
	backend string
	id      RuntimeID
	key     int64
	limits  RuntimeLimits // never change
}

const opOpen = "open runtime"

// Open opens the runtime of a scope and id, or creates it with a first event runtime_started. An
// existing runtime keeps its name and limits. Any number of programs may have it open.
func Open(ctx context.Context, d *db.DB, options RuntimeOptions) (*Runtime, error) {
	r, err := newRuntime(d, options)
	if err != nil {
		return nil, err
	}
	found := false
	err = d.Read(ctx, opOpen, func(rx *db.Rx) (err error) {
		found, err = r.find(rx, options.Scope)
		return err
	})
	if err == nil && !found {
		if options.MustExist {
			return nil, runtimeGone(opOpen, r.id)
		}
		err = stores.On(d, txn.NewRuntimes).Write(ctx, opOpen,
			func(tx *db.Tx) error { return r.findOrStart(tx, options) })
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// OpenTx is Open inside a transaction of the caller's, which must commit before others see the
// runtime.
func OpenTx(tx *db.Tx, d *db.DB, options RuntimeOptions) (*Runtime, error) {
	r, err := newRuntime(d, options)
	if err == nil {
		err = tx.Store().Of(d.Store())
	}
	if err == nil {
		err = r.findOrStart(tx, options)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func newRuntime(d *db.DB, options RuntimeOptions) (*Runtime, error) {
	r := &Runtime{db: d, id: options.RuntimeID, backend: backendOf(d)}
	if r.id == "" && !options.MustExist {
		r.id = generatedRuntimeID()
	}
	if err := txn.CheckID("runtime", string(r.id)); err != nil {
		return nil, &db.Error{Op: opOpen, Entity: "runtime", Err: err}
	}
	if options.DisplayName != nil && !utf8.ValidString(*options.DisplayName) {
		return nil, r.failed(opOpen, txn.Invalid("make it valid UTF-8", "its name is not valid UTF-8"))
	}
	return r, nil
}

// Close closes the database of a runtime from NewMemory or WithOptions; for others it does nothing.
func (r *Runtime) Close() error {
	if !r.private {
		return nil
	}
	return r.db.Close()
}

// RuntimeID is the id of the runtime, as in every WorkerRef.
func (r *Runtime) RuntimeID() RuntimeID { return r.id }

// find reports whether the runtime exists, and reads its limits.
func (r *Runtime) find(rx *db.Rx, scope string) (bool, error) {
	row, found, err := findRuntime(rx, scope, r.id)
	r.key, r.limits = row.Key, row.limits()
	return found, err
}

func (w *runtimeRow) limits() RuntimeLimits {
	return RuntimeLimits{uint64(w.MaxTranscript), uint64(w.MaxEvents)}
}

// findOrStart creates the runtime if it is missing.
func (r *Runtime) findOrStart(tx *db.Tx, options RuntimeOptions) error {
	found, err := r.find(&tx.Rx, options.Scope)
	if err != nil || found {
		return err
	}
	if options.MustExist {
		return runtimeGone(opOpen, r.id)
	}
	scope, err := tx.Store().Scope(options.Scope)
	if err != nil {
		return err
	}
	r.limits = defaultLimits
	if options.Limits != nil {
		r.limits = *options.Limits
	}
	now := db.Nanos(tx.Now())
	row := &runtimeRow{
		Scope: scope, RuntimeID: r.id, DisplayName: options.DisplayName, Status: Running,
		MaxTranscript: int64(r.limits.MaxTranscriptProjectionItems), MaxEvents: int64(r.limits.MaxEventBatchItems),
		NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1, NextPosition: 1, FirstPosition: 1, InOrder: 1,
		CreatedAt: &now,
	}
	if err := row.add(tx); err != nil {
		return err
	}
	if _, err := tx.Store().Grant("worker_runtimes", row.Key); err != nil { // r outlives a rollback
		return err
	}
	r.key = row.Key
	if _, err := row.push(tx, nil, runtimeStarted, "runtime started"); err != nil {
		return err
	}
	return row.save(tx)
}

// runtimeGone is the error about a runtime that is not in the file.
func (r *Runtime) failed(op string, err error) error {
	return db.About(err, op, "runtime", string(r.id), nil)
}

func runtimeGone(op string, id RuntimeID) error {
	return &db.Error{
		Op: op, Entity: "runtime", ID: string(id), Err: db.ErrNotFound,
		Hint: "look at the scope, and at the id",
	}
}

// row reads the runtime's row.
func (r *Runtime) row(rx *db.Rx, op string) (*runtimeRow, error) {
	if err := rx.Store().Of(r.db.Store()); err != nil {
		return nil, err
	}
	row, found, err := find[runtimeRow](rx, sqlRuntimeByKey, r.key)
	if err == nil && !found {
		err = runtimeGone(op, r.id)
	}
	return row, err
}

// lockedRow locks the runtime's row and reads it, before a change to the runtime.
func (r *Runtime) lockedRow(tx *db.Tx, op string) (*runtimeRow, error) {
	if err := r.lock(tx); err != nil {
		return nil, err
	}
	return r.row(&tx.Rx, op)
}

// lock locks the runtime's row. A change of anything that belongs to a runtime locks or changes its
// row first.
func (r *Runtime) lock(tx *db.Tx) error {
	if err := tx.Store().Of(r.db.Store()); err != nil {
		return err
	}
	return tx.Store().WillChange(runtimeByKey, r.key)
}

func (r *Runtime) ensureRunning(row *runtimeRow) error {
	if row.Status == Stopped {
		return refusal(kindRuntimeStopped, "runtime %s is stopped", r.id)
	}
	return nil
}

// ensureOwn refuses the workers of other runtimes.
func (r *Runtime) ensureOwn(ref WorkerRef) error {
	if ref.RuntimeID == r.id {
		return nil
	}
	return refusal("WrongRuntime", "worker %s belongs to runtime %s, not runtime %s", ref.WorkerID,
		ref.RuntimeID, r.id)
}

func ensureFound(w *workerRow, ref WorkerRef) error {
	if w == nil {
		return workerNotFound(ref)
	}
	return nil
}

func (r *Runtime) ensureOwnCursor(c EventCursor) error {
	if c.RuntimeID == r.id {
		return nil
	}
	return refusal("WrongRuntimeCursor", "cursor belongs to runtime %s, not runtime %s", c.RuntimeID, r.id)
}

// both locks the runtime's row, and reads it and a worker's. It ignores the runtime that the ref
// names. w is nil if there is no such worker.
func (r *Runtime) both(tx *db.Tx, op string, ref WorkerRef) (row *runtimeRow, w *workerRow, err error) {
	if err := r.lock(tx); err != nil {
		return nil, nil, err
	}
	row, w, found, err := runtimeAndWorker(&tx.Rx, r.key, ref.WorkerID)
	if err == nil && !found {
		err = runtimeGone(op, r.id)
	}
	return row, w, err
}

// worker finds a worker of this runtime.
func (r *Runtime) worker(rx *db.Rx, ref WorkerRef) (*workerRow, error) {
	if err := errors.Join(rx.Store().Of(r.db.Store()), r.ensureOwn(ref)); err != nil {
		return nil, err
	}
	w, found, err := find[workerRow](rx, sqlFindWorker, r.key, string(ref.WorkerID))
	if err == nil && !found {
		err = workerNotFound(ref)
	}
	return w, err
}
