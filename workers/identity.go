package workers

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// A RuntimeID names a runtime inside its scope. It is compared as it is.
type RuntimeID string

// NewRuntimeID returns value as an id, unchanged; ok is false if it is blank.
func NewRuntimeID(value string) (id RuntimeID, ok bool) {
	return RuntimeID(value), strings.TrimSpace(value) != ""
}

// generatedRuntimeID returns a prefix and a UUIDv7, so that processes that share a file use
// different ids.
func generatedRuntimeID() RuntimeID {
	return RuntimeID("runtime-mem-" + uuid.Must(uuid.NewV7()).String())
}

// A WorkerID names a worker inside its runtime.
type WorkerID string

// NewWorkerID returns value as an id, unchanged; ok is false if it is blank.
func NewWorkerID(value string) (id WorkerID, ok bool) {
	return WorkerID(value), strings.TrimSpace(value) != ""
}

// generatedWorkerID is the id of the worker of that number.
func generatedWorkerID(sequence uint64) WorkerID {
	return WorkerID(fmt.Sprintf("worker-%08x", sequence))
}

// A WorkerRef names a worker. A runtime refuses the refs of another one.
type WorkerRef struct {
	RuntimeID RuntimeID `json:"runtime_id"`
	WorkerID  WorkerID  `json:"worker_id"`
}

// NewWorkerRef joins the two ids.
func NewWorkerRef(runtime RuntimeID, worker WorkerID) WorkerRef {
	return WorkerRef{RuntimeID: runtime, WorkerID: worker}
}
