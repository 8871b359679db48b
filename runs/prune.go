package runs

import (
	"context"
	"fmt"

	"selvedge/db"
)

const opPrune = "prune runs"

// Prune removes the ended runs that the policy does not keep: what [Store.GC] counts and takes, by agents. It works in short
// transactions, and what it removed before an error stays removed; run again, it goes on. A run to which a row of a table of
// the user's refers stays, and then it is ErrConflict.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (done db.Pruned, err error) {
	if policy.Age < 0 || policy.Count < 0 || policy.Bytes < 0 {
		return done, &db.Error{Op: opPrune, Hint: "0 is no limit", Err: fmt.Errorf("%w: a limit below 0", db.ErrInvalid)}
	}
	r := removal{store: s, pinned: map[string]bool{}}
	for _, id := range policy.Pinned {
		r.pinned[id] = true
	}
	var ended int
	err = s.db.Read(ctx, opPrune, func(rx *db.Rx) error {
		r.forget()
		done = db.Pruned{}
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		if err := rx.Get(&ended, sqlCountEnded, scope); err != nil {
			return err
		}
		if policy.Count > 0 {
			err = r.planCount(rx, scope, int64(policy.Count))
		}
		if err == nil && policy.Age > 0 {
			err = r.planAge(rx, scope, rx.Now().Add(-policy.Age))
		}
		if err == nil && policy.Bytes > 0 {
			err = r.planBytes(rx, scope, policy.Bytes)
		}
		if err != nil {
			return err
		}
		for _, run := range r.planned {
			n, err := traceBytes(rx, run.Key)
			if err != nil {
				return err
			}
			done.Bytes += n
		}
		return nil
	})
	if done.Removed = len(r.planned); err == nil && !policy.DryRun {
		err = r.run(ctx)
		done.Removed = r.removed
	}
	done.Remaining = ended - done.Removed
	return done, err
}

const (
	sqlCountEnded  = `SELECT coalesce(sum(ended), 0) FROM run_agents WHERE scope = ?`
	sqlNewestEnded = `SELECT key, run_id FROM runs WHERE scope = ? AND ` + endedRuns + ` ORDER BY ended_at DESC, key DESC`
	sqlTraceBytes  = `SELECT coalesce(sum(coalesce(octet_length(raw), 0) + coalesce(octet_length(prompt), 0)
    + coalesce(octet_length(parameters), 0) + coalesce(octet_length(output), 0)), 0) FROM run_records WHERE id > ? AND id < ?`
)

// planBytes plans to remove what is behind so many bytes of ended runs, the newest end first.
func (r *removal) planBytes(rx *db.Rx, scope, keep int64) error {
	var runs []removable
	if err := rx.Select(&runs, sqlNewestEnded, scope); err != nil {
		return err
	}
	for _, run := range runs {
		if keep >= 0 && !r.known[run.Key] {
			n, err := traceBytes(rx, run.Key)
			if err != nil {
				return err
			}
			keep -= n
		}
		if keep < 0 {
			r.plan([]removable{run})
		}
	}
	return nil
}

func traceBytes(rx *db.Rx, key int64) (n int64, err error) {
	err = rx.Get(&n, sqlTraceBytes, key<<24, (key+1)<<24)
	return n, err
}
