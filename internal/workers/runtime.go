package workers

import (
	"fmt"
	"iter"
	"math"

	"selvedge/db"
)

// The ids of events, diagnostics and entries carry their owner's number above their place.
const (
	LogBits     = 40
	EntryBits   = 24
	MaxPosition = 1<<LogBits - 2
	MaxEntries  = 1<<EntryBits - 1
)

// A RuntimeRow is a runtime's row. The counters are of 64 bits without sign.
type RuntimeRow struct {
	Key                int64   `db:"key"`
	Scope              int64   `db:"scope"`
	RuntimeID          string  `db:"runtime_id"`
	DisplayName        *string `db:"display_name"`
	Status             string  `db:"status"`
	MaxTranscript      int64   `db:"max_transcript_items"`
	MaxEvents          int64   `db:"max_event_items"`
	NextWorkerSequence int64   `db:"next_worker_sequence"`
	NextEventID        int64   `db:"next_event_id"`
	NextDiagnosticID   int64   `db:"next_diagnostic_id"`
	NextPosition       int64   `db:"next_event_position"`
	FirstPosition      int64   `db:"first_event_position"`
	InOrder            int64   `db:"events_in_order"` // 1 or 0
	Running            int64   `db:"running_workers"`
	Stopped            int64   `db:"stopped_workers"`
	Cancelled          int64   `db:"cancelled_workers"`
	Diagnostics        int64   `db:"diagnostics"`
	CreatedAt          *int64  `db:"created_at"`
	StoppedAt          *int64  `db:"stopped_at"`
}

