package workers

import (
	"context"
	"fmt"
	"unicode/utf8"

	"selvedge/db"
)

const (
	sqlEndWorker     = `UPDATE workers SET status = ?, last_event_id = ?, ended_at = ? WHERE key = ?`
	sqlCountStopped  = `UPDATE worker_runtimes SET running_workers = running_workers - 1, stopped_workers = stopped_workers + 1 WHERE key = ?`
	sqlCountCancel   = `UPDATE worker_runtimes SET running_workers = running_workers - 1, cancelled_workers = cancelled_workers + 1 WHERE key = ?`
	sqlStopWorkers   = `UPDATE workers SET status = 'stopped', ended_at = ? WHERE runtime = ? AND status = 'running'`
	sqlStopRuntime   = `UPDATE worker_runtimes SET status = 'stopped', stopped_at = ?, stopped_workers = stopped_workers + running_workers, running_workers = 0 WHERE key = ?`
	defaultStopped   = "worker stopped"
	defaultCancelled = "worker cancelled"
)

// StopWorker stops a worker. A nil reason is "worker stopped". A worker that has ended already stays as it is, and the
// answer tells how. Refused are, in this order: any worker once the runtime is stopped, one of another runtime, and one
// that is not there.
func (r *Runtime) StopWorker(ctx context.Context, worker WorkerRef, reason *string) (WorkerLifecycleAck, error) {
	return r.end(ctx, "stop worker", worker, WorkerStopped, reason)
}

// CancelWorker cancels a worker; all that is said of StopWorker holds. A nil reason is "worker cancelled".
func (r *Runtime) CancelWorker(ctx context.Context, worker WorkerRef, reason *string) (WorkerLifecycleAck, error) {
	return r.end(ctx, "cancel worker", worker, WorkerCancelled, reason)
}

func (r *Runtime) end(ctx context.Context, why string, worker WorkerRef, as WorkerStatus, reason *string) (ack WorkerLifecycleAck, err error) {
	if reason != nil && !utf8.ValidString(*reason) {
		return ack, invalidRequest("the reason is not valid UTF-8")
	}
	err = r.db.Write(ctx, why, func(tx *db.Tx) error {
		ack, err = r.endWorker(tx, worker, as, reason)
		return err
	})
	if err != nil {
		return WorkerLifecycleAck{}, refused(err)
	}
	return ack, nil
}

func (r *Runtime) endWorker(tx *db.Tx, worker WorkerRef, as WorkerStatus, reason *string) (WorkerLifecycleAck, error) {
	ack := WorkerLifecycleAck{WorkerRef: worker, Status: as}
	state, err := r.inputState(&tx.Rx, worker.WorkerID)
	if err != nil {
		return ack, err
	}
	if err := r.ensureRunning(state.Status); err != nil {
		return ack, err
	}
	if err := r.ensureOwn(worker); err != nil {
		return ack, err
	}
	if state.Worker == nil {
		return ack, workerNotFound(worker)
	}
	if status := WorkerStatus(*state.WorkerStatus); !status.IsActive() {
		ack.Status, ack.EventID = status, uint64(*state.LastEventID)
		return ack, nil
	}
	kind, count, message := EventWorkerStopped, sqlCountStopped, defaultStopped
	if as == WorkerCancelled {
		kind, count, message = EventWorkerCancelled, sqlCountCancel, defaultCancelled
	}
	if reason != nil {
		message = *reason
	}
	counters := state.counters()
	if ack.EventID, err = r.pushEvent(tx, &counters, state.Worker, kind, message); err != nil {
		return ack, err
	}
	if _, err := tx.Exec(sqlEndWorker, string(as), int64(ack.EventID), db.Nanos(tx.Now()), *state.Worker); err != nil {
		return ack, err
	}
	_, err = tx.Exec(count, r.key)
	return ack, err
}

// StopRuntime stops the runtime, for good, and every worker that runs; these get no events of their own. What is there can
// still be read. The answer is the id of the last event, also when the runtime was stopped before.
func (r *Runtime) StopRuntime(ctx context.Context) (event uint64, err error) {
	err = r.db.Write(ctx, "stop runtime", func(tx *db.Tx) error {
		event, err = r.stopRuntime(tx)
		return err
	})
	return event, err
}

func (r *Runtime) stopRuntime(tx *db.Tx) (uint64, error) {
	state, err := r.state(&tx.Rx)
	if err != nil {
		return 0, err
	}
	if RuntimeStatus(state.Status) == RuntimeStopped {
		return lastBefore(state.NextEventID), nil
	}
	now := db.Nanos(tx.Now())
	if _, err := tx.Exec(sqlStopWorkers, now, r.key); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(sqlStopRuntime, now, r.key); err != nil {
		return 0, err
	}
	return r.pushEvent(tx, &state, nil, EventRuntimeStopped, fmt.Sprintf("runtime %s stopped", r.id))
}

// lastBefore is the id before the next one; 0 where none was given.
func lastBefore(next int64) uint64 {
	if next == 0 {
		return 0
	}
	return uint64(next) - 1
}
