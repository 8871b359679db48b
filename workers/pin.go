package workers

import (
	"context"

	"selvedge/db"
	"selvedge/internal/workers"
)

const opPin = "pin worker"

// Pin keeps a worker whatever retention says, until Unpin; Delete removes it all the same.
// db.ErrNotFound: there is no such worker.
func (s *Runtimes) Pin(ctx context.Context, worker WorkerRef) error {
	return refused(s.db.Write(ctx, opPin, func(tx *db.Tx) error { return s.PinTx(tx, worker) }))
}

// PinTx is Pin inside a transaction.
func (s *Runtimes) PinTx(tx *db.Tx, worker WorkerRef) error {
	runtime, err := s.find(&tx.Rx, opPin, worker.RuntimeID)
	if err != nil {
		return err
	}
	if _, found, err := workers.FindWorker(&tx.Rx, runtime.Key, string(worker.WorkerID)); err != nil || !found {
		if err == nil {
			err = workerNotFound(worker)
		}
		return err
	}
	return tx.Pin(s.scope, worker.pin())
}

// Unpin takes the pin of a worker away; one without is fine.
func (s *Runtimes) Unpin(ctx context.Context, worker WorkerRef) error {
	return s.db.Reclaim(ctx, "unpin worker", func(tx *db.Tx) error { return s.UnpinTx(tx, worker) })
}

// UnpinTx is Unpin inside a transaction.
func (s *Runtimes) UnpinTx(tx *db.Tx, worker WorkerRef) error {
	if err := tx.Of(s.db); err != nil {
		return err
	}
	return tx.Unpin(s.scope, worker.pin())
}

func (r WorkerRef) pin() db.Pinned {
	return db.Pinned{Store: db.StoreWorkers, ID: string(r.WorkerID), Owner: string(r.RuntimeID)}
}
