package workers

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opPin    = "pin worker"
	sqlTouch = `UPDATE worker_runtimes SET status = status WHERE key = ?`
)

// Pin exempts a worker from retention until Unpin. Delete still removes it. A missing worker is
// db.ErrNotFound.
func (s *Runtimes) Pin(ctx context.Context, worker WorkerRef) error {
	write := stores.On(s.db, txn.Pins).Write
	return refused(write(ctx, opPin, func(tx *db.Tx) error { return s.PinTx(tx, worker) }))
}

// PinTx is Pin inside a transaction.
func (s *Runtimes) PinTx(tx *db.Tx, worker WorkerRef) error {
	runtime, err := s.find(&tx.Rx, opPin, worker.RuntimeID)
	if err != nil {
		return err
	}
	if err := tx.Store().WillChange(runtimeByKey, runtime.Key); err != nil {
		return err
	}
	_, found, err := find[workerRow](&tx.Rx, sqlFindWorker, runtime.Key, string(worker.WorkerID))
	switch {
	case err != nil:
		return err
	case !found:
		return workerNotFound(worker)
	}
	if err := tx.Store().Touch(sqlTouch, runtime.Key); err != nil {
		return err
	}
	return tx.Store().Pin(s.scope, worker.pin())
}

// Unpin removes the pin of a worker. A worker without one is no error.
func (s *Runtimes) Unpin(ctx context.Context, worker WorkerRef) error {
	return stores.On(s.db, txn.Pins).Remove(ctx, "unpin worker", stores.With(s.UnpinTx, worker))
}

// UnpinTx is Unpin inside a transaction.
func (s *Runtimes) UnpinTx(tx *db.Tx, worker WorkerRef) error {
	return tx.Store().Unpin(s.db.Store(), s.scope, worker.pin())
}

func (r WorkerRef) pin() txn.Pinned {
	return txn.Pinned{Store: txn.StoreWorkers, ID: string(r.WorkerID), Owner: string(r.RuntimeID)}
}
