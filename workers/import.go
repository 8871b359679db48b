package workers

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"selvedge/db"
	"selvedge/internal/serdejson"
)

// The import door: the only way in that keeps ids, counters and order as given.

// An Imported runtime is what could be read of a runtime of the original.
type Imported struct {
	RuntimeID RuntimeID
	Snapshot  []byte   // runtime.json; nil where it is missing or can't be read
	Events    [][]byte // the lines of events.jsonl that can be read, without line feeds
	Workers   []ImportedWorker
	Faults    []Fault // why the original refuses the runtime; none if it doesn't
	Alone     bool    // see Reader
	// Later says what a later version of the original wrote otherwise; "" if none did. It becomes a diagnostic, an info.
	Later string
}

// An ImportedWorker is what could be read of a worker.
type ImportedWorker struct {
	WorkerID WorkerID
	Snapshot []byte   // worker.json; nil where it is missing or can't be read
	Entries  [][]byte // the lines of transcript.jsonl that can be read, without line feeds
}

// A Fault is something that was missing or could not be read. It becomes a diagnostic, an error.
type Fault struct {
	Worker  *WorkerID // nil: of the runtime
	Code    string    // import.… and a word
	Message string

	severity DiagnosticSeverity // "" is an error
}

// codeLater is the code of the diagnostic that Imported.Later becomes. It is of this file, not of the runtime: no export
// writes it into a runtime.json that is otherwise as it came.
const codeLater = "import.later_version"

// ReadEventLine reads a line of events.jsonl; odd says why the original refuses one that can be read all the same, "" if it
// doesn't. What can't be read is a *DecodeError.
func ReadEventLine(line []byte) (e RuntimeEvent, odd string, err error) {
	e, known, err := decodeEvent(line)
	if err == nil && !known {
		odd = fmt.Sprintf("unknown variant `%s`, expected %s", e.Kind, serdejson.OneOf(eventWords))
	}
	return e, odd, err
}

// ReadEntryLine reads a line of transcript.jsonl. What can't be read is a *DecodeError.
func ReadEntryLine(line []byte) (TranscriptEntry, error) { return decodeEntry(line) }

