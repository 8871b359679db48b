package checkpoints

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opPin       = "pin checkpoint"
	sqlFindKept = `SELECT id, 0 AS over FROM checkpoints WHERE scope = ?1 AND run_id = ?2
	AND coalesce(agent_id, '') = ?3
UNION ALL SELECT id, 1 FROM checkpoint_history WHERE scope = ?1 AND run_id = ?2
	AND coalesce(agent_id, '') = ?3 LIMIT 1`
	sqlTouch     = `UPDATE checkpoints SET changes = changes WHERE id = ?`
	sqlTouchOver = `UPDATE checkpoint_history SET ending = ending WHERE id = ?`
)

// Pin exempts the history of a run, past and future, from retention until Unpin. If the run has
// neither a checkpoint nor a history, the error is db.ErrNotFound.
func (s *Store) Pin(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Pins).Write(ctx, opPin, stores.With(s.PinTx, runID))
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, runID string) error {
	err := s.find(&tx.Rx, opPin, runID, func(scope int64) (bool, error) {
		return s.findKept(tx, scope, runID)
	})
	if err != nil {
		return err
	}
	return tx.Store().Pin(s.scope, txn.Pinned{Store: txn.StoreCheckpoints, ID: runID, Owner: s.agent})
}

// findKept locks the name of a run, as a removal of its history does, and touches its row.
func (s *Store) findKept(tx *db.Tx, scope int64, runID string) (bool, error) {
	run := s.key(scope, runID)
	if err := tx.Store().WillChange(pauseName, scope, runID); err != nil {
		return false, err
	}
	if err := tx.Store().WillChange(rowsOfRun, run...); err != nil {
		return false, err
	}
	var row struct {
		ID   int64 `db:"id"`
		Over int   `db:"over"`
	}
	found, err := tx.Find(&row, sqlFindKept, run...)
	if err != nil || !found {
		return false, err
	}
	touch := sqlTouch
	if row.Over != 0 {
		touch = sqlTouchOver
	}
	return true, tx.Store().Touch(touch, row.ID)
}

// Unpin removes the pin of a run. A run without a pin is no error.
func (s *Store) Unpin(ctx context.Context, runID string) error {
	return stores.On(s.db, txn.Pins).Remove(ctx, "unpin checkpoint", stores.With(s.UnpinTx, runID))
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, runID string) error {
	pin := txn.Pinned{Store: txn.StoreCheckpoints, ID: runID, Owner: s.agent}
	return tx.Store().Unpin(s.db.Store(), s.scope, pin)
}
