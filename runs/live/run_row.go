package live

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	maxInt64  = uint64(math.MaxInt64)
	maxMillis = uint64(math.MaxInt64 / 1_000_000) // the last millisecond that a time column holds
	placeBits = 32
	maxPlace  = uint64(1)<<placeBits - 1 // the lower half of an event's id
)

// A runRow is a run's row. The texts are in a row of their own: every event writes this row, and
// few events write the texts.
type runRow struct {
	Key             int64   `db:"key"`
	Scope           int64   `db:"scope"`
	RunID           string  `db:"run_id"`
	SessionID       string  `db:"session_id"`
	Status          string  `db:"status"`
	CreatedAt       int64   `db:"created_at"`
	CreatedAtMs     *string `db:"created_at_ms"`
	UpdatedAt       int64   `db:"updated_at"`
	UpdatedAtMs     *string `db:"updated_at_ms"`
	EventCount      int64   `db:"event_count"`
	EventCountExact *string `db:"event_count_exact"`
	KeptEvents      int64   `db:"kept_events"`
	KeptBytes       int64   `db:"kept_bytes"`
	Places          *int64  `db:"places"`
	FirstPlace      int64   `db:"first_place"`
	Owner           *int64  `db:"owner_id"` // process that holds the run; not in the checksum
	Epoch           *int64  `db:"epoch"`    // of the lease by which it is held; not in the checksum

	indexed string // the status of the row in the file and in its index
}

type runTexts struct {
	Prompt     string  `db:"prompt"`
	ResultText *string `db:"result_text"`
	Error      *string `db:"error"`
	Further    []byte  `db:"further"`
}

