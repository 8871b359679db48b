package workers

import (
	"strings"

	"github.com/google/uuid"
)

// A RuntimeID names a runtime inside its scope. It is compared as it is.
type RuntimeID string

// NewRuntimeID makes an id of value, which is kept as it is; ok is false where it is blank.
func NewRuntimeID(value string) (id RuntimeID, ok bool) {
	return RuntimeID(value), strings.TrimSpace(value) != ""
}

// generatedRuntimeID is a UUIDv7 behind a prefix: two
// processes that share a file must not meet.
func generatedRuntimeID() RuntimeID {
	return RuntimeID("runtime-mem-" + uuid.Must(uuid.NewV7()).String())
}

// A WorkerID names a worker inside its runtime.
type WorkerID string

// NewWorkerID makes an id of value, which is kept as it is; ok is false where it is blank.
func NewWorkerID(value string) (id WorkerID, ok bool) {
	return WorkerID(value), strings.TrimSpace(value) != ""
}

// A WorkerRef is what a worker is addressed by. A runtime refuses those that belong to another one.
type WorkerRef struct {
	RuntimeID RuntimeID `json:"runtime_id"`
	WorkerID  WorkerID  `json:"worker_id"`
}

// NewWorkerRef puts both halves together.
func NewWorkerRef(runtime RuntimeID, worker WorkerID) WorkerRef {
	return WorkerRef{RuntimeID: runtime, WorkerID: worker}
}
