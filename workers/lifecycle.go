package workers

import (
	"fmt"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/workers"
)

const (
	opStop        = "stop worker"
	opCancel      = "cancel worker"
	opStopRuntime = "stop runtime"

	defaultStopped   = "worker stopped"
	defaultCancelled = "worker cancelled"
)

// StopWorkerTx is StopWorker inside a transaction of the caller's.
func (r *Runtime) StopWorkerTx(tx *db.Tx, worker WorkerRef, reason *string) (WorkerLifecycleAck, error) {
	return r.end(tx, opStop, worker, WorkerStopped, reason)
}

// CancelWorkerTx is CancelWorker inside a transaction of the caller's.
func (r *Runtime) CancelWorkerTx(tx *db.Tx, worker WorkerRef, reason *string) (WorkerLifecycleAck, error) {
	return r.end(tx, opCancel, worker, WorkerCancelled, reason)
}

func (r *Runtime) end(tx *db.Tx, op string, worker WorkerRef, as WorkerStatus,
	reason *string,
) (ack WorkerLifecycleAck, err error) {
	if reason != nil && !utf8.ValidString(*reason) {
		return ack, invalidRequest("the reason is not valid UTF-8")
	}
	row, w, err := r.both(tx, op, worker)
	if err != nil {
		return ack, err
	}
	if err := r.ensureRunning(row); err != nil {
		return ack, err
	}
	if err := r.ensureOwn(worker); err != nil {
		return ack, err
	}
	if w == nil {
		return ack, workerNotFound(worker)
	}
	ack = WorkerLifecycleAck{WorkerRef: worker, Status: WorkerStatus(w.Status), EventID: uint64(w.LastEventID)}
	if !ack.Status.IsActive() {
		return ack, nil
	}
	kind, message := EventWorkerStopped, defaultStopped
	if as == WorkerCancelled {
		kind, message = EventWorkerCancelled, defaultCancelled
	}
	if reason != nil {
		message = *reason
	}
	if row, err = r.row(&tx.Rx, op); err != nil { // whole: its counts change
		return ack, err
	}
	event, err := row.Push(tx, &w.Key, string(kind), message)
	if err != nil {
		return ack, err
	}
	w.LastEventID = int64(event)
	if err := row.EndWorker(tx, w, string(as)); err != nil {
		return ack, err
	}
	ack.Status, ack.EventID = as, event
	return ack, row.Save(tx)
}

// StopRuntimeTx is StopRuntime inside a transaction of the caller's.
func (r *Runtime) StopRuntimeTx(tx *db.Tx) (event uint64, err error) {
	row, err := r.lockedRow(tx, opStopRuntime)
	if err != nil {
		return 0, err
	}
	if RuntimeStatus(row.Status) == RuntimeStopped {
		return lastBefore(row.NextEventID), nil
	}
	if err := row.StopWorkers(tx); err != nil {
		return 0, err
	}
	now := db.Nanos(tx.Now())
	row.Status, row.StoppedAt = workers.Stopped, &now
	event, err = row.Push(tx, nil, string(EventRuntimeStopped), fmt.Sprintf("runtime %s stopped", r.id))
	if err != nil {
		return 0, err
	}
	return event, row.Save(tx)
}

// lastBefore is the id before the next one; 0 where none was given.
func lastBefore(next int64) uint64 {
	if next == 0 {
		return 0
	}
	return uint64(next) - 1
}
