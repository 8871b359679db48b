package workers

import (
	"fmt"
	"iter"

	"selvedge/db"
)

// A WorkerRow is a worker's row: what an input changes.
type WorkerRow struct {
	Key           int64  `db:"key"`
	Runtime       int64  `db:"runtime"`
	WorkerID      string `db:"worker_id"`
	Status        string `db:"status"`
	TranscriptLen int64  `db:"transcript_len"`
	NextSequence  int64  `db:"next_transcript_sequence"` // without sign
	LastEventID   int64  `db:"last_event_id"`            // without sign
	CreatedAt     *int64 `db:"created_at"`
	LastInputAt   *int64 `db:"last_input_at"`
	EndedAt       *int64 `db:"ended_at"`
}

const (
	workerColumns = `w.key, w.runtime, w.worker_id, w.status, w.transcript_len, w.next_transcript_sequence, w.last_event_id,
    w.created_at, w.last_input_at, w.ended_at`
	sqlFindWorker = `SELECT ` + workerColumns + ` FROM workers AS w WHERE w.runtime = ? AND w.worker_id = ?`
	sqlByKey      = `SELECT ` + workerColumns + ` FROM workers AS w WHERE w.key = ?`
	sqlRunning    = `SELECT ` + workerColumns +
		` FROM workers AS w WHERE w.runtime = ? AND w.status = 'running' ORDER BY w.worker_id`
	sqlAddWorker = `
INSERT INTO workers (runtime, worker_id, status, transcript_len, next_transcript_sequence, last_event_id,
	created_at, last_input_at,
    ended_at, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`
	sqlAddWorkerAs = `
INSERT INTO workers (runtime, worker_id, status, transcript_len, next_transcript_sequence, last_event_id,
	created_at, last_input_at,
    ended_at, checksum, key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	setWorker = `UPDATE workers SET transcript_len = ?, next_transcript_sequence = ?, last_event_id = ?,
		created_at = ?, last_input_at = ?, ended_at = ?, checksum = ?`
	sqlSaveWorker = setWorker + ` WHERE key = ?`
	sqlEndWorker  = setWorker + `, status = ? WHERE key = ?` // alone touches the index of those that run
	sqlDropWorker = `DELETE FROM workers WHERE key = ?`

	// One look for all that an input depends on. The columns of the worker are NULL where there is
	// none of that id.
	sqlRuntimeAndWorker = `
SELECT r.status, r.next_event_id, r.next_event_position, w.key AS w_key, w.status AS w_status,
	w.transcript_len AS w_len, w.next_transcript_sequence AS w_next,
    w.last_event_id AS w_last, w.created_at AS w_created, w.last_input_at AS w_input, w.ended_at AS w_ended
FROM worker_runtimes AS r LEFT JOIN workers AS w ON w.runtime = r.key AND w.worker_id = ?
WHERE r.key = ?`
)

// FindWorker reads the row of a worker; found is false where there is none.
func FindWorker(rx *db.Rx, runtime int64, id string) (w *WorkerRow, found bool, err error) {
	w = &WorkerRow{}
	found, err = rx.Find(w, sqlFindWorker, runtime, id)
	return w, found, err
}

// WorkerByKey is FindWorker for the number of a row.
func WorkerByKey(rx *db.Rx, key int64) (w *WorkerRow, found bool, err error) {
	w = &WorkerRow{}
	found, err = rx.Find(w, sqlByKey, key)
	return w, found, err
}

// RuntimeAndWorker reads both, of the runtime no more than its status and what an event moves; w is
// nil where there is no such worker, and found false where there is no such runtime.
func RuntimeAndWorker(rx *db.Rx, runtime int64, id string) (r *RuntimeRow, w *WorkerRow, found bool,
	err error,
) {
	var row struct {
		RuntimeStatus string `db:"status"`
		NextEventID   int64  `db:"next_event_id"`
		NextPosition  int64  `db:"next_event_position"`

		Key         *int64  `db:"w_key"`
		Status      *string `db:"w_status"`
		Len         *int64  `db:"w_len"`
		Next        *int64  `db:"w_next"`
		Last        *int64  `db:"w_last"`
		CreatedAt   *int64  `db:"w_created"`
		LastInputAt *int64  `db:"w_input"`
		EndedAt     *int64  `db:"w_ended"`
	}
	if found, err = rx.Find(&row, sqlRuntimeAndWorker, id, runtime); err != nil || !found {
		return nil, nil, false, err
	}
	if row.Key != nil {
		w = &WorkerRow{
			Key: *row.Key, Runtime: runtime, WorkerID: id, Status: *row.Status, TranscriptLen: *row.Len,
			NextSequence: *row.Next,
			LastEventID:  *row.Last, CreatedAt: row.CreatedAt, LastInputAt: row.LastInputAt, EndedAt: row.EndedAt,
		}
	}
	r = &RuntimeRow{
		Key: runtime, Status: row.RuntimeStatus, NextEventID: row.NextEventID,
		NextPosition: row.NextPosition,
	}
	return r, w, true, nil
}

func (w *WorkerRow) columns() []any {
	return []any{
		w.Runtime, w.WorkerID, w.Status, w.TranscriptLen, w.NextSequence, w.LastEventID,
		w.CreatedAt, w.LastInputAt, w.EndedAt,
	}
}

// AddWorker writes a worker that is not there, with what it was created with, and counts it.
func (w *RuntimeRow) AddWorker(tx *db.Tx, worker *WorkerRow, q Request) error {
	worker.Runtime = w.Key
	columns := worker.columns()
	if err := tx.Get(&worker.Key, sqlAddWorker, append(columns, db.Checksum(columns...))...); err != nil {
		return err
	}
	w.count("", worker.Status)
	return q.add(tx, worker.Key)
}

// addWorkerAs is AddWorker under a number.
func (w *RuntimeRow) addWorkerAs(tx *db.Tx, worker *WorkerRow, q Request) (err error) {
	if worker.Key, err = tx.Number("workers"); err != nil {
		return err
	}
	worker.Runtime = w.Key
	columns := worker.columns()
	if err := tx.Queue(sqlAddWorkerAs, append(columns, db.Checksum(columns...), worker.Key)...); err != nil {
		return err
	}
	w.count("", worker.Status)
	return q.add(tx, worker.Key)
}

// Save writes what an input has changed.
func (w *WorkerRow) Save(tx *db.Tx) error { return w.save(tx, sqlSaveWorker) }

const changing = 3 // the column of workers behind the status

func (w *WorkerRow) save(tx *db.Tx, query string, more ...any) error {
	columns := w.columns()
	args := append(append(columns[changing:], db.Checksum(columns...)), more...)
	return tx.Queue(query, append(args, w.Key)...)
}

// EndWorker gives a worker that runs another status, and counts it.
func (w *RuntimeRow) EndWorker(tx *db.Tx, worker *WorkerRow, status string) error {
	w.count(worker.Status, status)
	worker.Status = status
	now := db.Nanos(tx.Now())
	worker.EndedAt = &now
	return worker.save(tx, sqlEndWorker, status)
}

// StopWorkers stops all that run.
func (w *RuntimeRow) StopWorkers(tx *db.Tx) error {
	var running []WorkerRow
	if err := tx.Select(&running, sqlRunning, w.Key); err != nil {
		return err
	}
	for i := range running {
		if err := w.EndWorker(tx, &running[i], Stopped); err != nil {
			return err
		}
	}
	return nil
}

// RemoveWorker takes a worker out, with its transcript.
func (w *RuntimeRow) RemoveWorker(tx *db.Tx, worker *WorkerRow) error {
	w.count(worker.Status, "")
	_, err := tx.Exec(sqlDropWorker, worker.Key)
	return err
}

const (
	sqlAddRequest = `
INSERT INTO worker_requests (worker, intent, objective, role, purpose, profile, profile_value, config_bundle,
	capabilities,
    requested_capabilities, workspace_refs, mount_refs, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlRequestLists = `SELECT requested_capabilities, workspace_refs, mount_refs FROM worker_requests
		WHERE worker = ?`

	// SelectSummaries reads workers without the lists of their requests, which no list of workers shows.
	SelectSummaries = `
SELECT ` + workerColumns + `,
    q.intent, q.objective, q.role, q.purpose, q.profile, q.profile_value, q.config_bundle, q.capabilities
FROM workers AS w JOIN worker_requests AS q ON q.worker = w.key
WHERE w.runtime = ?`
)

func (q *Request) add(tx *db.Tx, worker int64) error {
	var objective, role, purpose, value any
	switch q.Intent.Kind {
	case IntentTask:
		objective = q.Intent.Objective
	case IntentRole:
		role = q.Intent.Role
		fallthrough
	default:
		purpose = q.Intent.Purpose
	}
	if q.Profile.Kind != ProfileDefault {
		value = q.Profile.Value
	}
	columns := []any{
		worker, q.Intent.Kind, objective, role, purpose, q.Profile.Kind, value, q.ConfigBundle,
		int64(len(q.Capabilities)),
		listColumn(q.Capabilities, appendCapability), listColumn(q.Workspaces, appendNamed),
		listColumn(q.Mounts, appendNamed),
	}
	return tx.Queue(sqlAddRequest, append(columns, db.Checksum(columns...))...)
}

func listColumn[T any](list []T, one func([]byte, T) []byte) any {
	if len(list) == 0 {
		return nil
	}
	return appendList(nil, list, one)
}

// A SummaryRow is a worker in a list.
type SummaryRow struct {
	WorkerRow
	Intent       string  `db:"intent"`
	Objective    *string `db:"objective"`
	Role         *string `db:"role"`
	Purpose      *string `db:"purpose"`
	Profile      string  `db:"profile"`
	ProfileValue *string `db:"profile_value"`
	ConfigBundle *string `db:"config_bundle"`
	Capabilities uint64  `db:"capabilities"`
}

// Request is what the worker was created with, but for its lists.
func (w *SummaryRow) Request() Request {
	q := Request{
		Intent: Intent{Kind: w.Intent, Purpose: w.Purpose}, Profile: Profile{Kind: w.Profile},
		ConfigBundle: w.ConfigBundle,
	}
	for _, given := range []struct {
		from *string
		to   *string
	}{{w.Objective, &q.Intent.Objective}, {w.Role, &q.Intent.Role}, {w.ProfileValue, &q.Profile.Value}} {
		if given.from != nil {
			*given.to = *given.from
		}
	}
	return q
}

// WholeRequest reads the lists, too. db.ErrCorrupt: they say what this program never wrote.
func (w *SummaryRow) WholeRequest(rx *db.Rx) (q Request, err error) {
	var lists struct {
		Capabilities []byte `db:"requested_capabilities"`
		Workspaces   []byte `db:"workspace_refs"`
		Mounts       []byte `db:"mount_refs"`
	}
	q = w.Request()
	if err := rx.Get(&lists, sqlRequestLists, w.Key); err != nil {
		return q, err
	}
	if q.Capabilities, err = readList(lists.Capabilities, decodeCapability); err != nil {
		return q, err
	}
	if q.Workspaces, err = readList(lists.Workspaces, decodeWorkspace); err != nil {
		return q, err
	}
	q.Mounts, err = readList(lists.Mounts, decodeMount)
	return q, err
}

func readList[T any](column []byte, decode func([]byte) (T, error)) ([]T, error) {
	if column == nil {
		return nil, nil
	}
	list, err := decodeArray(column, decode)
	if err != nil {
		return nil, corrupt(err)
	}
	return list, nil
}

const (
	sqlAddEntry = `INSERT INTO worker_entries (id, sequence, role, content, event_id, recorded_at, raw, batch,
		checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlEntries = `SELECT id, sequence, role, content, event_id, recorded_at, raw FROM worker_entries
		WHERE id > ? AND id <= ? ORDER BY id LIMIT ` + db.BoundLimit
	sqlFindBatch = `SELECT id, sequence, role, content, event_id, recorded_at, raw FROM worker_entries
		WHERE id > ? AND id <= ? AND batch = ? ORDER BY id LIMIT 1`
)

// AddEntry writes an entry in the next place of the transcript, with the number of its call; Save
// then keeps the counters.
func (w *WorkerRow) AddEntry(tx *db.Tx, role, content string, event uint64, batch int64) (sequence uint64,
	err error,
) {
	place := w.TranscriptLen + 1
	if place > MaxEntries {
		return 0, fmt.Errorf("%w: the transcript of worker %s has %d entries, which is all that it can have",
			db.ErrInvalid, w.WorkerID, MaxEntries)
	}
	sequence = uint64(w.NextSequence)
	now := db.Nanos(tx.Now())
	w.TranscriptLen, w.NextSequence, w.LastEventID, w.LastInputAt = place, w.NextSequence+1, int64(event), &now
	return sequence, w.putEntry(tx, place,
		Entry{Sequence: sequence, Role: role, Content: content, EventID: event}, now, nil, batch)
}

func (w *WorkerRow) putEntry(tx *db.Tx, place int64, e Entry, at, raw, batch any) error {
	columns := []any{
		w.Key<<EntryBits | place, unless(uint64(place), e.Sequence), e.Role, []byte(e.Content),
		int64(e.EventID), at, raw, batch,
	}
	return tx.Queue(sqlAddEntry, append(columns, db.Checksum(columns...))...)
}

// An EntryRow is an entry's row.
type EntryRow struct {
	ID       int64  `db:"id"`
	Sequence *int64 `db:"sequence"`
	Role     string `db:"role"`
	Content  []byte `db:"content"`
	EventID  int64  `db:"event_id"`
	At       *int64 `db:"recorded_at"`
	Raw      []byte `db:"raw"`
}

// Entries gives at most limit of the rows behind a place of the transcript.
func (w *WorkerRow) Entries(rx *db.Rx, behind, limit int64) (rows []EntryRow, err error) {
	base := w.Key << EntryBits
	err = rx.Select(&rows, sqlEntries, base|behind, base|MaxEntries, limit)
	return rows, err
}

// EachEntry is Entries as they are read.
func (w *WorkerRow) EachEntry(rx *db.Rx, behind, limit int64) iter.Seq2[*EntryRow, error] {
	base := w.Key << EntryBits
	return db.Each(rx, func(row *EntryRow) (*EntryRow, error) { return row, nil }, sqlEntries, base|behind,
		base|MaxEntries, limit)
}

// FindBatch gives the entry that the call with this number wrote; found is false where none is. It
// looks at the whole transcript.
func (w *WorkerRow) FindBatch(rx *db.Rx, batch int64) (e EntryRow, found bool, err error) {
	base := w.Key << EntryBits
	found, err = rx.Find(&e, sqlFindBatch, base, base|MaxEntries, batch)
	return e, found, err
}

// Place is that of the entry in its transcript.
func (e *EntryRow) Place() int64 { return e.ID & MaxEntries }

// Weight is about how many bytes the entry takes.
func (e *EntryRow) Weight() int { return 128 + len(e.Content) + len(e.Raw) }

// Entry is the entry as it is told.
func (e *EntryRow) Entry(worker Ref) Entry {
	sequence := uint64(e.Place())
	if e.Sequence != nil {
		sequence = uint64(*e.Sequence)
	}
	return Entry{
		Sequence: sequence, Worker: worker, Role: e.Role, Content: string(e.Content),
		EventID: uint64(e.EventID),
	}
}

// Shorten takes the last entries out of a worker that is about to be removed.
func (w *WorkerRow) Shorten(tx *db.Tx, entries int64) error {
	gone, err := tx.Exec(sqlDropEntries, w.Key<<EntryBits, (w.Key+1)<<EntryBits, entries)
	if err != nil {
		return err
	}
	w.TranscriptLen -= gone
	return w.Save(tx)
}

const (
	// SQLEndedWorkers gives the workers of a scope that ended before a time, or then and with a lower
	// key, the newest end first. One whose end is not known ended at 0.
	SQLEndedWorkers = `
SELECT w.key, w.worker_id AS id, r.runtime_id AS owner, r.runtime_id AS of,
	coalesce(w.ended_at, 0) AS ended_at
FROM workers AS w JOIN worker_runtimes AS r ON r.key = w.runtime
WHERE r.scope = ? AND w.status <> 'running' AND (coalesce(w.ended_at, 0), w.key) < (?, ?)
ORDER BY coalesce(w.ended_at, 0) DESC, w.key DESC LIMIT ?`
	sqlWeighWorker = `SELECT coalesce(sum(octet_length(content)), 0) FROM worker_entries WHERE id > ? AND id < ?`
)

// EndedWorkers gives them.
func EndedWorkers(rx *db.Rx, scope int64, after db.Ended, limit int) (list []db.Ended, err error) {
	err = rx.Select(&list, SQLEndedWorkers, scope, after.At, after.Key, limit)
	return list, err
}

// WeighWorker gives the bytes of a worker's transcript.
func WeighWorker(rx *db.Rx, w db.Ended) (bytes int64, err error) {
	err = rx.Get(&bytes, sqlWeighWorker, w.Key<<EntryBits, (w.Key+1)<<EntryBits)
	return bytes, err
}
