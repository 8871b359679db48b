package workers

// RuntimeBackendKind is where a runtime is kept.
type RuntimeBackendKind string

const (
	BackendMemory  RuntimeBackendKind = "memory"   // in a database in memory
	BackendFsStore RuntimeBackendKind = "fs_store" // in a file
)

// RuntimeStatus is where a runtime stands. Stopped is final.
type RuntimeStatus string

const (
	RuntimeRunning RuntimeStatus = "running"
	RuntimeStopped RuntimeStatus = "stopped"
)

// RuntimeLimits bound what one call gives.
type RuntimeLimits struct {
	// MaxTranscriptProjectionItems is the largest limit of a TranscriptQuery.
	MaxTranscriptProjectionItems uint64 `json:"max_transcript_projection_items"`
	// MaxEventBatchItems is the largest limit of ReadEvents.
	MaxEventBatchItems uint64 `json:"max_event_batch_items"`
}

// DefaultLimits are 256 entries and 256 events.
func DefaultLimits() RuntimeLimits {
	return RuntimeLimits{MaxTranscriptProjectionItems: 256, MaxEventBatchItems: 256}
}

// RuntimeOptions are the choices of Open. The zero value is the default.
type RuntimeOptions struct {
	// Scope is the name of the scope; what runtime ids are unique in. "" is the default scope.
	Scope string
	// RuntimeID names the runtime; "" makes a new one, under an id of its own.
	RuntimeID RuntimeID
	// DisplayName is for people; nil means none. A runtime that is there keeps its own.
	DisplayName *string
	// Limits are those of a new runtime; nil means DefaultLimits. A runtime that is there keeps its own.
	Limits *RuntimeLimits
	// MustExist makes Open return db.ErrNotFound in place of making a runtime.
	MustExist bool
}

// RuntimeSummary describes a runtime.
type RuntimeSummary struct {
	RuntimeID            RuntimeID          `json:"runtime_id"`
	DisplayName          *string            `json:"display_name"`
	Backend              RuntimeBackendKind `json:"backend"`
	Status               RuntimeStatus      `json:"status"`
	WorkerCount          uint64             `json:"worker_count"`
	ActiveWorkerCount    uint64             `json:"active_worker_count"`
	StoppedWorkerCount   uint64             `json:"stopped_worker_count"`
	CancelledWorkerCount uint64             `json:"cancelled_worker_count"`
	DiagnosticCount      uint64             `json:"diagnostic_count"`
	Limits               RuntimeLimits      `json:"limits"`
}
