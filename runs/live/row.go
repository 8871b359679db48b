package live

import (
	"math"
	"strconv"

	"selvedge/db"
)

const (
	maxInt64  = uint64(math.MaxInt64)
	maxMillis = uint64(math.MaxInt64 / 1_000_000) // the last millisecond that a time column holds
	placeBits = 32
	maxPlace  = uint64(1)<<placeBits - 1 // the lower half of an event's id
)

const (
	sqlSelectRun = `SELECT r.key, r.run_id, r.session_id, r.status, r.created_at, r.created_at_ms, r.updated_at, r.updated_at_ms,
	r.event_count, r.event_count_exact, r.kept_events, r.kept_bytes, r.places, t.prompt, t.result_text, t.error, t.further
FROM live_runs AS r JOIN live_texts AS t ON t.run = r.key
`
	sqlFindRun  = sqlSelectRun + `WHERE r.scope = ? AND r.run_id = ?`
	sqlRunByKey = sqlSelectRun + `WHERE r.key = ?`
	sqlRuns     = sqlSelectRun + `WHERE r.scope = ? AND (r.created_at, r.key) > (?, ?) ORDER BY r.created_at, r.key LIMIT ?`

	sqlAddRun = `INSERT INTO live_runs (scope, run_id, session_id, status, created_at, created_at_ms, updated_at, updated_at_ms,
	event_count, event_count_exact, kept_events, kept_bytes, places)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`
	sqlAddTexts = `INSERT INTO live_texts (run, prompt, result_text, error, further) VALUES (?, ?, ?, ?, ?)`
	sqlMoveRun  = `UPDATE live_runs SET status = ?, updated_at = ?, updated_at_ms = ?, event_count = ?, event_count_exact = ?,
	kept_events = ?, kept_bytes = ?, places = ? WHERE key = ?`
	sqlSetTexts   = `UPDATE live_texts SET prompt = ?, result_text = ?, error = ? WHERE run = ?`
	sqlDropRun    = `DELETE FROM live_runs WHERE scope = ? AND run_id = ?`
	sqlCountRuns  = `SELECT count(*) FROM live_runs WHERE scope = ?`
	sqlDropOldest = `DELETE FROM live_runs WHERE key IN (SELECT key FROM live_runs WHERE scope = ? ORDER BY key LIMIT ?)`

	sqlAddEvent = `INSERT INTO live_events (id, sequence, type, recorded_at, event, raw) VALUES (?, ?, ?, ?, ?, ?)`
)

// A runRow is a run's row, with its texts.
type runRow struct {
	Key             int64     `db:"key"`
	RunID           string    `db:"run_id"`
	SessionID       string    `db:"session_id"`
	Status          RunStatus `db:"status"`
	CreatedAt       int64     `db:"created_at"`
	CreatedAtMs     *string   `db:"created_at_ms"`
	UpdatedAt       int64     `db:"updated_at"`
	UpdatedAtMs     *string   `db:"updated_at_ms"`
	EventCount      int64     `db:"event_count"`
	EventCountExact *string   `db:"event_count_exact"`
	KeptEvents      int64     `db:"kept_events"`
	KeptBytes       int64     `db:"kept_bytes"`
	Places          *int64    `db:"places"`
	Prompt          string    `db:"prompt"`
	ResultText      *string   `db:"result_text"`
	Error           *string   `db:"error"`
	Further         []byte    `db:"further"`
}

// newRow is the row of a run that comes with its events.
func newRow(r *RunRecord) *runRow {
	w := &runRow{
		RunID: r.Snapshot.ID, SessionID: r.Snapshot.SessionID, Status: r.Snapshot.Status,
		Prompt: r.Snapshot.Prompt, ResultText: r.Snapshot.ResultText, Error: r.Snapshot.Error, Further: r.Snapshot.Further,
		KeptEvents: int64(len(r.Events)),
	}
	w.CreatedAt, w.CreatedAtMs = timeColumn(r.Snapshot.CreatedAtMs)
	w.setUpdated(r.Snapshot.UpdatedAtMs)
	w.setCount(r.nextSequence())
	if !r.ordered() || w.count() > maxPlace/2 { // so that there are places for more events
		places := w.KeptEvents
		w.Places = &places
	}
	for i := range r.Events {
		w.KeptBytes += r.Events[i].size()
	}
	return w
}

