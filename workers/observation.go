package workers

import (
	"fmt"
	"slices"

	"selvedge/internal/serdejson"
)

// A TranscriptEntry is something that was said to a worker.
type TranscriptEntry struct {
	Sequence  uint64    `json:"sequence"` // from 1; imported transcripts may have gaps
	WorkerRef WorkerRef `json:"worker_ref"`
	Role      string    `json:"role" serde:"user|system"`
	Content   string    `json:"content"`
	EventID   uint64    `json:"event_id"` // of the event that accepted it
}

// A TranscriptQuery asks for a part of a transcript.
type TranscriptQuery struct {
	Start uint64 `json:"start"` // index of the first entry, from 0; not a sequence
	Limit uint64 `json:"limit"` // at most RuntimeLimits.MaxTranscriptProjectionItems
}

// NewTranscriptQuery asks for limit entries from the index start on.
func NewTranscriptQuery(start, limit uint64) TranscriptQuery {
	return TranscriptQuery{Start: start, Limit: limit}
}

// A TranscriptProjection is a part of a transcript.
type TranscriptProjection struct {
	WorkerRef  WorkerRef         `json:"worker_ref"`
	Start      uint64            `json:"start"`
	Limit      uint64            `json:"limit"`
	TotalItems uint64            `json:"total_items"`
	Items      []TranscriptEntry `json:"items"`
	NextStart  *uint64           `json:"next_start"` // nil when nothing is left
}

// A RuntimeEventKind is the kind of an event: runtime_started, runtime_stopped, worker_created,
// worker_input_accepted, worker_stopped or worker_cancelled. An imported log may hold other words.
type RuntimeEventKind string

const (
	runtimeStarted      = "runtime_started"
	runtimeStopped      = "runtime_stopped"
	workerCreated       = "worker_created"
	workerInputAccepted = "worker_input_accepted"
	workerStopped       = "worker_stopped"
	workerCancelled     = "worker_cancelled"
)

// eventKinds are in the order in which error texts list them.
var eventKinds = []string{
	runtimeStarted, runtimeStopped, workerCreated, workerInputAccepted, workerStopped, workerCancelled,
}

// wrong returns why the old program refuses the kind; "" if it accepts it.
func (k RuntimeEventKind) wrong() string {
	if slices.Contains(eventKinds, string(k)) {
		return ""
	}
	return fmt.Sprintf("unknown variant `%s`, expected %s", k, serdejson.OneOf(eventKinds))
}

// MarshalJSON writes the object {"kind":…}.
func (k RuntimeEventKind) MarshalJSON() ([]byte, error) {
	return encode(map[string]string{"kind": string(k)}), nil
}

// UnmarshalJSON reads the object {"kind":…}, with any word.
func (k *RuntimeEventKind) UnmarshalJSON(text []byte) error { return into(anyJSON, text, k) }

// A RuntimeEvent is something that happened to a runtime or one of its workers.
type RuntimeEvent struct {
	ID        uint64           `json:"id"` // from 1; imported logs may have gaps
	WorkerRef *WorkerRef       `json:"worker_ref,omitempty"`
	Kind      RuntimeEventKind `json:"kind"` // in JSON the object {"kind":…}
	Message   string           `json:"message"`
}

// An EventCursor points between two events of a runtime's log. It stays valid across restarts.
type EventCursor struct {
	RuntimeID   RuntimeID `json:"runtime_id"`
	NextEventID uint64    `json:"next_event_id"`
	// Position is the place in an imported log whose ids repeat or go back. ReadEvents sets it; in
	// other logs it is 0.
	Position uint64 `json:"position,omitempty"`
}

// A RuntimeEventBatch is a part of a runtime's log.
type RuntimeEventBatch struct {
	RuntimeID RuntimeID      `json:"runtime_id"`
	Cursor    EventCursor    `json:"cursor"` // behind the events given
	Events    []RuntimeEvent `json:"events"`
	HasMore   bool           `json:"has_more"`
}

// An EventSubscription is the result of SubscribeEvents.
type EventSubscription struct {
	RuntimeID RuntimeID   `json:"runtime_id"`
	Cursor    EventCursor `json:"cursor"`
	Mode      string      `json:"mode"` // poll_only: the caller calls ReadEvents
}

// A RuntimeDiagnostic is a notice about a runtime or one of its workers.
type RuntimeDiagnostic struct {
	ID        uint64     `json:"id"` // from 1
	Severity  string     `json:"severity" serde:"info|warning|error"`
	Code      string     `json:"code"` // a stable word, such as worker.tools_less
	Message   string     `json:"message"`
	WorkerRef *WorkerRef `json:"worker_ref,omitempty"`
}

const (
	severityInfo  = "info"
	severityError = "error"
)
