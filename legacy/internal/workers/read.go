package workers

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/internal/tree"
	pool "selvedge/internal/workers"
)

// The names of the original's files.
const (
	runtimesFolder = "runtimes"
	runtimeFile    = "runtime.json"
	eventsFile     = "events.jsonl"
	workersFolder  = "workers"
	workerFile     = "worker.json"
	transcriptFile = "transcript.jsonl"
)

// idName is the original's folder for an id.
func idName(id string) string { return "id-" + hex.EncodeToString([]byte(id)) }

// nameID is the id that a folder's name stands for.
func nameID(name string) (string, bool) {
	digits, ok := strings.CutPrefix(name, "id-")
	if !ok {
		return "", false
	}
	raw, err := hex.DecodeString(digits)
	id := string(raw)
	return id, err == nil && idName(id) == name && db.CheckID("runtime", id) == nil
}

// A content is what could be read of a runtime's folder.
type content struct {
	path     string // below the root
	imported pool.Imported
	files    int64
	bytes    int64
	records  tree.Tally // that could be read, by kind
	broken   int64      // lines and documents that could not
	aside    tree.Tally // what is in files of later versions that go into quarantine as they are
	findings []tree.Finding
	ignored  []string
	sum      []byte // of all that was read
}

// runtimeReader reads one runtime's folder. Nothing of what may be wrong with it is an error.
type runtimeReader struct {
	root tree.Folder
	tree *content
	hash hash.Hash
	ids  map[string]string // the folder that a worker came from

	form     pool.Reader    // how the files are to be read
	eventful bool           // the runtime has events.jsonl, or should have it
	gap      gap            // what later versions wrote otherwise
	kinds    []string       // of events, that only later versions know
	setAside map[string]int // files in quarantine, by name
}

func readRuntime(root tree.Folder, name, id string) *content {
	alone := name == alonePath
	r := &runtimeReader{
		root: root, hash: sha256.New(), ids: map[string]string{}, setAside: map[string]int{}, eventful: true,
		form: pool.Reader{RuntimeID: id, Later: alone, Alone: alone},
		tree: &content{
			path: name, records: tree.Tally{"runtime": 1}, aside: tree.Tally{},
			imported: pool.Imported{RuntimeID: id, Alone: alone},
		},
	}
	r.snapshot()
	r.events()
	r.workers()
	known := []string{runtimeFile, eventsFile, workersFolder}
	if alone {
		known = append(known, runtimesFolder) // of which the walk says what is left in it
	}
	r.others(name, known...)
	r.tree.imported.Later = r.later()
	r.tree.sum = r.hash.Sum(nil)
	return r.tree
}

// maxRuntimeFile is the largest file that is Taken: a runtime is written in one transaction.
const maxRuntimeFile = 512 << 20

var newline = []byte{'\n'}

// read gives a file of the runtime; reason says why it can't be read.
func (r *runtimeReader) read(path string) (text []byte, reason string) {
	text, err := r.root.Read(path, maxRuntimeFile)
	switch {
	case err == nil:
		r.tree.files++
		r.tree.bytes += int64(len(text))
	case errors.Is(err, fs.ErrNotExist):
		reason = "is missing"
	default:
		reason = r.root.Why(path, err)
	}
	fmt.Fprintf(r.hash, "%d %q %d %q ", len(path), path, len(text), reason)
	r.hash.Write(text)
	return text, reason
}

