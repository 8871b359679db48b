package workers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Only an import keeps ids, counters and order as they are in its source.

// A fault is something that was missing, could not be read, or is of a later version. It becomes a
// diagnostic.
type fault struct {
	worker   *WorkerID // nil: of the runtime
	severity string
	code     string // import.… and a word
	message  string
}

// codeLater is the code of the diagnostic about a later version. It is about this file, not the
// runtime: no export writes it into a runtime.json that is otherwise unchanged.
const codeLater = "import.later_version"

const (
	sqlAddDocument       = `INSERT INTO worker_runtime_documents (runtime, document, checksum) VALUES (?, ?, ?)`
	sqlAddWorkerDocument = `INSERT INTO worker_documents (worker, document, checksum) VALUES (?, ?, ?)`
)

// importRuntime inserts a runtime and returns its row. Its counters become those of the snapshots,
// or one more than the highest number seen, whichever is greater. The order of the lines is kept.
func importRuntime(tx *db.Tx, scopeName string, files *runtimeFiles) (*runtimeRow, error) {
	p, err := newImporting(files)
	if err != nil {
		return nil, err
	}
	scope, err := tx.Store().Scope(scopeName)
	if err != nil {
		return nil, err
	}
	s := p.runtime
	p.row = runtimeRow{
		Scope: scope, RuntimeID: s.RuntimeID, DisplayName: s.DisplayName, Status: s.Status,
		MaxTranscript: int64(s.Limits.MaxTranscriptProjectionItems), MaxEvents: int64(s.Limits.MaxEventBatchItems),
		NextWorkerSequence: int64(s.NextWorkerSequence), NextEventID: int64(s.NextEventID),
		NextDiagnosticID: int64(s.NextDiagnosticID), NextPosition: 1, FirstPosition: 1,
	}
	for _, step := range []func(*db.Tx) error{
		p.row.add, p.addWorkers, p.addEvents, p.addDiagnostics, p.addDocument, p.row.save,
	} {
		if err := step(tx); err != nil {
			return nil, err
		}
	}
	return &p.row, nil
}

// An importing is an import in progress.
type importing struct {
	*runtimeFiles
	row     runtimeRow
	runtime runtimeSnapshot
	keys    map[WorkerID]int64
}

func newImporting(files *runtimeFiles) (*importing, error) {
	p := &importing{
		runtimeFiles: files, keys: map[WorkerID]int64{},
		runtime: runtimeSnapshot{
			Status: Running, Limits: defaultLimits, NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1,
		},
	}
	if files.runtime != nil {
		p.runtime = *files.runtime
	}
	p.runtime.RuntimeID = p.id
	for _, e := range p.log {
		p.runtime.NextEventID = beyond(p.runtime.NextEventID, e.ID)
		if p.snapshot == nil && e.Kind == runtimeStopped {
			p.runtime.Status = Stopped
		}
	}
	for i := range p.workers {
		if err := p.completeWorker(&p.workers[i]); err != nil {
			return nil, err
		}
	}
	for _, d := range p.runtime.Diagnostics {
		p.runtime.NextDiagnosticID = beyond(p.runtime.NextDiagnosticID, d.ID)
	}
	return p, nil
}

// beyond returns a counter that is past id.
func beyond(counter, id uint64) uint64 {
	if id+1 == 0 { // the last number that there is
		return id
	}
	return max(counter, id+1)
}

// completeWorker completes the snapshot of a worker with values from the log.
func (p *importing) completeWorker(w *workerFiles) error {
	if err := txn.CheckID("worker", string(w.id)); err != nil {
		return err
	}
	s := workerSnapshot{Status: Running, NextTranscriptSequence: 1}
	if w.document != nil {
		s = *w.document
	}
	s.WorkerRef, s.WorkerID = WorkerRef{p.id, w.id}, w.id
	if w.document == nil || w.noStatus {
		p.guess(&s)
	}
	for _, e := range w.transcript {
		s.NextTranscriptSequence = beyond(s.NextTranscriptSequence, e.Sequence)
	}
	if n := len(w.transcript); n > maxEntries {
		return fmt.Errorf("%w: worker %s has %d entries; %d are possible", db.ErrInvalid, w.id, n, maxEntries)
	}
	if n, ok := numberOf(w.id); ok {
		p.runtime.NextWorkerSequence = beyond(p.runtime.NextWorkerSequence, n)
	}
	w.document = &s
	return nil
}

func (p *importing) guess(s *workerSnapshot) {
	last := uint64(0)
	for _, e := range p.log {
		if e.WorkerRef == nil || *e.WorkerRef != s.WorkerRef {
			continue
		}
		last = e.ID
		switch e.Kind {
		case workerStopped:
			s.Status = Stopped
		case workerCancelled:
			s.Status = Cancelled
		}
	}
	s.LastEventID = cmp.Or(s.LastEventID, last)
	if s.Status == Running && p.runtime.Status == Stopped {
		s.Status = Stopped
	}
}

