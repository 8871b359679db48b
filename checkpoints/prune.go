package checkpoints

import (
	"context"

	"selvedge/db"
)

const (
	sqlEnded = `SELECT id AS key, run_id AS id, run_id AS of, completed_at AS ended_at, 150 + octet_length(run_id) + coalesce(octet_length(prompt), 0) + coalesce(octet_length(paused_stage_id), 0)
    + coalesce(octet_length(decision), 0) + coalesce(octet_length(decided_by), 0) AS bytes
FROM checkpoint_history AS h WHERE scope = ? AND (completed_at, h.id) < (?, ?) ORDER BY completed_at DESC, h.id DESC LIMIT ?`
	sqlPrune = `DELETE FROM checkpoint_history WHERE id = ?`
)

// Prune removes the claims of the history that the policy does not keep: by the time at which they were over, by run, and by
// what their entries hold, about. What waits or is claimed always stays, and so does the history of runs that are pinned. It
// works in short transactions, and what it removed before an error stays removed; run again, it goes on.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	return db.Prune(ctx, s.db, db.Pruning{
		Op: "prune checkpoints", Store: db.StoreCheckpoints, Scope: s.scope, Ended: endedClaims, Remove: removeEnded, Share: prunedAtOnce,
	}, policy)
}

// prunedAtOnce is how many entries one transaction removes at most, beside the bound on its time.
const prunedAtOnce = 1000

func endedClaims(rx *db.Rx, scope int64, after db.Ended, limit int) (list []db.Ended, err error) {
	err = rx.Select(&list, sqlEnded, scope, after.At, after.Key, limit)
	return list, err
}

func removeEnded(tx *db.Tx, claim db.Ended, _ int64) (db.Removal, int64, error) {
	n, err := tx.Exec(sqlPrune, claim.Key)
	if err != nil || n == 0 {
		return db.Stays, 0, err
	}
	return db.Went, 0, nil
}
