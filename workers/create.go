package workers

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/workers"
)

const opCreate = "create worker"

// CreateWorkerTx is CreateWorker inside a transaction of the caller's.
func (r *Runtime) CreateWorkerTx(tx *db.Tx, request CreateWorkerRequest) (detail WorkerDetail, err error) {
	row, err := r.lockedRow(tx, opCreate)
	if err != nil {
		return detail, err
	}
	if err := r.ensureRunning(row); err != nil {
		return detail, err
	}
	if err := request.check(); err != nil {
		return detail, err
	}
	id := WorkerID(workers.GeneratedID(uint64(row.NextWorkerSequence)))
	row.NextWorkerSequence++
	now := db.Nanos(tx.Now())
	w := &workers.WorkerRow{
		WorkerID: string(id), Status: workers.Running, NextSequence: 1,
		LastEventID: row.NextEventID, CreatedAt: &now,
	}
	if err := row.AddWorker(tx, w, request.stored()); err != nil {
		return detail, err
	}
	event, err := row.Push(tx, &w.Key, string(EventWorkerCreated), fmt.Sprintf("worker %s created", id))
	if err == nil && request.ConfigBundle == nil {
		err = row.Diagnose(tx, &w.Key, workers.SeverityInfo, "runtime.local_default_resources",
			"worker created without ConfigBundleRef; runtime-local defaults are assumed")
	}
	if err == nil && len(request.RequestedCapabilities) == 0 {
		err = row.Diagnose(tx, &w.Key, workers.SeverityInfo, "worker.tools_less",
			"worker created without requested tool capabilities")
	}
	if err == nil {
		err = row.Save(tx)
	}
	if err != nil {
		return detail, err
	}
	return WorkerDetail{
		WorkerRef: NewWorkerRef(r.id, id), RuntimeID: r.id, WorkerID: id, Status: WorkerRunning,
		Intent: request.Intent, Profile: request.Profile, ConfigBundle: request.ConfigBundle,
		RequestedCapabilities: request.RequestedCapabilities, WorkspaceRefs: request.WorkspaceRefs,
		MountRefs:   request.MountRefs,
		LastEventID: event,
	}, nil
}

func (request *CreateWorkerRequest) check() error {
	if request.Intent.kind() == IntentTask && strings.TrimSpace(request.Intent.Objective) == "" {
		return invalidRequest("task objective must not be empty")
	}
	for _, c := range request.RequestedCapabilities {
		if strings.TrimSpace(c.Name) == "" {
			return invalidRequest("capability name must not be empty")
		}
	}
	switch request.Intent.kind() {
	case IntentAssistant, IntentTask, IntentRole:
	default:
		return invalidRequest(fmt.Sprintf("unknown intent %q", request.Intent.Kind))
	}
	switch request.Profile.kind() {
	case ProfileRuntimeDefault, ProfileBuiltin, ProfileNamed:
	default:
		return invalidRequest(fmt.Sprintf("unknown profile %q", request.Profile.Kind))
	}
	if !utf8.Valid(request.stored().AppendJSON(nil)) {
		return invalidRequest("a text is not valid UTF-8")
	}
	return nil
}
