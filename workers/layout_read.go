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

	"selvedge/internal/tree"
	"selvedge/internal/txn"
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
	return id, err == nil && idName(id) == name && txn.CheckID("runtime", id) == nil
}

// A content is the readable part of a runtime's folder.
type content struct {
	runtimeFiles
	path     string // below the root
	files    int64
	bytes    int64
	records  tree.Tally // that could be read, by kind
	broken   int64      // lines and documents that could not
	aside    tree.Tally // records in files of later versions that go into quarantine
	findings []tree.Finding
	read     []string // files
	ignored  []string
	sum      []byte // hash of everything that was read
}

// A runtimeReader reads one runtime's folder. Faults of the folder are noted, not returned as
// errors.
type runtimeReader struct {
	root tree.Folder
	tree *content
	hash hash.Hash
	ids  map[WorkerID]string // the folder that a worker came from

	form     reader         // of the files
	eventful bool           // the runtime has events.jsonl, or should have it
	gaps     gaps           // what later versions wrote differently
	kinds    []string       // of events, that only later versions know
	setAside map[string]int // files in quarantine, by name
}

func readRuntime(root tree.Folder, name string, form reader) *content {
	r := &runtimeReader{
		root: root, hash: sha256.New(), ids: map[WorkerID]string{}, setAside: map[string]int{}, eventful: true,
		form: form,
		tree: &content{
			path: name, records: tree.Tally{"runtime": 1}, aside: tree.Tally{},
			runtimeFiles: runtimeFiles{id: form.runtimeID},
		},
	}
	r.snapshot()
	r.events()
	r.workers()
	known := []string{runtimeFile, eventsFile, workersFolder}
	if form.alone {
		known = append(known, runtimesFolder) // the walk reports it
	}
	r.others(name, known...)
	if later := r.later(); later != "" {
		r.tree.faults = append(r.tree.faults, fault{nil, severityInfo, codeLater, later})
	}
	r.tree.sum = r.hash.Sum(nil)
	return r.tree
}

// maxRuntimeFile bounds the size of a file: a runtime is written in one transaction.
const maxRuntimeFile = 512 << 20

var newline = []byte{'\n'}

// read reads a file of the runtime; reason is why it can't be read.
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
	r.tree.read = append(r.tree.read, path)
	fmt.Fprintf(r.hash, "%d %q %d %q ", len(path), path, len(text), reason)
	r.hash.Write(text)
	return text, reason
}