// numberOf returns the sequence in an id from generatedWorkerID.
func numberOf(id WorkerID) (uint64, bool) {
	digits, ok := strings.CutPrefix(string(id), "worker-")
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, ok && err == nil && generatedWorkerID(n) == id
}

func (p *importing) addWorkers(tx *db.Tx) error {
	for i := range p.workers {
		files := &p.workers[i]
		s := files.document
		w := &workerRow{
			WorkerID: s.WorkerID, Status: s.Status, TranscriptLen: int64(len(files.entries)),
			NextSequence: int64(s.NextTranscriptSequence), LastEventID: int64(s.LastEventID),
		}
		if err := p.row.addWorker(tx, w, s.Request); err != nil {
			return err
		}
		p.keys[s.WorkerID] = w.Key
		for j, e := range files.transcript {
			raw := unlessSame(files.entries[j], encode(e))
			if err := w.putEntry(tx, int64(j+1), e, nil, raw, nil); err != nil {
				return err
			}
		}
		if text := files.snapshot; text != nil && !bytes.Equal(text, pretty(s.members())) {
			if err := stores.Put(tx, sqlAddWorkerDocument, w.Key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlessSame returns NULL if the columns reproduce the line.
func unlessSame(line, encoded []byte) any { return given(!bytes.Equal(line, encoded), line) }

// keyOf returns the key of a worker of this runtime. known is false if the ref can't be restored
// from the key.
func (p *importing) keyOf(ref *WorkerRef) (key *int64, known bool) {
	if ref == nil {
		return nil, true
	}
	k, ok := p.keys[ref.WorkerID]
	if !ok || ref.RuntimeID != p.id {
		return nil, false
	}
	return &k, true
}

// addEvents inserts the events. The place of an event in the log is its id, as long as the ids grow
// and are not too high; else the next place.
func (p *importing) addEvents(tx *db.Tx) error {
	inOrder, last := true, int64(0)
	for i, e := range p.log {
		inOrder = inOrder && e.ID > uint64(last) && e.ID <= maxPosition
		last++
		if e.ID > uint64(last) && e.ID <= maxPosition/2 { // leaves room after a stray id
			last = int64(e.ID)
		}
		inOrder = inOrder && uint64(last) == e.ID
		worker, known := p.keyOf(e.WorkerRef)
		var raw any = p.events[i]
		if known && slices.Contains(eventKinds, string(e.Kind)) {
			raw = unlessSame(p.events[i], encode(e))
		}
		if err := p.row.putEvent(tx, last, e, worker, nil, raw); err != nil {
			return err
		}
	}
	p.row.NextPosition = last + 1
	if next := p.runtime.NextEventID; next > maxPosition/2 {
		inOrder = false
	} else {
		p.row.NextPosition = max(last+1, int64(next))
	}
	if inOrder {
		p.row.InOrder = 1
	}
	return nil
}

func (p *importing) addDiagnostics(tx *db.Tx) error {
	for i, d := range p.runtime.Diagnostics {
		worker, known := p.keyOf(d.WorkerRef)
		text := p.runtime.diagnosed[i]
		var raw any = text
		if known {
			raw = unlessSame(compact(text), encode(d))
		}
		if err := p.row.putDiagnostic(tx, d, worker, nil, raw); err != nil {
			return err
		}
	}
	for _, f := range p.faults {
		if p.hasDiagnosed(f) { // the folder is an export of an imported folder with this fault
			continue
		}
		var worker *int64
		if f.worker != nil {
			worker, _ = p.keyOf(&WorkerRef{p.id, *f.worker})
		}
		if err := p.row.diagnose(tx, worker, f.severity, f.code, f.message); err != nil {
			return err
		}
	}
	return nil
}

// hasDiagnosed reports whether the runtime's diagnostics already have a fault.
func (p *importing) hasDiagnosed(f fault) bool {
	return slices.ContainsFunc(p.runtime.Diagnostics, func(d RuntimeDiagnostic) bool {
		if (d.WorkerRef == nil) != (f.worker == nil) || d.WorkerRef != nil && d.WorkerRef.WorkerID != *f.worker {
			return false
		}
		return d.Code == f.code && d.Message == f.message
	})
}

func (p *importing) addDocument(tx *db.Tx) error {
	if p.snapshot == nil || len(p.faults) == 0 && bytes.Equal(p.snapshot, pretty(p.runtime.members())) {
		return nil
	}
	return stores.Put(tx, sqlAddDocument, p.row.Key, p.snapshot)
}

// compact removes the blanks around the parts of a text that check has accepted.
func compact(text []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return text
	}
	return out.Bytes()
}
