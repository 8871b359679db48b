package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"selvedge/workers"
)

// save writes a call's changes, in the original's order; the first error ends it, and memory
// keeps the change.
func (m *Workers) save(changed []*modelWorker, event uint64, entry *workers.TranscriptEntry) error {
	if err := m.saveRuntime(); err != nil {
		return err
	}
	for _, w := range changed {
		if err := m.saveWorker(w); err != nil {
			return err
		}
	}
	if err := m.saveEvent(event); err != nil {
		return err
	}
	if entry == nil || m.memory() {
		return nil
	}
	w := m.state.workers[entry.WorkerRef.WorkerID]
	at := slices.IndexFunc(w.transcript,
		func(e workers.TranscriptEntry) bool { return e.Sequence == entry.Sequence })
	return appendLine(filepath.Join(m.workerFolder(w), "transcript.jsonl"), w.transcript[at])
}

func (m *Workers) memory() bool {
	return m.Dir == "" || m.Salvaged || m.state.backend == "memory"
}

func (m *Workers) workerFolder(w *modelWorker) string {
	return filepath.Join(m.folder, "workers", IDName(string(w.snapshot.WorkerID)))
}

func (m *Workers) saveRuntime() error {
	if m.memory() {
		return nil
	}
	s := m.state.snapshot
	s.SchemaVersion, s.Backend = 1, "fs_store"
	s.Diagnostics = append([]workers.RuntimeDiagnostic{}, s.Diagnostics...)
	return writeDocument(filepath.Join(m.folder, "runtime.json"), s)
}

func (m *Workers) saveWorker(w *modelWorker) error {
	if m.memory() {
		return nil
	}
	folder := m.workerFolder(w)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	s := w.snapshot
	s.SchemaVersion = 1
	err := writeDocument(filepath.Join(folder, "worker.json"), s)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, "transcript.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// saveEvent writes the first event of that id, as the original does.
func (m *Workers) saveEvent(id uint64) error {
	if m.memory() {
		return nil
	}
	at := slices.IndexFunc(m.state.events, func(e workers.RuntimeEvent) bool { return e.ID == id })
	return appendLine(filepath.Join(m.folder, "events.jsonl"), m.state.events[at])
}

func writeDocument(path string, value any) error {
	var text bytes.Buffer
	if err := json.Indent(&text, unescaped(value), "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, text.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func appendLine(path string, value any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(unescaped(value), '\n'))
	return errors.Join(err, f.Close())
}
