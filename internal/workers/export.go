package workers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"selvedge/db"
)

// An Exported runtime is a runtime as files of the original: what came from an import and was not
// touched since as it came, all else in the original's encoding.
type Exported struct {
	RuntimeID string
	Snapshot  []byte   // runtime.json
	Events    [][]byte // the lines of events.jsonl, without line feeds
	Workers   []ExportedWorker
	// Given is the runtime.json of the import, which the runtime still stands as; nil where there is
	// none other than Snapshot.
	Given []byte
}

// An ExportedWorker is a worker as files of the original.
type ExportedWorker struct {
	WorkerID string
	Snapshot []byte   // worker.json
	Entries  [][]byte // the lines of transcript.jsonl, without line feeds
	Given    []byte   // as in Exported
}

const (
	sqlDocument    = `SELECT document FROM worker_runtime_documents WHERE runtime = ?`
	sqlWorkerRows  = SelectSummaries + ` ORDER BY w.worker_id`
	sqlWorkerGiven = `SELECT document FROM worker_documents WHERE worker = ?`
	sqlLastEventAt = `SELECT recorded_at FROM worker_events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
)

// ExportRuntime gives a runtime as files of the original; db.ErrNotFound where there is none of that row.
func ExportRuntime(rx *db.Rx, key int64) (out Exported, err error) {
	row, ok, err := RuntimeByKey(rx, key)
	if err == nil && !ok {
		err = &db.Error{Op: "export runtime", Entity: "runtime", Err: db.ErrNotFound}
	}
	if err != nil {
		return out, err
	}
	var given []byte
	if _, err := rx.Find(&given, sqlDocument, key); err != nil {
		return out, err
	}
	out.RuntimeID = row.RuntimeID
	s := RuntimeSnapshot{
		RuntimeID: row.RuntimeID, DisplayName: row.DisplayName, Status: row.Status,
		Limits:             Limits{Transcript: uint64(row.MaxTranscript), Events: uint64(row.MaxEvents)},
		NextWorkerSequence: uint64(row.NextWorkerSequence), NextEventID: uint64(row.NextEventID),
		NextDiagnosticID: uint64(row.NextDiagnosticID),
	}
	if err := s.diagnostics(rx, row); err != nil {
		return out, err
	}
	touched, err := row.touched(rx)
	if err != nil {
		return out, err
	}
	if out.Snapshot, err = s.document(given, touched); err != nil {
		return out, err
	}
	if given != nil && !bytes.Equal(given, out.Snapshot) && !touched {
		out.Given = given
	}
	if out.Events, err = row.eventLines(rx); err != nil {
		return out, err
	}
	out.Workers, err = row.exportWorkers(rx)
	return out, err
}

// touched reports whether anything was done to an imported runtime: that leaves an event with a
// time, or takes events away.
func (w *RuntimeRow) touched(rx *db.Rx) (bool, error) {
	var at *int64
	ok, err := rx.Find(&at, sqlLastEventAt, w.Key<<LogBits, (w.Key+1)<<LogBits)
	return w.FirstPosition > 1 || ok && at != nil, err
}

func (s *RuntimeSnapshot) diagnostics(rx *db.Rx, w *RuntimeRow) error {
	rows, err := w.AllDiagnostics(rx)
	if err != nil {
		return err
	}
	for i := range rows {
		d, err := rows[i].Diagnostic(w.RuntimeID)
		if err != nil {
			return err
		}
		s.Diagnostics, s.diagnosed = append(s.Diagnostics, d), append(s.diagnosed, rows[i].Raw)
	}
	return nil
}

// document is the runtime.json: the given one while it says all that there is to say.
func (s *RuntimeSnapshot) document(given []byte, touched bool) ([]byte, error) {
	if given == nil {
		return pretty(s.members()), nil
	}
	before, _, _, err := Reader{RuntimeID: s.RuntimeID}.Runtime(given)
	if err != nil {
		return nil, corrupt(err)
	}
	ours := len(s.Diagnostics) - len(before.Diagnostics)
	if !touched && (ours == 0 || ours == 1 && s.Diagnostics[len(before.Diagnostics)].Code == codeLater) {
		return given, nil
	}
	return runtimeDocument.merged(s.members(), given), nil
}

func (w *RuntimeRow) eventLines(rx *db.Rx) (lines [][]byte, err error) {
	rows, err := w.Events(rx, 0, db.NoLimit)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		if row.Raw == nil {
			e, err := row.Event(w.RuntimeID)
			if err != nil {
				return nil, err
			}
			row.Raw = appendEvent(nil, e)
		}
		lines = append(lines, row.Raw)
	}
	return lines, nil
}

func (w *RuntimeRow) exportWorkers(rx *db.Rx) (list []ExportedWorker, err error) {
	var rows []SummaryRow
	if err := rx.Select(&rows, sqlWorkerRows, w.Key); err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		out := ExportedWorker{WorkerID: row.WorkerID}
		if _, err := rx.Find(&out.Snapshot, sqlWorkerGiven, row.Key); err != nil {
			return nil, err
		}
		given := out.Snapshot
		ref := Ref{w.RuntimeID, row.WorkerID}
		touched := row.LastInputAt != nil || row.EndedAt != nil
		if !touched {
			out.Given = given
		}
		if touched || !sound(given, ref) {
			s := WorkerSnapshot{
				Worker: ref, WorkerID: row.WorkerID, Status: row.Status,
				NextTranscriptSequence: uint64(row.NextSequence), LastEventID: uint64(row.LastEventID),
			}
			if s.Request, err = row.WholeRequest(rx); err != nil {
				return nil, err
			}
			if out.Snapshot, err = s.document(given); err != nil {
				return nil, err
			}
		}
		if out.Entries, err = row.entryLines(rx, ref); err != nil {
			return nil, err
		}
		list = append(list, out)
	}
	return list, nil
}

// sound reports whether the original, or the later version that wrote it, takes a worker.json as
// that of the worker.
func sound(document []byte, ref Ref) bool {
	if document == nil {
		return false
	}
	s, _, wrong, err := Reader{RuntimeID: ref.RuntimeID}.Worker(document)
	return err == nil && wrong == "" && s.Worker == ref
}

// document is the worker.json, with the request as it was given.
func (s *WorkerSnapshot) document(given []byte) ([]byte, error) {
	if given == nil {
		return pretty(s.members()), nil
	}
	if err := workerDocument.check(given); err != nil {
		return nil, corrupt(err)
	}
	f := workerDocument.read(trimBlanks(given))
	request := f.Need(4)
	if f.Err != nil {
		return nil, corrupt(f.Err)
	}
	before, after, _ := bytes.Cut(s.members(), appendRequest(append([]byte(nil), `"request":`...), s.Request))
	return workerDocument.merged(slices.Concat(before, []byte(`"request":`), withIntent(request), after),
		given), nil
}

func (w *WorkerRow) entryLines(rx *db.Rx, ref Ref) (lines [][]byte, err error) {
	rows, err := w.Entries(rx, 0, db.NoLimit)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		if row.Raw == nil {
			row.Raw = appendEntry(nil, row.Entry(ref))
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

// corrupt is the error about a row that says what this program never wrote.
func corrupt(err error) error { return fmt.Errorf("%w: %w", db.ErrCorrupt, err) }

// Prefetch names what RowOf is about to ask.
func Prefetch(rx *db.Rx, scopeName, id string, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Scope(scopeName)
	if err == nil && ok {
		ask(sqlFindRuntime, scope, id)
	}
	return err
}

// RowOf gives the number of a runtime's row and its next place for an event, which grows with
// whatever is done to it. pruned tells whether events were removed.
func RowOf(rx *db.Rx, scopeName, id string) (key, nextPosition int64, pruned, ok bool, err error) {
	scope, ok, err := rx.Scope(scopeName)
	if err != nil || !ok {
		return 0, 0, false, false, err
	}
	row, ok, err := FindRuntime(rx, scope, id)
	return row.Key, row.NextPosition, row.FirstPosition > 1, ok, err
}
