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
	"selvedge/internal/txn"
)

// The only way in that keeps ids, counters and order as they are given.

// An imported runtime is what could be read of a runtime of the original. Lines have no line feeds.
type imported struct {
	id       RuntimeID
	snapshot []byte   // runtime.json; nil if it is missing or can't be read
	events   [][]byte // the lines of events.jsonl that can be read
	workers  []importedWorker
	faults   []fault // why the original refuses the runtime, and what a later version wrote differently

	runtime *runtimeSnapshot // what snapshot says
	log     []RuntimeEvent   // what events say
}

// An importedWorker is what could be read of a worker.
type importedWorker struct {
	id       WorkerID
	snapshot []byte   // worker.json; nil if it is missing or can't be read
	entries  [][]byte // the lines of transcript.jsonl that can be read

	document   *workerSnapshot // what snapshot says
	noStatus   bool            // except the status
	transcript []TranscriptEntry
}

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

// importRuntime inserts a runtime and returns its row. Its counters become those of the snapshots, or
// what follows the highest number seen, whichever is more. The order of the lines is kept.
func importRuntime(tx *db.Tx, scopeName string, im *imported) (*runtimeRow, error) {
	ids := []string{string(im.id)}
	for _, w := range im.workers {
		ids = append(ids, string(w.id))
	}
	for _, id := range ids {
		if err := txn.CheckID("runtime or worker", id); err != nil {
			return nil, err
		}
	}
	p, err := newImporting(im)
	if err != nil {
		return nil, err
	}
	scope, err := tx.Store().Scope(scopeName)
	if err != nil {
		return nil, err
	}
	s := &p.runtime
	p.row = runtimeRow{
		Scope: scope, RuntimeID: im.id, DisplayName: s.DisplayName, Status: s.Status,
		MaxTranscript:      int64(s.Limits.MaxTranscriptProjectionItems),
		MaxEvents:          int64(s.Limits.MaxEventBatchItems),
		NextWorkerSequence: int64(s.NextWorkerSequence), NextEventID: int64(s.NextEventID),
		NextDiagnosticID: int64(s.NextDiagnosticID), NextPosition: p.nextPosition, FirstPosition: 1,
	}
	if p.inOrder {
		p.row.InOrder = 1
	}
	if err := p.row.add(tx); err != nil {
		return nil, err
	}
	for _, step := range []func(*db.Tx) error{p.addWorkers, p.addEvents, p.addDiagnostics, p.addDocument} {
		if err := step(tx); err != nil {
			return nil, err
		}
	}
	return &p.row, p.row.save(tx)
}

// An importing is an import under way.
type importing struct {
	*imported
	row          runtimeRow
	runtime      runtimeSnapshot
	positions    []int64          // beside log
	documents    []workerSnapshot // beside workers
	keys         map[WorkerID]int64
	nextPosition int64
	inOrder      bool
}

func newImporting(im *imported) (*importing, error) {
	p := &importing{
		imported: im, keys: map[WorkerID]int64{},
		runtime: runtimeSnapshot{
			Status: Running, Limits: defaultLimits, NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1,
		},
	}
	if im.runtime != nil {
		p.runtime = *im.runtime
	}
	p.runtime.RuntimeID = im.id
	for _, e := range im.log {
		p.runtime.NextEventID = beyond(p.runtime.NextEventID, e.ID)
		if im.snapshot == nil && e.Kind == runtimeStopped {
			p.runtime.Status = Stopped
		}
	}
	for i := range im.workers {
		if err := p.readWorker(&im.workers[i]); err != nil {
			return nil, err
		}
	}
	p.place()
	for _, d := range p.runtime.Diagnostics {
		p.runtime.NextDiagnosticID = beyond(p.runtime.NextDiagnosticID, d.ID)
	}
	return p, nil
}

// beyond is a counter that has seen id.
func beyond(counter, id uint64) uint64 {
	if id+1 == 0 { // the last number that there is
		return id
	}
	return max(counter, id+1)
}

// readWorker makes the snapshot of a worker; what the given one doesn't say is taken from the log.
func (p *importing) readWorker(w *importedWorker) error {
	ref := WorkerRef{p.id, w.id}
	s := workerSnapshot{Status: Running, NextTranscriptSequence: 1}
	if w.document != nil {
		s = *w.document
	}
	if w.document == nil || w.noStatus {
		said := s.LastEventID
		p.guess(&s, ref)
		s.LastEventID = cmp.Or(said, s.LastEventID)
	}
	s.WorkerRef, s.WorkerID = ref, w.id
	for _, e := range w.transcript {
		s.NextTranscriptSequence = beyond(s.NextTranscriptSequence, e.Sequence)
	}
	if n := len(w.transcript); n > maxEntries {
		return fmt.Errorf("%w: worker %s has %d entries; %d are possible", db.ErrInvalid, w.id, n, maxEntries)
	}
	if n, ok := numberOf(w.id); ok {
		p.runtime.NextWorkerSequence = beyond(p.runtime.NextWorkerSequence, n)
	}
	p.documents = append(p.documents, s)
	return nil
}

