package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"selvedge/workers"
)

// Workers is a plain model of the original worker runtime: all in memory, and with Dir also in the
// original's files, with whatever happens when these are damaged or can't be written.
type Workers struct {
	Dir string // "" is memory only
	// Counted makes counters go on behind the highest number seen, and takes ids of any length: rules 22 and 16.
	Counted bool
	// Raised tells whether that made a difference in the runtime that is open.
	Raised bool
	// Salvaging opens what the original refuses, with the parts that can be read: rule 21.
	// Salvaged reports that it had to. From then on the runtime is in memory alone.
	Salvaging bool
	Salvaged  bool

	folder string // of the open runtime
	opened bool
	id     workers.RuntimeID
	state  modelRuntime
}

type modelRuntime struct {
	snapshot runtimeSnapshot
	backend  string // memory or fs_store
	workers  map[workers.WorkerID]*modelWorker
	events   []workers.RuntimeEvent
}

type modelWorker struct {
	snapshot   workerSnapshot
	transcript []workers.TranscriptEntry
}

// workersError is a refusal of the model.
type workersError struct{ kind, text string }

func (e *workersError) Error() string { return e.text }

func workersErrorf(kind, format string, args ...any) error {
	return &workersError{kind, fmt.Sprintf(format, args...)}
}

// The kinds of events.
const (
	runtimeStarted      = "runtime_started"
	runtimeStopped      = "runtime_stopped"
	workerCreated       = "worker_created"
	workerInputAccepted = "worker_input_accepted"
	workerStopped       = "worker_stopped"
	workerCancelled     = "worker_cancelled"
)

// IDName is the original's folder for an id.
func IDName(id string) string { return "id-" + hex.EncodeToString([]byte(id)) }

// name returns the folder of a runtime. If Ours allows it, one with a long id has a shorter name.
func (m *Workers) name(id workers.RuntimeID) string {
	name := IDName(string(id))
	if m.Counted && len(name) > 255 {
		return fmt.Sprintf("long-%x", sha256.Sum256([]byte(id)))
	}
	return name
}

// Play makes a call.
func (m *Workers) Play(c *Call) Outcome {
	ok, err := m.play(c)
	if err != nil {
		if refusal, ok := errors.AsType[*workersError](err); ok {
			return Fails(err, refusal.kind)
		}
		return Fails(err, "StoreIo")
	}
	return Outcome{OK: ok}
}

// Summary is the answer to a reopen that finds everything as it was.
func (m *Workers) Summary() Outcome { return Outcome{OK: m.summary()} }

func (m *Workers) play(c *Call) (any, error) {
	switch c.Op {
	case "runtime_id_new":
		if id, ok := workers.NewRuntimeID(c.Text("value")); ok {
			return id, nil
		}
		return nil, nil
	case "open", "new_memory":
		return m.open(c)
	case "reopen":
		return m.reopen(c)
	}
	if !m.opened {
		return nil, workersErrorf("not_open", "no runtime is open")
	}
	switch c.Op {
	case "status":
		return m.state.snapshot.Status, nil
	case "summary":
		return m.summary(), nil
	case "diagnostics":
		return append([]workers.RuntimeDiagnostic{}, m.state.snapshot.Diagnostics...), nil
	case "list_workers":
		return m.list(), nil
	case "event_cursor_from_start":
		return workers.EventCursor{RuntimeID: m.id, NextEventID: 1}, nil
	case "event_cursor_now":
		return workers.EventCursor{RuntimeID: m.id, NextEventID: m.lastEvent() + 1}, nil
	case "stop_runtime":
		return m.stopRuntime()
	case "create_worker":
		return m.create(c)
	case "read_events", "subscribe_events":
		return m.readEvents(c)
	}
	var ref workers.WorkerRef
	if err := c.Unmarshal("worker_ref", &ref); err != nil {
		return nil, &workersError{"decode", err.Error()}
	}
	switch c.Op {
	case "worker_detail":
		w, err := m.worker(ref)
		if err != nil {
			return nil, err
		}
		return m.detail(w), nil
	case "send_input":
		return m.send(ref, c)
	case "stop_worker":
		return m.end(ref, workers.Stopped, workerStopped, reason(c, "worker stopped"))
	case "cancel_worker":
		return m.end(ref, workers.Cancelled, workerCancelled, reason(c, "worker cancelled"))
	case "transcript_projection":
		return m.project(ref, c)
	}
	return nil, workersErrorf("", "the model has no %s", c.Op)
}

