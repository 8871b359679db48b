package original

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"selvedge/workers"
)

// A WorkerRuntime is the original's runtime: all of it in memory, and a folder of files that every
// change rewrites or appends to. One caller at a time.
type WorkerRuntime struct {
	dir         string
	id          workers.RuntimeID
	workers     map[workers.WorkerID]*worker
	events      []workers.RuntimeEvent
	diagnostics []workers.RuntimeDiagnostic
	writing     int // counts temporary files
}

type worker struct {
	ref         workers.WorkerRef
	request     workers.CreateWorkerRequest
	transcript  []workers.TranscriptEntry
	lastEventID uint64
}

// NewWorkerRuntime starts a runtime in the folder root.
func NewWorkerRuntime(root string, id workers.RuntimeID) (*WorkerRuntime, error) {
	r := &WorkerRuntime{
		dir: filepath.Join(root, "runtimes", encoded(string(id))), id: id,
		workers: make(map[workers.WorkerID]*worker),
	}
	if err := os.MkdirAll(filepath.Join(r.dir, "workers"), 0o777); err != nil {
		return nil, err
	}
	event := r.pushEvent(nil, "runtime_started", "runtime started")
	return r, errors.Join(r.writeRuntime(NoSync), r.appendEvent(event, NoSync))
}

// CreateWorker makes a worker.
func (r *WorkerRuntime) CreateWorker(request workers.CreateWorkerRequest) (workers.WorkerRef, error) {
	ref := workers.NewWorkerRef(r.id, workers.WorkerID(fmt.Sprintf("worker-%08x", len(r.workers)+1)))
	event := r.pushEvent(&ref, "worker_created", fmt.Sprintf("worker %s created", ref.WorkerID))
	w := &worker{ref: ref, request: request, lastEventID: event}
	if request.ConfigBundle == nil {
		r.pushDiagnostic(ref, "runtime.local_default_resources",
			"worker created without ConfigBundleRef; runtime-local defaults are assumed")
	}
	if len(request.RequestedCapabilities) == 0 {
		r.pushDiagnostic(ref, "worker.tools_less", "worker created without requested tool capabilities")
	}
	r.workers[ref.WorkerID] = w
	return ref, errors.Join(r.writeRuntime(NoSync), r.writeWorker(w, NoSync), r.appendEvent(event, NoSync))
}

// SendInput changes the memory and then four files: two snapshots are written beside their places
// and renamed there, two logs get a line. The original syncs all of them, and the folders of the
// snapshots; NoSync leaves only that out.
func (r *WorkerRuntime) SendInput(ref workers.WorkerRef, content string, sync Sync) (sequence uint64,
	err error,
) {
	w := r.workers[ref.WorkerID]
	if w == nil {
		return 0, fmt.Errorf("worker %s is not there", ref.WorkerID)
	}
	event, sequence := r.accept(w, content)
	if err := r.writeRuntime(sync); err != nil {
		return 0, err
	}
	if err := r.writeWorker(w, sync); err != nil {
		return 0, err
	}
	if err := r.appendEvent(event, sync); err != nil {
		return 0, err
	}
	return sequence, r.appendEntry(w, sequence, sync)
}

// Fill makes a runtime that has heard much: every worker gets n inputs, and the files are what as
// many calls of SendInput would have left.
func (r *WorkerRuntime) Fill(n int, content string) error {
	for range n {
		for _, w := range r.workers {
			r.accept(w, content)
		}
	}
	log := &serde{}
	for i := range r.events {
		log.event(&r.events[i])
		log.put("\n")
	}
	failed := errors.Join(writeFile(r.path("events.jsonl"), log.text, NoSync), r.writeRuntime(NoSync))
	for _, w := range r.workers {
		log := &serde{}
		for i := range w.transcript {
			log.entry(&w.transcript[i])
			log.put("\n")
		}
		failed = errors.Join(failed, r.writeWorker(w, NoSync),
			writeFile(r.workerPath(w, "transcript.jsonl"), log.text, NoSync))
	}
	return failed
}

// accept is what an input does to the memory.
func (r *WorkerRuntime) accept(w *worker, content string) (event, sequence uint64) {
	event, sequence = r.pushEvent(&w.ref, "worker_input_accepted", "worker input accepted"),
		uint64(len(w.transcript)+1)
	w.lastEventID = event
	w.transcript = append(w.transcript, workers.TranscriptEntry{
		Sequence: sequence, WorkerRef: w.ref, Role: "user", Content: content, EventID: event,
	})
	return event, sequence
}

