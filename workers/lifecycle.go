package workers

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"selvedge/db"
)

// An ending is a way in which a worker ends.
type ending struct {
	op     string
	status WorkerStatus
	kind   RuntimeEventKind
	reason string // default, if the caller has none
}

var (
	stopping   = ending{"stop worker", Stopped, workerStopped, "worker stopped"}
	cancelling = ending{"cancel worker", Cancelled, workerCancelled, "worker cancelled"}
)

const opStopRuntime = "stop runtime"

// StopWorkerTx is StopWorker inside a transaction of the caller's.
func (r *Runtime) StopWorkerTx(tx *db.Tx, worker WorkerRef, reason *string) (WorkerLifecycleAck, error) {
	return r.endTx(tx, stopping, worker, reason)
}

// CancelWorkerTx is CancelWorker inside a transaction of the caller's.
func (r *Runtime) CancelWorkerTx(tx *db.Tx, worker WorkerRef, reason *string) (WorkerLifecycleAck, error) {
	return r.endTx(tx, cancelling, worker, reason)
}

func (r *Runtime) endTx(tx *db.Tx, how ending, worker WorkerRef, reason *string) (ack WorkerLifecycleAck,
	err error,
) {
	if reason == nil {
		reason = &how.reason
	}
	if !utf8.ValidString(*reason) {
		return ack, invalidRequest("the reason is not valid UTF-8")
	}
	row, w, err := r.both(tx, how.op, worker)
	if err != nil {
		return ack, err
	}
	err = cmp.Or(r.ensureRunning(row), r.ensureOwn(worker), ensureFound(w, worker))
	if err != nil {
		return ack, err
	}
	if w.Status == Running {
		if row, err = r.row(&tx.Rx, how.op); err != nil { // whole: its counts change
			return ack, err
		}
		event, err := row.push(tx, &w.Key, how.kind, *reason)
		if err != nil {
			return ack, err
		}
		w.LastEventID = int64(event)
		if err := row.endWorker(tx, w, how.status); err != nil {
			return ack, err
		}
		if err := row.save(tx); err != nil {
			return ack, err
		}
	}
	return WorkerLifecycleAck{worker, w.Status, uint64(w.LastEventID)}, nil
}

// StopRuntimeTx is StopRuntime inside a transaction of the caller's.
func (r *Runtime) StopRuntimeTx(tx *db.Tx) (event uint64, err error) {
	row, err := r.lockedRow(tx, opStopRuntime)
	if err != nil {
		return 0, err
	}
	if row.Status == Stopped {
		return lastBefore(row.NextEventID), nil
	}
	if err := row.stopWorkers(tx); err != nil {
		return 0, err
	}
	now := db.Nanos(tx.Now())
	row.Status, row.StoppedAt = Stopped, &now
	event, err = row.push(tx, nil, runtimeStopped, fmt.Sprintf("runtime %s stopped", r.id))
	if err != nil {
		return 0, err
	}
	return event, row.save(tx)
}

// lastBefore returns the id before the next one; 0 if none was used yet.
func lastBefore(next int64) uint64 {
	if next == 0 {
		return 0
	}
	return uint64(next) - 1
}
