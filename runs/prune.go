package runs

import (
	"context"
	"errors"
	"slices"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Prune removes the ended runs that the policy does not keep: by the time of their end, by agent
// and start, and by the bytes of their records in the scope. Cancelled runs count as ended. Runs
// that are pinned or held stay, and incomplete ones that wait for a person. It works in short
// transactions; what it removed before an error stays removed, and the next call continues. A run
// stays if a row of a user's table refers to it; then the others are removed, and the error is
// ErrConflict.
//
// Under a policy with an Age it also ends, as incomplete, the open runs that are free, whose
// process is not known to be alive, that do not wait for an answer and that were last written to
// before that age. They count as ended from then on. Imported runs that were not written to since
// are left to [Store.AdoptOrphans].
func (s *Store) Prune(ctx context.Context, policy db.Policy) (done db.Pruned, err error) {
	if err := stores.CheckPolicy(policy); err != nil {
		return done, err
	}
	var now time.Time
	var ended, others int
	err = s.read(ctx, opGC, func(rx *db.Rx, scope int64) error {
		now = rx.Now()
		return errors.Join(rx.Get(&ended, sqlCountEnded, scope), rx.Get(&others, sqlCountOthers, scope))
	})
	var cancelled []stores.Ended
	if err == nil && others > ended { // the others are cancelled, or a cancellation is pending
		cancelled, err = s.cancelled(ctx)
	}
	var excess []stores.Ended
	none := policy.Age == db.KeepNone || policy.Bytes == db.KeepNone
	if err == nil && (none || policy.Count != 0) {
		keep := max(policy.Count, 0)
		if none {
			keep = 0
		}
		excess, err = s.beyondCount(ctx, int64(keep), cancelled)
	}
	if err == nil && policy.Age > 0 {
		var old []stores.Ended
		old, err = s.beyondAge(ctx, now.Add(-policy.Age))
		excess = append(excess, old...)
		for _, run := range cancelled {
			if run.At < db.Nanos(now.Add(-policy.Age)) {
				excess = append(excess, run)
			}
		}
	}
	if err != nil {
		return done, err
	}
	done, err = s.remove(ctx, stores.Pruning{
		Ended: func(rx *db.Rx, scope int64, after stores.Ended, limit int) (page []stores.Ended, err error) {
			err = rx.Select(&page, sqlNewestEnded, scope, after.At, after.Key, limit)
			for _, run := range cancelled {
				if stores.NewestFirst(after, run) < 0 {
					page = append(page, run)
				}
			}
			slices.SortFunc(page, stores.NewestFirst)
			return page[:min(limit, len(page))], err
		},
		Weigh:  func(rx *db.Rx, run stores.Ended) (int64, error) { return traceBytes(rx, run.Key) },
		Excess: excess, Total: ended + len(cancelled),
	}, policy, true)
	if err == nil && policy.Age > 0 {
		done.Ended, err = s.endSilent(ctx, policy)
		done.Remaining += done.Ended
	}
	return done, err
}

// remove removes ended runs in short transactions. It removes their rows first, which makes them
// invisible, and then their records, which may be many, some at a time.
func (s *Store) remove(ctx context.Context, p stores.Pruning, policy db.Policy, cancelled bool) (db.Pruned,
	error,
) {
	p.Op, p.Store, p.Kind, p.Scope, p.Share = opGC, txn.StoreRuns, txn.Runs, s.scope, runsAtATime
	p.Lock = lockEnded
	p.Excess = append([]stores.Ended{}, p.Excess...) // not nil, even if it is empty
	p.Remove = func(tx *db.Tx, run stores.Ended, _ int64) (stores.Removal, int64, error) {
		over, err := tx.Find(new(int64), sqlStillOver, run.Key, cancelled)
		if err != nil || !over { // removed, resumed or pinned meanwhile
			return stores.Kept, 0, err
		}
		at, _ := (*run.Progress).(detachment)
		next, more, err := at.of(run.Key).step(tx)
		switch {
		case err != nil:
			return stores.Kept, 0, named(RunRef{RunID: run.ID}, err)
		case more:
			*run.Progress = next
			return stores.Partial, 0, nil
		}
		return stores.Removed, 0, nil
	}
	done, err := stores.Prune(ctx, s.db, p, policy)
	if !policy.DryRun && (err == nil || txn.IsConstraint(err)) {
		err = errors.Join(err, s.dropLeavings(ctx))
	}
	return done, err
}

var lockEnded = stores.LockFree(txn.Runs, `SELECT key FROM runs WHERE key IN (%s) ORDER BY key`)

// cancelled returns the cancelled runs, in short reads of the whole file: no index has them.
func (s *Store) cancelled(ctx context.Context) (all []stores.Ended, err error) {
	for after, more := int64(0), true; more; {
		var page []stores.Ended
		var last *int64
		err := s.read(ctx, opGC, func(rx *db.Rx, scope int64) error {
			err := rx.Get(&last, sqlStretch, after, runsAtOnce)
			if page = nil; err == nil && last != nil {
				err = rx.Select(&page, sqlCancelled, scope, after, *last)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if more = last != nil; more {
			after = *last
		}
	}
	return all, nil
}

// endSilent ends the abandoned open runs that are older than the policy's age.
func (s *Store) endSilent(ctx context.Context, policy db.Policy) (ended int, err error) {
	e := ending{
		store: s, op: opGC, dry: policy.DryRun,
		spares: func(rx *db.Rx, scope int64, ref RunRef, run *runRow) (bool, error) {
			before := rx.Now().Add(-policy.Age)
			if slices.Contains(policy.Pinned, ref.RunID) {
				return true, nil
			}
			if pinned, err := rx.Store().IsPinned(scope,
				txn.Pinned{Store: txn.StoreRuns, ID: ref.RunID, Owner: ref.AgentID}); pinned || err != nil {
				return pinned, err
			}
			var last *int64
			if _, err := rx.Find(&last, sqlLastWritten, run.Key<<24, (run.Key+1)<<24); err != nil {
				return true, err
			}
			if last == nil { // older than the column; or imported, and maybe still in use
				last = run.StartedAt
				if run.OwnerID == nil {
					return true, nil
				}
			}
			if *last >= db.Nanos(before) {
				return true, nil
			}
			if held, err := rx.Store().IsReserved(run.Epoch); held || err != nil {
				return held, err
			}
			if run.OwnerID != nil {
				if alive, err := rx.Store().OwnerAlive(*run.OwnerID); alive || err != nil {
					return alive, err
				}
			}
			return rx.Find(new(int64), sqlWaits, scope, ref.RunID)
		},
	}
	return e.run(ctx)
}

const (
	sqlCountEnded = `SELECT coalesce(sum(ended), 0) FROM run_agents WHERE scope = ?`
	// sqlCountOthers counts the ended runs and those with a pending cancellation, the cancelled
	// ones included, by two indexes.
	sqlCountOthers = `SELECT (SELECT count(*) FROM runs WHERE scope = ?1 AND started_at IS NOT NULL)
	- (SELECT count(*) FROM runs WHERE scope = ?1 AND status = 'in_progress' AND started_at IS NOT NULL)`
	sqlStretch   = `SELECT max(key) FROM (SELECT key FROM runs WHERE key > ? ORDER BY key LIMIT ?) AS stretch`
	sqlCancelled = endedColumns + ` FROM runs WHERE +scope = ? AND key > ? AND key <= ? AND status = 'cancelled'
	AND started_at IS NOT NULL`
	sqlNewestEnded = endedColumns + ` FROM runs WHERE scope = ? AND (ended_at, key) < (?, ?) AND ` +
		endedRuns + `
ORDER BY ended_at DESC, key DESC LIMIT ` + paging.BoundLimit
	sqlLastWritten = `SELECT recorded_at FROM run_records WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	// The last record holds the sum, except in runs that began before sums were stored.
	sqlTraceTotal = `SELECT bytes FROM run_records WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	sqlTraceBytes = `SELECT coalesce(sum(coalesce(octet_length(raw), 0) + coalesce(octet_length(prompt), 0)
    + coalesce(octet_length(parameters), 0) + coalesce(octet_length(output), 0)), 0) FROM run_records
    WHERE id > ? AND id < ?`
)

// traceBytes returns how many bytes the records of a run hold.
func traceBytes(rx *db.Rx, key int64) (n int64, err error) {
	var total *int64
	if _, err = rx.Find(&total, sqlTraceTotal, key<<24, (key+1)<<24); err != nil {
		return 0, err
	}
	if total != nil {
		return *total, nil
	}
	err = rx.Get(&n, sqlTraceBytes, key<<24, (key+1)<<24)
	return n, err
}
