package agents

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opPin       = "pin agent"
	sqlFindKept = `SELECT id FROM agents WHERE scope = ?1 AND session_id = ?2 AND put_aside_at IS NULL
UNION ALL SELECT id FROM agents WHERE scope = ?1 AND session_id = ?2 AND put_aside_at IS NOT NULL
LIMIT 1`
)

// keptName is what a pin and a removal by retention lock: an agent may have many entries.
var keptName = txn.Agents.Name("%d %q")

// Pin exempts the entries of an agent from retention until Unpin, including those that were put
// aside and later ones of the same id. Delete still removes an entry. If there is no entry, the
// error is db.ErrNotFound.
func (r *Registry) Pin(ctx context.Context, id string) error {
	return stores.On(r.db, txn.Pins).Write(ctx, opPin, stores.With(r.PinTx, id))
}

// PinTx is Pin inside a transaction.
func (r *Registry) PinTx(tx *db.Tx, id string) error {
	err := r.findTx(&tx.Rx, opPin, id, func(scope int64) (bool, error) {
		if err := tx.Store().WillChange(keptName, scope, id); err != nil {
			return false, err
		}
		if err := tx.Store().WillChange(entryByID, scope, id); err != nil {
			return false, err
		}
		var key int64
		found, err := tx.Find(&key, sqlFindKept, scope, id)
		if err == nil && found {
			err = tx.Store().Touch(sqlTouch, key)
		}
		return found, err
	})
	if err != nil {
		return err
	}
	return tx.Store().Pin(r.scope, txn.Pinned{Store: txn.StoreAgents, ID: id})
}

// Unpin removes the pin of an agent. An agent without a pin is no error.
func (r *Registry) Unpin(ctx context.Context, id string) error {
	return stores.On(r.db, txn.Pins).Remove(ctx, "unpin agent", stores.With(r.UnpinTx, id))
}

// UnpinTx is Unpin inside a transaction.
func (r *Registry) UnpinTx(tx *db.Tx, id string) error {
	return tx.Store().Unpin(r.db.Store(), r.scope, txn.Pinned{Store: txn.StoreAgents, ID: id})
}
