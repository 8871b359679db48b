package workers

// A Ref is what a worker is addressed by.
type Ref struct{ RuntimeID, WorkerID string }

// An Intent says what a worker is for.
type Intent struct {
	Kind      string
	Objective string  // of a task
	Role      string  // of a role
	Purpose   *string // of an assistant or a role; nil: not given
}

// A Profile says how the profile of a worker is selected.
type Profile struct {
	Kind  string
	Value string // of a builtin or named one
}

// A Capability is a tool that a worker wants to use.
type Capability struct {
	Name   string
	Reason *string
}

// A Named is a workspace, or a mount, under the name by which a worker sees it.
type Named struct{ Name, Reference string }

// A Request is what a worker is created with.
type Request struct {
	Intent       Intent
	Profile      Profile
	ConfigBundle *string // id of a configuration bundle
	Capabilities []Capability
	Workspaces   []Named
	Mounts       []Named
}

// An Input is something said to a worker.
type Input struct{ Kind, Content string }

// An Event is a line of a runtime's log.
type Event struct {
	ID      uint64
	Worker  *Ref // nil: of the runtime
	Kind    string
	Message string
}

// An Entry is a line of a worker's transcript.
type Entry struct {
	Sequence uint64
	Worker   Ref
	Role     string
	Content  string
	EventID  uint64
}

// A Diagnostic is something worth knowing about a runtime or a worker.
type Diagnostic struct {
	ID       uint64
	Severity string
	Code     string
	Message  string
	Worker   *Ref // nil: of the runtime
}

// Limits bound what one call gives.
type Limits struct{ Transcript, Events uint64 }

// The words of the files, and of the columns.
const (
	Running, Stopped, Cancelled = "running", "stopped", "cancelled"

	IntentAssistant, IntentTask, IntentRole = "assistant", "task", "role"

	ProfileDefault, ProfileBuiltin, ProfileNamed = "runtime_default", "builtin", "named"

	RoleUser, RoleSystem = "user", "system"

	RuntimeStarted, RuntimeStopped   = "runtime_started", "runtime_stopped"
	WorkerCreated, InputAccepted     = "worker_created", "worker_input_accepted"
	WorkerStopped, WorkerCancelled   = "worker_stopped", "worker_cancelled"
	SeverityInfo, SeverityWarning    = "info", "warning"
	SeverityError                    = "error"
	backendMemory, backendFolder     = "memory", "fs_store"
	defaultTranscript, defaultEvents = 256, 256
)

// DefaultLimits are 256 entries and 256 events.
func DefaultLimits() Limits { return Limits{Transcript: defaultTranscript, Events: defaultEvents} }
