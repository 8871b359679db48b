package state

import (
	"context"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	sqlNewest = `SELECT id AS key, state_key AS id, owner, owner AS of, updated_at AS ended_at,
	100 + octet_length(owner) + octet_length(state_key) + octet_length(value) AS bytes
FROM state_values AS v WHERE scope = ? AND (updated_at, v.id) < (?, ?)
	ORDER BY updated_at DESC, v.id DESC LIMIT ` + paging.BoundLimit
	sqlPrune = `DELETE FROM state_values WHERE id = ? AND updated_at = ?`
	opPin    = "pin value"
	sqlTouch = `UPDATE state_values SET changes = changes WHERE id = ?`
)

// Prune removes the values that the policy does not retain. The policy applies to the time of their
// last write, per owner, and to their approximate size. Prune works in short transactions. What it
// removed before an error stays removed; another call continues.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	return stores.Prune(ctx, s.db, stores.Pruning{
		Op: "prune values", Store: txn.StoreState, Kind: txn.Values, Scope: s.scope,
		Ended: stores.SelectEnded(sqlNewest), Lock: lockEnded, Remove: remove, Share: prunedAtOnce,
	}, policy)
}

// prunedAtOnce is how many values one transaction removes at most, beside the bound on its time.
const prunedAtOnce = 500

var lockEnded = stores.LockFree(txn.Values, `SELECT id FROM state_values WHERE id IN (%s) ORDER BY id`)

// remove removes a value that was not written meanwhile.
func remove(tx *db.Tx, value stores.Ended, _ int64) (stores.Removal, int64, error) {
	return stores.RemovedRow(tx.Exec(sqlPrune, value.Key, value.At))
}

// Pin protects a value from retention until Unpin. Delete still removes it. ErrNotFound: there is no
// such value. A pin belongs to the name: a later value of that owner and key is pinned too.
func (s *Store) Pin(ctx context.Context, ref Ref) error {
	return stores.On(s.db, txn.Pins).Write(ctx, opPin, stores.With(s.PinTx, ref))
}

// PinTx is Pin inside a transaction.
func (s *Store) PinTx(tx *db.Tx, ref Ref) error {
	scope, there, err := s.look(&tx.Rx, ref)
	var id int64
	if err == nil && there {
		there, err = tx.Store().FindToChange(&id, valueByName, scope, ref.Owner, ref.Key)
	}
	if err == nil && !there {
		err = db.ErrNotFound
	}
	if err == nil {
		err = tx.Store().Touch(sqlTouch, id)
	}
	if err != nil {
		return failed(opPin, ref.Key, err)
	}
	return tx.Store().Pin(s.scope, ref.pin())
}

// Unpin removes the pin of a value, if it has one.
func (s *Store) Unpin(ctx context.Context, ref Ref) error {
	return stores.On(s.db, txn.Pins).Remove(ctx, "unpin value", stores.With(s.UnpinTx, ref))
}

// UnpinTx is Unpin inside a transaction.
func (s *Store) UnpinTx(tx *db.Tx, ref Ref) error {
	return failed("unpin value", ref.Key, tx.Store().Unpin(s.db.Store(), s.scope, ref.pin()))
}
