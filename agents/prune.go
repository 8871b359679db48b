package agents

import (
	"context"
	"fmt"
	"slices"
	"time"

	"selvedge/db"
)

const opPrune = "prune agents"

const (
	sqlEnded = `SELECT a.id, a.session_id, a.thread, coalesce(a.completed_at, a.started_at) AS ended_at,
	500 + coalesce(length(a.document), 0) + (SELECT coalesce(sum(60 + length(q.path)), 0) FROM agent_context_queries q WHERE q.agent_id = a.id) AS bytes
FROM agents a WHERE a.scope = ? AND a.status <> 'active' ORDER BY coalesce(a.completed_at, a.started_at) DESC, a.id DESC`
	sqlPrune = `DELETE FROM agents WHERE id = ? AND status <> 'active' AND coalesce(completed_at, started_at) = ?`
)

// endedAgent is one that Prune may take.
type endedAgent struct {
	ID      int64  `db:"id"`
	Session string `db:"session_id"`
	Thread  string `db:"thread"`
	EndedAt int64  `db:"ended_at"`
	Bytes   int64  `db:"bytes"` // about
}

// Prune removes the agents that have ended and that the policy does not keep, those that were put aside among them: by the
// time of their end, by thread, and by what their entries hold, about. Active ones stay. It works in short transactions, and
// what it removed before an error stays removed; run again, it goes on.
func (r *Registry) Prune(ctx context.Context, policy db.Policy) (done db.Pruned, err error) {
	if policy.Age < 0 || policy.Count < 0 || policy.Bytes < 0 {
		return done, &db.Error{Op: opPrune, Hint: "0 is no limit", Err: fmt.Errorf("%w: a limit below 0", db.ErrInvalid)}
	}
	var ended, planned []endedAgent
	err = r.read(ctx, opPrune, "", func(rx *db.Rx, scope int64) error {
		ended, planned = nil, nil
		err := rx.Select(&ended, sqlEnded, scope)
		planned = unkept(ended, policy, rx.Now())
		return err
	})
	if err != nil {
		return done, err
	}
	if policy.DryRun {
		for _, one := range planned {
			done.Removed++
			done.Bytes += one.Bytes
		}
	}
	for len(planned) > 0 && !policy.DryRun && err == nil {
		var part db.Pruned
		looked := 0
		err = r.db.Reclaim(ctx, opPrune, func(tx *db.Tx) error {
			part, looked = db.Pruned{}, 0
			for began := time.Now(); ; {
				one := planned[looked]
				n, err := tx.Exec(sqlPrune, one.ID, one.EndedAt)
				if err != nil {
					return err
				}
				part.Removed += int(n)
				part.Bytes += n * one.Bytes
				if looked++; looked == len(planned) || time.Since(began) >= longestTurn {
					return nil
				}
			}
		})
		if err == nil {
			planned = planned[looked:]
			done.Removed += part.Removed
			done.Bytes += part.Bytes
		}
	}
	done.Remaining = len(ended) - done.Removed
	return done, err
}

// unkept gives those of the ended agents, the newest first, that the policy does not keep, the oldest first.
func unkept(ended []endedAgent, policy db.Policy, now time.Time) (planned []endedAgent) {
	ofThread := map[string]int{}
	bytes := int64(0)
	for _, one := range ended {
		ofThread[one.Thread]++
		bytes += one.Bytes
		over := policy.Count > 0 && ofThread[one.Thread] > policy.Count ||
			policy.Bytes > 0 && bytes > policy.Bytes ||
			policy.Age > 0 && one.EndedAt < db.Nanos(now.Add(-policy.Age))
		if over && !slices.Contains(policy.Pinned, one.Session) {
			planned = append(planned, one)
		}
	}
	slices.Reverse(planned)
	return planned
}