// weight returns roughly how many bytes a run with these texts takes in a list.
func (t *runTexts) weight() int {
	n := 200 + len(t.Prompt) + len(t.Further)
	for _, text := range []*string{t.ResultText, t.Error} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// A wholeRow is a run's row with its texts.
type wholeRow struct {
	runRow
	runTexts
}

const (
	rowColumns = `r.key, r.scope, r.run_id, r.session_id, r.status, r.created_at, r.created_at_ms,
	r.updated_at, r.updated_at_ms, r.event_count, r.event_count_exact, r.kept_events, r.kept_bytes,
	r.places, r.first_place, r.owner_id, r.epoch`
	sqlFindRow  = `SELECT ` + rowColumns + ` FROM live_runs AS r WHERE r.scope = ? AND r.run_id = ?`
	sqlRowByKey = `SELECT ` + rowColumns + ` FROM live_runs AS r WHERE r.key = ?`
	sqlTexts    = `SELECT prompt, result_text, error, further FROM live_texts WHERE run = ?`

	addedColumns = `scope, run_id, session_id, status, created_at, created_at_ms, updated_at,
	updated_at_ms, event_count, event_count_exact, kept_events, kept_bytes, places, first_place, checksum`
	sqlAddRow = `INSERT INTO live_runs (` + addedColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`
	sqlAddRowAs = `INSERT INTO live_runs (` + addedColumns + `, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlAddTexts = `INSERT INTO live_texts (run, prompt, result_text, error, further, checksum)
		VALUES (?, ?, ?, ?, ?, ?)`

	setMoved = `updated_at = ?, updated_at_ms = ?, event_count = ?, event_count_exact = ?, kept_events = ?,
	kept_bytes = ?, places = ?, first_place = ?, checksum = ?`
	sqlMoveRow = `UPDATE live_runs SET ` + setMoved + ` WHERE key = ?`
	// the only statement that writes the index of statuses
	sqlMoveStatus = `UPDATE live_runs SET ` + setMoved + `, status = ? WHERE key = ?`
	sqlSetTexts   = `UPDATE live_texts SET prompt = ?, result_text = ?, error = ?, checksum = ? WHERE run = ?`
)

// selectWhole begins a statement that reads whole rows.
const selectWhole = `SELECT ` + rowColumns + `, t.prompt, t.result_text, t.error, t.further
FROM live_runs AS r JOIN live_texts AS t ON t.run = r.key
`

const (
	// waits is true for a run r that has not ended and waits for a person. It reads the tables of other
	// stores. With EXISTS or a join, a server may read all that waits.
	waits = `r.status NOT IN ('completed', 'failed', 'cancelled') AND (SELECT max((SELECT 1 FROM run_steps AS w
	WHERE w.run = a.key AND w.state = 'waiting' LIMIT 1)) FROM runs AS a WHERE a.scope = r.scope
	AND a.run_id = r.run_id AND a.ended_at IS NULL) IS NOT NULL`
	shownStatus = `CASE WHEN ` + waits + ` THEN 'waiting' ELSE r.status END`
	sqlWaits    = `SELECT r.key FROM live_runs AS r WHERE r.scope = ? AND r.run_id = ? AND ` + waits
)

// selectShown is selectWhole with the status that lists show.
var selectShown = strings.Replace(selectWhole, "r.status", shownStatus+" AS status", 1)

func findRow(rx *db.Rx, scope int64, runID string) (w *runRow, found bool, err error) {
	return queryRow(rx, sqlFindRow, scope, runID)
}

func rowByKey(rx *db.Rx, key int64) (w *runRow, found bool, err error) {
	return queryRow(rx, sqlRowByKey, key)
}

func queryRow(rx *db.Rx, query string, args ...any) (w *runRow, found bool, err error) {
	w = &runRow{}
	found, err = rx.Find(w, query, args...)
	w.indexed = w.Status
	return w, found, err
}

var (
	runByID  = txn.LiveRuns.Rows(sqlFindRow)
	runToAdd = runByID.OrAdded()
)

// rowToChange is queryRow for a transaction that changes the run or what belongs to it: every such
// transaction locks the row first.
func rowToChange(tx *db.Tx, row txn.Subject, args ...any) (w *runRow, found bool, err error) {
	w = &runRow{}
	found, err = tx.Store().FindToChange(w, row, args...)
	w.indexed = w.Status
	return w, found, err
}

// lockedRow is rowToChange for a run that must exist.
func lockedRow(tx *db.Tx, op string, scope int64, runID string) (*runRow, error) {
	w, found, err := rowToChange(tx, runByID, scope, runID)
	if err == nil && !found {
		err = notFound(op, runID)
	}
	return w, err
}

func (w *runRow) texts(rx *db.Rx) (t runTexts, err error) {
	found, err := rx.Find(&t, sqlTexts, w.Key)
	if err == nil && !found {
		err = w.noTexts()
	}
	return t, err
}

func (w *runRow) noTexts() error {
	return fmt.Errorf("%w: live run %q has no texts", db.ErrCorrupt, w.RunID)
}

// whole returns the row with its texts.
func (w *runRow) whole(rx *db.Rx) (*wholeRow, error) {
	t, err := w.texts(rx)
	return &wholeRow{*w, t}, err
}

// rowOf returns the row of a run that is stored with its events.
func rowOf(scope int64, r *RunRecord) *wholeRow {
	s := &r.Snapshot
	w := &wholeRow{
		runRow: runRow{
			Scope: scope, RunID: s.ID, SessionID: s.SessionID, Status: string(s.Status),
			KeptEvents: int64(len(r.Events)),
		},
		runTexts: runTexts{Prompt: s.Prompt, ResultText: s.ResultText, Error: s.Error, Further: s.Further},
	}
	w.CreatedAt, w.CreatedAtMs = timeColumn(s.CreatedAtMs)
	w.setUpdated(s.UpdatedAtMs)
	w.setCount(r.nextSequence())
	if !r.ordered() || w.count() > maxPlace/2 { // leave places for more events
		places := w.KeptEvents
		w.Places = &places
	}
	for i := range r.Events {
		w.KeptBytes += r.Events[i].size()
	}
	return w
}

// same reports whether two rows are equal except for their keys and owners.
func (w *wholeRow) same(other *wholeRow) bool {
	return reflect.DeepEqual(w.runRow.columns(), other.runRow.columns()) &&
		reflect.DeepEqual(w.runTexts, other.runTexts)
}

func (w *wholeRow) snapshot() RunSnapshot {
	return RunSnapshot{
		ID: w.RunID, SessionID: w.SessionID, Status: RunStatus(w.Status), Prompt: w.Prompt,
		CreatedAtMs: timeValue(w.CreatedAt, w.CreatedAtMs), UpdatedAtMs: timeValue(w.UpdatedAt, w.UpdatedAtMs),
		ResultText: w.ResultText, Error: w.Error, EventCount: w.count(), Further: w.Further,
	}
}

// count returns the number of events ever recorded, which is the next one's sequence.
func (w *runRow) count() uint64 { return exact(uint64(w.EventCount), w.EventCountExact) }

func (w *runRow) setCount(n uint64) {
	w.EventCount, w.EventCountExact = int64(min(n, maxInt64)), nil
	if n > maxInt64 {
		w.EventCountExact = decimal(n)
	}
}

func (w *runRow) setUpdated(ms uint64) { w.UpdatedAt, w.UpdatedAtMs = timeColumn(ms) }

// nextPlace returns the lower half of the next event's id.
func (w *runRow) nextPlace() int64 {
	if w.Places != nil {
		return *w.Places
	}
	return w.EventCount
}

// first and end bound the ids of the run's events: first <= id < end.
func (w *runRow) first() int64 { return w.Key << placeBits }
func (w *runRow) end() int64   { return (w.Key + 1) << placeBits }

// columns returns the values of a row's columns from scope to first_place.
func (w *runRow) columns() []any {
	return []any{
		w.Scope, w.RunID, w.SessionID, w.Status, w.CreatedAt, w.CreatedAtMs, w.UpdatedAt, w.UpdatedAtMs,
		w.EventCount, w.EventCountExact, w.KeptEvents, w.KeptBytes, w.Places, w.FirstPlace,
	}
}

// add writes a new run, without its events.
func (w *wholeRow) add(tx *db.Tx) error {
	columns := w.runRow.columns()
	if err := tx.Get(&w.Key, sqlAddRow, append(columns, txn.Checksum(columns...))...); err != nil {
		return err
	}
	return w.addTexts(tx)
}

// addAs is add for a row that has its key already.
func (w *wholeRow) addAs(tx *db.Tx) error {
	columns := w.runRow.columns()
	if err := tx.Store().Queue(sqlAddRowAs, append(columns, txn.Checksum(columns...), w.Key)...); err != nil {
		return err
	}
	return w.addTexts(tx)
}

func (w *wholeRow) addTexts(tx *db.Tx) error {
	w.indexed = w.Status
	return stores.Put(tx, sqlAddTexts, w.runTexts.columns(w.Key)...)
}

// moved is the first of the columns that move writes.
const moved = 6

// move writes what an event, a mark or a cap changed.
func (w *runRow) move(tx *db.Tx) error {
	columns := w.columns()
	args := slices.Concat(columns[moved:], []any{txn.Checksum(columns...)})
	query := sqlMoveRow
	if w.Status != w.indexed {
		query, args = sqlMoveStatus, append(args, w.Status)
	}
	err := tx.Store().Queue(query, append(args, w.Key)...)
	if err == nil {
		w.indexed = w.Status
	}
	return err
}

func (t *runTexts) columns(run int64) []any {
	return []any{run, t.Prompt, t.ResultText, t.Error, txn.Blob(t.Further)}
}

// changeTexts reads the texts, changes them and writes them.
func (w *runRow) changeTexts(tx *db.Tx, change func(*runTexts)) error {
	t, err := w.texts(&tx.Rx)
	if err != nil {
		return err
	}
	change(&t)
	columns := t.columns(w.Key)
	return tx.Store().Queue(sqlSetTexts, columns[1], columns[2], columns[3], txn.Checksum(columns...), w.Key)
}

// timeColumn returns a time in milliseconds as a column in nanoseconds, and in decimal if the
// column cannot hold it.
func timeColumn(ms uint64) (nanos int64, text *string) {
	if ms > maxMillis {
		return math.MaxInt64, decimal(ms)
	}
	return int64(ms) * 1_000_000, nil
}

func timeValue(nanos int64, text *string) uint64 { return exact(uint64(nanos/1_000_000), text) }

// exact returns a column's number, or the decimal one that the column cannot hold.
func exact(column uint64, text *string) uint64 {
	if text != nil {
		if n, err := strconv.ParseUint(*text, 10, 64); err == nil {
			return n
		}
	}
	return column
}

func decimal(n uint64) *string {
	text := strconv.FormatUint(n, 10)
	return &text
}