func reason(c *Call, otherwise string) string {
	if c.Has("reason") {
		return c.Text("reason")
	}
	return otherwise
}

var defaultLimits = workers.RuntimeLimits{MaxTranscriptProjectionItems: 256, MaxEventBatchItems: 256}

func (m *Workers) open(c *Call) (any, error) {
	limits := defaultLimits
	if err := c.Unmarshal("limits", &limits); err != nil {
		return nil, &workersError{"decode", err.Error()}
	}
	m.opened, m.Raised, m.Salvaged = false, false, false
	if c.Op != "reopen" {
		m.id = workers.RuntimeID(c.Text("runtime_id"))
	}
	m.folder = filepath.Join(m.Dir, "runtimes", m.name(m.id))
	fresh := modelRuntime{
		backend: "fs_store", workers: map[workers.WorkerID]*modelWorker{},
		snapshot: runtimeSnapshot{
			RuntimeID: m.id, Status: workers.Running, Limits: limits, NextWorkerSequence: 1, NextEventID: 1,
			NextDiagnosticID: 1,
		},
	}
	if c.Has("display_name") {
		name := c.Text("display_name")
		fresh.snapshot.DisplayName = &name
	}
	if c.Op == "new_memory" {
		fresh.backend = "memory"
	} else if m.Dir != "" {
		if _, err := os.Lstat(m.folder); err == nil {
			return m.load()
		}
		if err := os.MkdirAll(filepath.Join(m.folder, "workers"), 0o700); err != nil {
			return nil, err
		}
	}
	m.state, m.opened = fresh, true
	id := m.push(nil, runtimeStarted, "runtime started")
	if err := errors.Join(m.saveRuntime(), m.saveEvent(id)); err != nil {
		m.opened = false
		return nil, err
	}
	return m.summary(), nil
}

func (m *Workers) push(ref *workers.WorkerRef, kind workers.RuntimeEventKind, message string) uint64 {
	id := m.state.snapshot.NextEventID
	m.state.snapshot.NextEventID++
	m.state.events = append(m.state.events,
		workers.RuntimeEvent{ID: id, WorkerRef: ref, Kind: kind, Message: message})
	return id
}

func (m *Workers) lastEvent() uint64 {
	return max(m.state.snapshot.NextEventID, 1) - 1
}

func (m *Workers) ordered() []*modelWorker {
	list := make([]*modelWorker, 0, len(m.state.workers))
	for _, w := range m.state.workers {
		list = append(list, w)
	}
	slices.SortFunc(list, func(a, b *modelWorker) int {
		return strings.Compare(string(a.snapshot.WorkerID), string(b.snapshot.WorkerID))
	})
	return list
}

func (m *Workers) summary() workers.RuntimeSummary {
	s := workers.RuntimeSummary{
		RuntimeID: m.id, DisplayName: m.state.snapshot.DisplayName, Backend: m.state.backend,
		Status:          m.state.snapshot.Status,
		DiagnosticCount: uint64(len(m.state.snapshot.Diagnostics)), Limits: m.state.snapshot.Limits,
	}
	for _, w := range m.state.workers {
		s.WorkerCount++
		switch w.snapshot.Status {
		case workers.Running:
			s.ActiveWorkerCount++
		case workers.Stopped:
			s.StoppedWorkerCount++
		case workers.Cancelled:
			s.CancelledWorkerCount++
		}
	}
	return s
}

func (m *Workers) list() []workers.WorkerSummary {
	list := []workers.WorkerSummary{}
	for _, w := range m.ordered() {
		q := w.snapshot.Request
		list = append(list, workers.WorkerSummary{
			WorkerRef: w.snapshot.WorkerRef, RuntimeID: m.id, WorkerID: w.snapshot.WorkerID, Status: w.snapshot.Status,
			Intent: q.Intent, Profile: q.Profile, RequestedCapabilityCount: uint64(len(q.RequestedCapabilities)),
			HasConfigBundle: q.ConfigBundle != nil, TranscriptLen: uint64(len(w.transcript)),
			LastEventID: w.snapshot.LastEventID,
		})
	}
	return list
}

