package workers

import (
	"bytes"
	"encoding/json"
	"slices"

	"selvedge/db"
)

// An Exported runtime is a runtime as files of the original: what came from an import and was not touched since as it
// came, all else in the original's encoding.
type Exported struct {
	RuntimeID RuntimeID
	Snapshot  []byte   // runtime.json
	Events    [][]byte // the lines of events.jsonl, without line feeds
	Workers   []ExportedWorker
	// Given is the runtime.json of the import, which the runtime still stands as; nil where there is none other than Snapshot.
	Given []byte
}

// An ExportedWorker is a worker as files of the original.
type ExportedWorker struct {
	WorkerID WorkerID
	Snapshot []byte   // worker.json
	Entries  [][]byte // the lines of transcript.jsonl, without line feeds
	Given    []byte   // as in Exported
}

const (
	sqlRuntimeRow = `
SELECT r.runtime_id, r.display_name, r.status, r.max_transcript_items, r.max_event_items, r.next_worker_sequence, r.next_event_id,
    r.next_diagnostic_id, r.first_event_position, d.document
FROM worker_runtimes AS r LEFT JOIN worker_runtime_documents AS d ON d.runtime = r.key WHERE r.key = ?`
	sqlWorkerRows = `
SELECT w.key, w.worker_id, w.status, w.transcript_len, w.last_event_id, w.next_transcript_sequence,
    w.last_input_at, w.ended_at, d.document,
    q.intent, q.objective, q.role, q.purpose, q.profile, q.profile_value, q.config_bundle, q.capabilities
FROM workers AS w JOIN worker_requests AS q ON q.worker = w.key LEFT JOIN worker_documents AS d ON d.worker = w.key
WHERE w.runtime = ? ORDER BY w.worker_id`
	sqlEventLines = `
SELECT e.id, e.event_id, w.worker_id, e.kind, e.message, e.raw
FROM worker_events AS e LEFT JOIN workers AS w ON w.key = e.worker WHERE e.id > ? AND e.id < ? ORDER BY e.id`
	sqlLastEventAt = `SELECT at FROM worker_events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	sqlEntryLines  = `SELECT id, sequence, role, content, event_id, raw FROM worker_entries WHERE id > ? AND id < ? ORDER BY id`
	sqlRawDiagnose = `SELECT id, raw FROM worker_diagnostics WHERE id > ? AND id < ? AND raw IS NOT NULL ORDER BY id`

	sqlRowOfRuntime = `SELECT key, next_event_position, first_event_position FROM worker_runtimes WHERE scope = ? AND runtime_id = ?`
)

// RowOf gives the number of a runtime's row and its next place for an event, which grows with whatever is done to it.
// pruned tells whether events were removed.
func RowOf(rx *db.Rx, scopeName string, id RuntimeID) (key, nextPosition int64, pruned, ok bool, err error) {
	scope, ok, err := rx.Scope(scopeName)
	if err != nil || !ok {
		return 0, 0, false, false, err
	}
	var row struct {
		Key   int64 `db:"key"`
		Next  int64 `db:"next_event_position"`
		First int64 `db:"first_event_position"`
	}
	ok, err = rx.Find(&row, sqlRowOfRuntime, scope, string(id))
	return row.Key, row.Next, row.First > 1, ok, err
}

// ExportRuntime gives a runtime as files of the original; db.ErrNotFound where there is none of that row.
func ExportRuntime(rx *db.Rx, key int64) (out Exported, err error) {
	var row struct {
		RuntimeID     string  `db:"runtime_id"`
		DisplayName   *string `db:"display_name"`
		Status        string  `db:"status"`
		Transcripts   int64   `db:"max_transcript_items"`
		Events        int64   `db:"max_event_items"`
		NextWorker    int64   `db:"next_worker_sequence"`
		NextEvent     int64   `db:"next_event_id"`
		NextDiagnosed int64   `db:"next_diagnostic_id"`
		FirstPosition int64   `db:"first_event_position"`
		Document      []byte  `db:"document"`
	}
	ok, err := rx.Find(&row, sqlRuntimeRow, key)
	if err == nil && !ok {
		err = &db.Error{Op: "export runtime", Entity: "runtime", Err: db.ErrNotFound}
	}
	if err != nil {
		return out, err
	}
	r := &Runtime{id: RuntimeID(row.RuntimeID), key: key}
	out.RuntimeID = r.id
	s := RuntimeSnapshot{
		RuntimeID: r.id, DisplayName: row.DisplayName, Status: RuntimeStatus(row.Status),
		Limits:             RuntimeLimits{MaxTranscriptProjectionItems: uint64(row.Transcripts), MaxEventBatchItems: uint64(row.Events)},
		NextWorkerSequence: uint64(row.NextWorker), NextEventID: uint64(row.NextEvent), NextDiagnosticID: uint64(row.NextDiagnosed),
	}
	if s.Diagnostics, err = r.readDiagnostics(rx); err != nil {
		return out, err
	}
	if s.diagnosed, err = r.rawDiagnostics(rx, len(s.Diagnostics)); err != nil {
		return out, err
	}
	touched, err := r.touched(rx, row.FirstPosition)
	if err != nil {
		return out, err
	}
	if out.Snapshot, err = s.document(row.Document, touched); err != nil {
		return out, err
	}
	if row.Document != nil && !bytes.Equal(row.Document, out.Snapshot) && !touched {
		out.Given = row.Document
	}
	if out.Events, err = r.eventLines(rx); err != nil {
		return out, err
	}
	out.Workers, err = r.exportWorkers(rx)
	return out, err
}

// touched reports whether anything was done to an imported runtime: that leaves an event with a time, or takes events away.
func (r *Runtime) touched(rx *db.Rx, firstPosition int64) (bool, error) {
	var at *int64
	ok, err := rx.Find(&at, sqlLastEventAt, r.key<<logBits, (r.key+1)<<logBits)
	return firstPosition > 1 || ok && at != nil, err
}

// document is the runtime.json: the given one while it says all that there is to say.
func (s *RuntimeSnapshot) document(given []byte, touched bool) ([]byte, error) {
	if given == nil {
		return pretty(s.members()), nil
	}
	before, _, _, err := Reader{RuntimeID: s.RuntimeID}.Runtime(given)
	if err != nil {
		return nil, corrupt("export runtime", err)
	}
	ours := len(s.Diagnostics) - len(before.Diagnostics)
	if !touched && (ours == 0 || ours == 1 && s.Diagnostics[len(before.Diagnostics)].Code == codeLater) {
		return given, nil
	}
	return runtimeDocument.merged(s.members(), given), nil
}

func (r *Runtime) rawDiagnostics(rx *db.Rx, n int) ([][]byte, error) {
	var rows []struct {
		ID  int64  `db:"id"`
		Raw []byte `db:"raw"`
	}
	if err := rx.Select(&rows, sqlRawDiagnose, r.key<<logBits, (r.key+1)<<logBits); err != nil {
		return nil, err
	}
	list := make([][]byte, n)
	for _, row := range rows {
		if place := int(row.ID & (1<<logBits - 1)); place <= n {
			list[place-1] = row.Raw
		}
	}
	return list, nil
}

func (r *Runtime) eventLines(rx *db.Rx) (lines [][]byte, err error) {
	for found, err := range rx.Query(sqlEventLines, r.key<<logBits, (r.key+1)<<logBits) {
		if err != nil {
			return nil, err
		}
		var row eventRow
		if err := found.ScanStruct(&row); err != nil {
			return nil, err
		}
		if row.Raw != nil {
			lines = append(lines, row.Raw)
			continue
		}
		e, err := r.event(&row)
		if err != nil {
			return nil, err
		}
		lines = append(lines, appendEvent(nil, e))
	}
	return lines, nil
}

func (r *Runtime) exportWorkers(rx *db.Rx) (list []ExportedWorker, err error) {
	var rows []struct {
		workerRow
		NextSequence int64  `db:"next_transcript_sequence"`
		LastInputAt  *int64 `db:"last_input_at"`
		EndedAt      *int64 `db:"ended_at"`
		Document     []byte `db:"document"`
	}
	if err := rx.Select(&rows, sqlWorkerRows, r.key); err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		w := ExportedWorker{WorkerID: WorkerID(row.WorkerID), Snapshot: row.Document}
		ref := NewWorkerRef(r.id, w.WorkerID)
		touched := row.LastInputAt != nil || row.EndedAt != nil
		if !touched {
			w.Given = row.Document
		}
		if touched || !sound(row.Document, ref) {
			s := WorkerSnapshot{
				WorkerRef: ref, WorkerID: w.WorkerID, Status: WorkerStatus(row.Status),
				NextTranscriptSequence: uint64(row.NextSequence), LastEventID: uint64(row.LastEventID),
			}
			if s.Request, err = readRequest(rx, &row.workerRow); err != nil {
				return nil, err
			}
			if w.Snapshot, err = s.document(row.Document); err != nil {
				return nil, err
			}
		}
		if w.Entries, err = entryLines(rx, ref, row.Key); err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// sound reports whether the original, or the later version that wrote it, takes a worker.json as that of the worker.
func sound(document []byte, ref WorkerRef) bool {
	if document == nil {
		return false
	}
	s, _, odd, err := Reader{RuntimeID: ref.RuntimeID}.Worker(document)
	return err == nil && odd == "" && s.WorkerRef == ref
}

// document is the worker.json, with the request as it was given.
func (s *WorkerSnapshot) document(given []byte) ([]byte, error) {
	if given == nil {
		return pretty(s.members()), nil
	}
	if err := workerDocument.check(given); err != nil {
		return nil, corrupt("export worker", err)
	}
	f := workerDocument.read(trimBlanks(given))
	request := f.need(4)
	if f.err != nil {
		return nil, corrupt("export worker", f.err)
	}
	before, after, _ := bytes.Cut(s.members(), appendRequest(append([]byte(nil), `"request":`...), s.Request))
	return workerDocument.merged(slices.Concat(before, []byte(`"request":`), withIntent(request), after), given), nil
}

func entryLines(rx *db.Rx, ref WorkerRef, key int64) (lines [][]byte, err error) {
	for found, err := range rx.Query(sqlEntryLines, key<<transcriptPos, (key+1)<<transcriptPos) {
		if err != nil {
			return nil, err
		}
		var row struct {
			entryRow
			Raw []byte `db:"raw"`
		}
		if err := found.ScanStruct(&row); err != nil {
			return nil, err
		}
		if row.Raw == nil {
			row.Raw = appendEntry(nil, row.entry(ref))
		}
		lines = append(lines, row.Raw)
	}
	return lines, nil
}

// compact is a text that check has accepted without the blanks around its parts.
func compact(text []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return text
	}
	return out.Bytes()
}
