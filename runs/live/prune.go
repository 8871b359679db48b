package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/live"
)

// Prune removes the runs that have ended and that the policy does not keep: by the time of their
// last event or mark, by session, and by the bytes of their events in the scope. Runs that somebody
// holds stay, and those that are pinned. It works in short transactions, and what it removed before
// an error stays removed; run again, it goes on.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	done, err := db.Prune(ctx, s.db, db.Pruning{
		Op: "prune live runs", Store: db.StoreLive, Scope: s.scope, Ended: endedRuns, Remove: removeEnded,
		Share: live.FullShare().Events,
	}, policy)
	if err == nil && !policy.DryRun {
		err = s.dropLeft(ctx)
	}
	return done, err
}

func endedRuns(rx *db.Rx, scope int64, after db.Ended, limit int) (list []db.Ended, err error) {
	err = rx.Select(&list, live.SQLEndedRuns, scope, after.At, after.Key, limit)
	for i := range list {
		if err == nil {
			list[i].Held, err = rx.IsReserved(scope, leaseKind, leaseName(list[i].Key))
		}
	}
	return list, err
}

// removeEnded removes a run. One that has gone on meanwhile, or is held, stays.
func removeEnded(tx *db.Tx, run db.Ended, share int64) (db.Removal, int64, error) {
	row, found, err := live.RowByKey(&tx.Rx, run.Key)
	if err != nil || !found || !RunStatus(row.Status).Ended() || row.UpdatedAt != run.At {
		return db.Stays, 0, err
	}
	if free, err := tx.Unreserve(row.Scope, leaseKind, leaseName(row.Key)); err != nil || !free {
		return db.Stays, 0, err
	}
	left := live.FullShare()
	left.Events = share
	err = row.Leave(tx, &left)
	return db.Went, share - left.Events, err
}