func (m *Workers) detail(w *modelWorker) workers.WorkerDetail {
	q := w.snapshot.Request
	return workers.WorkerDetail{
		WorkerRef: w.snapshot.WorkerRef, RuntimeID: m.id, WorkerID: w.snapshot.WorkerID, Status: w.snapshot.Status,
		Intent: q.Intent, Profile: q.Profile, ConfigBundle: q.ConfigBundle,
		RequestedCapabilities: q.RequestedCapabilities,
		WorkspaceRefs:         q.WorkspaceRefs, MountRefs: q.MountRefs, TranscriptLen: uint64(len(w.transcript)),
		LastEventID: w.snapshot.LastEventID,
	}
}

func (m *Workers) ensureRunning() error {
	if m.state.snapshot.Status == workers.Stopped {
		return workersErrorf("RuntimeStopped", "runtime %s is stopped", m.id)
	}
	return nil
}

func (m *Workers) worker(ref workers.WorkerRef) (*modelWorker, error) {
	if ref.RuntimeID != m.id {
		return nil, workersErrorf("WrongRuntime", "worker %s belongs to runtime %s, not runtime %s", ref.WorkerID,
			ref.RuntimeID, m.id)
	}
	w, ok := m.state.workers[ref.WorkerID]
	if !ok {
		return nil, workersErrorf("WorkerNotFound", "worker %s was not found in runtime %s", ref.WorkerID, m.id)
	}
	return w, nil
}

func (m *Workers) create(c *Call) (any, error) {
	var q workers.CreateWorkerRequest
	if err := json.Unmarshal(c.Raw("request"), &q); err != nil {
		return nil, &workersError{"decode", err.Error()}
	}
	if err := m.ensureRunning(); err != nil {
		return nil, err
	}
	if q.Intent.Kind == "task" && strings.TrimSpace(q.Intent.Objective) == "" {
		return nil, workersErrorf("InvalidRequest", "invalid request: task objective must not be empty")
	}
	for _, capability := range q.RequestedCapabilities {
		if strings.TrimSpace(capability.Name) == "" {
			return nil, workersErrorf("InvalidRequest", "invalid request: capability name must not be empty")
		}
	}
	s := &m.state.snapshot
	id := generated(s.NextWorkerSequence)
	s.NextWorkerSequence++
	ref := workers.NewWorkerRef(m.id, id)
	event := m.push(&ref, workerCreated, fmt.Sprintf("worker %s created", id))
	w := &modelWorker{snapshot: workerSnapshot{
		WorkerRef: ref, WorkerID: id, Status: workers.Running, Request: q, NextTranscriptSequence: 1,
		LastEventID: event,
	}}
	if q.ConfigBundle == nil {
		m.diagnose("runtime.local_default_resources",
			"worker created without ConfigBundleRef; runtime-local defaults are assumed", ref)
	}
	if len(q.RequestedCapabilities) == 0 {
		m.diagnose("worker.tools_less", "worker created without requested tool capabilities", ref)
	}
	m.state.workers[id] = w
	return m.detail(w), m.save([]*modelWorker{w}, event, nil)
}

func generated(sequence uint64) workers.WorkerID {
	return workers.WorkerID(fmt.Sprintf("worker-%08x", sequence))
}

func (m *Workers) diagnose(code, message string, ref workers.WorkerRef) {
	s := &m.state.snapshot
	s.Diagnostics = append(s.Diagnostics, workers.RuntimeDiagnostic{
		ID: s.NextDiagnosticID, Severity: "info", Code: code, Message: message, WorkerRef: &ref,
	})
	s.NextDiagnosticID++
}

func (m *Workers) send(ref workers.WorkerRef, c *Call) (any, error) {
	var input workers.WorkerInput
	if err := json.Unmarshal(c.Raw("input"), &input); err != nil {
		return nil, &workersError{"decode", err.Error()}
	}
	if err := m.ensureRunning(); err != nil {
		return nil, err
	}
	if strings.TrimSpace(input.Content) == "" {
		return nil, workersErrorf("InvalidRequest", "invalid request: worker input content must not be empty")
	}
	w, err := m.worker(ref)
	if err != nil {
		return nil, err
	}
	if w.snapshot.Status != workers.Running {
		return nil, workersErrorf("InvalidRequest", "invalid request: worker %s is not running", ref.WorkerID)
	}
	event := m.push(&ref, workerInputAccepted, "worker input accepted")
	e := workers.TranscriptEntry{
		Sequence: w.snapshot.NextTranscriptSequence, WorkerRef: ref, Role: input.Kind,
		Content: input.Content, EventID: event,
	}
	w.snapshot.NextTranscriptSequence++
	w.snapshot.LastEventID = event
	w.transcript = append(w.transcript, e)
	ack := workers.WorkerInteractionAck{
		WorkerRef: ref, Status: w.snapshot.Status,
		TranscriptSequence: e.Sequence, EventID: event,
	}
	return ack, m.save([]*modelWorker{w}, event, &e)
}

