package agents

import (
	"context"

	"selvedge/db"
)

// Pin keeps the entries of an agent whatever retention says, until Unpin. It need not be there:
// those that left the registry keep their id, and what comes under it later is pinned too. Delete
// removes an entry all the same.
func (r *Registry) Pin(ctx context.Context, id string) error {
	return r.db.Write(ctx, "pin agent", func(tx *db.Tx) error { return r.PinTx(tx, id) })
}

// PinTx is Pin inside a transaction.
func (r *Registry) PinTx(tx *db.Tx, id string) error {
	if err := tx.Of(r.db); err != nil {
		return err
	}
	return tx.Pin(r.scope, db.Pinned{Store: db.StoreAgents, ID: id})
}

// Unpin takes the pin of an agent away; one without is fine.
func (r *Registry) Unpin(ctx context.Context, id string) error {
	return r.db.Reclaim(ctx, "unpin agent", func(tx *db.Tx) error { return r.UnpinTx(tx, id) })
}

// UnpinTx is Unpin inside a transaction.
func (r *Registry) UnpinTx(tx *db.Tx, id string) error {
	if err := tx.Of(r.db); err != nil {
		return err
	}
	return tx.Unpin(r.scope, db.Pinned{Store: db.StoreAgents, ID: id})
}