// fault notes what the original stumbles over: as a diagnostic of the runtime or worker, and in quarantine.
func (r *runtimeReader) fault(worker *string, code string, f tree.Finding) {
	// What could not be read has no bytes in the sum: without this the folder would seem unchanged
	// once it can be read.
	fmt.Fprintf(r.hash, "%q %q ", f.Path, f.Reason)
	id := r.tree.imported.RuntimeID
	whose := tree.Entity{Group: id}
	if worker != nil {
		whose.ID = *worker
	}
	f.Whose = &whose
	name := f.Path[strings.LastIndexByte(f.Path, '/')+1:]
	message := name + " " + f.Reason
	switch {
	case f.What == tree.WhatLine || f.What == tree.WhatTail:
		message = fmt.Sprintf("%s: the line at byte %d can't be read: %s", name, f.Offset, f.Reason)
	case f.What == tree.WhatConflict:
		message = f.Reason
	case len(f.Raw) > 0:
		message = fmt.Sprintf("%s can't be read: %s", name, f.Reason)
	}
	r.tree.imported.Faults = append(r.tree.imported.Faults,
		pool.Fault{Worker: worker, Code: "import." + code, Message: tree.Shown(message)})
	r.tree.findings = append(r.tree.findings, f)
}

func (r *runtimeReader) snapshot() {
	path := r.tree.path + "/" + runtimeFile
	text, reason := r.read(path)
	if reason != "" {
		r.fault(nil, "runtime_snapshot", tree.Finding{Path: path, What: tree.WhatFile, Reason: reason})
		return
	}
	s, gap, wrong, err := r.form.Runtime(text)
	r.gap.add(&r.gap.runtime, gap)
	r.form.Later = r.form.Later || gap.Later()
	r.eventful = !slices.Contains(gap.Missing, "next_event_id")
	id := r.tree.imported.RuntimeID
	switch {
	case err != nil:
		r.tree.broken++
		r.fault(nil, "runtime_snapshot", tree.Finding{
			Path: path, What: tree.WhatFile, Reason: err.Error(),
			Raw: text,
		})
		return
	case wrong == "" && s.RuntimeID != id:
		wrong = fmt.Sprintf("runtime snapshot id %s does not match requested runtime %s", s.RuntimeID, id)
	}
	if wrong != "" {
		r.fault(nil, "runtime_snapshot", tree.Finding{Path: path, What: tree.WhatName, Reason: wrong})
	}
	r.tree.imported.Snapshot = text
}

func (r *runtimeReader) events() {
	path := r.tree.path + "/" + eventsFile
	if !r.eventful && r.lacks(path) {
		return
	}
	r.tree.imported.Events = r.lines(path, nil, "event", func(line []byte) (string, bool, error) {
		e, wrong, err := r.form.Event(line)
		r.gap.add(&r.gap.event, r.form.EventGap(line))
		if wrong != "" && r.form.Later {
			if kind := e.Kind; !slices.Contains(r.kinds, kind) {
				r.kinds = append(r.kinds, kind)
			}
			return "", false, err
		}
		return wrong, false, err
	})
}

// lacks reports whether there is no file at path.
func (r *runtimeReader) lacks(path string) bool {
	return r.root.Lacks(path)
}

// lines gives the lines of a log that can be read. look tells what is wrong with one: such a line
// is kept, or not where drop says so.
func (r *runtimeReader) lines(path string, worker *string, kind string,
	look func(line []byte) (wrong string, drop bool, err error),
) (list [][]byte) {
	text, reason := r.read(path)
	if reason != "" {
		r.fault(worker, kind+"s", tree.Finding{Path: path, What: tree.WhatFile, Reason: reason})
		return nil
	}
	for offset := 0; offset < len(text); {
		line, _, whole := bytes.Cut(text[offset:], newline)
		at := offset
		offset += len(line) + 1
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		wrong, drop, err := look(line)
		if err == nil && !drop {
			r.tree.records[kind]++
			list = append(list, line)
			if wrong == "" {
				continue
			}
		} else {
			r.tree.broken++
		}
		f := tree.Finding{
			Path: path, Offset: int64(at), What: tree.WhatLine, Reason: wrong, Raw: line,
			Taken: err == nil && !drop,
		}
		if err != nil {
			f.Reason = err.Error()
			if !whole {
				f.What = tree.WhatTail
			}
		}
		r.fault(worker, kind, f)
	}
	return list
}

