package workers

import (
	"cmp"
	"fmt"

	"selvedge/db"
)

const opInput = "send input"

// SendInputTx is SendInput inside a transaction of the caller's.
func (r *Runtime) SendInputTx(tx *db.Tx, worker WorkerRef, input WorkerInput) (ack WorkerInteractionAck,
	err error,
) {
	row, w, err := r.both(tx, opInput, worker)
	if err != nil {
		return ack, err
	}
	if input.Repeat != 0 && w != nil && worker.RuntimeID == r.id {
		e, found, err := w.findBatch(&tx.Rx, input.Repeat, input.Content)
		if err != nil {
			return ack, err
		}
		if found {
			first := e.entry(worker)
			return WorkerInteractionAck{worker, w.Status, first.Sequence, first.EventID}, nil
		}
	}
	err = cmp.Or(r.ensureRunning(row), input.check(), r.ensureOwn(worker), ensureFound(w, worker))
	if err != nil {
		return ack, err
	}
	if w.Status != Running {
		return ack, invalidRequest(fmt.Sprintf("worker %s is not running", worker.WorkerID))
	}
	event, err := row.push(tx, &w.Key, workerInputAccepted, "worker input accepted")
	if err != nil {
		return ack, err
	}
	sequence, err := w.addEntry(tx, input, event, tx.Batch())
	if err == nil {
		err = w.save(tx)
	}
	if err == nil {
		err = row.saveLog(tx)
	}
	if err != nil {
		return ack, err
	}
	return WorkerInteractionAck{worker, Running, sequence, event}, nil
}