func (p *importing) guess(s *workerSnapshot, ref WorkerRef) {
	for _, e := range p.log {
		if e.WorkerRef == nil || *e.WorkerRef != ref {
			continue
		}
		s.LastEventID = e.ID
		switch e.Kind {
		case workerStopped:
			s.Status = Stopped
		case workerCancelled:
			s.Status = Cancelled
		}
	}
	if s.Status == Running && p.runtime.Status == Stopped {
		s.Status = Stopped
	}
}

// numberOf is the sequence in an id that generatedWorkerID made.
func numberOf(id WorkerID) (uint64, bool) {
	digits, ok := strings.CutPrefix(string(id), "worker-")
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, ok && err == nil && generatedWorkerID(n) == id
}

// place gives each event its place in the log: its id, as long as the ids grow and are not too high;
// else the next one.
func (p *importing) place() {
	p.inOrder = true
	last := int64(0)
	for _, e := range p.log {
		if e.ID <= uint64(last) || e.ID > maxPosition {
			p.inOrder = false
		}
		last++
		if e.ID > uint64(last) && e.ID <= maxPosition/2 { // leaves room behind a stray id
			last = int64(e.ID)
		}
		p.inOrder = p.inOrder && uint64(last) == e.ID
		p.positions = append(p.positions, last)
	}
	p.nextPosition = last + 1
	if p.runtime.NextEventID > maxPosition/2 {
		p.inOrder = false
	} else if next := int64(p.runtime.NextEventID); next >= p.nextPosition {
		p.nextPosition = next
	}
}

func (p *importing) addWorkers(tx *db.Tx) error {
	for i := range p.documents {
		s, files := &p.documents[i], &p.workers[i]
		w := &workerRow{
			WorkerID: s.WorkerID, Status: s.Status, TranscriptLen: int64(len(files.entries)),
			NextSequence: int64(s.NextTranscriptSequence), LastEventID: int64(s.LastEventID),
		}
		if err := p.row.addWorker(tx, w, s.Request); err != nil {
			return err
		}
		p.keys[s.WorkerID] = w.Key
		for j, e := range files.transcript {
			raw := unlessSame(files.entries[j], entryJSON.append(nil, e))
			if err := w.putEntry(tx, int64(j+1), e, nil, raw, nil); err != nil {
				return err
			}
		}
		if text := files.snapshot; text != nil && !bytes.Equal(text, pretty(s.members())) {
			if err := put(tx, sqlAddWorkerDocument, w.Key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlessSame returns NULL if the columns give the line back.
func unlessSame(line, encoded []byte) any {
	if bytes.Equal(line, encoded) {
		return nil
	}
	return line
}

// keyOf is the row of a worker of this runtime. known is false if the row does not give the ref back.
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

func (p *importing) addEvents(tx *db.Tx) error {
	for i, e := range p.log {
		worker, known := p.keyOf(e.WorkerRef)
		var raw any = p.events[i]
		if known && slices.Contains(eventKinds, string(e.Kind)) {
			raw = unlessSame(p.events[i], eventJSON.append(nil, e))
		}
		if err := p.row.putEvent(tx, p.positions[i], e, worker, nil, raw); err != nil {
			return err
		}
	}
	return nil
}

func (p *importing) addDiagnostics(tx *db.Tx) error {
	for i, d := range p.runtime.Diagnostics {
		worker, known := p.keyOf(d.WorkerRef)
		text := p.runtime.diagnosed[i]
		var raw any = text
		if known {
			raw = unlessSame(compact(text), diagnosticJSON.append(nil, d))
		}
		if err := p.row.putDiagnostic(tx, d, worker, nil, raw); err != nil {
			return err
		}
	}
	for _, f := range p.faults {
		if p.told(f) { // the folder is an export of what an import made of one with this fault
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

// told reports whether the runtime's diagnostics already have a fault.
func (p *importing) told(f fault) bool {
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
	return put(tx, sqlAddDocument, p.row.Key, p.snapshot)
}

// compact removes the blanks around the parts of a text that check has accepted.
func compact(text []byte) []byte {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return text
	}
	return out.Bytes()
}