// fault notes a reason for which the original refuses the runtime: as a diagnostic of the runtime
// or worker, and in quarantine.
func (r *runtimeReader) fault(worker *WorkerID, code string, f tree.Finding) {
	// A file that could not be read has no bytes in the sum. Without this line the folder would seem
	// unchanged once the file can be read.
	fmt.Fprintf(r.hash, "%q %q ", f.Path, f.Reason)
	id := r.tree.id
	whose := tree.Entity{Group: string(id)}
	if worker != nil {
		whose.ID = string(*worker)
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
	r.tree.faults = append(r.tree.faults,
		fault{worker, severityError, "import." + code, tree.Shown(message)})
	r.tree.findings = append(r.tree.findings, f)
}

// file notes a fault of a whole file.
func (r *runtimeReader) file(worker *WorkerID, code, path, reason string, raw []byte) {
	r.fault(worker, code, tree.Finding{Path: path, What: tree.WhatFile, Reason: reason, Raw: raw})
}

func (r *runtimeReader) snapshot() {
	path := r.tree.path + "/" + runtimeFile
	text, reason := r.read(path)
	if reason != "" {
		r.file(nil, "runtime_snapshot", path, reason, nil)
		return
	}
	s, gap, wrong, err := r.form.runtime(text)
	r.gaps.runtime.add(gap)
	r.form.later = r.form.later || gap.later()
	r.eventful = !slices.Contains(gap.missing, "next_event_id")
	id := r.tree.id
	switch {
	case err != nil:
		r.tree.broken++
		r.file(nil, "runtime_snapshot", path, err.Error(), text)
		return
	case wrong == "" && s.RuntimeID != id:
		wrong = fmt.Sprintf("runtime snapshot id %s does not match requested runtime %s", s.RuntimeID, id)
	}
	if wrong != "" {
		r.fault(nil, "runtime_snapshot", tree.Finding{Path: path, What: tree.WhatName, Reason: wrong})
	}
	r.tree.snapshot, r.tree.runtime = text, &s
}

func (r *runtimeReader) events() {
	path := r.tree.path + "/" + eventsFile
	if !r.eventful && r.root.Lacks(path) {
		return
	}
	r.tree.events = r.lines(path, nil, "event", func(line []byte) (string, bool, error) {
		e, err := r.form.event(line)
		r.gaps.event.add(r.form.gapOf(eventJSON(), line))
		kind, wrong := string(e.Kind), e.Kind.wrong()
		if err == nil && wrong != "" && r.form.later {
			if !slices.Contains(r.kinds, kind) {
				r.kinds = append(r.kinds, kind)
			}
			wrong = ""
		}
		if err == nil {
			r.tree.log = append(r.tree.log, e)
		}
		return wrong, false, err
	})
}

// lines returns the lines of a log that can be read. look returns what is wrong with a line, and
// whether to drop it.
func (r *runtimeReader) lines(path string, worker *WorkerID, kind string,
	look func(line []byte) (wrong string, drop bool, err error),
) (list [][]byte) {
	text, reason := r.read(path)
	if reason != "" {
		r.file(worker, kind+"s", path, reason, nil)
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

// workers reads the folders of the workers. Folders with the name of their worker come first, so
// that they win over copies. Then come those with the name of another worker, then all others. If a
// later version owns the folder, names in that version's form come before older ones.
func (r *runtimeReader) workers() {
	path := r.tree.path + "/" + workersFolder
	var named, others []string
	err := r.root.Names(path, func(name string) error {
		fmt.Fprintf(r.hash, "%q ", name)
		switch _, ok := nameID(name); {
		case r.isOwn(path+"/"+name, name):
			r.worker(path+"/"+name, name)
		case ok != r.form.alone:
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
		r.file(nil, "workers", path, r.root.Why(path, err), nil)
	}
}

// named is the worker that a folder's name stands for.
func (r *runtimeReader) named(name string) (WorkerID, bool) {
	id, ok := nameID(name)
	if r.form.alone && !ok {
		id, ok = plainID(name)
	}
	return WorkerID(id), ok
}

// isOwn reports whether a folder has the name of its worker.
func (r *runtimeReader) isOwn(path, name string) bool {
	id, named := r.named(name)
	if !named {
		return false
	}
	text, err := r.root.Read(path+"/"+workerFile, maxRuntimeFile)
	var document struct {
		WorkerID json.RawMessage `json:"worker_id"` // a number in later versions
	}
	if err != nil || json.Unmarshal(text, &document) != nil {
		return false
	}
	var said WorkerID
	if json.Unmarshal(document.WorkerID, &said) != nil {
		said = WorkerID(document.WorkerID)
	}
	return said == id
}

func (r *runtimeReader) worker(path, name string) {
	info, err := r.root.Stat(path)
	if err != nil {
		r.file(nil, "worker", path, r.root.Why(path, err), nil)
		return
	}
	if !info.IsDir() {
		text, reason := r.read(path)
		if reason == "" {
			r.tree.broken++
			reason = "worker path exists but is not a directory"
		}
		r.file(nil, "worker", path, reason, text)
		return
	}
	w, gap, snapshot := r.workerSnapshot(path, name)
	if snapshot.What != "" && w.id == "" {
		w.id = r.speaker(path)
	}
	id := w.id
	r.aside(path, id)
	r.others(path, workerFile, transcriptFile, observationsFile, metadataFile)
	if id == "" {
		r.fault(nil, "worker_snapshot", snapshot)
		r.ownerless(path + "/" + transcriptFile)
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
	if w.snapshot != nil {
		r.tree.records["worker"]++
	}
	w.noStatus = slices.Contains(gap.missing, "status")
	r.gaps.worker.add(gap)
	unlogged := r.form.alone || slices.Contains(gap.missing, "next_transcript_sequence")
	if log := path + "/" + transcriptFile; !unlogged || !r.root.Lacks(log) {
		r.transcript(log, &w)
	}
	r.tree.workers = append(r.tree.workers, w)
}

func (r *runtimeReader) transcript(path string, w *workerFiles) {
	own := WorkerRef{r.tree.id, w.id}
	w.entries = r.lines(path, &w.id, "entry", func(line []byte) (string, bool, error) {
		e, err := r.form.entry(line)
		r.gaps.entry.add(r.form.gapOf(entryJSON(), line))
		switch {
		case err != nil:
			return "", false, err
		case e.WorkerRef == own:
			w.transcript = append(w.transcript, e)
			return "", false, nil
		case e.WorkerRef.RuntimeID != own.RuntimeID:
			return fmt.Sprintf("worker %s belongs to runtime %s, not runtime %s", e.WorkerRef.WorkerID,
				e.WorkerRef.RuntimeID, own.RuntimeID), true, nil
		}
		return fmt.Sprintf("transcript entry belongs to worker %s, expected %s", e.WorkerRef.WorkerID,
			own.WorkerID), true, nil
	})
}

// workerSnapshot reads worker.json and finds its worker: the one that it names, as for the
// original, or that of the folder if it names two. A finding with an empty What is no finding.
func (r *runtimeReader) workerSnapshot(folder, name string) (w workerFiles, gap gap, f tree.Finding) {
	path := folder + "/" + workerFile
	byName, named := r.named(name)
	text, reason := r.read(path)
	s, gap, wrong, err := r.form.worker(text)
	runtime := r.tree.id
	switch {
	case reason != "":
		text = nil
	case err != nil:
		r.tree.broken++
		reason = err.Error()
	}
	if reason != "" {
		if named {
			w.id = byName
		}
		return w, gap, tree.Finding{Path: path, What: tree.WhatFile, Reason: reason, Raw: text}
	}
	w.snapshot, w.document, w.id = text, &s, s.WorkerID
	if s.WorkerRef.WorkerID != s.WorkerID && named {
		w.id = byName
	}
	err = txn.CheckID("worker", string(w.id))
	if w.id == "" {
		err = errors.New("the worker id is empty")
	}
	if err != nil {
		return workerFiles{}, gap, tree.Finding{Path: path, What: tree.WhatFile, Reason: err.Error(), Raw: text}
	}
	if wrong == "" && s.WorkerRef.RuntimeID != runtime {
		wrong = fmt.Sprintf("worker belongs to runtime %s, expected %s", s.WorkerRef.RuntimeID, runtime)
	}
	if wrong != "" {
		f = tree.Finding{Path: path, What: tree.WhatName, Reason: wrong}
	}
	return w, gap, f
}

// ownerless puts a transcript of an unknown worker into quarantine.
func (r *runtimeReader) ownerless(path string) {
	if r.root.Lacks(path) {
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
	r.file(nil, "entries", path, reason, text)
}

// speaker is the worker that a transcript names, if neither a snapshot nor the folder does.
func (r *runtimeReader) speaker(folder string) WorkerID {
	text, err := r.root.Read(folder+"/"+transcriptFile, maxRuntimeFile)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		if e, err := r.form.entry(line); err == nil && e.WorkerRef.RuntimeID == r.tree.id &&
			txn.CheckID("worker", string(e.WorkerRef.WorkerID)) == nil {
			return e.WorkerRef.WorkerID
		}
	}
	return ""
}

// duplicate puts the files of a second folder of a worker into quarantine.
func (r *runtimeReader) duplicate(path, first string, w workerFiles) {
	id := w.id
	reason := fmt.Sprintf("duplicate worker id in store: worker %s is in %s too, which was taken", id,
		first[strings.LastIndexByte(first, '/')+1:])
	transcript, unread := r.read(path + "/" + transcriptFile)
	if unread != "" {
		transcript = nil
	}
	for i, text := range [][]byte{w.snapshot, transcript} {
		if len(text) > 0 {
			r.tree.broken++
			name := []string{workerFile, transcriptFile}[i]
			r.fault(&id, "duplicate_worker", tree.Finding{
				Path: path + "/" + name, What: tree.WhatConflict, Reason: reason, Raw: text,
			})
		}
	}
}
