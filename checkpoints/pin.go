package checkpoints

import (
	"context"

	"selvedge/db"
)

// Pin keeps the history of a run whatever retention says, until Unpin: what is there, and what
// comes. The run need not be there.
func (s *Store) Pin(ctx context.Context, runID string) error {
	return s.db.Write(ctx, "pin checkpoint", func(tx *db.Tx) error { return s.PinTx(tx, runID) })
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, runID string) error {
	if err := tx.Of(s.db); err != nil {
		return err
	}
	return tx.Pin(s.scope, db.Pinned{Store: db.StoreCheckpoints, ID: runID})
}

// Unpin takes the pin of a run away; one without is fine.
func (s *Store) Unpin(ctx context.Context, runID string) error {
	return s.db.Reclaim(ctx, "unpin checkpoint", func(tx *db.Tx) error { return s.UnpinTx(tx, runID) })
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, runID string) error {
	if err := tx.Of(s.db); err != nil {
		return err
	}
	return tx.Unpin(s.scope, db.Pinned{Store: db.StoreCheckpoints, ID: runID})
}
