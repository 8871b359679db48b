package txn

import (
	"slices"
	"time"
)

// The names of the stores that have retention.
const (
	StoreRuns        = "runs"
	StoreLive        = "live"
	StoreAgents      = "agents"
	StoreCheckpoints = "checkpoints"
	StoreWorkers     = "workers"
	StoreState       = "state"
)

// Stores are all of them, in the order of the docs.
var Stores = []string{StoreRuns, StoreLive, StoreAgents, StoreCheckpoints, StoreWorkers, StoreState}

// CheckStore returns ErrInvalid for a name that no store has.
func CheckStore(store string) error {
	if slices.Contains(Stores, store) {
		return nil
	}
	return Invalid("the stores are runs, live, agents, checkpoints, workers and state", "%q is no store", store)
}

// Limits are the limits of a db.Policy.
type Limits struct {
	Age   time.Duration
	Count int
	Bytes int64
}

// KeepNone is the limit that keeps nothing that has ended; 0 is no limit.
const KeepNone = -1

const (
	sqlPutLimits = `INSERT INTO retention (scope, store, max_age, max_count, max_bytes, source, set_at,
	checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, store) DO UPDATE
	SET max_age = excluded.max_age, max_count = excluded.max_count, max_bytes = excluded.max_bytes,
    source = excluded.source, set_at = excluded.set_at, checksum = excluded.checksum
	WHERE retention.max_age IS DISTINCT FROM excluded.max_age
		OR retention.max_count IS DISTINCT FROM excluded.max_count
		OR retention.max_bytes IS DISTINCT FROM excluded.max_bytes
		OR retention.source IS DISTINCT FROM excluded.source`
	sqlDropLimits = `DELETE FROM retention WHERE scope = ? AND store = ?`
	sqlPin        = `INSERT INTO retention_pins (scope, store, id, owner, pinned_at, checksum)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, store, id, owner) DO NOTHING`
	sqlUnpin    = `DELETE FROM retention_pins WHERE scope = ? AND store = ? AND id = ? AND owner = ?`
	sqlIsPinned = `SELECT 1 FROM retention_pins WHERE scope = ? AND store = ? AND id = ? AND owner = ?`
)

// ResetRetention is maintenance.ResetRetention inside a transaction.
func (tx *Tx) ResetRetention(scope, store string) error {
	if err := CheckStore(store); err != nil {
		return err
	}
	id, ok, err := tx.Rx.Scope(scope)
	if err == nil && ok {
		_, err = tx.Exec(sqlDropLimits, id, store)
	}
	return err
}

// SetRetention is maintenance.SetRetention inside a transaction, of limits that were checked. source is the
// imported tree that set the limits, or nil. Setting the same limits again, as every import of a tree does,
// changes nothing.
func (tx *Tx) SetRetention(scope, store string, limits Limits, source *int64) error {
	if err := CheckStore(store); err != nil {
		return err
	}
	id, err := tx.Scope(scope)
	if err != nil {
		return err
	}
	columns := []any{
		id, store, column(int64(limits.Age)), column(int64(limits.Count)), column(limits.Bytes), nil,
		Nanos(tx.Now()),
	}
	if source != nil {
		columns[5] = *source
	}
	_, err = tx.Exec(sqlPutLimits, append(columns, Checksum(columns...))...)
	return err
}

func column(limit int64) any {
	switch limit {
	case 0:
		return nil
	case KeepNone:
		return int64(0)
	}
	return limit
}

// Pinned is a maintenance.Pinned: an item that no limit removes.
type Pinned struct{ Store, ID, Owner string }

var pinRow = Pins.Rows(
	`SELECT pinned_at FROM retention_pins WHERE scope = ? AND store = ? AND id = ? AND owner = ?`,
)

// Pin keeps an item of a scope, whatever the limits of retention say, until Unpin. The stores lock it,
// check that it exists, and touch it: see their Pin. Pinning twice is fine.
func (tx *Tx) Pin(scope string, p Pinned) error {
	err := CheckStore(p.Store)
	if err == nil {
		err = CheckID("pinned", p.ID)
	}
	if err == nil {
		err = CheckID("pinned owner", p.Owner)
	}
	if err != nil {
		return err
	}
	id, err := tx.Scope(scope)
	if err != nil {
		return err
	}
	if err := tx.WillChange(pinRow, id, p.Store, p.ID, p.Owner); err != nil {
		return err
	}
	columns := []any{id, p.Store, p.ID, p.Owner, Nanos(tx.Now())}
	_, err = tx.Exec(sqlPin, append(columns, Checksum(columns...))...)
	return err
}

// Unpin removes a pin of the store's handle; it is fine if there is none.
func (tx *Tx) Unpin(of *Handle, scope string, p Pinned) error {
	if err := tx.Of(of); err != nil {
		return err
	}
	id, ok, err := tx.Rx.Scope(scope)
	if err == nil && ok {
		_, err = tx.Exec(sqlUnpin, id, p.Store, p.ID, p.Owner)
	}
	return err
}

// IsPinned reports whether the item is pinned.
func (rx *Rx) IsPinned(scope int64, p Pinned) (bool, error) {
	return rx.Find(new(int64), sqlIsPinned, scope, p.Store, p.ID, p.Owner)
}
