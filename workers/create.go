package workers

import (
	"cmp"
	"fmt"

	"selvedge/db"
)

const opCreate = "create worker"

// CreateWorkerTx is CreateWorker inside a transaction of the caller's.
func (r *Runtime) CreateWorkerTx(tx *db.Tx, request CreateWorkerRequest) (detail WorkerDetail, err error) {
	row, err := r.lockedRow(tx, opCreate)
	if err != nil {
		return detail, err
	}
	if err := cmp.Or(r.ensureRunning(row), request.check()); err != nil {
		return detail, err
	}
	id := generatedWorkerID(uint64(row.NextWorkerSequence))
	row.NextWorkerSequence++
	now := db.Nanos(tx.Now())
	w := &workerRow{
		WorkerID: id, Status: Running, NextSequence: 1, LastEventID: row.NextEventID, CreatedAt: &now,
	}
	if err := row.addWorker(tx, w, request); err != nil {
		return detail, err
	}
	_, err = row.push(tx, &w.Key, workerCreated, fmt.Sprintf("worker %s created", id))
	if err == nil && request.ConfigBundle == nil {
		err = row.diagnose(tx, &w.Key, severityInfo, "runtime.local_default_resources",
			"worker created without ConfigBundleRef; runtime-local defaults are assumed")
	}
	if err == nil && len(request.RequestedCapabilities) == 0 {
		err = row.diagnose(tx, &w.Key, severityInfo, "worker.tools_less",
			"worker created without requested tool capabilities")
	}
	if err == nil {
		err = row.save(tx)
	}
	if err != nil {
		return detail, err
	}
	return w.detail(r.id, request), nil
}

// detail describes a worker that was created with a request.
func (w *workerRow) detail(runtime RuntimeID, request CreateWorkerRequest) WorkerDetail {
	return WorkerDetail{
		WorkerRef: NewWorkerRef(runtime, w.WorkerID), RuntimeID: runtime, WorkerID: w.WorkerID, Status: w.Status,
		Intent: request.Intent, Profile: request.Profile, ConfigBundle: request.ConfigBundle,
		RequestedCapabilities: request.RequestedCapabilities, WorkspaceRefs: request.WorkspaceRefs,
		MountRefs: request.MountRefs, TranscriptLen: uint64(w.TranscriptLen), LastEventID: uint64(w.LastEventID),
	}
}
