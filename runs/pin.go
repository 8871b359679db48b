package runs

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opPin    = "pin run"
	sqlTouch = `UPDATE runs SET epoch = epoch WHERE key = ?`
)

// Pin protects a run from retention until Unpin. Delete still removes it. ErrNotFound: the run does
// not exist. A pin belongs to the run's name: a later run of that name is pinned too.
func (s *Store) Pin(ctx context.Context, run RunRef) error {
	return stores.On(s.db, txn.Pins).Write(ctx, opPin, func(tx *db.Tx) error { return s.PinTx(tx, run) })
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, run RunRef) error {
	row, err := s.findLocked(tx, opPin, run)
	if err == nil {
		err = tx.Store().Touch(sqlTouch, row.Key)
	}
	if err != nil {
		return err
	}
	return tx.Store().Pin(s.scope, run.pin())
}

// Unpin removes the pin of a run, if it has one.
func (s *Store) Unpin(ctx context.Context, run RunRef) error {
	return stores.On(s.db, txn.Pins).Remove(ctx, "unpin run",
		func(tx *db.Tx) error { return s.UnpinTx(tx, run) })
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, run RunRef) error {
	if err := tx.Store().Unpin(s.db.Store(), s.scope, run.pin()); err != nil {
		return run.failed("unpin run", err)
	}
	return nil
}

func (r RunRef) pin() txn.Pinned {
	return txn.Pinned{Store: txn.StoreRuns, ID: r.RunID, Owner: r.AgentID}
}