const (
	sqlImportRuntime = `
INSERT INTO worker_runtimes (scope, runtime_id, display_name, status, max_transcript_items, max_event_items, next_worker_sequence,
    next_event_id, next_diagnostic_id, next_event_position, first_event_position, events_in_order,
    running_workers, stopped_workers, cancelled_workers, diagnostics)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?) RETURNING key`
	sqlImportWorker = `
INSERT INTO workers (runtime, worker_id, status, transcript_len, next_transcript_sequence, last_event_id)
VALUES (?, ?, ?, ?, ?, ?) RETURNING key`
	sqlImportEvent           = `INSERT INTO worker_events (id, event_id, worker, kind, message, raw) VALUES (?, ?, ?, ?, ?, ?)`
	sqlImportEntry           = `INSERT INTO worker_entries (id, sequence, role, content, event_id, raw) VALUES (?, ?, ?, ?, ?, ?)`
	sqlImportDiagnostic      = `INSERT INTO worker_diagnostics (id, diagnostic_id, severity, code, message, worker, at, raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlImportDocument        = `INSERT INTO worker_runtime_documents (runtime, document) VALUES (?, ?)`
	sqlImportWorkerDocument  = `INSERT INTO worker_documents (worker, document) VALUES (?, ?)`
	sqlRemoveImportedRuntime = `DELETE FROM worker_runtimes WHERE key = ?`
)

// ImportRuntime adds a runtime that is not there yet, and returns the number of its row. Its counters become those of the
// snapshots, or what follows the highest number seen, whichever is more. The order of the lines is kept.
func ImportRuntime(tx *db.Tx, scopeName string, im Imported) (key int64, err error) {
	for _, id := range append([]string{string(im.RuntimeID)}, workerIDs(im.Workers)...) {
		if err := db.CheckID("runtime or worker", id); err != nil {
			return 0, err
		}
	}
	p, err := newImporting(im)
	if err != nil {
		return 0, err
	}
	scope, err := tx.Scope(scopeName)
	if err != nil {
		return 0, err
	}
	s := &p.snapshot
	err = tx.Get(&key, sqlImportRuntime, scope, string(im.RuntimeID), s.DisplayName, string(s.Status), int64(s.Limits.MaxTranscriptProjectionItems),
		int64(s.Limits.MaxEventBatchItems), int64(s.NextWorkerSequence), int64(s.NextEventID), int64(s.NextDiagnosticID), p.nextPosition,
		p.ordered(), p.count(WorkerRunning), p.count(WorkerStopped), p.count(WorkerCancelled), len(s.Diagnostics)+len(p.Faults))
	if err != nil {
		return 0, err
	}
	p.tx, p.key = tx, key
	for _, step := range []func() error{p.addWorkers, p.addEvents, p.addDiagnostics, p.addDocument} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return key, nil
}

// RemoveImported takes out a runtime with all that belongs to it.
func RemoveImported(tx *db.Tx, key int64) error {
	_, err := tx.Exec(sqlRemoveImportedRuntime, key)
	return err
}

func workerIDs(list []ImportedWorker) (ids []string) {
	for _, w := range list {
		ids = append(ids, string(w.WorkerID))
	}
	return ids
}

// importing is an import under way.
type importing struct {
	Imported
	tx           *db.Tx
	key          int64
	reader       Reader
	snapshot     RuntimeSnapshot
	workers      []WorkerSnapshot // beside Workers
	entries      [][]TranscriptEntry
	keys         map[WorkerID]int64
	events       []RuntimeEvent
	positions    []int64
	nextPosition int64
	inOrder      bool
}

func newImporting(im Imported) (*importing, error) {
	if im.Later != "" {
		im.Faults = append(slices.Clip(im.Faults), Fault{Code: codeLater, Message: im.Later, severity: SeverityInfo})
	}
	p := &importing{Imported: im, reader: Reader{RuntimeID: im.RuntimeID, Alone: im.Alone}, keys: map[WorkerID]int64{}, snapshot: RuntimeSnapshot{
		Status: RuntimeRunning, Limits: DefaultLimits(), NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1,
	}}
	if im.Snapshot != nil {
		s, gap, _, err := p.reader.Runtime(im.Snapshot)
		if err != nil {
			return nil, err
		}
		p.snapshot, p.reader.Later = s, gap.Later()
	}
	p.snapshot.RuntimeID = im.RuntimeID
	if err := p.readEvents(); err != nil {
		return nil, err
	}
	for _, w := range im.Workers {
		if err := p.readWorker(w); err != nil {
			return nil, err
		}
	}
	p.place()
	for _, d := range p.snapshot.Diagnostics {
		p.snapshot.NextDiagnosticID = beyond(p.snapshot.NextDiagnosticID, d.ID)
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

func (p *importing) readEvents() error {
	for _, line := range p.Events {
		e, _, err := p.reader.Event(line)
		if err != nil {
			return err
		}
		p.events = append(p.events, e)
		p.snapshot.NextEventID = beyond(p.snapshot.NextEventID, e.ID)
		if p.Snapshot == nil && e.Kind == EventRuntimeStopped {
			p.snapshot.Status = RuntimeStopped
		}
	}
	return nil
}

// readWorker reads what there is of a worker; what its snapshot doesn't say is taken from the log.
func (p *importing) readWorker(w ImportedWorker) (err error) {
	ref := NewWorkerRef(p.RuntimeID, w.WorkerID)
	s := WorkerSnapshot{Status: WorkerRunning, NextTranscriptSequence: 1}
	if w.Snapshot != nil {
		var gap Gap
		if s, gap, _, err = p.reader.Worker(w.Snapshot); err != nil {
			return err
		}
		if said := s.LastEventID; slices.Contains(gap.Missing, "status") {
			p.guess(&s, ref)
			s.LastEventID = cmp.Or(said, s.LastEventID)
		}
	} else {
		p.guess(&s, ref)
	}
	s.WorkerRef, s.WorkerID = ref, w.WorkerID
	var entries []TranscriptEntry
	for _, line := range w.Entries {
		e, err := p.reader.Entry(line)
		if err != nil {
			return err
		}
		entries = append(entries, e)
		s.NextTranscriptSequence = beyond(s.NextTranscriptSequence, e.Sequence)
	}
	if len(entries) > maxEntries {
		return fmt.Errorf("%w: worker %s has %d entries; %d are possible", db.ErrInvalid, w.WorkerID, len(entries), maxEntries)
	}
	if n, ok := numberOf(w.WorkerID); ok {
		p.snapshot.NextWorkerSequence = beyond(p.snapshot.NextWorkerSequence, n)
	}
	p.workers, p.entries = append(p.workers, s), append(p.entries, entries)
	return nil
}

func (p *importing) guess(s *WorkerSnapshot, ref WorkerRef) {
	for _, e := range p.events {
		if e.WorkerRef == nil || *e.WorkerRef != ref {
			continue
		}
		s.LastEventID = e.ID
		switch e.Kind {
		case EventWorkerStopped:
			s.Status = WorkerStopped
		case EventWorkerCancelled:
			s.Status = WorkerCancelled
		}
	}
	if s.Status == WorkerRunning && p.snapshot.Status == RuntimeStopped {
		s.Status = WorkerStopped
	}
}

// numberOf is the sequence in an id that generatedWorkerID made.
func numberOf(id WorkerID) (uint64, bool) {
	digits, ok := strings.CutPrefix(string(id), "worker-")
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, ok && err == nil && generatedWorkerID(n) == id
}

// place gives each event its place in the log: its id, as long as the ids grow and are not too high; else the next one.
func (p *importing) place() {
	p.inOrder = true
	last := int64(0)
	for _, e := range p.events {
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
	if p.snapshot.NextEventID > maxPosition/2 {
		p.inOrder = false
	} else if next := int64(p.snapshot.NextEventID); next >= p.nextPosition {
		p.nextPosition = next
	}
}

// ordered is inOrder as a column has it.
func (p *importing) ordered() int64 {
	if p.inOrder {
		return 1
	}
	return 0
}

func (p *importing) count(status WorkerStatus) (n int) {
	for i := range p.workers {
		if p.workers[i].Status == status {
			n++
		}
	}
	return n
}

func (p *importing) addWorkers() error {
	for i := range p.workers {
		s := &p.workers[i]
		var key int64
		err := p.tx.Get(&key, sqlImportWorker, p.key, string(s.WorkerID), string(s.Status), len(p.entries[i]), int64(s.NextTranscriptSequence), int64(s.LastEventID))
		if err != nil {
			return err
		}
		p.keys[s.WorkerID] = key
		if err := addRequest(p.tx, key, s.Request); err != nil {
			return err
		}
		for j, e := range p.entries[i] {
			place := int64(j + 1)
			line := p.Workers[i].Entries[j]
			_, err := p.tx.Exec(sqlImportEntry, key<<transcriptPos|place, unless(e.Sequence == uint64(place), int64(e.Sequence)), string(e.Role),
				[]byte(e.Content), int64(e.EventID), unlessSame(line, appendEntry(nil, e)))
			if err != nil {
				return err
			}
		}
		if text := p.Workers[i].Snapshot; text != nil && !bytes.Equal(text, pretty(s.members())) {
			if _, err := p.tx.Exec(sqlImportWorkerDocument, key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlessSame gives NULL where the columns give the line back.
func unlessSame(line, encoded []byte) any {
	if bytes.Equal(line, encoded) {
		return nil
	}
	return line
}

// keyOf is the row of a worker of this runtime; told is false where the ref can't be told from it.
func (p *importing) keyOf(ref *WorkerRef) (key *int64, told bool) {
	if ref == nil {
		return nil, true
	}
	k, ok := p.keys[ref.WorkerID]
	if !ok || ref.RuntimeID != p.RuntimeID {
		return nil, false
	}
	return &k, true
}

func (p *importing) addEvents() error {
	for i, e := range p.events {
		worker, told := p.keyOf(e.WorkerRef)
		var raw any = p.Events[i]
		if told && slices.Contains(eventWords, string(e.Kind)) {
			raw = unlessSame(p.Events[i], appendEvent(nil, e))
		}
		at := p.positions[i]
		_, err := p.tx.Exec(sqlImportEvent, p.key<<logBits|at, unless(e.ID == uint64(at), int64(e.ID)), worker, string(e.Kind), e.Message, raw)
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *importing) addDiagnostics() error {
	place := int64(0)
	for i, d := range p.snapshot.Diagnostics {
		place++
		worker, told := p.keyOf(d.WorkerRef)
		var raw any = p.snapshot.diagnosed[i]
		if told {
			raw = unlessSame(compact(p.snapshot.diagnosed[i]), appendDiagnostic(nil, d))
		}
		if err := p.addDiagnostic(place, d, worker, nil, raw); err != nil {
			return err
		}
	}
	for _, f := range p.Faults {
		place++
		d := RuntimeDiagnostic{ID: p.snapshot.NextDiagnosticID, Severity: cmp.Or(f.severity, SeverityError), Code: f.Code, Message: f.Message}
		p.snapshot.NextDiagnosticID++
		var worker *int64
		if f.Worker != nil {
			if k, ok := p.keys[*f.Worker]; ok {
				worker = &k
			}
		}
		if err := p.addDiagnostic(place, d, worker, db.Nanos(p.tx.Now()), nil); err != nil {
			return err
		}
	}
	if len(p.Faults) == 0 {
		return nil
	}
	_, err := p.tx.Exec(sqlCountDiagnostics, int64(p.snapshot.NextDiagnosticID), place, p.key)
	return err
}

func (p *importing) addDiagnostic(place int64, d RuntimeDiagnostic, worker *int64, at, raw any) error {
	_, err := p.tx.Exec(sqlImportDiagnostic, p.key<<logBits|place, unless(d.ID == uint64(place), int64(d.ID)), string(d.Severity), d.Code, d.Message,
		worker, at, raw)
	return err
}

func (p *importing) addDocument() error {
	if p.Snapshot == nil || bytes.Equal(p.Snapshot, pretty(p.snapshot.members())) && len(p.Faults) == 0 {
		return nil
	}
	_, err := p.tx.Exec(sqlImportDocument, p.key, p.Snapshot)
	return err
}
