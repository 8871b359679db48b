package agents

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const (
	sqlEnded = `SELECT a.id AS key, a.session_id AS id, a.thread AS of,
	coalesce(a.completed_at, a.started_at) AS ended_at,
	500 + coalesce(octet_length(a.document), 0) + (SELECT coalesce(sum(60 + octet_length(q.path)), 0)
	FROM agent_context_queries q WHERE q.agent_id = a.id) AS bytes
FROM agents a WHERE a.scope = ?1 AND a.status <> 'active' AND coalesce(a.completed_at, a.started_at) <= ?2
	AND (coalesce(a.completed_at, a.started_at), a.id) < (?3, ?4)`
	newestEnded = `
ORDER BY coalesce(a.completed_at, a.started_at) DESC, a.id DESC LIMIT ?5`
	// Two lists, each in the order of its index, and no longer than the limit.
	sqlEndedAside = sqlEnded + ` AND a.put_aside_at IS NOT NULL` + newestEnded
	sqlEndedThere = sqlEnded + ` AND a.put_aside_at IS NULL` + newestEnded
	sqlAllEnded   = `SELECT * FROM (` + sqlEndedAside + `) AS aside
UNION ALL
SELECT * FROM (` + sqlEndedThere + `) AS there
ORDER BY ended_at DESC, key DESC LIMIT ?5`
	sqlPrune = `DELETE FROM agents WHERE id = ? AND status <> 'active'
		AND coalesce(completed_at, started_at) = ?`
)

// Prune removes the agents that have left the registry, seven days after their end, and that the
// policy does not retain. The policy applies to the time of their end, per thread, and to the
// approximate size of their entries. Agents of that age count whether or not a call has put them
// aside; all others stay. Prune works in short transactions. What it removed before an error stays
// removed; another call continues.
func (r *Registry) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	return stores.Prune(ctx, r.db, stores.Pruning{
		Op: "prune agents", Store: txn.StoreAgents, Kind: txn.Agents, Scope: r.scope, Ended: endedAgents,
		Lock: stores.LockNames(keptName), Remove: removeEnded, Share: prunedAtOnce,
	}, policy)
}

// prunedAtOnce is how many entries one transaction removes at most, beside the bound on its time.
const prunedAtOnce = 500

func endedAgents(rx *db.Rx, scope int64, after stores.Ended, limit int) (list []stores.Ended, err error) {
	err = rx.Select(&list, sqlAllEnded, scope, staleBefore(rx.Now()), after.At, after.Key, limit)
	return list, err
}

// removeEnded removes an entry that was not brought back meanwhile.
func removeEnded(tx *db.Tx, agent stores.Ended, _ int64) (stores.Removal, int64, error) {
	return stores.RemovedRow(tx.Exec(sqlPrune, agent.Key, agent.At))
}
