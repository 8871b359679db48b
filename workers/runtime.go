package workers

import (
	"context"
	"fmt"
	"math"
	"unicode/utf8"

	"selvedge/db"
)

// A Runtime is a set of workers with their transcripts, one log of events and one list of diagnostics. Its methods are
// safe for concurrent use, by many processes too: all that have the same file, scope and id share one runtime.
type Runtime struct {
	db      *db.DB
	private bool // the database is the runtime's own
	backend RuntimeBackendKind
	id      RuntimeID
	key     int64
	limits  RuntimeLimits // never change
}

// NewMemory makes a runtime that lives in memory, under a new id, until it is closed.
func NewMemory(ctx context.Context) (*Runtime, error) { return WithOptions(ctx, RuntimeOptions{}) }

// WithOptions makes a runtime that lives in memory until it is closed.
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

// Open gives the runtime of that scope and id, and makes it where it is missing: then its first event is runtime_started.
// A runtime that is there goes on as it is, with its own name and limits, however many programs have it open.
func Open(ctx context.Context, d *db.DB, options RuntimeOptions) (*Runtime, error) {
	const op = "open runtime"
	r := &Runtime{db: d, id: options.RuntimeID, backend: BackendFsStore}
	if d.Path() == ":memory:" {
		r.backend = BackendMemory
	}
	if r.id == "" && !options.MustExist {
		r.id = generatedRuntimeID()
	}
	if err := db.CheckID("runtime", string(r.id)); err != nil {
		return nil, &db.Error{Op: op, Entity: "runtime", Err: err}
	}
	if options.DisplayName != nil && !utf8.ValidString(*options.DisplayName) {
		return nil, &db.Error{Op: op, Entity: "runtime", ID: string(r.id), Err: fmt.Errorf("%w: its name is not valid UTF-8", db.ErrInvalid)}
	}
	found := false
	err := d.Read(ctx, op, func(rx *db.Rx) (err error) {
		found, err = r.find(rx, options.Scope)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !found && options.MustExist:
		return nil, r.gone(op)
	case !found:
		err = d.Write(ctx, op, func(tx *db.Tx) error { return r.findOrStart(tx, options) })
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Close closes the database of a runtime that NewMemory or WithOptions made; for others there is nothing to do.
func (r *Runtime) Close() error {
	if !r.private {
		return nil
	}
	return r.db.Close()
}

// RuntimeID is the runtime's half of every WorkerRef.
func (r *Runtime) RuntimeID() RuntimeID { return r.id }

const (
	sqlFindRuntime = `SELECT key, max_transcript_items, max_event_items FROM worker_runtimes WHERE scope = ? AND runtime_id = ?`

	sqlAddRuntime = `
INSERT INTO worker_runtimes (scope, runtime_id, display_name, status, max_transcript_items, max_event_items, next_worker_sequence,
    next_event_id, next_diagnostic_id, next_event_position, first_event_position, events_in_order,
    running_workers, stopped_workers, cancelled_workers, diagnostics, created_at)
VALUES (?, ?, ?, 'running', ?, ?, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, ?) RETURNING key`
)

func (r *Runtime) find(rx *db.Rx, scopeName string) (bool, error) {
	scope, ok, err := rx.Scope(scopeName)
	if err != nil || !ok {
		return false, err
	}
	var row struct {
		Key         int64 `db:"key"`
		Transcripts int64 `db:"max_transcript_items"`
		Events      int64 `db:"max_event_items"`
	}
	ok, err = rx.Find(&row, sqlFindRuntime, scope, string(r.id))
	r.key = row.Key
	r.limits = RuntimeLimits{MaxTranscriptProjectionItems: uint64(row.Transcripts), MaxEventBatchItems: uint64(row.Events)}
	return ok, err
}

// findOrStart is for the moment between another process's start and ours.
func (r *Runtime) findOrStart(tx *db.Tx, options RuntimeOptions) error {
	found, err := r.find(&tx.Rx, options.Scope)
	if err != nil || found {
		return err
	}
	scope, err := tx.Scope(options.Scope)
	if err != nil {
		return err
	}
	r.limits = DefaultLimits()
	if options.Limits != nil {
		r.limits = *options.Limits
	}
	err = tx.Get(&r.key, sqlAddRuntime, scope, string(r.id), options.DisplayName,
		int64(r.limits.MaxTranscriptProjectionItems), int64(r.limits.MaxEventBatchItems), db.Nanos(tx.Now()))
	if err != nil {
		return err
	}
	state, err := r.state(&tx.Rx)
	if err != nil {
		return err
	}
	_, err = r.pushEvent(tx, &state, nil, EventRuntimeStarted, "runtime started")
	return err
}

// gone is the error about a runtime that is not in the file, or not any more.
func (r *Runtime) gone(op string) error {
	return &db.Error{Op: op, Entity: "runtime", ID: string(r.id), Err: db.ErrNotFound}
}

// A runtimeState is the part of a runtime's row that changes.
type runtimeState struct {
	Status             string `db:"status"`
	NextWorkerSequence int64  `db:"next_worker_sequence"`
	NextEventID        int64  `db:"next_event_id"`
	NextDiagnosticID   int64  `db:"next_diagnostic_id"`
	NextEventPosition  int64  `db:"next_event_position"`
	FirstEventPosition int64  `db:"first_event_position"`
	EventsInOrder      int64  `db:"events_in_order"` // 1 or 0
	Diagnostics        int64  `db:"diagnostics"`
}

const sqlRuntimeState = `
SELECT status, next_worker_sequence, next_event_id, next_diagnostic_id, next_event_position, first_event_position, events_in_order, diagnostics
FROM worker_runtimes WHERE key = ?`

func (s *runtimeState) inOrder() bool { return s.EventsInOrder != 0 }

func (r *Runtime) state(rx *db.Rx) (s runtimeState, err error) {
	ok, err := rx.Find(&s, sqlRuntimeState, r.key)
	if err == nil && !ok {
		err = r.gone("find runtime")
	}
	return s, err
}

func (r *Runtime) ensureRunning(status string) error {
	if RuntimeStatus(status) == RuntimeStopped {
		return runtimeStopped(r.id)
	}
	return nil
}

// ensureOwn refuses the workers of other runtimes.
func (r *Runtime) ensureOwn(ref WorkerRef) error {
	if ref.RuntimeID == r.id {
		return nil
	}
	return refusal(KindWrongRuntime, "worker %s belongs to runtime %s, not runtime %s", ref.WorkerID, ref.RuntimeID, r.id)
}

func (r *Runtime) ensureOwnCursor(c EventCursor) error {
	if c.RuntimeID == r.id {
		return nil
	}
	return refusal(KindWrongRuntimeCursor, "cursor belongs to runtime %s, not runtime %s", c.RuntimeID, r.id)
}

// The ids of events, diagnostics and entries carry their owner's number above their place.
const (
	logBits       = 40
	transcriptPos = 24
	maxPosition   = 1<<logBits - 2
	maxEntries    = 1<<transcriptPos - 1
)

const (
	sqlAddEvent    = `INSERT INTO worker_events (id, event_id, worker, kind, message, at) VALUES (?, ?, ?, ?, ?, ?)`
	sqlCountEvents = `UPDATE worker_runtimes SET next_event_id = ?, next_event_position = ? WHERE key = ?`
)

// pushEvent gives the next id and writes the event. The counters stand in the runtime's row, so that no id is given twice
// whatever became of the events.
func (r *Runtime) pushEvent(tx *db.Tx, s *runtimeState, worker *int64, kind RuntimeEventKind, message string) (uint64, error) {
	id, position := s.NextEventID, s.NextEventPosition
	if position > maxPosition || uint64(id) == math.MaxUint64 {
		return 0, fmt.Errorf("%w: the log of runtime %s has no place for another event", db.ErrFull, r.id)
	}
	s.NextEventID, s.NextEventPosition = id+1, position+1
	if _, err := tx.Exec(sqlCountEvents, s.NextEventID, s.NextEventPosition, r.key); err != nil {
		return 0, err
	}
	_, err := tx.Exec(sqlAddEvent, r.key<<logBits|position, unless(id == position, id), worker, string(kind), message, db.Nanos(tx.Now()))
	return uint64(id), err
}

// unless gives NULL where the value can be told from another column.
func unless(told bool, value int64) any {
	if told {
		return nil
	}
	return value
}
