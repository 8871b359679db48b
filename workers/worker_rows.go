package workers

import (
	"fmt"
	"iter"
	"reflect"
	"slices"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A workerRow holds the columns of a worker's row that an input changes.
type workerRow struct {
	Key           int64        `db:"key"`
	Runtime       int64        `db:"runtime"`
	WorkerID      WorkerID     `db:"worker_id"`
	Status        WorkerStatus `db:"status"`
	TranscriptLen int64        `db:"transcript_len"`
	NextSequence  int64        `db:"next_transcript_sequence"` // unsigned
	LastEventID   int64        `db:"last_event_id"`            // unsigned
	CreatedAt     *int64       `db:"created_at"`
	LastInputAt   *int64       `db:"last_input_at"`
	EndedAt       *int64       `db:"ended_at"`
}

const (
	workerName    = `runtime, worker_id, status`
	workerColumns = `transcript_len, next_transcript_sequence, last_event_id, created_at, last_input_at,
	ended_at`
	selectWorkers = `SELECT key, ` + workerName + `, ` + workerColumns + ` FROM workers`
	sqlFindWorker = selectWorkers + ` WHERE runtime = ? AND worker_id = ?`
	sqlByKey      = selectWorkers + ` WHERE key = ?`
	sqlRunning    = selectWorkers + ` WHERE runtime = ? AND status = 'running' ORDER BY worker_id`
	sqlAddWorker  = `INSERT INTO workers (` + workerName + `, ` + workerColumns + `, checksum, key)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	setWorker = `UPDATE workers SET (` + workerColumns + `, checksum`
	// Only the end of a worker writes the status, so that an input does not touch its index.
	sqlSaveWorker = setWorker + `) = (?, ?, ?, ?, ?, ?, ?) WHERE key = ?`
	sqlEndWorker  = setWorker + `, status) = (?, ?, ?, ?, ?, ?, ?, ?) WHERE key = ?`
	sqlDropWorker = `DELETE FROM workers WHERE key = ?`

	// sqlRuntimeAndWorker reads everything that an input depends on, in one query. The worker's key is
	// 0 if there is no such worker.
	sqlRuntimeAndWorker = `
SELECT r.status AS runtime_status, r.next_event_id, r.next_event_position, coalesce(w.key, 0) AS key,
	r.key AS runtime, coalesce(w.worker_id, '') AS worker_id, coalesce(w.status, '') AS status,
	coalesce(w.transcript_len, 0) AS transcript_len,
	coalesce(w.next_transcript_sequence, 0) AS next_transcript_sequence,
	coalesce(w.last_event_id, 0) AS last_event_id, w.created_at, w.last_input_at, w.ended_at
FROM worker_runtimes AS r LEFT JOIN workers AS w ON w.runtime = r.key AND w.worker_id = ?
WHERE r.key = ?`
)

// runtimeAndWorker reads a worker's row, and the status and the columns that an event changes from
// the runtime's row. w is nil if there is no such worker, found is false if there is no such
// runtime.
func runtimeAndWorker(rx *db.Rx, runtime int64, id WorkerID) (*runtimeRow, *workerRow, bool, error) {
	var row struct {
		RuntimeStatus RuntimeStatus `db:"runtime_status"`
		NextEventID   int64         `db:"next_event_id"`
		NextPosition  int64         `db:"next_event_position"`
		workerRow
	}
	if found, err := rx.Find(&row, sqlRuntimeAndWorker, string(id), runtime); err != nil || !found {
		return nil, nil, false, err
	}
	var w *workerRow
	if row.Key != 0 {
		w = &row.workerRow
	}
	return &runtimeRow{
		Key: runtime, Status: row.RuntimeStatus, NextEventID: row.NextEventID, NextPosition: row.NextPosition,
	}, w, true, nil
}

func (w *workerRow) columns() []any {
	return []any{
		w.Runtime, string(w.WorkerID), string(w.Status), w.TranscriptLen, w.NextSequence, w.LastEventID,
		w.CreatedAt, w.LastInputAt, w.EndedAt,
	}
}

// addWorker inserts a worker under a new number, with its request, and counts it.
func (w *runtimeRow) addWorker(tx *db.Tx, worker *workerRow, q CreateWorkerRequest) (err error) {
	if worker.Key, err = tx.Store().Number("workers"); err != nil {
		return err
	}
	worker.Runtime = w.Key
	columns := worker.columns()
	columns = append(columns, txn.Checksum(columns...), worker.Key)
	if err := tx.Store().Queue(sqlAddWorker, columns...); err != nil {
		return err
	}
	w.count("", worker.Status)
	return q.add(tx, worker.Key)
}

// save writes what an input has changed.
func (w *workerRow) save(tx *db.Tx) error { return w.update(tx, sqlSaveWorker) }

func (w *workerRow) update(tx *db.Tx, query string, more ...any) error {
	const unchanging = 3 // runtime, id and status
	columns := w.columns()
	sum := []any{txn.Checksum(columns...)}
	return tx.Store().Queue(query, slices.Concat(columns[unchanging:], sum, more, []any{w.Key})...)
}

// endWorker changes the status of a worker that runs, and counts it.
func (w *runtimeRow) endWorker(tx *db.Tx, worker *workerRow, status WorkerStatus) error {
	w.count(worker.Status, status)
	now := db.Nanos(tx.Now())
	worker.Status, worker.EndedAt = status, &now
	return worker.update(tx, sqlEndWorker, string(status))
}

// stopWorkers stops the workers that run.
func (w *runtimeRow) stopWorkers(tx *db.Tx) error {
	var running []workerRow
	if err := tx.Select(&running, sqlRunning, w.Key); err != nil {
		return err
	}
	for i := range running {
		if err := w.endWorker(tx, &running[i], Stopped); err != nil {
			return err
		}
	}
	return nil
}

// removeWorker deletes a worker with its transcript.
func (w *runtimeRow) removeWorker(tx *db.Tx, worker *workerRow) error {
	w.count(worker.Status, "")
	_, err := tx.Exec(sqlDropWorker, worker.Key)
	return err
}

const (
	sqlAddRequest = `
INSERT INTO worker_requests (worker, intent, objective, role, purpose, profile, profile_value, config_bundle,
	capabilities, requested_capabilities, workspace_refs, mount_refs, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlRequestLists = `SELECT requested_capabilities, workspace_refs, mount_refs FROM worker_requests
		WHERE worker = ?`

	// selectSummaries reads workers without the lists of their requests.
	selectSummaries = `
SELECT w.key, w.runtime, w.worker_id, w.status, w.transcript_len, w.next_transcript_sequence,
	w.last_event_id, w.created_at, w.last_input_at, w.ended_at,
	q.intent, coalesce(q.objective, '') AS objective, coalesce(q.role, '') AS role, q.purpose, q.profile,
	coalesce(q.profile_value, '') AS profile_value, q.config_bundle, q.capabilities
FROM workers AS w JOIN worker_requests AS q ON q.worker = w.key
WHERE w.runtime = ?`
)

// requestLists is where the lists begin in the fields of a request, and in the columns of
// sqlRequestLists.
const requestLists = 3

func (request *CreateWorkerRequest) add(tx *db.Tx, worker int64) error {
	intent, profile := request.Intent, request.Profile
	var bundle *string
	if request.ConfigBundle != nil {
		bundle = &request.ConfigBundle.ID
	}
	kind := intent.kind()
	columns := []any{
		worker, kind, given(kind == intentTask, intent.Objective), given(kind == intentRole, intent.Role),
		given(kind != intentTask, intent.Purpose), profile.kind(),
		given(profile.kind() != profileDefault, profile.Value), bundle,
		int64(len(request.RequestedCapabilities)), nil, nil, nil,
	}
	fields := reflect.ValueOf(request).Elem()
	for i := requestLists; i < fields.NumField(); i++ {
		if list := fields.Field(i); list.Len() > 0 {
			columns[len(columns)-fields.NumField()+i] = encode(list.Interface())
		}
	}
	return stores.Put(tx, sqlAddRequest, columns...)
}

// A summaryRow is a worker in a list.
type summaryRow struct {
	workerRow
	Intent       string  `db:"intent"`
	Objective    string  `db:"objective"`
	Role         string  `db:"role"`
	Purpose      *string `db:"purpose"`
	Profile      string  `db:"profile"`
	ProfileValue string  `db:"profile_value"`
	ConfigBundle *string `db:"config_bundle"`
	Capabilities uint64  `db:"capabilities"`
}

// request is what the worker was created with, without its lists.
func (w *summaryRow) request() (q CreateWorkerRequest) {
	q.Intent = WorkerIntent{Kind: w.Intent, Objective: w.Objective, Role: w.Role, Purpose: w.Purpose}
	q.Profile = ProfileSelector{Kind: w.Profile, Value: w.ProfileValue}
	if w.ConfigBundle != nil {
		q.ConfigBundle = &ConfigBundleRef{*w.ConfigBundle}
	}
	return q
}

// wholeRequest also reads the lists.
func (w *summaryRow) wholeRequest(rx *db.Rx) (q CreateWorkerRequest, err error) {
	var lists struct {
		Capabilities []byte `db:"requested_capabilities"`
		Workspaces   []byte `db:"workspace_refs"`
		Mounts       []byte `db:"mount_refs"`
	}
	q = w.request()
	if err := rx.Get(&lists, sqlRequestLists, w.Key); err != nil {
		return q, err
	}
	fields := reflect.ValueOf(&q).Elem()
	for i, text := range [][]byte{lists.Capabilities, lists.Workspaces, lists.Mounts} {
		if text == nil {
			continue
		}
		if err := requestJSON().fields[requestLists+i].decode(text, fields.Field(requestLists+i)); err != nil {
			return q, corrupted("read worker", err)
		}
	}
	return q, nil
}

const (
	sqlAddEntry = `INSERT INTO worker_entries (id, sequence, role, content, event_id, recorded_at, raw, batch,
		checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	selectEntries = `SELECT id, sequence, role, content, event_id, raw FROM worker_entries
		WHERE id > ? AND id <= ?`
	sqlEntries   = selectEntries + ` ORDER BY id LIMIT ` + paging.BoundLimit
	sqlFindBatch = selectEntries + ` AND batch = ? ORDER BY id`
)

// addEntry writes an entry in the next place of the transcript, with the number of its call. save
// then writes the counters.
func (w *workerRow) addEntry(tx *db.Tx, input WorkerInput, event uint64, batch int64) (uint64, error) {
	place := w.TranscriptLen + 1
	if place > maxEntries {
		return 0, fmt.Errorf("%w: the transcript of worker %s has %d entries, which is all that it can have",
			db.ErrInvalid, w.WorkerID, maxEntries)
	}
	sequence := uint64(w.NextSequence)
	now := db.Nanos(tx.Now())
	w.TranscriptLen, w.NextSequence, w.LastEventID, w.LastInputAt = place, w.NextSequence+1, int64(event), &now
	e := TranscriptEntry{Sequence: sequence, Role: input.Kind, Content: input.Content, EventID: event}
	return sequence, w.putEntry(tx, place, e, now, nil, batch)
}

func (w *workerRow) putEntry(tx *db.Tx, place int64, e TranscriptEntry, at, raw, batch any) error {
	return stores.Put(tx, sqlAddEntry, w.Key<<entryBits|place, unless(place, e.Sequence), e.Role,
		[]byte(e.Content), int64(e.EventID), at, raw, batch)
}

// An entryRow is an entry's row.
type entryRow struct {
	ID       int64  `db:"id"`
	Sequence *int64 `db:"sequence"`
	Role     string `db:"role"`
	Content  []byte `db:"content"`
	EventID  int64  `db:"event_id"`
	Raw      []byte `db:"raw"`
}

// eachEntry returns at most limit of the rows after a place of the transcript.
func (w *workerRow) eachEntry(rx *db.Rx, behind, limit int64) iter.Seq2[*entryRow, error] {
	base := w.Key << entryBits
	return txn.Each(rx.Store(), same[entryRow], sqlEntries, base|behind, base|maxEntries, limit)
}

// findBatch returns the entry that the call with this number wrote. Of several inputs in one
// transaction, it is one with the same content. It reads the whole transcript.
func (w *workerRow) findBatch(rx *db.Rx, batch int64, content string) (e entryRow, found bool, err error) {
	base := w.Key << entryBits
	for row, err := range txn.Each(rx.Store(), same[entryRow], sqlFindBatch, base, base|maxEntries, batch) {
		if err != nil {
			return e, false, err
		}
		if e, found = *row, true; string(row.Content) == content {
			break
		}
	}
	return e, found, nil
}

// place is the place of the entry in its transcript.
func (e *entryRow) place() int64 { return e.ID & maxEntries }

// weight is about how many bytes the entry takes.
func (e *entryRow) weight() int { return 128 + len(e.Content) + len(e.Raw) }

func (e *entryRow) entry(worker WorkerRef) TranscriptEntry {
	sequence := uint64(e.place())
	if e.Sequence != nil {
		sequence = uint64(*e.Sequence)
	}
	return TranscriptEntry{
		Sequence: sequence, WorkerRef: worker, Role: e.Role, Content: string(e.Content),
		EventID: uint64(e.EventID),
	}
}

// removePart removes a worker or, if its transcript has more than most entries, the last most of
// them. It returns the number of rows that it removed; these are only entries if the worker
// remains.
func (w *runtimeRow) removePart(tx *db.Tx, worker *workerRow, most int64) (rows int64, err error) {
	if worker.TranscriptLen <= most {
		return 1 + worker.TranscriptLen, w.removeWorker(tx, worker)
	}
	rows, err = tx.Exec(sqlDropEntries, worker.Key<<entryBits, (worker.Key+1)<<entryBits, most)
	if err != nil {
		return 0, err
	}
	worker.TranscriptLen -= rows
	return most, worker.save(tx)
}

const (
	// sqlEndedWorkers selects the workers of a scope that ended before a time, or at that time with a
	// lower key, the newest end first. An unknown end counts as 0.
	sqlEndedWorkers = `
SELECT w.key, w.worker_id AS id, r.runtime_id AS owner, r.runtime_id AS of,
	coalesce(w.ended_at, 0) AS ended_at
FROM workers AS w JOIN worker_runtimes AS r ON r.key = w.runtime
WHERE r.scope = ? AND w.status <> 'running' AND (coalesce(w.ended_at, 0), w.key) < (?, ?)
ORDER BY coalesce(w.ended_at, 0) DESC, w.key DESC LIMIT ?`
	sqlWeighWorker = `SELECT coalesce(sum(octet_length(content)), 0) FROM worker_entries WHERE id > ? AND id < ?`
)

// weighWorker returns the bytes of a worker's transcript.
func weighWorker(rx *db.Rx, w stores.Ended) (bytes int64, err error) {
	err = rx.Get(&bytes, sqlWeighWorker, w.Key<<entryBits, (w.Key+1)<<entryBits)
	return bytes, err
}
