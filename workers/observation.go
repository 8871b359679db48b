package workers

// TranscriptRole is who said an entry of a transcript.
type TranscriptRole string

const (
	RoleUser   TranscriptRole = "user"
	RoleSystem TranscriptRole = "system"
)

// A TranscriptEntry is what was said to a worker.
type TranscriptEntry struct {
	Sequence  uint64         `json:"sequence"` // from 1; imported transcripts may have gaps
	WorkerRef WorkerRef      `json:"worker_ref"`
	Role      TranscriptRole `json:"role"`
	Content   string         `json:"content"`
	EventID   uint64         `json:"event_id"` // of the event that accepted it
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

// RuntimeEventKind is what happened. An imported log may hold other words.
type RuntimeEventKind string

const (
	EventRuntimeStarted      RuntimeEventKind = "runtime_started"
	EventRuntimeStopped      RuntimeEventKind = "runtime_stopped"
	EventWorkerCreated       RuntimeEventKind = "worker_created"
	EventWorkerInputAccepted RuntimeEventKind = "worker_input_accepted"
	EventWorkerStopped       RuntimeEventKind = "worker_stopped"
	EventWorkerCancelled     RuntimeEventKind = "worker_cancelled"
)

// A RuntimeEvent is something that happened to a runtime or one of its workers.
type RuntimeEvent struct {
	ID        uint64           `json:"id"` // from 1; imported logs may have gaps
	WorkerRef *WorkerRef       `json:"worker_ref,omitempty"`
	Kind      RuntimeEventKind `json:"kind"` // in JSON the object {"kind":…}
	Message   string           `json:"message"`
}

// An EventCursor points between two events of a runtime's log. It stays good across restarts.
type EventCursor struct {
	RuntimeID   RuntimeID `json:"runtime_id"`
	NextEventID uint64    `json:"next_event_id"`
	// Position is the place in the log where its ids can't tell: in an imported log whose ids repeat
	// or go back. ReadEvents sets it there once it has a cursor with one; else it is 0.
	Position uint64 `json:"position,omitempty"`
}

// A RuntimeEventBatch is a part of a runtime's log.
type RuntimeEventBatch struct {
	RuntimeID RuntimeID      `json:"runtime_id"`
	Cursor    EventCursor    `json:"cursor"` // behind the events given
	Events    []RuntimeEvent `json:"events"`
	HasMore   bool           `json:"has_more"`
}

// EventSubscriptionMode is how a subscription gets its events.
type EventSubscriptionMode string

// SubscriptionPollOnly means by calling ReadEvents.
const SubscriptionPollOnly EventSubscriptionMode = "poll_only"

// An EventSubscription is where a caller of ReadEvents begins.
type EventSubscription struct {
	RuntimeID RuntimeID             `json:"runtime_id"`
	Cursor    EventCursor           `json:"cursor"`
	Mode      EventSubscriptionMode `json:"mode"`
}
