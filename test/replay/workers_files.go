package replay

import (
	"fmt"

	"selvedge/workers"
)

// A runtimeSnapshot is a runtime.json.
type runtimeSnapshot struct {
	SchemaVersion      uint32                      `json:"schema_version"`
	RuntimeID          workers.RuntimeID           `json:"runtime_id"`
	DisplayName        *string                     `json:"display_name"`
	Backend            string                      `json:"backend" serde:"memory|fs_store"`
	Status             workers.RuntimeStatus       `json:"status" serde:"running|stopped"`
	Limits             workers.RuntimeLimits       `json:"limits"`
	NextWorkerSequence uint64                      `json:"next_worker_sequence"`
	NextEventID        uint64                      `json:"next_event_id"`
	NextDiagnosticID   uint64                      `json:"next_diagnostic_id"`
	Diagnostics        []workers.RuntimeDiagnostic `json:"diagnostics"`
}

// A workerSnapshot is a worker.json.
type workerSnapshot struct {
	SchemaVersion          uint32                      `json:"schema_version"`
	WorkerRef              workers.WorkerRef           `json:"worker_ref"`
	WorkerID               workers.WorkerID            `json:"worker_id"`
	Status                 workers.WorkerStatus        `json:"status" serde:"running|stopped|cancelled"`
	Request                workers.CreateWorkerRequest `json:"request"`
	NextTranscriptSequence uint64                      `json:"next_transcript_sequence"`
	LastEventID            uint64                      `json:"last_event_id"`
}

func readRuntimeSnapshot(text []byte) (s runtimeSnapshot, wrong string, err error) {
	if err = workers.ParseRecord(text, &s); err != nil {
		return runtimeSnapshot{}, "", err
	}
	if wrong = wrongVersion(s.SchemaVersion); wrong == "" && s.Backend != "fs_store" {
		wrong = "runtime snapshot backend is Memory"
	}
	return s, wrong, nil
}

func wrongVersion(version uint32) string {
	if version == 1 {
		return ""
	}
	return fmt.Sprintf("unsupported schema version %d", version)
}

func readWorkerSnapshot(text []byte) (s workerSnapshot, wrong string, err error) {
	if err = workers.ParseRecord(text, &s); err != nil {
		return workerSnapshot{}, "", err
	}
	if wrong = wrongVersion(s.SchemaVersion); wrong == "" && s.WorkerRef.WorkerID != s.WorkerID {
		wrong = "worker_ref does not match worker_id"
	}
	return s, wrong, nil
}

func readEventLine(line []byte) (e workers.RuntimeEvent, wrong string, err error) {
	err = workers.ParseRecord(line, &e)
	switch e.Kind {
	case runtimeStarted, runtimeStopped, workerCreated, workerInputAccepted, workerStopped, workerCancelled:
	default:
		wrong = "unknown kind of event"
	}
	return e, wrong, err
}

func readEntryLine(line []byte) (e workers.TranscriptEntry, err error) {
	err = workers.ParseRecord(line, &e)
	return e, err
}