const (
	runtimeColumns = `r.key, r.scope, r.runtime_id, r.display_name, r.status, r.max_transcript_items, r.max_event_items,
    r.next_worker_sequence, r.next_event_id, r.next_diagnostic_id, r.next_event_position, r.first_event_position, r.events_in_order,
    r.running_workers, r.stopped_workers, r.cancelled_workers, r.diagnostics, r.created_at, r.stopped_at`
	sqlFindRuntime = `SELECT ` + runtimeColumns +
		` FROM worker_runtimes AS r WHERE r.scope = ? AND r.runtime_id = ?`
	sqlLockRuntime  = `SELECT key FROM worker_runtimes WHERE key = ?`
	sqlRuntimeByKey = `SELECT ` + runtimeColumns + ` FROM worker_runtimes AS r WHERE r.key = ?`
	sqlAddRuntime   = `
INSERT INTO worker_runtimes (scope, runtime_id, display_name, status, max_transcript_items, max_event_items,
    next_worker_sequence, next_event_id, next_diagnostic_id, next_event_position, first_event_position,
    events_in_order,
    running_workers, stopped_workers, cancelled_workers, diagnostics, created_at, stopped_at, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`
	sqlAddRuntimeAs = `
INSERT INTO worker_runtimes (scope, runtime_id, display_name, status, max_transcript_items, max_event_items,
    next_worker_sequence, next_event_id, next_diagnostic_id, next_event_position, first_event_position,
    events_in_order,
    running_workers, stopped_workers, cancelled_workers, diagnostics, created_at, stopped_at, checksum, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlSaveRuntime = `
UPDATE worker_runtimes
	SET status = ?, max_transcript_items = ?, max_event_items = ?, next_worker_sequence = ?, next_event_id = ?,
    next_diagnostic_id = ?, next_event_position = ?, first_event_position = ?, events_in_order = ?,
    running_workers = ?,
    stopped_workers = ?, cancelled_workers = ?, diagnostics = ?, created_at = ?, stopped_at = ?, checksum = ?
    WHERE key = ?`
	sqlSaveLog     = `UPDATE worker_runtimes SET next_event_id = ?, next_event_position = ? WHERE key = ?`
	sqlDropRuntime = `DELETE FROM worker_runtimes WHERE key = ?`
)

// FindRuntime reads the row of a runtime; found is false where there is none.
func FindRuntime(rx *db.Rx, scope int64, id string) (w *RuntimeRow, found bool, err error) {
	w = &RuntimeRow{}
	found, err = rx.Find(w, sqlFindRuntime, scope, id)
	return w, found, err
}

// LockRuntime locks the row of a runtime: whoever changes what belongs to a runtime locks it, or changes it.
func LockRuntime(tx *db.Tx, key int64) error { return tx.Lock(sqlLockRuntime, key) }

// RuntimeByKey is FindRuntime for the number of a row.
func RuntimeByKey(rx *db.Rx, key int64) (w *RuntimeRow, found bool, err error) {
	w = &RuntimeRow{}
	found, err = rx.Find(w, sqlRuntimeByKey, key)
	return w, found, err
}

// Ordered reports whether the ids of the log's events are their places.
func (w *RuntimeRow) Ordered() bool { return w.InOrder != 0 }

func (w *RuntimeRow) columns() []any {
	return []any{
		w.Scope, w.RuntimeID, w.DisplayName, w.Status, w.MaxTranscript, w.MaxEvents, w.NextWorkerSequence,
		w.NextEventID,
		w.NextDiagnosticID, w.NextPosition, w.FirstPosition, w.InOrder, w.Running, w.Stopped, w.Cancelled,
		w.Diagnostics,
		w.CreatedAt, w.StoppedAt,
	}
}

// checksum covers the columns but the two that every event moves, so that an input need not read
// them all: those are held against the log by the checks of the file.
func (w *RuntimeRow) checksum(columns []any) int64 {
	const eventID, behind, position = 7, 8, 9 // of next_event_id, what follows it, and next_event_position
	covered := append(make([]any, 0, len(columns)), columns[:eventID]...)
	covered = append(append(covered, columns[behind:position]...), columns[position+1:]...)
	return db.Checksum(covered...)
}

// Add writes a runtime that is not there.
func (w *RuntimeRow) Add(tx *db.Tx) error {
	columns := w.columns()
	return tx.Get(&w.Key, sqlAddRuntime, append(columns, w.checksum(columns))...)
}

// addAs is Add under a number.
func (w *RuntimeRow) addAs(tx *db.Tx) (err error) {
	if w.Key, err = tx.Number("worker_runtimes"); err != nil {
		return err
	}
	columns := w.columns()
	return tx.Queue(sqlAddRuntimeAs, append(columns, w.checksum(columns), w.Key)...)
}

// Save writes what has changed.
func (w *RuntimeRow) Save(tx *db.Tx) error {
	const unchanging = 3 // scope, id and name
	columns := w.columns()
	return tx.Queue(sqlSaveRuntime, append(columns[unchanging:], w.checksum(columns), w.Key)...)
}

// SaveLog is Save where nothing but an event came, for a row of which no more was read: see RuntimeAndWorker.
func (w *RuntimeRow) SaveLog(tx *db.Tx) error {
	return tx.Queue(sqlSaveLog, w.NextEventID, w.NextPosition, w.Key)
}

// Remove takes the runtime out, with all that belongs to it.
func (w *RuntimeRow) Remove(tx *db.Tx) error {
	_, err := tx.Exec(sqlDropRuntime, w.Key)
	return err
}

// count moves a worker from one status to another; "" is none.
func (w *RuntimeRow) count(from, to string) {
	for status, n := range map[string]int64{from: -1, to: 1} {
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

// Push gives the next id and writes an event; Save then keeps the counters, which stand in the
// runtime's row so that no id is given twice whatever became of the events.
func (w *RuntimeRow) Push(tx *db.Tx, worker *int64, kind, message string) (id uint64, err error) {
	id = uint64(w.NextEventID)
	if w.NextPosition > MaxPosition || id == math.MaxUint64 {
		return 0, fmt.Errorf("%w: the log of runtime %s has no place for another event", db.ErrInvalid, w.RuntimeID)
	}
	position := w.NextPosition
	w.NextEventID, w.NextPosition = w.NextEventID+1, position+1
	return id, w.putEvent(tx, position, Event{ID: id, Kind: kind, Message: message}, worker, db.Nanos(tx.Now()),
		nil)
}

func (w *RuntimeRow) putEvent(tx *db.Tx, position int64, e Event, worker *int64, at, raw any) error {
	columns := []any{
		w.Key<<LogBits | position, unless(uint64(position), e.ID), worker, e.Kind, e.Message, at,
		raw,
	}
	return tx.Queue(sqlAddEvent, append(columns, db.Checksum(columns...))...)
}

// unless gives NULL where a number is its place.
func unless(place, n uint64) any {
	if place == n {
		return nil
	}
	return int64(n)
}

// Diagnose gives the next id and writes a diagnostic; Save then keeps the counters.
func (w *RuntimeRow) Diagnose(tx *db.Tx, worker *int64, severity, code, message string) error {
	d := Diagnostic{ID: uint64(w.NextDiagnosticID), Severity: severity, Code: code, Message: message}
	w.NextDiagnosticID++
	w.Diagnostics++
	return w.putDiagnostic(tx, w.Diagnostics, d, worker, db.Nanos(tx.Now()), nil)
}

func (w *RuntimeRow) putDiagnostic(tx *db.Tx, place int64, d Diagnostic, worker *int64, at, raw any) error {
	columns := []any{
		w.Key<<LogBits | place, unless(uint64(place), d.ID), d.Severity, d.Code, d.Message, worker,
		at, raw,
	}
	return tx.Queue(sqlAddDiagnostic, append(columns, db.Checksum(columns...))...)
}

// An EventRow is an event's row, or a diagnostic's.
type EventRow struct {
	ID       int64   `db:"id"`
	EventID  *int64  `db:"event_id"`
	WorkerID *string `db:"worker_id"`
	Kind     string  `db:"kind"` // of a diagnostic its severity
	Code     string  `db:"code"` // of a diagnostic
	Message  string  `db:"message"`
	At       *int64  `db:"recorded_at"`
	Raw      []byte  `db:"raw"`
}

const (
	sqlEvents = `SELECT e.id, e.event_id, w.worker_id, e.kind, e.message, e.recorded_at, e.raw
FROM worker_events AS e LEFT JOIN workers AS w ON w.key = e.worker
WHERE e.id >= ? AND e.id < ? ORDER BY e.id LIMIT ` + db.BoundLimit
	sqlDiagnostics = `
SELECT d.id, d.diagnostic_id AS event_id, w.worker_id, d.severity AS kind, d.code, d.message, d.recorded_at,
	d.raw
FROM worker_diagnostics AS d LEFT JOIN workers AS w ON w.key = d.worker
WHERE d.id > ? AND d.id < ? ORDER BY d.id`
)

// Events gives at most limit rows from a place in the log on.
func (w *RuntimeRow) Events(rx *db.Rx, position, limit int64) (rows []EventRow, err error) {
	err = rx.Select(&rows, sqlEvents, w.Key<<LogBits|position, (w.Key+1)<<LogBits, limit)
	return rows, err
}

// EachEvent is Events as they are read.
func (w *RuntimeRow) EachEvent(rx *db.Rx, position, limit int64) iter.Seq2[*EventRow, error] {
	return db.Each(rx, func(row *EventRow) (*EventRow, error) { return row, nil }, sqlEvents,
		w.Key<<LogBits|position, (w.Key+1)<<LogBits, limit)
}

// AllDiagnostics gives the rows of all diagnostics, oldest first.
func (w *RuntimeRow) AllDiagnostics(rx *db.Rx) (rows []EventRow, err error) {
	err = rx.Select(&rows, sqlDiagnostics, w.Key<<LogBits, (w.Key+1)<<LogBits)
	return rows, err
}

// Place is that of the event in its log.
func (e *EventRow) Place() int64 { return e.ID & (1<<LogBits - 1) }

// Number is the event's id.
func (e *EventRow) Number() uint64 {
	if e.EventID != nil {
		return uint64(*e.EventID)
	}
	return uint64(e.Place())
}

// Weight is about how many bytes the event takes.
func (e *EventRow) Weight() int { return 128 + len(e.Message) + len(e.Raw) }

func (e *EventRow) worker(runtimeID string) *Ref {
	if e.WorkerID == nil {
		return nil
	}
	return &Ref{runtimeID, *e.WorkerID}
}

// Event is the event as it is told. db.ErrCorrupt: the row says what this program never wrote.
func (e *EventRow) Event(runtimeID string) (Event, error) {
	told := Event{ID: e.Number(), Kind: e.Kind, Message: e.Message, Worker: e.worker(runtimeID)}
	if told.Worker == nil && e.Raw != nil { // it may name a worker that is not of this runtime
		kept, _, err := Reader{RuntimeID: runtimeID, Later: true}.Event(e.Raw)
		if err != nil {
			return told, corrupt(err)
		}
		told.Worker = kept.Worker
	}
	return told, nil
}

// Diagnostic is the diagnostic as it is told. db.ErrCorrupt is as for Event.
func (e *EventRow) Diagnostic(runtimeID string) (Diagnostic, error) {
	told := Diagnostic{
		ID: e.Number(), Severity: e.Kind, Code: e.Code, Message: e.Message,
		Worker: e.worker(runtimeID),
	}
	if told.Worker == nil && e.Raw != nil {
		kept, err := decodeDiagnostic(trimBlanks(e.Raw))
		if err != nil {
			return told, corrupt(err)
		}
		told.Worker = kept.Worker
	}
	return told, nil
}

const (
	sqlPrunePlace = `SELECT id FROM worker_events WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ` +
		db.BoundLimit
	sqlPruneEvents = `DELETE FROM worker_events WHERE id > ? AND id < ?`
)

// Prune takes the oldest events before a place out, at most most of them. The row counts on; Save
// then writes it. more is true when there are others before the place.
func (w *RuntimeRow) Prune(tx *db.Tx, before, most int64) (removed int64, more bool, err error) {
	before = min(before, w.NextPosition)
	if before <= w.FirstPosition {
		return 0, false, nil
	}
	base := w.Key << LogBits
	stop := base | before
	var next int64
	if more, err = tx.Find(&next, sqlPrunePlace, base|w.FirstPosition, stop, most); err != nil {
		return 0, false, err
	}
	if more {
		stop = next
	}
	removed, err = tx.Exec(sqlPruneEvents, base, stop)
	w.FirstPosition = stop & (1<<LogBits - 1)
	return removed, more, err
}

const (
	sqlRuntimesFrom = `SELECT ` + runtimeColumns +
		` FROM worker_runtimes AS r WHERE r.scope = ? AND r.runtime_id >= ?`
	sqlRuntimesBehind = `SELECT ` + runtimeColumns +
		` FROM worker_runtimes AS r WHERE r.scope = ? AND r.runtime_id > ?`
)

// RuntimesBehind gives at most limit runtimes of a scope in the order of their ids, from the
// beginning or behind an id; status is the one that they have, "" any.
func RuntimesBehind(rx *db.Rx, scope int64, id string, begin bool, status string,
	limit int64,
) (rows []RuntimeRow, err error) {
	query, args := sqlRuntimesBehind, []any{scope, id}
	if begin {
		query = sqlRuntimesFrom
	}
	if status != "" {
		query, args = query+` AND r.status = ?`, append(args, status)
	}
	err = rx.Select(&rows, query+` ORDER BY r.runtime_id LIMIT `+db.BoundLimit, append(args, limit)...)
	return rows, err
}

const (
	sqlSomeWorkers = `SELECT ` + workerColumns +
		` FROM workers AS w WHERE w.runtime = ? ORDER BY w.worker_id LIMIT ` + db.BoundLimit
	sqlDropEntries = `DELETE FROM worker_entries
		WHERE id IN (SELECT id FROM worker_entries WHERE id > ? AND id < ? ORDER BY id DESC
		LIMIT ` + db.BoundLimit + `)`
	sqlDropDiagnoses = `DELETE FROM worker_diagnostics
		WHERE id IN (SELECT id FROM worker_diagnostics WHERE id > ? AND id < ? ORDER BY id DESC
		LIMIT ` + db.BoundLimit + `)`
)

// Shrink takes things out of a runtime that is about to be removed, about most rows at once: its
// workers, then its events. more is true while there is something left to take.
func (w *RuntimeRow) Shrink(tx *db.Tx, most int64) (more bool, err error) {
	left := most
	for left > 0 {
		var some []WorkerRow
		if err := tx.Select(&some, sqlSomeWorkers, w.Key, min(left, 500)); err != nil {
			return false, err
		}
		if len(some) == 0 {
			break
		}
		for i := range some {
			worker := &some[i]
			if worker.TranscriptLen > left {
				if err := worker.Shorten(tx, left); err != nil {
					return false, err
				}
				return true, w.Save(tx)
			}
			if err := w.RemoveWorker(tx, worker); err != nil {
				return false, err
			}
			if left -= 1 + worker.TranscriptLen; left <= 0 {
				return true, w.Save(tx)
			}
		}
	}
	gone, more, err := w.Prune(tx, w.NextPosition, max(left, 1))
	if err != nil {
		return false, err
	}
	if left -= gone; !more && left > 0 && w.Diagnostics > left {
		gone, err := tx.Exec(sqlDropDiagnoses, w.Key<<LogBits, (w.Key+1)<<LogBits, left)
		if err != nil {
			return false, err
		}
		w.Diagnostics -= gone
		more = true
	}
	return more, w.Save(tx)
}
