package live

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"

	"selvedge/db"
)

const (
	maxInt64  = uint64(math.MaxInt64)
	maxMillis = uint64(math.MaxInt64 / 1_000_000) // the last millisecond that a time column holds
	placeBits = 32
	maxPlace  = uint64(1)<<placeBits - 1 // the lower half of an event's id
)

// A Row is a run's row. What the run says in words is in Texts: an event writes the one, and seldom
// the other.
type Row struct {
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
	Owner           *int64  `db:"owner_id"` // of the process that holds the run; not covered by the checksum

	indexed string // the status that the row has in the file, and its index
}

// Texts are what a run says in words.
type Texts struct {
	Prompt     string  `db:"prompt"`
	ResultText *string `db:"result_text"`
	Error      *string `db:"error"`
	Further    []byte  `db:"further"`
}

// Weight is about how many bytes a run with these texts takes in a list.
func (t *Texts) Weight() int {
	n := 200 + len(t.Prompt) + len(t.Further)
	for _, text := range []*string{t.ResultText, t.Error} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// A WholeRow is a run's row with its texts.
type WholeRow struct {
	Row
	Texts
}

const (
	rowColumns = `r.key, r.scope, r.run_id, r.session_id, r.status, r.created_at, r.created_at_ms, r.updated_at, r.updated_at_ms,
	r.event_count, r.event_count_exact, r.kept_events, r.kept_bytes, r.places, r.first_place, r.owner_id`
	sqlFindRow  = `SELECT ` + rowColumns + ` FROM live_runs AS r WHERE r.scope = ? AND r.run_id = ?`
	sqlLockRow  = `SELECT key FROM live_runs WHERE key = ?`
	sqlRowByKey = `SELECT ` + rowColumns + ` FROM live_runs AS r WHERE r.key = ?`
	sqlTexts    = `SELECT prompt, result_text, error, further FROM live_texts WHERE run = ?`

	sqlAddRow = `INSERT INTO live_runs (scope, run_id, session_id, status, created_at, created_at_ms,
	updated_at, updated_at_ms,
	event_count, event_count_exact, kept_events, kept_bytes, places, first_place, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`
	sqlAddRowAs = `INSERT INTO live_runs (scope, run_id, session_id, status, created_at, created_at_ms,
	updated_at, updated_at_ms,
	event_count, event_count_exact, kept_events, kept_bytes, places, first_place, checksum, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlAddTexts = `INSERT INTO live_texts (run, prompt, result_text, error, further, checksum)
		VALUES (?, ?, ?, ?, ?, ?)`

	setMoved   = `updated_at = ?, updated_at_ms = ?, event_count = ?, event_count_exact = ?, kept_events = ?, kept_bytes = ?, places = ?, first_place = ?, checksum = ?`
	sqlMoveRow = `UPDATE live_runs SET ` + setMoved + ` WHERE key = ?`
	// alone touches the index of statuses
	sqlMoveStatus = `UPDATE live_runs SET ` + setMoved + `, status = ? WHERE key = ?`
	sqlSetTexts   = `UPDATE live_texts SET prompt = ?, result_text = ?, error = ?, checksum = ? WHERE run = ?`
)

// SelectWhole begins a statement that reads whole rows.
const SelectWhole = `SELECT ` + rowColumns + `, t.prompt, t.result_text, t.error, t.further
FROM live_runs AS r JOIN live_texts AS t ON t.run = r.key
`

// FindRow reads the row of a run; found is false where there is none.
func FindRow(rx *db.Rx, scope int64, runID string) (w *Row, found bool, err error) {
	return findRow(rx, sqlFindRow, scope, runID)
}

// FindLocked is FindRow for a change of what belongs to the run: whoever makes one locks the row first.
func FindLocked(tx *db.Tx, scope int64, runID string) (w *Row, found bool, err error) {
	return rowIn(func(w *Row) (bool, error) { return tx.FindLocked(w, sqlFindRow, scope, runID) })
}

// LockRow is FindLocked for who changes the row without having read it.
func LockRow(tx *db.Tx, key int64) error { return tx.Lock(sqlLockRow, key) }

// RowByKey is FindRow for the number of a row.
func RowByKey(rx *db.Rx, key int64) (w *Row, found bool, err error) {
	return findRow(rx, sqlRowByKey, key)
}

func findRow(rx *db.Rx, query string, args ...any) (*Row, bool, error) {
	return rowIn(func(w *Row) (bool, error) { return rx.Find(w, query, args...) })
}

func rowIn(find func(*Row) (bool, error)) (*Row, bool, error) {
	w := &Row{}
	found, err := find(w)
	w.indexed = w.Status
	return w, found, err
}

// Texts reads what the run says in words.
func (w *Row) Texts(rx *db.Rx) (t Texts, err error) {
	found, err := rx.Find(&t, sqlTexts, w.Key)
	if err == nil && !found {
		err = fmt.Errorf("%w: live run %q has no texts", db.ErrCorrupt, w.RunID)
	}
	return t, err
}

// Whole reads the texts beside the row.
func (w *Row) Whole(rx *db.Rx) (*WholeRow, error) {
	t, err := w.Texts(rx)
	return &WholeRow{*w, t}, err
}

// NewRow is the row of a run that comes with its events.
func NewRow(scope int64, r *Record) *WholeRow {
	w := &WholeRow{
		Row: Row{
			Scope: scope, RunID: r.Snapshot.ID, SessionID: r.Snapshot.SessionID, Status: r.Snapshot.Status,
			KeptEvents: int64(len(r.Events)),
		},
		Texts: Texts{
			Prompt: r.Snapshot.Prompt, ResultText: r.Snapshot.ResultText, Error: r.Snapshot.Error,
			Further: r.Snapshot.Further,
		},
	}
	w.CreatedAt, w.CreatedAtMs = timeColumn(r.Snapshot.CreatedAtMs)
	w.SetUpdated(r.Snapshot.UpdatedAtMs)
	w.SetCount(r.NextSequence())
	if !r.ordered() || w.Count() > maxPlace/2 { // so that there are places for more events
		places := w.KeptEvents
		w.Places = &places
	}
	for i := range r.Events {
		w.KeptBytes += r.Events[i].Size()
	}
	return w
}

// Same reports whether two rows say the same, whoever holds the run.
func (w *WholeRow) Same(other *WholeRow) bool {
	return reflect.DeepEqual(w.Row.columns(), other.Row.columns()) && reflect.DeepEqual(w.Texts, other.Texts)
}

// Snapshot is what the row says.
func (w *WholeRow) Snapshot() Snapshot {
	return Snapshot{
		ID: w.RunID, SessionID: w.SessionID, Status: w.Status, Prompt: w.Prompt,
		CreatedAtMs: timeValue(w.CreatedAt, w.CreatedAtMs), UpdatedAtMs: w.Updated(),
		ResultText: w.ResultText, Error: w.Error, EventCount: w.Count(), Further: w.Further,
	}
}

// Count is the number of events ever recorded, and the next one's sequence.
func (w *Row) Count() uint64 { return exact(uint64(w.EventCount), w.EventCountExact) }

// SetCount is the other way round.
func (w *Row) SetCount(n uint64) {
	w.EventCount, w.EventCountExact = int64(min(n, maxInt64)), nil
	if n > maxInt64 {
		w.EventCountExact = decimal(n)
	}
}

// Updated is the time of the last event or mark in Unix milliseconds.
func (w *Row) Updated() uint64 { return timeValue(w.UpdatedAt, w.UpdatedAtMs) }

// SetUpdated is the other way round.
func (w *Row) SetUpdated(ms uint64) { w.UpdatedAt, w.UpdatedAtMs = timeColumn(ms) }

// NextPlace is the lower half of the next event's id.
func (w *Row) NextPlace() int64 {
	if w.Places != nil {
		return *w.Places
	}
	return w.EventCount
}

// First and End bound the ids of the run's events: First <= id < End.
func (w *Row) First() int64 { return w.Key << placeBits }

// End is described beside First.
func (w *Row) End() int64 { return (w.Key + 1) << placeBits }

// columns are the values of a row's columns from scope to first_place.
func (w *Row) columns() []any {
	return []any{
		w.Scope, w.RunID, w.SessionID, w.Status, w.CreatedAt, w.CreatedAtMs, w.UpdatedAt, w.UpdatedAtMs,
		w.EventCount, w.EventCountExact, w.KeptEvents, w.KeptBytes, w.Places, w.FirstPlace,
	}
}

// bytesOrNull is a blob as a column has it.
func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// Add writes a run that is not there, without its events.
func (w *WholeRow) Add(tx *db.Tx) error {
	columns := w.Row.columns()
	if err := tx.Get(&w.Key, sqlAddRow, append(columns, db.Checksum(columns...))...); err != nil {
		return err
	}
	return w.addTexts(tx)
}

// addAs is Add for a row that has its key.
func (w *WholeRow) addAs(tx *db.Tx) error {
	columns := w.Row.columns()
	if err := tx.Queue(sqlAddRowAs, append(columns, db.Checksum(columns...), w.Key)...); err != nil {
		return err
	}
	return w.addTexts(tx)
}

func (w *WholeRow) addTexts(tx *db.Tx) error {
	w.indexed = w.Status
	texts := w.Texts.columns(w.Key)
	return tx.Queue(sqlAddTexts, append(texts, db.Checksum(texts...))...)
}

// moved is where the columns begin that Move writes.
const moved = 6

// Move writes what an event, a mark or a cap changed.
func (w *Row) Move(tx *db.Tx) error {
	columns := w.columns()
	args := slices.Concat(columns[moved:], []any{db.Checksum(columns...)})
	query := sqlMoveRow
	if w.Status != w.indexed {
		query, args = sqlMoveStatus, append(args, w.Status)
	}
	err := tx.Queue(query, append(args, w.Key)...)
	if err == nil {
		w.indexed = w.Status
	}
	return err
}

func (t *Texts) columns(run int64) []any {
	return []any{run, t.Prompt, t.ResultText, t.Error, bytesOrNull(t.Further)}
}

// SetTexts writes other texts.
func (w *Row) SetTexts(tx *db.Tx, t Texts) error {
	columns := t.columns(w.Key)
	return tx.Queue(sqlSetTexts, columns[1], columns[2], columns[3], db.Checksum(columns...), w.Key)
}

// timeColumn is a time in milliseconds as a column in nanoseconds, and in decimal where the column
// can't hold it.
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

func decimal(n uint64) *string {
	text := strconv.FormatUint(n, 10)
	return &text
}