func (w *runRow) snapshot() RunSnapshot {
	return RunSnapshot{
		ID: w.RunID, SessionID: w.SessionID, Status: w.Status, Prompt: w.Prompt,
		CreatedAtMs: timeValue(w.CreatedAt, w.CreatedAtMs), UpdatedAtMs: timeValue(w.UpdatedAt, w.UpdatedAtMs),
		ResultText: w.ResultText, Error: w.Error, EventCount: w.count(), Further: w.Further,
	}
}

func (w *runRow) count() uint64 { return exact(uint64(w.EventCount), w.EventCountExact) }

func (w *runRow) setCount(n uint64) {
	w.EventCount, w.EventCountExact = int64(min(n, maxInt64)), nil
	if n > maxInt64 {
		w.EventCountExact = decimal(n)
	}
}

func (w *runRow) setUpdated(ms uint64) { w.UpdatedAt, w.UpdatedAtMs = timeColumn(ms) }

func (w *runRow) insert(tx *db.Tx, scope int64) error {
	err := tx.Get(&w.Key, sqlAddRun, scope, w.RunID, w.SessionID, string(w.Status), w.CreatedAt, w.CreatedAtMs, w.UpdatedAt, w.UpdatedAtMs,
		w.EventCount, w.EventCountExact, w.KeptEvents, w.KeptBytes, w.Places)
	if err != nil {
		return err
	}
	_, err = tx.Exec(sqlAddTexts, w.Key, w.Prompt, w.ResultText, w.Error, w.Further)
	return err
}

// move writes what an event or a mark changed.
func (w *runRow) move(tx *db.Tx) error {
	_, err := tx.Exec(sqlMoveRun, string(w.Status), w.UpdatedAt, w.UpdatedAtMs, w.EventCount, w.EventCountExact, w.KeptEvents, w.KeptBytes, w.Places, w.Key)
	return err
}

func (w *runRow) setTexts(tx *db.Tx) error {
	_, err := tx.Exec(sqlSetTexts, w.Prompt, w.ResultText, w.Error, w.Key)
	return err
}

// first and end bound the ids of the run's events: first <= id < end.
func (w *runRow) first() int64 { return w.Key << placeBits }
func (w *runRow) end() int64   { return (w.Key + 1) << placeBits }

func findRun(rx *db.Rx, scope int64, runID string) (*runRow, bool, error) {
	w := &runRow{}
	ok, err := rx.Find(w, sqlFindRun, scope, runID)
	return w, ok, err
}

func (w *runRow) insertEvent(tx *db.Tx, place int64, e *RunEventRecord) error {
	var sequence *int64
	if w.Places != nil {
		n := int64(min(e.Sequence, maxInt64))
		sequence = &n
	}
	var raw []byte
	if !e.plain() {
		raw = e.AppendJSON(nil)
	}
	at, _ := timeColumn(e.TimestampMs)
	_, err := tx.Exec(sqlAddEvent, w.first()|place, sequence, e.Event.kind, at, e.Event.text, raw)
	return err
}

// timeColumn is a time in milliseconds as a column in nanoseconds, and in decimal where the column can't hold it.
func timeColumn(ms uint64) (nanos int64, text *string) {
	if ms > maxMillis {
		return math.MaxInt64, decimal(ms)
	}
	return int64(ms) * 1_000_000, nil
}

func timeValue(nanos int64, text *string) uint64 { return exact(uint64(nanos/1_000_000), text) }

// exact is a column's number, or the one that the column can't hold.
func exact(column uint64, text *string) uint64 {
	if text == nil {
		return column
	}
	n, err := strconv.ParseUint(*text, 10, 64)
	if err != nil {
		return column
	}
	return n
}
