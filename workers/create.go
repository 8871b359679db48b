package workers

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"selvedge/db"
)

const (
	sqlAddWorker = `
INSERT INTO workers (runtime, worker_id, status, transcript_len, next_transcript_sequence, last_event_id, created_at)
VALUES (?, ?, 'running', 0, 1, ?, ?) RETURNING key`
	sqlCountWorker = `UPDATE worker_runtimes SET next_worker_sequence = ?, running_workers = running_workers + 1 WHERE key = ?`
	sqlAddRequest  = `
INSERT INTO worker_requests (worker, intent, objective, role, purpose, profile, profile_value, config_bundle, capabilities,
    requested_capabilities, workspace_refs, mount_refs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlAddDiagnostic    = `INSERT INTO worker_diagnostics (id, diagnostic_id, severity, code, message, worker, at) VALUES (?, ?, ?, ?, ?, ?, ?)`
	sqlCountDiagnostics = `UPDATE worker_runtimes SET next_diagnostic_id = ?, diagnostics = ? WHERE key = ?`
)

// CreateWorker makes a worker. One without a configuration bundle, and one without capabilities, is told of in the
// diagnostics. Refused are a task with a blank objective, a capability with a blank name, and any worker once the runtime
// is stopped.
func (r *Runtime) CreateWorker(ctx context.Context, request CreateWorkerRequest) (detail WorkerDetail, err error) {
	err = r.db.Write(ctx, "create worker", func(tx *db.Tx) error {
		detail, err = r.createWorker(tx, request)
		return err
	})
	if err != nil {
		return WorkerDetail{}, refused(err)
	}
	return detail, nil
}

func (r *Runtime) createWorker(tx *db.Tx, request CreateWorkerRequest) (WorkerDetail, error) {
	state, err := r.state(&tx.Rx)
	if err != nil {
		return WorkerDetail{}, err
	}
	if err := r.ensureRunning(state.Status); err != nil {
		return WorkerDetail{}, err
	}
	if err := request.check(); err != nil {
		return WorkerDetail{}, err
	}
	id := generatedWorkerID(uint64(state.NextWorkerSequence))
	if _, err := tx.Exec(sqlCountWorker, state.NextWorkerSequence+1, r.key); err != nil {
		return WorkerDetail{}, err
	}
	var key int64
	if err := tx.Get(&key, sqlAddWorker, r.key, string(id), state.NextEventID, db.Nanos(tx.Now())); err != nil {
		return WorkerDetail{}, err
	}
	if err := addRequest(tx, key, request); err != nil {
		return WorkerDetail{}, err
	}
	event, err := r.pushEvent(tx, &state, &key, EventWorkerCreated, fmt.Sprintf("worker %s created", id))
	if err != nil {
		return WorkerDetail{}, err
	}
	if request.ConfigBundle == nil {
		err = r.pushDiagnostic(tx, &state, &key, SeverityInfo, "runtime.local_default_resources",
			"worker created without ConfigBundleRef; runtime-local defaults are assumed")
	}
	if len(request.RequestedCapabilities) == 0 && err == nil {
		err = r.pushDiagnostic(tx, &state, &key, SeverityInfo, "worker.tools_less", "worker created without requested tool capabilities")
	}
	return WorkerDetail{
		WorkerRef: NewWorkerRef(r.id, id), RuntimeID: r.id, WorkerID: id, Status: WorkerRunning,
		Intent: request.Intent, Profile: request.Profile, ConfigBundle: request.ConfigBundle,
		RequestedCapabilities: request.RequestedCapabilities, WorkspaceRefs: request.WorkspaceRefs, MountRefs: request.MountRefs,
		LastEventID: event,
	}, err
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
	// What the types of the original can't say at all.
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
	if !utf8.Valid(appendRequest(nil, *request)) {
		return invalidRequest("a text is not valid UTF-8")
	}
	return nil
}

func addRequest(tx *db.Tx, worker int64, q CreateWorkerRequest) error {
	var objective, role, value, bundle any
	switch q.Intent.kind() {
	case IntentTask:
		objective = q.Intent.Objective
	case IntentRole:
		role = q.Intent.Role
	}
	if q.Profile.kind() != ProfileRuntimeDefault {
		value = q.Profile.Value
	}
	purpose := q.Intent.Purpose
	if q.Intent.kind() == IntentTask {
		purpose = nil
	}
	if q.ConfigBundle != nil {
		bundle = q.ConfigBundle.ID
	}
	_, err := tx.Exec(sqlAddRequest, worker, string(q.Intent.kind()), objective, role, purpose, string(q.Profile.kind()), value, bundle,
		len(q.RequestedCapabilities), listColumn(q.RequestedCapabilities, appendCapability),
		listColumn(q.WorkspaceRefs, appendWorkspace), listColumn(q.MountRefs, appendMount))
	return err
}

func listColumn[T any](list []T, one func([]byte, T) []byte) any {
	if len(list) == 0 {
		return nil
	}
	return appendList(nil, list, one)
}

func (r *Runtime) pushDiagnostic(tx *db.Tx, s *runtimeState, worker *int64, severity DiagnosticSeverity, code, message string) error {
	id := s.NextDiagnosticID
	s.NextDiagnosticID++
	s.Diagnostics++
	if _, err := tx.Exec(sqlCountDiagnostics, s.NextDiagnosticID, s.Diagnostics, r.key); err != nil {
		return err
	}
	_, err := tx.Exec(sqlAddDiagnostic, r.key<<logBits|s.Diagnostics, unless(id == s.Diagnostics, id), string(severity), code, message,
		worker, db.Nanos(tx.Now()))
	return err
}
