package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Prune removes the ended runs that the policy does not keep: by the time of their last event or
// mark, by session, and by the bytes of their events in the scope. Runs that are held or pinned
// stay. It works in short transactions; what it removed before an error stays removed, and the next
// call continues.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	done, err := stores.Prune(ctx, s.db, stores.Pruning{
		Op: "prune live runs", Store: txn.StoreLive, Kind: txn.LiveRuns, Scope: s.scope, Ended: endedRuns,
		Lock: lockEnded, Remove: removeEnded, Share: fullBudget().Events,
	}, policy)
	if err == nil && !policy.DryRun {
		err = s.dropLeftovers(ctx)
	}
	return done, err
}

// sqlEndedRuns returns the runs that ended before a time, or at it with a lower key, newest first.
const sqlEndedRuns = `SELECT key, run_id AS id, session_id AS of, updated_at AS ended_at,
	kept_bytes AS bytes, epoch
	FROM live_runs
WHERE scope = ? AND status IN ('completed', 'failed', 'cancelled') AND (updated_at, key) < (?, ?)
	ORDER BY updated_at DESC, key DESC LIMIT ?`

func endedRuns(rx *db.Rx, scope int64, after stores.Ended, limit int) (list []stores.Ended, err error) {
	var rows []struct {
		stores.Ended
		Epoch *int64 `db:"epoch"`
	}
	err = rx.Select(&rows, sqlEndedRuns, scope, after.At, after.Key, limit)
	for i := range rows {
		if err == nil {
			rows[i].Held, err = rx.Store().IsReserved(rows[i].Epoch)
		}
		list = append(list, rows[i].Ended)
	}
	return list, err
}

var lockEnded = stores.LockFree(txn.LiveRuns, `SELECT key FROM live_runs WHERE key IN (%s) ORDER BY key`)

// removeEnded removes a run, unless it has changed meanwhile or is held.
func removeEnded(tx *db.Tx, run stores.Ended, share int64) (stores.Removal, int64, error) {
	row, found, err := rowByKey(&tx.Rx, run.Key)
	if err != nil || !found || !RunStatus(row.Status).Ended() || row.UpdatedAt != run.At {
		return stores.Kept, 0, err
	}
	if free, err := tx.Store().Unreserve(row.Epoch); err != nil || !free {
		return stores.Kept, 0, err
	}
	left := fullBudget()
	left.Events = share
	err = row.remove(tx, &left)
	return stores.Removed, share - left.Events, err
}
