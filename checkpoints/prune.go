package checkpoints

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	// sqlOpen is true for an entry of an open run. It reads the tables of other stores too: a run that
	// is open in any store may need the decision.
	sqlOpen = `(EXISTS (SELECT 1 FROM checkpoints AS c WHERE c.scope = h.scope AND c.run_id = h.run_id)
    OR EXISTS (SELECT 1 FROM runs AS r WHERE r.scope = h.scope AND r.run_id = h.run_id AND r.ended_at IS NULL)
    OR EXISTS (SELECT 1 FROM live_runs AS l WHERE l.scope = h.scope AND l.run_id = h.run_id
        AND l.status NOT IN ('completed', 'failed', 'cancelled')))`
	sqlEnded = `SELECT id AS key, run_id AS id, coalesce(agent_id, '') AS owner, run_id AS of,
	completed_at AS ended_at, ` + sqlOpen + ` AS held,
	150 + octet_length(run_id) + coalesce(octet_length(prompt), 0)
	+ coalesce(octet_length(paused_stage_id), 0) + coalesce(octet_length(decision), 0)
	+ coalesce(octet_length(decided_by), 0) AS bytes
FROM checkpoint_history AS h WHERE scope = ? AND (completed_at, h.id) < (?, ?)
	ORDER BY completed_at DESC, h.id DESC LIMIT ?`
	sqlPrune = `DELETE FROM checkpoint_history AS h WHERE id = ? AND NOT ` + sqlOpen
)

// Prune removes the claims of the history that the policy does not retain. The policy applies to
// the time at which they ended, per run, and to the approximate size of their entries. Waiting and
// claimed runs always stay. So does the history of a run that is pinned, or open in any store of
// the scope. Prune works in short transactions. What it removed before an error stays removed;
// another call continues.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	return stores.Prune(ctx, s.db, stores.Pruning{
		Op: "prune checkpoints", Store: txn.StoreCheckpoints, Kind: txn.Checkpoints, Scope: s.scope,
		Ended: stores.SelectEnded(sqlEnded), Lock: stores.LockNames(pauseName), Remove: removeEnded,
		Share: prunedAtOnce,
	}, policy)
}

// prunedAtOnce is how many entries one transaction removes at most, beside the bound on its time.
const prunedAtOnce = 1000

func removeEnded(tx *db.Tx, claim stores.Ended, _ int64) (stores.Removal, int64, error) {
	return stores.RemovedRow(tx.Exec(sqlPrune, claim.Key))
}
