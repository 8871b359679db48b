package workers

import (
	"fmt"
	"iter"
	"math"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// The ids of events, diagnostics and entries hold their owner's number in the bits above their
// place.
const (
	logBits     = 40
	entryBits   = 24
	maxPosition = 1<<logBits - 2
	maxEntries  = 1<<entryBits - 1
)

// A runtimeRow is a runtime's row. The counters are unsigned, of 64 bits.
type runtimeRow struct {
	Key                int64         `db:"key"`
	Scope              int64         `db:"scope"`
	RuntimeID          RuntimeID     `db:"runtime_id"`
	DisplayName        *string       `db:"display_name"`
	Status             RuntimeStatus `db:"status"`
	MaxTranscript      int64         `db:"max_transcript_items"`
	MaxEvents          int64         `db:"max_event_items"`
	NextWorkerSequence int64         `db:"next_worker_sequence"`
	NextEventID        int64         `db:"next_event_id"`
	NextDiagnosticID   int64         `db:"next_diagnostic_id"`
	NextPosition       int64         `db:"next_event_position"`
	FirstPosition      int64         `db:"first_event_position"`
	InOrder            int64         `db:"events_in_order"` // 1 or 0
	Running            int64         `db:"running_workers"`
	Stopped            int64         `db:"stopped_workers"`
	Cancelled          int64         `db:"cancelled_workers"`
	Diagnostics        int64         `db:"diagnostics"`
	CreatedAt          *int64        `db:"created_at"`
	StoppedAt          *int64        `db:"stopped_at"`
}

const (
	runtimeName    = `scope, runtime_id, display_name` // never changes
	runtimeColumns = `status, max_transcript_items, max_event_items, next_worker_sequence, next_event_id,
	next_diagnostic_id, next_event_position, first_event_position, events_in_order, running_workers,
	stopped_workers, cancelled_workers, diagnostics, created_at, stopped_at`
	selectRuntimes  = `SELECT key, ` + runtimeName + `, ` + runtimeColumns + ` FROM worker_runtimes`
	sqlFindRuntime  = selectRuntimes + ` WHERE scope = ? AND runtime_id = ?`
	sqlRuntimeByKey = selectRuntimes + ` WHERE key = ?`
	sqlAddRuntime   = `INSERT INTO worker_runtimes (` + runtimeName + `, ` + runtimeColumns + `, checksum, key)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSaveRuntime = `UPDATE worker_runtimes SET (` + runtimeColumns + `, checksum) =
	(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE key = ?`
	sqlSaveLog     = `UPDATE worker_runtimes SET next_event_id = ?, next_event_position = ? WHERE key = ?`
	sqlDropRuntime = `DELETE FROM worker_runtimes WHERE key = ?`
)

var runtimeByKey = txn.Runtimes.Rows(`SELECT key FROM worker_runtimes WHERE key = ?`)

// findRuntime reads the row of a runtime in the scope of that name.
func findRuntime(rx *db.Rx, scopeName string, id RuntimeID) (w *runtimeRow, found bool, err error) {
	w = &runtimeRow{}
	scope, ok, err := rx.Store().Scope(scopeName)
	if err == nil && ok {
		found, err = rx.Find(w, sqlFindRuntime, scope, string(id))
	}
	return w, found, err
}

// find reads the one row of a query.
func find[R any](rx *db.Rx, query string, args ...any) (row *R, found bool, err error) {
	row = new(R)
	found, err = rx.Find(row, query, args...)
	return row, found, err
}

// ordered reports whether the ids of the log's events are their places.
func (w *runtimeRow) ordered() bool { return w.InOrder != 0 }

func (w *runtimeRow) columns() []any {
	return []any{
		w.Scope, string(w.RuntimeID), w.DisplayName, string(w.Status), w.MaxTranscript, w.MaxEvents,
		w.NextWorkerSequence, w.NextEventID, w.NextDiagnosticID, w.NextPosition, w.FirstPosition, w.InOrder,
		w.Running, w.Stopped, w.Cancelled, w.Diagnostics, w.CreatedAt, w.StoppedAt,
	}
}

// checksum covers the columns except the two that every event changes, so that an input need not
// read them all. The checks of the file compare those with the log.
func (w *runtimeRow) checksum() int64 {
	const eventID, position = 7, 9 // of next_event_id and next_event_position
	columns := w.columns()
	return txn.Checksum(append(append(columns[:eventID:eventID], columns[eventID+1:position]...),
		columns[position+1:]...)...)
}

// add inserts the runtime under a new number.
func (w *runtimeRow) add(tx *db.Tx) (err error) {
	if w.Key, err = tx.Store().Number("worker_runtimes"); err != nil {
		return err
	}
	return tx.Store().Queue(sqlAddRuntime, append(w.columns(), w.checksum(), w.Key)...)
}

// save writes what has changed.
func (w *runtimeRow) save(tx *db.Tx) error {
	const unchanging = 3 // scope, id and name
	return tx.Store().Queue(sqlSaveRuntime, append(w.columns()[unchanging:], w.checksum(), w.Key)...)
}

// saveLog is save when only an event was added. It also works for a row from runtimeAndWorker.
func (w *runtimeRow) saveLog(tx *db.Tx) error {
	return tx.Store().Queue(sqlSaveLog, w.NextEventID, w.NextPosition, w.Key)
}

// remove deletes the runtime with everything that belongs to it.
func (w *runtimeRow) remove(tx *db.Tx) error {
	_, err := tx.Exec(sqlDropRuntime, w.Key)
	return err
}

// count moves a worker from one status to another; "" is none.
func (w *runtimeRow) count(from, to WorkerStatus) {
	for status, n := range map[WorkerStatus]int64{from: -1, to: 1} {
		switch status {
		case Running:
			w.Running += n
		case Stopped:
			w.Stopped += n
		case Cancelled:
			w.Cancelled += n
		}
	}
}

const (
	sqlAddEvent = `INSERT INTO worker_events (id, event_id, worker, kind, message, recorded_at, raw,
		checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlAddDiagnostic = `INSERT INTO worker_diagnostics (id, diagnostic_id, severity, code, message, worker,
		recorded_at, raw, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// push writes an event under the next id. save then writes the counters: they are in the runtime's
// row, so that no id is reused even if events are removed.
func (w *runtimeRow) push(tx *db.Tx, worker *int64, kind RuntimeEventKind, message string) (uint64, error) {
	id := uint64(w.NextEventID)
	if w.NextPosition > maxPosition || id == math.MaxUint64 {
		return 0, fmt.Errorf("%w: the log of runtime %s has no place for another event", db.ErrInvalid, w.RuntimeID)
	}
	position := w.NextPosition
	w.NextEventID, w.NextPosition = w.NextEventID+1, position+1
	e := RuntimeEvent{ID: id, Kind: kind, Message: message}
	return id, w.putEvent(tx, position, e, worker, db.Nanos(tx.Now()), nil)
}

func (w *runtimeRow) putEvent(tx *db.Tx, position int64, e RuntimeEvent, worker *int64, at, raw any) error {
	return stores.Put(tx, sqlAddEvent, w.Key<<logBits|position, unless(position, e.ID), worker, string(e.Kind),
		e.Message, at, raw)
}

// given returns value if held is true, and NULL otherwise.
func given(held bool, value any) any {
	if !held {
		return nil
	}
	return value
}

// unless returns n, or NULL if it equals its place.
func unless(place int64, n uint64) any { return given(uint64(place) != n, int64(n)) }

// diagnose writes a diagnostic under the next id. save then writes the counters.
func (w *runtimeRow) diagnose(tx *db.Tx, worker *int64, severity, code, message string) error {
	d := RuntimeDiagnostic{ID: uint64(w.NextDiagnosticID), Severity: severity, Code: code, Message: message}
	w.NextDiagnosticID++
	return w.putDiagnostic(tx, d, worker, db.Nanos(tx.Now()), nil)
}

func (w *runtimeRow) putDiagnostic(tx *db.Tx, d RuntimeDiagnostic, worker *int64, at, raw any) error {
	w.Diagnostics++
	return stores.Put(tx, sqlAddDiagnostic, w.Key<<logBits|w.Diagnostics, unless(w.Diagnostics, d.ID),
		d.Severity, d.Code, d.Message, worker, at, raw)
}

// An eventRow is an event's row, or a diagnostic's.
type eventRow struct {
	ID       int64     `db:"id"`
	EventID  *int64    `db:"event_id"`
	WorkerID *WorkerID `db:"worker_id"`
	Kind     string    `db:"kind"` // of a diagnostic its severity
	Code     string    `db:"code"` // of a diagnostic
	Message  string    `db:"message"`
	Raw      []byte    `db:"raw"`
}

const (
	sqlEvents = `SELECT e.id, e.event_id, w.worker_id, e.kind, e.message, e.raw
FROM worker_events AS e LEFT JOIN workers AS w ON w.key = e.worker
WHERE e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ` + paging.BoundLimit
	sqlDiagnostics = `
SELECT d.id, d.diagnostic_id AS event_id, w.worker_id, d.severity AS kind, d.code, d.message, d.raw
FROM worker_diagnostics AS d LEFT JOIN workers AS w ON w.key = d.worker
WHERE d.id > ? AND d.id < ? ORDER BY d.id`
)

// eachEvent returns at most limit rows from a place in the log on.
func (w *runtimeRow) eachEvent(rx *db.Rx, position, limit int64) iter.Seq2[*eventRow, error] {
	return txn.Each(rx.Store(), same[eventRow], sqlEvents, w.Key<<logBits|position, (w.Key+1)<<logBits, limit)
}

func same[T any](row *T) (*T, error) { return row, nil }

// diagnostics returns all diagnostics, oldest first, with the texts of imported ones.
func (w *runtimeRow) diagnostics(rx *db.Rx) (list []RuntimeDiagnostic, raw [][]byte, err error) {
	list = []RuntimeDiagnostic{}
	rows := txn.Each(rx.Store(), same[eventRow], sqlDiagnostics, w.Key<<logBits, (w.Key+1)<<logBits)
	for row, err := range rows {
		if err != nil {
			return nil, nil, err
		}
		d, err := row.diagnostic(w.RuntimeID)
		if err != nil {
			return nil, nil, err
		}
		list, raw = append(list, d), append(raw, row.Raw)
	}
	return list, raw, nil
}

// place is the place of the event in its log.
func (e *eventRow) place() int64 { return e.ID & (1<<logBits - 1) }

// number is the event's id.
func (e *eventRow) number() uint64 {
	if e.EventID != nil {
		return uint64(*e.EventID)
	}
	return uint64(e.place())
}

// weight is about how many bytes the event takes.
func (e *eventRow) weight() int { return 128 + len(e.Message) + len(e.Raw) }

func (e *eventRow) worker(runtime RuntimeID) *WorkerRef {
	if e.WorkerID == nil {
		return nil
	}
	return &WorkerRef{runtime, *e.WorkerID}
}

// event returns the record. The worker of an imported event may not belong to this runtime; then
// only the text names it.
func (e *eventRow) event(runtime RuntimeID) (RuntimeEvent, error) {
	out := RuntimeEvent{
		ID: e.number(), Kind: RuntimeEventKind(e.Kind), Message: e.Message, WorkerRef: e.worker(runtime),
	}
	if out.WorkerRef == nil && e.Raw != nil {
		original, err := reader{runtimeID: runtime, later: true}.event(e.Raw)
		if err != nil {
			return out, corrupted("read events", err)
		}
		out.WorkerRef = original.WorkerRef
	}
	return out, nil
}

// diagnostic is like event.
func (e *eventRow) diagnostic(runtime RuntimeID) (RuntimeDiagnostic, error) {
	out := RuntimeDiagnostic{
		ID: e.number(), Severity: e.Kind, Code: e.Code, Message: e.Message, WorkerRef: e.worker(runtime),
	}
	if out.WorkerRef == nil && e.Raw != nil {
		original, err := decode[RuntimeDiagnostic](diagnosticJSON(), e.Raw)
		if err != nil {
			return out, corrupted(opDiagnostics, err)
		}
		out.WorkerRef = original.WorkerRef
	}
	return out, nil
}

const (
	sqlPrunePlace = `SELECT id FROM worker_events WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ` +
		paging.BoundLimit
	sqlPruneEvents = `DELETE FROM worker_events WHERE id > ? AND id < ?`
)

// prune removes the oldest events before a place, at most most of them. save then writes the row.
// more is true if others before the place remain.
func (w *runtimeRow) prune(tx *db.Tx, before, most int64) (removed int64, more bool, err error) {
	before = min(before, w.NextPosition)
	if before <= w.FirstPosition {
		return 0, false, nil
	}
	base := w.Key << logBits
	stop := base | before
	var next int64
	if more, err = tx.Find(&next, sqlPrunePlace, base|w.FirstPosition, stop, most); err != nil {
		return 0, false, err
	}
	if more {
		stop = next
	}
	removed, err = tx.Exec(sqlPruneEvents, base, stop)
	w.FirstPosition = stop & (1<<logBits - 1)
	return removed, more, err
}

const (
	sqlSomeWorkers = selectWorkers + ` WHERE runtime = ? ORDER BY worker_id LIMIT ` + paging.BoundLimit
	sqlDropEntries = `DELETE FROM worker_entries
		WHERE id IN (SELECT id FROM worker_entries WHERE id > ? AND id < ? ORDER BY id DESC
		LIMIT ` + paging.BoundLimit + `)`
	sqlDropDiagnoses = `DELETE FROM worker_diagnostics
		WHERE id IN (SELECT id FROM worker_diagnostics WHERE id > ? AND id < ? ORDER BY id DESC
		LIMIT ` + paging.BoundLimit + `)`
)

// shrink removes a part of a runtime that is about to be removed, about most rows: its workers,
// then its events, then its diagnostics. more is true while any remain.
func (w *runtimeRow) shrink(tx *db.Tx, most int64) (more bool, err error) {
	left := most
	for left > 0 {
		var some []workerRow
		if err := tx.Select(&some, sqlSomeWorkers, w.Key, min(left, 500)); err != nil {
			return false, err
		}
		if len(some) == 0 {
			break
		}
		for i := range some {
			rows, err := w.removePart(tx, &some[i], left)
			if err != nil {
				return false, err
			}
			if left -= rows; left <= 0 {
				return true, w.save(tx)
			}
		}
	}
	gone, more, err := w.prune(tx, w.NextPosition, max(left, 1))
	if err != nil {
		return false, err
	}
	if left -= gone; !more && left > 0 && w.Diagnostics > left {
		gone, err := tx.Exec(sqlDropDiagnoses, w.Key<<logBits, (w.Key+1)<<logBits, left)
		if err != nil {
			return false, err
		}
		w.Diagnostics -= gone
		more = true
	}
	return more, w.save(tx)
}
