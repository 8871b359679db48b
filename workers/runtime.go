package workers

import (
	"context"
	"errors"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/workers"
)

// A Runtime is a set of workers with their transcripts, one log of events and one list of
// diagnostics. Its methods are safe for concurrent use, by many processes too: all that have the
// same file, scope and id share one runtime.
type Runtime struct {
	db      *db.DB
	private bool // the database is the runtime's own
	backend RuntimeBackendKind
	id      RuntimeID
	key     int64
	limits  RuntimeLimits // never change
}

const opOpen = "open runtime"

// Open gives the runtime of that scope and id, and makes it where it is missing: then its first
// event is runtime_started. A runtime that is there goes on as it is, with its own name and limits,
// however many programs have it open.
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
			return nil, r.gone(opOpen)
		}
		err = d.Write(ctx, opOpen, func(tx *db.Tx) error { return r.findOrStart(tx, options) })
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// OpenTx is Open inside a transaction of the caller's. A runtime that it makes is there once that
// is committed.
func OpenTx(tx *db.Tx, d *db.DB, options RuntimeOptions) (*Runtime, error) {
	r, err := newRuntime(d, options)
	if err == nil {
		err = tx.Of(d)
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
	if err := db.CheckID("runtime", string(r.id)); err != nil {
		return nil, &db.Error{Op: opOpen, Entity: "runtime", Err: err}
	}
	if options.DisplayName != nil && !utf8.ValidString(*options.DisplayName) {
		return nil, &db.Error{
			Op: opOpen, Entity: "runtime", ID: string(r.id),
			Err: db.Invalid("make it valid UTF-8", "its name is not valid UTF-8"),
		}
	}
	return r, nil
}

// Close closes the database of a runtime that NewMemory or WithOptions made; for others there is
// nothing to do.
func (r *Runtime) Close() error {
	if !r.private {
		return nil
	}
	return r.db.Close()
}

// RuntimeID is the runtime's half of every WorkerRef.
func (r *Runtime) RuntimeID() RuntimeID { return r.id }

func (r *Runtime) find(rx *db.Rx, scopeName string) (bool, error) {
	scope, ok, err := rx.Scope(scopeName)
	if err != nil || !ok {
		return false, err
	}
	row, found, err := workers.FindRuntime(rx, scope, string(r.id))
	r.key = row.Key
	r.limits = limitsOf(row)
	return found, err
}

func limitsOf(row *workers.RuntimeRow) RuntimeLimits {
	return RuntimeLimits{
		MaxTranscriptProjectionItems: uint64(row.MaxTranscript),
		MaxEventBatchItems:           uint64(row.MaxEvents),
	}
}

// findOrStart makes the runtime, unless it is there.
func (r *Runtime) findOrStart(tx *db.Tx, options RuntimeOptions) error {
	found, err := r.find(&tx.Rx, options.Scope)
	if err != nil || found {
		return err
	}
	if options.MustExist {
		return r.gone(opOpen)
	}
	scope, err := tx.Scope(options.Scope)
	if err != nil {
		return err
	}
	r.limits = DefaultLimits()
	if options.Limits != nil {
		r.limits = *options.Limits
	}
	now := db.Nanos(tx.Now())
	row := &workers.RuntimeRow{
		Scope: scope, RuntimeID: string(r.id), DisplayName: options.DisplayName, Status: workers.Running,
		MaxTranscript: int64(r.limits.MaxTranscriptProjectionItems), MaxEvents: int64(r.limits.MaxEventBatchItems),
		NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1, NextPosition: 1, FirstPosition: 1, InOrder: 1,
		CreatedAt: &now,
	}
	if err := row.Add(tx); err != nil {
		return err
	}
	r.key = row.Key
	if _, err := row.Push(tx, nil, string(EventRuntimeStarted), "runtime started"); err != nil {
		return err
	}
	return row.Save(tx)
}

// gone is the error about a runtime that is not in the file, or not any more.
func (r *Runtime) gone(op string) error { return runtimeGone(op, r.id) }

func runtimeGone(op string, id RuntimeID) error {
	return &db.Error{
		Op: op, Entity: "runtime", ID: string(id), Err: db.ErrNotFound,
		Hint: "look at the scope, and at the id",
	}
}

// row reads the runtime's row.
func (r *Runtime) row(rx *db.Rx, op string) (*workers.RuntimeRow, error) {
	if err := rx.Of(r.db); err != nil {
		return nil, err
	}
	row, found, err := workers.RuntimeByKey(rx, r.key)
	if err == nil && !found {
		err = r.gone(op)
	}
	return row, err
}

// lockedRow is row for a change of what belongs to the runtime: whoever makes one locks the row first.
func (r *Runtime) lockedRow(tx *db.Tx, op string) (*workers.RuntimeRow, error) {
	if err := tx.Of(r.db); err != nil {
		return nil, err
	}
	if err := workers.LockRuntime(tx, r.key); err != nil {
		return nil, err
	}
	return r.row(&tx.Rx, op)
}

func (r *Runtime) ensureRunning(row *workers.RuntimeRow) error {
	if RuntimeStatus(row.Status) == RuntimeStopped {
		return runtimeStopped(r.id)
	}
	return nil
}

// ensureOwn refuses the workers of other runtimes.
func (r *Runtime) ensureOwn(ref WorkerRef) error {
	if ref.RuntimeID == r.id {
		return nil
	}
	return refusal(KindWrongRuntime, "worker %s belongs to runtime %s, not runtime %s", ref.WorkerID,
		ref.RuntimeID, r.id)
}

func (r *Runtime) ensureOwnCursor(c EventCursor) error {
	if c.RuntimeID == r.id {
		return nil
	}
	return refusal(KindWrongRuntimeCursor, "cursor belongs to runtime %s, not runtime %s", c.RuntimeID, r.id)
}

// both reads the runtime's row and a worker's, whatever runtime the ref names: that is checked
// later. w is nil where there is no such worker.
func (r *Runtime) both(tx *db.Tx, op string, ref WorkerRef) (row *workers.RuntimeRow, w *workers.WorkerRow,
	err error,
) {
	if err := tx.Of(r.db); err != nil {
		return nil, nil, err
	}
	if err := workers.LockRuntime(tx, r.key); err != nil {
		return nil, nil, err
	}
	row, w, found, err := workers.RuntimeAndWorker(&tx.Rx, r.key, string(ref.WorkerID))
	if err == nil && !found {
		err = r.gone(op)
	}
	return row, w, err
}

// worker finds a worker of this runtime.
func (r *Runtime) worker(rx *db.Rx, ref WorkerRef) (*workers.WorkerRow, error) {
	if err := errors.Join(rx.Of(r.db), r.ensureOwn(ref)); err != nil {
		return nil, err
	}
	w, found, err := workers.FindWorker(rx, r.key, string(ref.WorkerID))
	if err == nil && !found {
		err = workerNotFound(ref)
	}
	return w, err
}

// corrupted gives a stored thing that can't be read the variant that the seed has for it.
func corrupted(what string, err error) error {
	return refusal(KindStoreCorrupt, "runtime store %s found corrupt data: %v", what, err)
}
