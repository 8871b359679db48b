package checkpoints

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opPin       = "pin checkpoint"
	sqlFindKept = `SELECT run_id FROM checkpoints WHERE scope = ?1 AND run_id = ?2
	AND coalesce(agent_id, '') = ?3
UNION ALL SELECT run_id FROM checkpoint_history WHERE scope = ?1 AND run_id = ?2
	AND coalesce(agent_id, '') = ?3 LIMIT 1`
)

// Pin exempts the history of a run, past and future, from retention until Unpin. If the run has
// neither a checkpoint nor a history, the error is db.ErrNotFound.
func (s *Store) Pin(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Pins).Write(ctx, opPin, func(tx *db.Tx) error { return s.PinTx(tx, runID) })
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, runID string) error {
	err := s.find(&tx.Rx, opPin, runID, func(scope int64) (bool, error) {
		return tx.Find(new(string), sqlFindKept, s.key(scope, runID)...)
	})
	if err != nil {
		return err
	}
	return tx.Store().Pin(s.scope, txn.Pinned{Store: txn.StoreCheckpoints, ID: runID, Owner: s.agent})
}

// Unpin removes the pin of a run. A run without a pin is no error.
func (s *Store) Unpin(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Pins).Remove(ctx, "unpin checkpoint",
		func(tx *db.Tx) error { return s.UnpinTx(tx, runID) })
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, runID string) error {
	if err := tx.Store().Of(s.db.Store()); err != nil {
		return err
	}
	return tx.Store().Unpin(s.scope, txn.Pinned{Store: txn.StoreCheckpoints, ID: runID, Owner: s.agent})
}
