package workers

import (
	"bytes"
	"slices"

	"selvedge/db"
	"selvedge/internal/paging"
)

// A runtimeFiles is a runtime as files of the original: ours, or the readable part of a folder.
// Lines have no line feeds.
type runtimeFiles struct {
	id       RuntimeID
	snapshot []byte   // runtime.json; nil if it is missing or can't be read
	events   [][]byte // the lines of events.jsonl that can be read
	workers  []workerFiles

	given []byte // of ours: the import's runtime.json, if it still holds and differs from snapshot

	// Of a folder:
	faults  []fault          // for which the original refuses it, and differences of later versions
	runtime *runtimeSnapshot // snapshot, decoded
	log     []RuntimeEvent   // events, decoded
}

// A workerFiles is a worker as files of the original, as a runtimeFiles is a runtime.
type workerFiles struct {
	id       WorkerID
	snapshot []byte   // worker.json
	entries  [][]byte // the lines of transcript.jsonl
	given    []byte   // of ours: the worker.json of the import, if it still holds

	// Of a folder:
	document   *workerSnapshot // snapshot, decoded
	noStatus   bool            // document has no status
	transcript []TranscriptEntry
}

const (
	sqlDocument    = `SELECT document FROM worker_runtime_documents WHERE runtime = ?`
	sqlWorkerRows  = selectSummaries + ` ORDER BY w.worker_id`
	sqlWorkerGiven = `SELECT document FROM worker_documents WHERE worker = ?`
	sqlLastEventAt = `SELECT recorded_at FROM worker_events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
)

// files returns a runtime as files of the original: imported records that have not changed since in
// their original bytes, all others in the original's encoding.
func (w *runtimeRow) files(rx *db.Rx) (out runtimeFiles, err error) {
	var given []byte
	if _, err := rx.Find(&given, sqlDocument, w.Key); err != nil {
		return out, err
	}
	s := runtimeSnapshot{
		RuntimeID: w.RuntimeID, DisplayName: w.DisplayName, Status: w.Status, Limits: w.limits(),
		NextWorkerSequence: uint64(w.NextWorkerSequence), NextEventID: uint64(w.NextEventID),
		NextDiagnosticID: uint64(w.NextDiagnosticID),
	}
	if s.Diagnostics, s.diagnosed, err = w.diagnostics(rx); err != nil {
		return out, err
	}
	touched, err := w.touched(rx)
	if err != nil {
		return out, err
	}
	if out.snapshot, err = s.document(given, touched); err != nil {
		return out, err
	}
	if given != nil && !bytes.Equal(given, out.snapshot) && !touched {
		out.given = given
	}
	for row, err := range w.eachEvent(rx, 0, paging.NoLimit) {
		if err != nil {
			return out, err
		}
		if row.Raw == nil {
			e, _ := row.event(w.RuntimeID) // only a text can be damaged
			row.Raw = encode(e)
		}
		out.events = append(out.events, row.Raw)
	}
	out.workers, err = w.workerFiles(rx)
	return out, err
}

// touched reports whether an imported runtime was changed: every change adds an event with a time,
// or removes events.
func (w *runtimeRow) touched(rx *db.Rx) (bool, error) {
	var at *int64
	ok, err := rx.Find(&at, sqlLastEventAt, w.Key<<logBits, (w.Key+1)<<logBits)
	return w.FirstPosition > 1 || ok && at != nil, err
}

// document returns the runtime.json: the given one as long as it is complete.
func (s *runtimeSnapshot) document(given []byte, touched bool) ([]byte, error) {
	if given == nil {
		return pretty(s.members()), nil
	}
	before, _, _, nameless := reader{runtimeID: s.RuntimeID}.runtime(given)
	if nameless != nil { // it came from a folder of its own, which gave it its name
		var err error
		if before, _, _, err = (reader{runtimeID: s.RuntimeID, alone: true}).runtime(given); err != nil {
			return nil, corrupt(err)
		}
	}
	first := len(before.Diagnostics) // of ours
	ours := len(s.Diagnostics) - first
	if nameless == nil && !touched && (ours == 0 || ours == 1 && s.Diagnostics[first].Code == codeLater) {
		return given, nil
	}
	return runtimeJSON().merged(s.members(), given), nil
}

func (w *runtimeRow) workerFiles(rx *db.Rx) (list []workerFiles, err error) {
	var rows []summaryRow
	if err := rx.Select(&rows, sqlWorkerRows, w.Key); err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		out := workerFiles{id: row.WorkerID}
		if _, err := rx.Find(&out.snapshot, sqlWorkerGiven, row.Key); err != nil {
			return nil, err
		}
		given := out.snapshot
		ref := WorkerRef{w.RuntimeID, row.WorkerID}
		touched := row.LastInputAt != nil || row.EndedAt != nil
		if !touched {
			out.given = given
		}
		if touched || !sound(given, ref) {
			s := workerSnapshot{
				WorkerRef: ref, WorkerID: row.WorkerID, Status: row.Status,
				NextTranscriptSequence: uint64(row.NextSequence), LastEventID: uint64(row.LastEventID),
			}
			if s.Request, err = row.wholeRequest(rx); err != nil {
				return nil, err
			}
			if out.snapshot, err = s.document(given); err != nil {
				return nil, err
			}
		}
		for e, err := range row.eachEntry(rx, 0, paging.NoLimit) {
			if err != nil {
				return nil, err
			}
			if e.Raw == nil {
				e.Raw = encode(e.entry(ref))
			}
			out.entries = append(out.entries, e.Raw)
		}
		list = append(list, out)
	}
	return list, nil
}

// sound reports whether the original, or the later version that wrote it, accepts a worker.json as
// that of the worker.
func sound(document []byte, ref WorkerRef) bool {
	if document == nil {
		return false
	}
	s, _, wrong, err := reader{runtimeID: ref.RuntimeID}.worker(document)
	return err == nil && wrong == "" && s.WorkerRef == ref
}

// document returns the worker.json, with the request as it was given.
func (s *workerSnapshot) document(given []byte) ([]byte, error) {
	if given == nil {
		return pretty(s.members()), nil
	}
	if err := workerJSON().check(given); err != nil {
		return nil, corrupt(err)
	}
	values := workerJSON().Read(trimBlanks(given))
	request := values.Need(4)
	if values.Err != nil {
		return nil, corrupt(values.Err)
	}
	before, after, _ := bytes.Cut(s.members(), slices.Concat([]byte(`"request":`), encode(s.Request)))
	text := slices.Concat(before, []byte(`"request":`), withIntent(request), after)
	return workerJSON().merged(text, given), nil
}
