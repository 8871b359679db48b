package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opPin    = "pin live run"
	sqlTouch = `UPDATE live_runs SET epoch = epoch WHERE key = ?`
)

// Pin protects a run from retention until Unpin. Delete and a cap on runs still remove it.
// db.ErrNotFound: there is no such run. A pin belongs to the id: a later run of that id is pinned
// too.
func (s *Store) Pin(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Pins).Write(ctx, opPin, func(tx *db.Tx) error { return s.PinTx(tx, runID) })
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, runID string) error {
	return s.inside(tx, opPin, runID, func(scope int64) error {
		row, err := lockedRow(tx, opPin, scope, runID)
		if err == nil {
			err = tx.Store().Touch(sqlTouch, row.Key)
		}
		if err != nil {
			return err
		}
		return tx.Store().Pin(s.scope, pin(runID))
	})
}

// Unpin removes the pin of a run, if it has one.
func (s *Store) Unpin(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Pins).Remove(ctx, "unpin live run",
		func(tx *db.Tx) error { return s.UnpinTx(tx, runID) })
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, runID string) error {
	return named("unpin live run", runID, tx.Store().Unpin(s.db.Store(), s.scope, pin(runID)))
}

func pin(runID string) txn.Pinned { return txn.Pinned{Store: txn.StoreLive, ID: runID} }
