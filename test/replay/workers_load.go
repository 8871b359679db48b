package replay

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"selvedge/workers"
)

// unescaped is the JSON of value as the original writes it: Go's escapes two line separators that
// the original doesn't.
func unescaped(value any) []byte {
	text := Encode(value)
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case bytes.HasPrefix(rest, []byte(`\u2028`)):
			out = append(out, "\u2028"...)
			i += 5
		case bytes.HasPrefix(rest, []byte(`\u2029`)):
			out = append(out, "\u2029"...)
			i += 5
		case text[i] == '\\':
			out = append(out, text[i], text[i+1])
			i++
		default:
			out = append(out, text[i])
		}
	}
	return out
}

func (m *Workers) reopen(c *Call) (any, error) {
	if m.memory() && !m.Salvaged {
		return m.summary(), nil
	}
	return m.open(c)
}

// load reads the runtime from its files, as strictly as the original.
func (m *Workers) load() (any, error) {
	m.opened = false
	state, err := loadRuntime(m.folder, m.id)
	if err != nil && m.Salvaging {
		if state, err = salvageRuntime(m.folder, m.id); err == nil {
			m.Salvaged = true
		}
	}
	if err != nil {
		return nil, err
	}
	m.state, m.opened = state, true
	if m.Counted {
		m.Raised = m.state.count()
	}
	return m.summary(), nil
}

// count makes the counters follow the highest numbers seen, and tells whether one did not.
func (s *modelRuntime) count() (raised bool) {
	follow := func(counter *uint64, seen uint64) {
		if next := max(seen, seen+1); *counter < next { // there is nothing behind the last number
			*counter, raised = next, true
		}
	}
	for _, e := range s.events {
		follow(&s.snapshot.NextEventID, e.ID)
	}
	for _, d := range s.snapshot.Diagnostics {
		follow(&s.snapshot.NextDiagnosticID, d.ID)
	}
	for id, w := range s.workers {
		var n uint64
		if _, err := fmt.Sscanf(string(id), "worker-%x", &n); err == nil && id == generated(n) {
			follow(&s.snapshot.NextWorkerSequence, n)
		}
		for _, e := range w.transcript {
			follow(&w.snapshot.NextTranscriptSequence, e.Sequence)
		}
	}
	return raised
}

// readModelFile reads a file as the original does: what can't be opened can't be read from, and
// whatever goes wrong with a document behind that is corruption.
func readModelFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, workersErrorf("StoreMissing", "missing data at %s", path)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err != nil && strings.HasSuffix(path, ".json") {
		err = &workersError{"StoreCorrupt", err.Error()}
	}
	return text, errors.Join(err, f.Close())
}

func loadRuntime(folder string, id workers.RuntimeID) (s modelRuntime, err error) {
	s = modelRuntime{backend: "fs_store", workers: map[workers.WorkerID]*modelWorker{}}
	info, err := os.Stat(folder)
	if err != nil {
		return s, err
	}
	if !info.IsDir() {
		return s, workersErrorf("StoreCorrupt", "runtime path exists but is not a directory")
	}
	inside := filepath.Join(folder, "workers")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		return s, err
	}
	text, err := readModelFile(filepath.Join(folder, "runtime.json"))
	if err != nil {
		return s, err
	}
	var wrong string
	s.snapshot, wrong, err = readRuntimeSnapshot(text)
	if err == nil && wrong == "" && s.snapshot.RuntimeID != id {
		wrong = "runtime snapshot id does not match"
	}
	if err := corrupt(wrong, err); err != nil {
		return s, err
	}
	err = modelLines(filepath.Join(folder, "events.jsonl"), func(line []byte) error {
		e, wrong, err := readEventLine(line)
		s.events = append(s.events, e)
		return corrupt(wrong, err)
	})
	if err != nil {
		return s, err
	}
	list, err := os.ReadDir(inside)
	for _, entry := range list {
		w, loading := loadWorker(filepath.Join(inside, entry.Name()), id)
		if loading != nil {
			return s, loading
		}
		if _, there := s.workers[w.snapshot.WorkerID]; there {
			return s, workersErrorf("StoreCorrupt", "duplicate worker id in store")
		}
		s.workers[w.snapshot.WorkerID] = w
	}
	return s, err
}

// corrupt is the original's refusal of a text that can't be read, or is wrong.
func corrupt(wrong string, err error) error {
	switch {
	case err != nil:
		return &workersError{"StoreCorrupt", err.Error()}
	case wrong != "":
		return &workersError{"StoreCorrupt", wrong}
	}
	return nil
}

func modelLines(path string, visit func(line []byte) error) error {
	text, err := readModelFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if !utf8.Valid(line) {
			return errors.New("stream did not contain valid UTF-8")
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := visit(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
	}
	return nil
}

func loadWorker(folder string, runtime workers.RuntimeID) (*modelWorker, error) {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return nil, workersErrorf("StoreCorrupt", "worker path exists but is not a directory")
	}
	text, err := readModelFile(filepath.Join(folder, "worker.json"))
	if err != nil {
		return nil, err
	}
	w := &modelWorker{}
	var wrong string
	w.snapshot, wrong, err = readWorkerSnapshot(text)
	if err == nil && wrong == "" && w.snapshot.WorkerRef.RuntimeID != runtime {
		wrong = "worker belongs to another runtime"
	}
	if err := corrupt(wrong, err); err != nil {
		return nil, err
	}
	own := w.snapshot.WorkerRef
	return w, modelLines(filepath.Join(folder, "transcript.jsonl"), func(line []byte) error {
		e, err := readEntryLine(line)
		w.transcript = append(w.transcript, e)
		switch {
		case err != nil:
			return corrupt("", err)
		case e.WorkerRef.RuntimeID != own.RuntimeID:
			return workersErrorf("WrongRuntime", "worker %s belongs to runtime %s", e.WorkerRef.WorkerID,
				e.WorkerRef.RuntimeID)
		case e.WorkerRef.WorkerID != own.WorkerID:
			return workersErrorf("StoreCorrupt", "transcript entry belongs to worker %s", e.WorkerRef.WorkerID)
		}
		return nil
	})
}

// ListedName is how a listing of a transcript spells a folder: by the id of a worker, which may
// have an alias.
func ListedName(name string) string {
	digits, _ := strings.CutPrefix(name, "id-")
	if id, err := hex.DecodeString(digits); err == nil && strings.HasPrefix(string(id), "worker-") {
		return "id-hex(" + string(id) + ")"
	}
	return name
}