func (r *WorkerRuntime) pushEvent(ref *workers.WorkerRef, kind workers.RuntimeEventKind,
	message string,
) uint64 {
	id := uint64(len(r.events) + 1)
	r.events = append(r.events, workers.RuntimeEvent{ID: id, WorkerRef: ref, Kind: kind, Message: message})
	return id
}

func (r *WorkerRuntime) pushDiagnostic(ref workers.WorkerRef, code, message string) {
	r.diagnostics = append(r.diagnostics, workers.RuntimeDiagnostic{
		ID: uint64(len(r.diagnostics) + 1), Severity: "info", Code: code, Message: message,
		WorkerRef: &ref,
	})
}

// A runtimeCopy is the state that the original copies, whole, for every snapshot, though it then
// writes only a few members.
type runtimeCopy struct {
	workers     map[workers.WorkerID]worker
	events      []workers.RuntimeEvent
	diagnostics []workers.RuntimeDiagnostic
}

// copied copies as Go does: slices, but none of the strings, which the original copies too.
func (r *WorkerRuntime) copied() runtimeCopy {
	c := runtimeCopy{
		workers: make(map[workers.WorkerID]worker, len(r.workers)),
		events:  slices.Clone(r.events), diagnostics: slices.Clone(r.diagnostics),
	}
	for id, w := range r.workers {
		one := *w
		one.transcript = slices.Clone(w.transcript)
		c.workers[id] = one
	}
	return c
}

func (r *WorkerRuntime) writeRuntime(sync Sync) error {
	state := r.copied()
	return r.rewrite(r.path("runtime.json"), sync, func(json *serde) {
		json.runtime(r.id, &state)
	})
}

func (r *WorkerRuntime) writeWorker(w *worker, sync Sync) error {
	if err := createDirAll(r.workerPath(w)); err != nil {
		return err
	}
	if err := r.rewrite(r.workerPath(w, "worker.json"), sync, func(json *serde) { json.worker(w) }); err != nil {
		return err
	}
	return appendLine(r.workerPath(w, "transcript.jsonl"), sync, nil) // so that it is there
}

func (r *WorkerRuntime) appendEvent(id uint64, sync Sync) error {
	i := slices.IndexFunc(r.events, func(e workers.RuntimeEvent) bool { return e.ID == id })
	return appendLine(r.path("events.jsonl"), sync, func(json *serde) { json.event(&r.events[i]) })
}

func (r *WorkerRuntime) appendEntry(w *worker, sequence uint64, sync Sync) error {
	i := slices.IndexFunc(w.transcript, func(e workers.TranscriptEntry) bool { return e.Sequence == sequence })
	return appendLine(r.workerPath(w, "transcript.jsonl"), sync,
		func(json *serde) { json.entry(&w.transcript[i]) })
}

func (r *WorkerRuntime) path(name string) string { return filepath.Join(r.dir, name) }

func (r *WorkerRuntime) workerPath(w *worker, name ...string) string {
	return filepath.Join(append([]string{r.dir, "workers", encoded(string(w.ref.WorkerID))}, name...)...)
}

func encoded(id string) string { return "id-" + hex.EncodeToString([]byte(id)) }

// rewrite writes a document beside its place, without a buffer, and renames it there.
func (r *WorkerRuntime) rewrite(path string, sync Sync, document func(*serde)) error {
	dir, name := filepath.Split(path)
	if err := createDirAll(dir); err != nil {
		return err
	}
	r.writing++
	beside := filepath.Join(dir, fmt.Sprintf(".%s.tmp-%d-%d", name, os.Getpid(), r.writing))
	fd, err := unix.Open(beside, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	if err := errors.Join(writePieces(fd, true, sync, document), unix.Close(fd)); err != nil {
		return err
	}
	if err := unix.Rename(beside, path); err != nil || !bool(sync) {
		return err
	}
	return syncFolder(dir)
}

// appendLine appends a document and a line feed, without a buffer. No document makes the file.
func appendLine(path string, sync Sync, document func(*serde)) error {
	if err := createDirAll(filepath.Dir(path)); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(writePieces(fd, false, sync, document), unix.Close(fd))
}

func writePieces(fd int, pretty bool, sync Sync, document func(*serde)) error {
	if document != nil {
		json := &serde{pretty: pretty, write: func(piece []byte) error { return writeAll(fd, piece) }}
		document(json)
		json.put("\n")
		if json.err != nil {
			return json.err
		}
	}
	if sync {
		return unix.Fsync(fd)
	}
	return nil
}
