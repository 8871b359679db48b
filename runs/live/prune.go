package live

import (
	"context"
	"fmt"
	"slices"

	"selvedge/db"
	"selvedge/internal/live"
)

const opPrune = "prune live runs"

// Prune removes the runs that have ended and that the policy does not keep: by the time of their last event or mark, by session,
// and by the bytes of their events in the scope. Runs that somebody holds stay. It works in short transactions, and what it
// removed before an error stays removed; run again, it goes on.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (done db.Pruned, err error) {
	if policy.Age < 0 || policy.Count < 0 || policy.Bytes < 0 {
		return done, &db.Error{Op: opPrune, Hint: "0 is no limit", Err: fmt.Errorf("%w: a limit below 0", db.ErrInvalid)}
	}
	var ended, planned []live.EndedRun
	err = s.db.Read(ctx, opPrune, func(rx *db.Rx) error {
		ended, planned = nil, nil
		scope, ok, err := s.scopeIn(rx)
		if err != nil || !ok {
			return err
		}
		if ended, err = live.EndedRuns(rx, scope); err == nil {
			planned, err = plan(rx, scope, ended, policy)
		}
		return err
	})
	if err != nil {
		return done, err
	}
	for len(planned) > 0 && !policy.DryRun {
		var part db.Pruned
		rest := planned
		err = s.db.Reclaim(ctx, opPrune, func(tx *db.Tx) error {
			part, rest, err = s.prune(tx, planned)
			return err
		})
		if err != nil {
			break
		}
		planned = rest
		done.Removed += part.Removed
		done.Bytes += part.Bytes
	}
	if policy.DryRun {
		for _, run := range planned {
			done.Removed++
			done.Bytes += run.KeptBytes
		}
	}
	done.Remaining = len(ended) - done.Removed
	return done, err
}

// plan gives those of the ended runs, the newest first, that the policy does not keep, the oldest first.
func plan(rx *db.Rx, scope int64, ended []live.EndedRun, policy db.Policy) (planned []live.EndedRun, err error) {
	ofSession := map[string]int{}
	bytes := int64(0)
	for _, run := range ended {
		ofSession[run.SessionID]++
		bytes += run.KeptBytes
		over := policy.Count > 0 && ofSession[run.SessionID] > policy.Count ||
			policy.Bytes > 0 && bytes > policy.Bytes ||
			policy.Age > 0 && run.UpdatedAt < db.Nanos(rx.Now().Add(-policy.Age))
		if !over || slices.Contains(policy.Pinned, run.RunID) {
			continue
		}
		has, err := held(rx, scope, run.Key)
		if err != nil {
			return nil, err
		}
		if !has {
			planned = append(planned, run)
		}
	}
	slices.Reverse(planned)
	return planned, nil
}

// prunedRuns is how many runs one transaction removes at most, beside the bound on their events.
const prunedRuns = 200

// prune removes some of the planned runs, as far as one transaction's share goes, and gives the rest. One that has gone on
// meanwhile, or is held, stays.
func (s *Store) prune(tx *db.Tx, planned []live.EndedRun) (done db.Pruned, rest []live.EndedRun, err error) {
	share := int64(trimmed)
	for i, run := range planned {
		if share < 0 || done.Removed == prunedRuns {
			return done, planned[i:], nil
		}
		row, found, err := live.RowByKey(&tx.Rx, run.Key)
		if err != nil {
			return done, nil, err
		}
		if !found || !RunStatus(row.Status).Ended() || row.UpdatedAt != run.UpdatedAt {
			continue
		}
		if has, err := held(&tx.Rx, row.Scope, row.Key); err != nil {
			return done, nil, err
		} else if has {
			continue
		}
		bytes := row.KeptBytes
		if share, err = remove(tx, row, share); err != nil {
			return done, nil, err
		}
		if share < 0 { // its oldest events went; the rest of it is for the next
			done.Bytes += bytes - row.KeptBytes
			return done, planned[i:], nil
		}
		done.Removed++
		done.Bytes += bytes
	}
	return done, nil, nil
}