// workers reads the folders of the workers: those that are called as the worker in them is first,
// so that they win over copies; then others whose names are a worker's; in a folder that a later
// version has taken over the names of that version before those.
func (r *runtimeReader) workers() {
	path := r.tree.path + "/" + workersFolder
	var named, others []string
	err := r.root.Names(path, func(name string) error {
		fmt.Fprintf(r.hash, "%q ", name)
		switch _, ok := nameID(name); {
		case r.isOwn(path+"/"+name, name):
			r.worker(path+"/"+name, name)
		case ok != r.form.Alone:
			named = append(named, name)
		default:
			others = append(others, name)
		}
		return nil
	})
	for _, name := range append(named, others...) {
		r.worker(path+"/"+name, name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the original makes a missing folder
		r.fault(nil, "workers", tree.Finding{Path: path, What: tree.WhatFile, Reason: r.root.Why(path, err)})
	}
}

// isOwn reports whether a folder is called as the worker in it is.
func (r *runtimeReader) isOwn(path, name string) bool {
	id, named := nameID(name)
	if r.form.Alone && !named {
		id, named = plainID(name)
	}
	if !named {
		return false
	}
	text, err := r.root.Read(path+"/"+workerFile, maxRuntimeFile)
	if err != nil {
		return false
	}
	var document struct {
		WorkerID json.RawMessage `json:"worker_id"` // a number in later versions
	}
	var said string
	if json.Unmarshal(text, &document) != nil {
		return false
	}
	if json.Unmarshal(document.WorkerID, &said) != nil {
		said = string(document.WorkerID)
	}
	return said == id
}

func (r *runtimeReader) worker(path, name string) {
	info, err := r.root.Stat(path)
	if err != nil {
		r.fault(nil, "worker", tree.Finding{Path: path, What: tree.WhatFile, Reason: r.root.Why(path, err)})
		return
	}
	if !info.IsDir() {
		text, reason := r.read(path)
		if reason == "" {
			r.tree.broken++
			reason = "worker path exists but is not a directory"
		}
		r.fault(nil, "worker", tree.Finding{Path: path, What: tree.WhatFile, Reason: reason, Raw: text})
		return
	}
	w, gap, snapshot := r.workerSnapshot(path, name)
	if snapshot.What != "" && w.WorkerID == "" {
		w.WorkerID = r.speaker(path)
	}
	id := w.WorkerID
	r.aside(path, id)
	r.others(path, workerFile, transcriptFile, observationsFile, metadataFile)
	if id == "" {
		r.fault(nil, "worker_snapshot", snapshot)
		r.nobodys(path + "/" + transcriptFile)
		return
	}
	if first, taken := r.ids[id]; taken {
		r.duplicate(path, first, w)
		return
	}
	r.ids[id] = path
	if snapshot.What != "" {
		r.fault(&id, "worker_snapshot", snapshot)
	}
	if w.Snapshot != nil {
		r.tree.records["worker"]++
	}
	r.gap.add(&r.gap.worker, gap)
	unlogged := r.form.Alone || slices.Contains(gap.Missing, "next_transcript_sequence")
	if log := path + "/" + transcriptFile; !unlogged || !r.lacks(log) {
		w.Entries = r.transcript(log, id)
	}
	r.tree.imported.Workers = append(r.tree.imported.Workers, w)
}

func (r *runtimeReader) transcript(path string, id string) [][]byte {
	own := pool.Ref{RuntimeID: r.tree.imported.RuntimeID, WorkerID: id}
	return r.lines(path, &id, "entry", func(line []byte) (string, bool, error) {
		e, err := r.form.Entry(line)
		r.gap.add(&r.gap.entry, r.form.EntryGap(line))
		switch {
		case err != nil || e.Worker == own:
			return "", false, err
		case e.Worker.RuntimeID != own.RuntimeID:
			return fmt.Sprintf("worker %s belongs to runtime %s, not runtime %s", e.Worker.WorkerID,
				e.Worker.RuntimeID, own.RuntimeID), true, nil
		}
		return fmt.Sprintf("transcript entry belongs to worker %s, expected %s", e.Worker.WorkerID, own.WorkerID),
			true, nil
	})
}

// workerSnapshot reads worker.json and finds out whose it is: what it says, as the original has it,
// unless it says two things; then what the folder says. A finding without a what is none.
func (r *runtimeReader) workerSnapshot(folder, name string) (w pool.ImportedWorker, gap pool.Gap,
	f tree.Finding,
) {
	path := folder + "/" + workerFile
	byName, named := nameID(name)
	if r.form.Alone && !named {
		byName, named = plainID(name)
	}
	text, reason := r.read(path)
	s, wrong, err := pool.WorkerSnapshot{}, "", error(nil)
	if reason == "" {
		s, gap, wrong, err = r.form.Worker(text)
	}
	runtime := r.tree.imported.RuntimeID
	switch {
	case reason != "":
		f = tree.Finding{Path: path, What: tree.WhatFile, Reason: reason}
	case err != nil:
		r.tree.broken++
		f = tree.Finding{Path: path, What: tree.WhatFile, Reason: err.Error(), Raw: text}
	case wrong != "":
		f = tree.Finding{Path: path, What: tree.WhatName, Reason: wrong}
	case s.Worker.RuntimeID != runtime:
		f = tree.Finding{
			Path: path, What: tree.WhatName,
			Reason: fmt.Sprintf("worker belongs to runtime %s, expected %s", s.Worker.RuntimeID, runtime),
		}
	}
	if reason != "" || err != nil {
		if named {
			w.WorkerID = byName
		}
		return w, gap, f
	}
	w.Snapshot, w.WorkerID = text, s.WorkerID
	if s.Worker.WorkerID != s.WorkerID && named && byName != s.WorkerID {
		w.WorkerID = byName
	}
	if err := db.CheckID("worker", w.WorkerID); err != nil {
		return pool.ImportedWorker{}, gap, tree.Finding{
			Path: path, What: tree.WhatFile, Reason: err.Error(),
			Raw: text,
		}
	}
	return w, gap, f
}

// nobodys puts a transcript into quarantine that tells no worker's name.
func (r *runtimeReader) nobodys(path string) {
	if r.lacks(path) {
		return
	}
	text, reason := r.read(path)
	if reason == "" && len(text) == 0 {
		return
	}
	if reason == "" {
		r.tree.broken++
		reason = "it is not known whose transcript this is"
	}
	r.fault(nil, "entries", tree.Finding{Path: path, What: tree.WhatFile, Reason: reason, Raw: text})
}

// speaker is the worker that a transcript without a snapshot names, in a folder that names none.
func (r *runtimeReader) speaker(folder string) string {
	text, err := r.root.Read(folder+"/"+transcriptFile, maxRuntimeFile)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		if e, err := r.form.Entry(line); err == nil && e.Worker.RuntimeID == r.tree.imported.RuntimeID {
			return e.Worker.WorkerID
		}
	}
	return ""
}

// duplicate puts the files of a second folder of a worker into quarantine.
func (r *runtimeReader) duplicate(path, first string, w pool.ImportedWorker) {
	id := w.WorkerID
	reason := fmt.Sprintf("duplicate worker id in store: worker %s is in %s too, which was taken", id,
		first[strings.LastIndexByte(first, '/')+1:])
	files := []struct {
		name string
		text []byte
	}{{workerFile, w.Snapshot}, {transcriptFile, nil}}
	if text, unread := r.read(path + "/" + transcriptFile); unread == "" {
		files[1].text = text
	}
	for _, f := range files {
		if len(f.text) > 0 {
			r.tree.broken++
			r.fault(&id, "duplicate_worker", tree.Finding{
				Path: path + "/" + f.name, What: tree.WhatConflict,
				Reason: reason, Raw: f.text,
			})
		}
	}
}
