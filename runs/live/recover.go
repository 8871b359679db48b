package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	opRecover = "recover live runs"

	sqlOwnedRuns = `SELECT key FROM live_runs WHERE owner_id IS NOT NULL AND scope = ? AND key > ? ORDER BY key
		LIMIT ` + paging.BoundLimit
	sqlTakeAway = `UPDATE live_runs SET owner_id = NULL, epoch = NULL WHERE key = ? AND owner_id = ?`
	// The owner is dead, so no renewal is in progress. The lease of a trace is left to its store.
	sqlDropLease = `DELETE FROM leases WHERE epoch = ? AND kind = '` + leaseKind + `'`
)

// recovering is how many runs one transaction judges.
const recovering = 100

// Recover releases the runs whose holder is dead, and returns their number. It ends none:
// [Store.Resume] takes them up. Any process may call it at any time: runs of live holders, this
// process included, are left alone, and so are runs that Begin and Resume never held.
//
// It works in short transactions; what it released before an error stays released. It also deletes
// the invisible events of removals and replacements that dead processes did not finish.
func (s *Store) Recover(ctx context.Context) (recovered int, err error) {
	for behind, more := int64(0), true; more; {
		var keys []int64
		err := s.readScope(ctx, opRecover, func(rx *db.Rx, scope int64) error {
			keys = nil
			return rx.Select(&keys, sqlOwnedRuns, scope, behind, recovering)
		})
		if err != nil {
			return recovered, err
		}
		if more = len(keys) == recovering; len(keys) == 0 {
			break
		}
		behind = keys[len(keys)-1]
		n, err := stores.Get(ctx, stores.On(s.db, txn.Recoveries).Write, opRecover, stores.Bind(release, keys))
		if err != nil {
			return recovered, err
		}
		recovered += n
	}
	return recovered, s.dropLeftovers(ctx)
}

// release releases those of the runs whose owner is dead, by compare-and-set on that owner.
func release(tx *db.Tx, keys []int64) (released int, err error) {
	for _, key := range keys {
		row, found, err := rowByKey(&tx.Rx, key)
		alive := err == nil && (!found || row.Owner == nil) // nothing to release
		if err == nil && !alive {
			// A hold that outlives its process leaves the run without an owner.
			alive, err = tx.Store().OwnerAlive(*row.Owner)
		}
		n := int64(0)
		if err == nil && !alive {
			n, err = tx.Exec(sqlTakeAway, key, row.Owner)
		}
		if err == nil && n > 0 {
			_, err = tx.Exec(sqlDropLease, row.Epoch)
		}
		if err != nil {
			return released, err
		}
		released += int(n)
	}
	return released, nil
}
