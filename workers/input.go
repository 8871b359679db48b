package workers

import (
	"cmp"
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const opInput = "send input"

// SendInputTx is SendInput inside a transaction of the caller's.
func (r *Runtime) SendInputTx(tx *db.Tx, worker WorkerRef, input WorkerInput) (WorkerInteractionAck, error) {
	return r.RepeatInputTx(tx, worker, input, 0)
}

// RepeatInput repeats a SendInput with an unknown outcome: batch is what [db.BatchOf] returns for
// its error. If the first try was kept, it does nothing and returns the answer of the first try. It
// reads the whole transcript of the worker.
func (r *Runtime) RepeatInput(ctx context.Context, worker WorkerRef, input WorkerInput,
	batch int64,
) (WorkerInteractionAck, error) {
	write := stores.On(r.db, txn.Runtimes).Write
	return call(ctx, write, opInput, func(tx *db.Tx) (WorkerInteractionAck, error) {
		return r.RepeatInputTx(tx, worker, input, batch)
	})
}

// RepeatInputTx is RepeatInput inside a transaction of the caller's. A batch of 0 repeats nothing.
func (r *Runtime) RepeatInputTx(tx *db.Tx, worker WorkerRef, input WorkerInput,
	batch int64,
) (ack WorkerInteractionAck, err error) {
	row, w, err := r.both(tx, opInput, worker)
	if err != nil {
		return ack, err
	}
	if batch != 0 && w != nil && worker.RuntimeID == r.id {
		e, found, err := w.findBatch(&tx.Rx, batch)
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
