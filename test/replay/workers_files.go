package replay

import (
	"encoding/json"

	files "selvedge/internal/workers"
	"selvedge/workers"
)

// A runtimeSnapshot is what a runtime.json says, in the words of the public package.
type runtimeSnapshot struct {
	RuntimeID          workers.RuntimeID
	DisplayName        *string
	Status             workers.RuntimeStatus
	Limits             workers.RuntimeLimits
	NextWorkerSequence uint64
	NextEventID        uint64
	NextDiagnosticID   uint64
	Diagnostics        []workers.RuntimeDiagnostic
}

// A workerSnapshot is what a worker.json says, likewise.
type workerSnapshot struct {
	WorkerRef              workers.WorkerRef
	WorkerID               workers.WorkerID
	Status                 workers.WorkerStatus
	Request                workers.CreateWorkerRequest
	NextTranscriptSequence uint64
	LastEventID            uint64
}

func refOf(ref files.Ref) workers.WorkerRef {
	return workers.NewWorkerRef(workers.RuntimeID(ref.RuntimeID), workers.WorkerID(ref.WorkerID))
}

func maybeRefOf(ref *files.Ref) *workers.WorkerRef {
	if ref == nil {
		return nil
	}
	seen := refOf(*ref)
	return &seen
}

func readRuntimeSnapshot(text []byte) (s runtimeSnapshot, wrong string, err error) {
	read, wrong, err := files.ReadRuntimeSnapshot(text)
	if err != nil {
		return s, "", err
	}
	s = runtimeSnapshot{
		RuntimeID: workers.RuntimeID(read.RuntimeID), DisplayName: read.DisplayName,
		Status: workers.RuntimeStatus(read.Status),
		Limits: workers.RuntimeLimits{
			MaxTranscriptProjectionItems: read.Limits.Transcript,
			MaxEventBatchItems:           read.Limits.Events,
		},
		NextWorkerSequence: read.NextWorkerSequence, NextEventID: read.NextEventID,
		NextDiagnosticID: read.NextDiagnosticID,
	}
	for _, d := range read.Diagnostics {
		s.Diagnostics = append(s.Diagnostics, workers.RuntimeDiagnostic{
			ID: d.ID, Severity: workers.DiagnosticSeverity(d.Severity), Code: d.Code, Message: d.Message,
			WorkerRef: maybeRefOf(d.Worker),
		})
	}
	return s, wrong, nil
}

func readWorkerSnapshot(text []byte) (s workerSnapshot, wrong string, err error) {
	read, wrong, err := files.ReadWorkerSnapshot(text)
	if err != nil {
		return s, "", err
	}
	s = workerSnapshot{
		WorkerRef: refOf(read.Worker), WorkerID: workers.WorkerID(read.WorkerID),
		Status:                 workers.WorkerStatus(read.Status),
		NextTranscriptSequence: read.NextTranscriptSequence, LastEventID: read.LastEventID,
	}
	return s, wrong, json.Unmarshal(read.Request.AppendJSON(nil), &s.Request)
}

func readEventLine(line []byte) (workers.RuntimeEvent, string, error) {
	e, wrong, err := files.ReadEventLine(line)
	return workers.RuntimeEvent{
		ID: e.ID, WorkerRef: maybeRefOf(e.Worker),
		Kind: workers.RuntimeEventKind(e.Kind), Message: e.Message,
	}, wrong, err
}

func readEntryLine(line []byte) (workers.TranscriptEntry, error) {
	e, err := files.ReadEntryLine(line)
	return workers.TranscriptEntry{
		Sequence: e.Sequence, WorkerRef: refOf(e.Worker), Role: workers.TranscriptRole(e.Role), Content: e.Content,
		EventID: e.EventID,
	}, err
}
