package workers

// CreateWorkerRequest says what a worker is for and what it wants. Intent and Profile have
// meaningful zero values: an assistant with the runtime's default profile.
type CreateWorkerRequest struct {
	Intent                WorkerIntent        `json:"intent"`
	Profile               ProfileSelector     `json:"profile"`
	ConfigBundle          *ConfigBundleRef    `json:"config_bundle,omitempty"`
	RequestedCapabilities []CapabilityRequest `json:"requested_capabilities,omitempty"`
	WorkspaceRefs         []WorkspaceRef      `json:"workspace_refs,omitempty"`
	MountRefs             []MountRef          `json:"mount_refs,omitempty"`
}

// ToolsLess is a request without a configuration bundle, capabilities or references.
func ToolsLess(intent WorkerIntent, profile ProfileSelector) CreateWorkerRequest {
	return CreateWorkerRequest{Intent: intent, Profile: profile}
}

// A ConfigBundleRef names a configuration bundle. The runtime does not look at it.
type ConfigBundleRef struct {
	ID string `json:"id"`
}

// A CapabilityRequest names a tool that the worker wants to use. Its name must not be blank.
type CapabilityRequest struct {
	Name   string  `json:"name"`
	Reason *string `json:"reason,omitempty"`
}

// NamedCapability is a request without a reason.
func NamedCapability(name string) CapabilityRequest { return CapabilityRequest{Name: name} }

// A WorkspaceRef is the name under which the worker sees a workspace.
type WorkspaceRef struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

// A MountRef is the name under which the worker sees a mount.
type MountRef struct {
	Name      string `json:"name"`
	Reference string `json:"reference"`
}

// WorkerStatus is where a worker stands. Stopped and cancelled are final: what comes later changes nothing.
type WorkerStatus string

const (
	WorkerRunning   WorkerStatus = "running"
	WorkerStopped   WorkerStatus = "stopped"
	WorkerCancelled WorkerStatus = "cancelled"
)

// IsActive reports whether the worker takes inputs.
func (s WorkerStatus) IsActive() bool { return s == WorkerRunning }

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

// WorkerDetail is all about a worker but what was said to it.
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

// WorkerLifecycleAck is the answer to StopWorker and CancelWorker: where the worker stands now, and
// the last event that it caused.
type WorkerLifecycleAck struct {
	WorkerRef WorkerRef    `json:"worker_ref"`
	Status    WorkerStatus `json:"status"`
	EventID   uint64       `json:"event_id"`
}