func (m *Workers) end(ref workers.WorkerRef, as workers.WorkerStatus, kind workers.RuntimeEventKind,
	message string,
) (any, error) {
	if err := m.ensureRunning(); err != nil {
		return nil, err
	}
	w, err := m.worker(ref)
	if err != nil {
		return nil, err
	}
	if w.snapshot.Status == workers.Running {
		w.snapshot.Status = as
		w.snapshot.LastEventID = m.push(&ref, kind, message)
		err = m.save([]*modelWorker{w}, w.snapshot.LastEventID, nil)
	}
	return workers.WorkerLifecycleAck{
		WorkerRef: ref, Status: w.snapshot.Status,
		EventID: w.snapshot.LastEventID,
	}, err
}

func (m *Workers) stopRuntime() (any, error) {
	if m.ensureRunning() != nil {
		return m.lastEvent(), nil
	}
	m.state.snapshot.Status = workers.Stopped
	for _, w := range m.state.workers {
		if w.snapshot.Status == workers.Running {
			w.snapshot.Status = workers.Stopped
		}
	}
	event := m.push(nil, runtimeStopped, fmt.Sprintf("runtime %s stopped", m.id))
	return event, m.save(m.ordered(), event, nil)
}

func (m *Workers) project(ref workers.WorkerRef, c *Call) (any, error) {
	var q workers.TranscriptQuery
	if err := errors.Join(c.Unmarshal("start", &q.Start), c.Unmarshal("limit", &q.Limit)); err != nil {
		return nil, &workersError{"decode", err.Error()}
	}
	if most := m.state.snapshot.Limits.MaxTranscriptProjectionItems; q.Limit > most {
		return nil, workersErrorf("LimitTooLarge", "limit %d exceeds maximum %d", q.Limit, most)
	}
	w, err := m.worker(ref)
	if err != nil {
		return nil, err
	}
	total := uint64(len(w.transcript))
	end := total
	if q.Start < total && q.Limit < total-q.Start {
		end = q.Start + q.Limit
	}
	p := workers.TranscriptProjection{
		WorkerRef: ref, Start: q.Start, Limit: q.Limit, TotalItems: total,
		Items: []workers.TranscriptEntry{},
	}
	if q.Start < total {
		p.Items = append(p.Items, w.transcript[q.Start:end]...)
	}
	if end < total {
		p.NextStart = &end
	}
	return p, nil
}

func (m *Workers) readEvents(c *Call) (any, error) {
	var cursor workers.EventCursor
	var limit uint64
	if err := errors.Join(c.Unmarshal("cursor", &cursor), c.Unmarshal("limit", &limit)); err != nil {
		return nil, &workersError{"decode", err.Error()}
	}
	if cursor.RuntimeID != m.id {
		return nil, workersErrorf("WrongRuntimeCursor", "cursor belongs to runtime %s, not runtime %s",
			cursor.RuntimeID, m.id)
	}
	if c.Op == "subscribe_events" {
		return workers.EventSubscription{RuntimeID: m.id, Cursor: cursor, Mode: "poll_only"}, nil
	}
	if most := m.state.snapshot.Limits.MaxEventBatchItems; limit > most {
		return nil, workersErrorf("LimitTooLarge", "limit %d exceeds maximum %d", limit, most)
	}
	batch := workers.RuntimeEventBatch{RuntimeID: m.id, Cursor: cursor, Events: []workers.RuntimeEvent{}}
	for _, e := range m.state.events {
		if e.ID >= cursor.NextEventID && uint64(len(batch.Events)) < limit {
			batch.Events = append(batch.Events, e)
			batch.Cursor.NextEventID = e.ID + 1
		}
	}
	for _, e := range m.state.events {
		batch.HasMore = batch.HasMore || e.ID >= batch.Cursor.NextEventID
	}
	return batch, nil
}
