package replay

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selvedge/workers"
)

// salvageRuntime reads what can be read of a runtime that the original refuses, as rule 21 means
// it: a line that can't be read is left out, a document that can't be is what its log tells, and
// neighbours stay as they are.
func salvageRuntime(folder string, id workers.RuntimeID) (s modelRuntime, err error) {
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = workersErrorf("StoreMissing", "there is no runtime")
	}
	if err != nil {
		return s, err
	}
	s = modelRuntime{backend: "fs_store", workers: map[workers.WorkerID]*modelWorker{}}
	text, unread := readModelFile(filepath.Join(folder, "runtime.json"))
	if unread == nil {
		s.snapshot, _, unread = readRuntimeSnapshot(text)
	}
	if unread != nil {
		s.snapshot = runtimeSnapshot{
			Status: workers.Running, Limits: defaultLimits,
			NextWorkerSequence: 1, NextEventID: 1, NextDiagnosticID: 1,
		}
	}
	s.snapshot.RuntimeID = id
	salvageLines(filepath.Join(folder, "events.jsonl"), func(line []byte) {
		if e, _, err := readEventLine(line); err == nil {
			s.events = append(s.events, e)
			if unread != nil && e.Kind == runtimeStopped {
				s.snapshot.Status = workers.Stopped
			}
		}
	})
	list, err := os.ReadDir(filepath.Join(folder, "workers"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	// A folder that bears its worker's name goes before others that say they are its.
	slices.SortStableFunc(list, func(a, b os.DirEntry) int { return hexFirst(a.Name()) - hexFirst(b.Name()) })
	for _, entry := range list {
		if w := s.salvageWorker(filepath.Join(folder, "workers", entry.Name()), entry.Name()); w != nil &&
			s.workers[w.snapshot.WorkerID] == nil {
			s.workers[w.snapshot.WorkerID] = w
		}
	}
	return s, err
}

func hexFirst(name string) int {
	if _, ok := namedWorker(name); ok {
		return 0
	}
	return 1
}

// namedWorker is the worker that a folder's name means.
func namedWorker(name string) (workers.WorkerID, bool) {
	digits, ok := strings.CutPrefix(name, "id-")
	id, err := hex.DecodeString(digits)
	return workers.WorkerID(id), ok && err == nil && IDName(string(id)) == name
}

// salvageWorker returns nil if the folder's worker is unknown.
func (s *modelRuntime) salvageWorker(folder, name string) *modelWorker {
	byName, named := namedWorker(name)
	w := &modelWorker{snapshot: workerSnapshot{Status: workers.Running, NextTranscriptSequence: 1}}
	text, err := readModelFile(filepath.Join(folder, "worker.json"))
	if err == nil {
		w.snapshot, _, err = readWorkerSnapshot(text)
	}
	transcript := filepath.Join(folder, "transcript.jsonl")
	own := w.snapshot.WorkerID
	switch {
	case err != nil && named:
		own = byName
	case err != nil:
		salvageLines(transcript, func(line []byte) {
			if e, err := readEntryLine(line); err == nil && own == "" &&
				e.WorkerRef.RuntimeID == s.snapshot.RuntimeID {
				own = e.WorkerRef.WorkerID
			}
		})
		if own == "" {
			return nil
		}
	case w.snapshot.WorkerRef.WorkerID != own && named:
		own = byName
	}
	ref := workers.NewWorkerRef(s.snapshot.RuntimeID, own)
	if err != nil {
		w.snapshot = s.guessed(ref)
	}
	w.snapshot.WorkerRef, w.snapshot.WorkerID = ref, own
	salvageLines(transcript, func(line []byte) {
		if e, err := readEntryLine(line); err == nil && e.WorkerRef == ref {
			w.transcript = append(w.transcript, e)
		}
	})
	return w
}

// guessed returns the snapshot of a worker as far as the log shows it.
func (s *modelRuntime) guessed(ref workers.WorkerRef) workerSnapshot {
	w := workerSnapshot{Status: workers.Running, NextTranscriptSequence: 1}
	for _, e := range s.events {
		if e.WorkerRef == nil || *e.WorkerRef != ref {
			continue
		}
		w.LastEventID = e.ID
		switch e.Kind {
		case workerStopped:
			w.Status = workers.Stopped
		case workerCancelled:
			w.Status = workers.Cancelled
		}
	}
	if w.Status == workers.Running && s.snapshot.Status == workers.Stopped {
		w.Status = workers.Stopped
	}
	return w
}

func salvageLines(path string, visit func(line []byte)) {
	text, err := readModelFile(path)
	if err != nil {
		return
	}
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) > 0 {
			visit(bytes.TrimSuffix(line, []byte("\n")))
		}
	}
}

// Diagnose adds the diagnostics that a salvage leaves behind. Which words they use is ours to
// choose; that they take ids, and are counted, is not.
func (m *Workers) Diagnose(list []workers.RuntimeDiagnostic) {
	s := &m.state.snapshot
	for _, d := range list {
		s.Diagnostics = append(s.Diagnostics, d)
		s.NextDiagnosticID = max(s.NextDiagnosticID, d.ID+1)
	}
}
