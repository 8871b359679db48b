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
	RuntimeID string
	Snapshot  []byte   // runtime.json; nil where it is missing or can't be read
	Events    [][]byte // the lines of events.jsonl that can be read, without line feeds
	Workers   []ImportedWorker
	Faults    []Fault // why the original refuses the runtime; none if it doesn't
	Alone     bool    // see Reader
	// Later says what a later version of the original wrote otherwise; "" if none did. It becomes a
	// diagnostic, an info.
	Later string
}

// An ImportedWorker is what could be read of a worker.
type ImportedWorker struct {
	WorkerID string
	Snapshot []byte   // worker.json; nil where it is missing or can't be read
	Entries  [][]byte // the lines of transcript.jsonl that can be read, without line feeds
}

// A Fault is something that was missing or could not be read. It becomes a diagnostic, an error.
type Fault struct {
	Worker  *string // nil: of the runtime
	Code    string  // import.… and a word
	Message string

	severity string // "" is an error
}

// codeLater is the code of the diagnostic that Imported.Later becomes. It is of this file, not of
// the runtime: no export writes it into a runtime.json that is otherwise as it came.
const codeLater = "import.later_version"

// ReadEventLine reads a line of events.jsonl; wrong says why the original refuses one that can be
// read all the same, "" if it doesn't. What can't be read is a *DecodeError.
func ReadEventLine(line []byte) (e Event, wrong string, err error) {
	e, known, err := decodeEvent(line)
	if err == nil && !known {
		wrong = fmt.Sprintf("unknown variant `%s`, expected %s", e.Kind, serdejson.OneOf(eventWords))
	}
	return e, wrong, err
}

// ReadEntryLine reads a line of transcript.jsonl. What can't be read is a *DecodeError.
func ReadEntryLine(line []byte) (Entry, error) { return decodeEntry(line) }

const (
	sqlAddDocument       = `INSERT INTO worker_runtime_documents (runtime, document, checksum) VALUES (?, ?, ?)`
	sqlAddWorkerDocument = `INSERT INTO worker_documents (worker, document, checksum) VALUES (?, ?, ?)`
)

// ImportRuntime adds a runtime that is not there yet, and returns the number of its row and its
// next place for an event. Its counters become those of the snapshots, or what follows the highest
// number seen, whichever is more. The order of the lines is kept.
func ImportRuntime(tx *db.Tx, scopeName string, im Imported) (key, nextPosition int64, err error) {
	for _, id := range append([]string{im.RuntimeID}, workerIDs(im.Workers)...) {
		if err := db.CheckID("runtime or worker", id); err != nil {
			return 0, 0, err
		}
	}
	p, err := newImporting(im)
	if err != nil {
		return 0, 0, err
	}
	scope, err := tx.Scope(scopeName)
	if err != nil {
		return 0, 0, err
	}
	s := &p.snapshot
	p.row = RuntimeRow{
		Scope: scope, RuntimeID: im.RuntimeID, DisplayName: s.DisplayName, Status: s.Status,
		MaxTranscript: int64(s.Limits.Transcript), MaxEvents: int64(s.Limits.Events),
		NextWorkerSequence: int64(s.NextWorkerSequence), NextEventID: int64(s.NextEventID),
		NextDiagnosticID: int64(s.NextDiagnosticID),
		NextPosition:     p.nextPosition, FirstPosition: 1,
	}
	if p.inOrder {
		p.row.InOrder = 1
	}
	if err := p.row.addAs(tx); err != nil {
		return 0, 0, err
	}
	p.tx = tx
	for _, step := range []func() error{p.addWorkers, p.addEvents, p.addDiagnostics, p.addDocument} {
		if err := step(); err != nil {
			return 0, 0, err
		}
	}
	return p.row.Key, p.row.NextPosition, p.row.Save(tx)
}

// RemoveImported takes out a runtime with all that belongs to it.
func RemoveImported(tx *db.Tx, key int64) error { return (&RuntimeRow{Key: key}).Remove(tx) }

func workerIDs(list []ImportedWorker) (ids []string) {
	for _, w := range list {
		ids = append(ids, w.WorkerID)
	}
	return ids
}

// importing is an import under way.
type importing struct {
	Imported
	tx           *db.Tx
	row          RuntimeRow
	reader       Reader
	snapshot     RuntimeSnapshot
	workers      []WorkerSnapshot // beside Workers
	entries      [][]Entry
	keys         map[string]int64
	events       []Event
	positions    []int64
	nextPosition int64
	inOrder      bool
}

func newImporting(im Imported) (*importing, error) {
	if im.Later != "" {
		im.Faults = append(slices.Clip(im.Faults),
			Fault{Code: codeLater, Message: im.Later, severity: SeverityInfo})
	}
	p := &importing{
		Imported: im, reader: Reader{RuntimeID: im.RuntimeID, Alone: im.Alone},
		keys: map[string]int64{}, snapshot: RuntimeSnapshot{
			Status: Running, Limits: DefaultLimits(), NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1,
		},
	}
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
		if p.Snapshot == nil && e.Kind == RuntimeStopped {
			p.snapshot.Status = Stopped
		}
	}
	return nil
}

