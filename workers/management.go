package workers

// RuntimeStatus is the status of a runtime. Stopped is final.
type RuntimeStatus string

// WorkerStatus is the status of a worker. Stopped and cancelled are final.
type WorkerStatus string

// The statuses. A runtime is never cancelled.
const (
	Running   = "running"
	Stopped   = "stopped"
	Cancelled = "cancelled"
)

// RuntimeLimits bound the results of one call.
type RuntimeLimits struct {
	// MaxTranscriptProjectionItems is the largest limit of a TranscriptQuery.
	MaxTranscriptProjectionItems uint64 `json:"max_transcript_projection_items" serde:"usize"`
	// MaxEventBatchItems is the largest limit of ReadEvents.
	MaxEventBatchItems uint64 `json:"max_event_batch_items" serde:"usize"`
}

// defaultLimits are those of a runtime that sets none.
var defaultLimits = RuntimeLimits{MaxTranscriptProjectionItems: 256, MaxEventBatchItems: 256}

// RuntimeOptions are the choices of Open. The zero value is the default.
type RuntimeOptions struct {
	// Scope is the name of the scope, in which runtime ids are unique. "" is the default scope.
	Scope string
	// RuntimeID names the runtime; "" makes a new one with a generated id.
	RuntimeID RuntimeID
	// DisplayName is for people; nil means none. An existing runtime keeps its own.
	DisplayName *string
	// Limits are those of a new runtime; nil means 256 entries and 256 events. An existing runtime
	// keeps its own.
	Limits *RuntimeLimits
	// MustExist makes Open return db.ErrNotFound for a missing runtime, and not create it.
	MustExist bool
}

// RuntimeSummary describes a runtime.
type RuntimeSummary struct {
	RuntimeID            RuntimeID     `json:"runtime_id"`
	DisplayName          *string       `json:"display_name"`
	Backend              string        `json:"backend"` // memory or fs_store: in memory, or in a file
	Status               RuntimeStatus `json:"status"`
	WorkerCount          uint64        `json:"worker_count"`
	ActiveWorkerCount    uint64        `json:"active_worker_count"`
	StoppedWorkerCount   uint64        `json:"stopped_worker_count"`
	CancelledWorkerCount uint64        `json:"cancelled_worker_count"`
	DiagnosticCount      uint64        `json:"diagnostic_count"`
	Limits               RuntimeLimits `json:"limits"`
}

// WorkerSummary is a worker in a list.
type WorkerSummary struct {
	WorkerRef                WorkerRef       `json:"worker_ref"`
	RuntimeID                RuntimeID       `json:"runtime_id"`
	WorkerID                 WorkerID        `json:"worker_id"`
	Status                   WorkerStatus    `json:"status"`
	Intent                   WorkerIntent    `json:"intent"`
	Profile                  ProfileSelector `json:"profile"`
	RequestedCapabilityCount uint64          `json:"requested_capability_count"`
	HasConfigBundle          bool            `json:"has_config_bundle"`
	TranscriptLen            uint64          `json:"transcript_len"`
	LastEventID              uint64          `json:"last_event_id"`
}

// WorkerDetail describes a worker, without its transcript.
type WorkerDetail struct {
	WorkerRef             WorkerRef           `json:"worker_ref"`
	RuntimeID             RuntimeID           `json:"runtime_id"`
	WorkerID              WorkerID            `json:"worker_id"`
	Status                WorkerStatus        `json:"status"`
	Intent                WorkerIntent        `json:"intent"`
	Profile               ProfileSelector     `json:"profile"`
	ConfigBundle          *ConfigBundleRef    `json:"config_bundle,omitempty"`
	RequestedCapabilities []CapabilityRequest `json:"requested_capabilities,omitempty"`
	WorkspaceRefs         []WorkspaceRef      `json:"workspace_refs,omitempty"`
	MountRefs             []MountRef          `json:"mount_refs,omitempty"`
	TranscriptLen         uint64              `json:"transcript_len"`
	LastEventID           uint64              `json:"last_event_id"`
}

// WorkerLifecycleAck is the answer to StopWorker and CancelWorker: the status of the worker, and
// the last event that it caused.
type WorkerLifecycleAck struct {
	WorkerRef WorkerRef    `json:"worker_ref"`
	Status    WorkerStatus `json:"status"`
	EventID   uint64       `json:"event_id"`
}

// WorkerInteractionAck is the answer to SendInput.
type WorkerInteractionAck struct {
	WorkerRef          WorkerRef    `json:"worker_ref"`
	Status             WorkerStatus `json:"status"`
	TranscriptSequence uint64       `json:"transcript_sequence"` // of the entry, from 1
	EventID            uint64       `json:"event_id"`
}