// readWorker reads what there is of a worker; what its snapshot doesn't say is taken from the log.
func (p *importing) readWorker(w ImportedWorker) (err error) {
	ref := Ref{p.RuntimeID, w.WorkerID}
	s := WorkerSnapshot{Status: Running, NextTranscriptSequence: 1, Request: unknownRequest}
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
	s.Worker, s.WorkerID = ref, w.WorkerID
	var entries []Entry
	for _, line := range w.Entries {
		e, err := p.reader.Entry(line)
		if err != nil {
			return err
		}
		entries = append(entries, e)
		s.NextTranscriptSequence = beyond(s.NextTranscriptSequence, e.Sequence)
	}
	if len(entries) > MaxEntries {
		return fmt.Errorf("%w: worker %s has %d entries; %d are possible", db.ErrInvalid, w.WorkerID, len(entries),
			MaxEntries)
	}
	if n, ok := numberOf(w.WorkerID); ok {
		p.snapshot.NextWorkerSequence = beyond(p.snapshot.NextWorkerSequence, n)
	}
	p.workers, p.entries = append(p.workers, s), append(p.entries, entries)
	return nil
}

// unknownRequest is that of a worker whose request nothing tells.
var unknownRequest = Request{Intent: Intent{Kind: IntentAssistant}, Profile: Profile{Kind: ProfileDefault}}

func (p *importing) guess(s *WorkerSnapshot, ref Ref) {
	for _, e := range p.events {
		if e.Worker == nil || *e.Worker != ref {
			continue
		}
		s.LastEventID = e.ID
		switch e.Kind {
		case WorkerStopped:
			s.Status = Stopped
		case WorkerCancelled:
			s.Status = Cancelled
		}
	}
	if s.Status == Running && p.snapshot.Status == Stopped {
		s.Status = Stopped
	}
}

// GeneratedID is the id of a worker of that number.
func GeneratedID(sequence uint64) string { return fmt.Sprintf("worker-%08x", sequence) }

// numberOf is the sequence in an id that GeneratedID made.
func numberOf(id string) (uint64, bool) {
	digits, ok := strings.CutPrefix(id, "worker-")
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, ok && err == nil && GeneratedID(n) == id
}

// place gives each event its place in the log: its id, as long as the ids grow and are not too
// high; else the next one.
func (p *importing) place() {
	p.inOrder = true
	last := int64(0)
	for _, e := range p.events {
		if e.ID <= uint64(last) || e.ID > MaxPosition {
			p.inOrder = false
		}
		last++
		if e.ID > uint64(last) && e.ID <= MaxPosition/2 { // leaves room behind a stray id
			last = int64(e.ID)
		}
		p.inOrder = p.inOrder && uint64(last) == e.ID
		p.positions = append(p.positions, last)
	}
	p.nextPosition = last + 1
	if p.snapshot.NextEventID > MaxPosition/2 {
		p.inOrder = false
	} else if next := int64(p.snapshot.NextEventID); next >= p.nextPosition {
		p.nextPosition = next
	}
}

func (p *importing) addWorkers() error {
	for i := range p.workers {
		s := &p.workers[i]
		w := &WorkerRow{
			WorkerID: s.WorkerID, Status: s.Status, TranscriptLen: int64(len(p.entries[i])),
			NextSequence: int64(s.NextTranscriptSequence), LastEventID: int64(s.LastEventID),
		}
		if err := p.row.addWorkerAs(p.tx, w, s.Request); err != nil {
			return err
		}
		p.keys[s.WorkerID] = w.Key
		for j, e := range p.entries[i] {
			line := p.Workers[i].Entries[j]
			if err := w.putEntry(p.tx, int64(j+1), e, nil, unlessSame(line, appendEntry(nil, e)), nil); err != nil {
				return err
			}
		}
		if text := p.Workers[i].Snapshot; text != nil && !bytes.Equal(text, pretty(s.members())) {
			if err := p.tx.Queue(sqlAddWorkerDocument, w.Key, text, db.Checksum(w.Key, text)); err != nil {
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
func (p *importing) keyOf(ref *Ref) (key *int64, told bool) {
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
		worker, told := p.keyOf(e.Worker)
		var raw any = p.Events[i]
		if told && slices.Contains(eventWords, e.Kind) {
			raw = unlessSame(p.Events[i], appendEvent(nil, e))
		}
		if err := p.row.putEvent(p.tx, p.positions[i], e, worker, nil, raw); err != nil {
			return err
		}
	}
	return nil
}

func (p *importing) addDiagnostics() error {
	for i, d := range p.snapshot.Diagnostics {
		p.row.Diagnostics++
		worker, told := p.keyOf(d.Worker)
		var raw any = p.snapshot.diagnosed[i]
		if told {
			raw = unlessSame(compact(p.snapshot.diagnosed[i]), appendDiagnostic(nil, d))
		}
		if err := p.row.putDiagnostic(p.tx, p.row.Diagnostics, d, worker, nil, raw); err != nil {
			return err
		}
	}
	for _, f := range p.Faults {
		if p.told(f) { // the folder is an export of what an import made of one with this fault
			continue
		}
		var worker *int64
		if f.Worker != nil {
			if k, ok := p.keys[*f.Worker]; ok {
				worker = &k
			}
		}
		if err := p.row.Diagnose(p.tx, worker, cmp.Or(f.severity, SeverityError), f.Code, f.Message); err != nil {
			return err
		}
	}
	return nil
}

// told reports whether the runtime's diagnostics have a fault already.
func (p *importing) told(f Fault) bool {
	return slices.ContainsFunc(p.snapshot.Diagnostics, func(d Diagnostic) bool {
		if (d.Worker == nil) != (f.Worker == nil) || d.Worker != nil && d.Worker.WorkerID != *f.Worker {
			return false
		}
		return d.Code == f.Code && d.Message == f.Message
	})
}

func (p *importing) addDocument() error {
	if p.Snapshot == nil || bytes.Equal(p.Snapshot, pretty(p.snapshot.members())) && len(p.Faults) == 0 {
		return nil
	}
	return p.tx.Queue(sqlAddDocument, p.row.Key, p.Snapshot, db.Checksum(p.row.Key, p.Snapshot))
}
