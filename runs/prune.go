package runs

import (
	"context"
	"math"
	"slices"
	"time"

	"selvedge/db"
)

// Prune removes the ended runs that the policy does not keep: what [Store.GC] counts and takes, by
// agents. Runs that are pinned or held stay. It works in short transactions, and what it removed
// before an error stays removed; run again, it goes on. A run to which a row of a table of the
// user's refers stays, and then it is ErrConflict.
//
// Under a policy with an Age it also ends, as incomplete, the open runs that nobody holds, whose
// process is not known to live, that wait for nobody and to which nobody has written for longer
// than that. They count as ended from then on. What was imported and not written to since is
// [Store.AdoptOrphans]'s to end.
func (s *Store) Prune(ctx context.Context, policy db.Policy) (done db.Pruned, err error) {
	if err := policy.Check(); err != nil {
		return done, err
	}
	r := removal{store: s}
	if policy.Count != 0 || policy.Age == db.KeepNone || policy.Bytes == db.KeepNone {
		keep := max(policy.Count, 0)
		if policy.Age == db.KeepNone || policy.Bytes == db.KeepNone {
			keep = 0
		}
		err = r.planCount(ctx, int64(keep))
	}
	var ended int
	if err == nil && policy.Age > 0 {
		var now time.Time
		if err = s.read(ctx, func(rx *db.Rx, _ int64) error { now = rx.Now(); return nil }); err == nil {
			err = r.planAge(ctx, now.Add(-policy.Age))
		}
	}
	if err == nil && policy.Bytes > 0 {
		err = r.planBytes(ctx, policy.Bytes)
	}
	if err == nil {
		r.planned = slices.DeleteFunc(r.planned,
			func(run removable) bool { return slices.Contains(policy.Pinned, run.RunID) })
		err = r.weigh(ctx)
	}
	if err == nil {
		err = s.read(ctx, func(rx *db.Rx, scope int64) error { return rx.Get(&ended, sqlCountEnded, scope) })
	}
	if err != nil {
		return done, err
	}
	r.gone = func(run removable) {
		done.Removed++
		done.Bytes += run.bytes
		if !policy.DryRun {
			s.db.CountPruned(run.bytes)
		}
		if policy.Each != nil {
			policy.Each(db.Gone{Of: run.AgentID, ID: run.RunID, Bytes: run.bytes})
		}
	}
	if policy.DryRun {
		for _, run := range r.planned {
			r.gone(run)
		}
	} else {
		err = r.run(ctx)
	}
	if err == nil && policy.Age > 0 {
		done.Ended, err = s.endSilent(ctx, policy)
	}
	done.Remaining = ended - done.Removed + done.Ended
	return done, err
}

// endSilent ends the open runs that are older than the policy's age and that nobody will end.
func (s *Store) endSilent(ctx context.Context, policy db.Policy) (ended int, err error) {
	e := ending{
		store: s, op: opGC, dry: policy.DryRun,
		spares: func(rx *db.Rx, scope int64, ref RunRef, run *runRow) (bool, error) {
			before := rx.Now().Add(-policy.Age)
			if slices.Contains(policy.Pinned, ref.RunID) {
				return true, nil
			}
			if pinned, err := rx.IsPinned(scope,
				db.Pinned{Store: db.StoreRuns, ID: ref.RunID, Owner: ref.AgentID}); pinned || err != nil {
				return pinned, err
			}
			var last *int64
			if _, err := rx.Find(&last, sqlLastWritten, run.Key<<24, (run.Key+1)<<24); err != nil {
				return true, err
			}
			if last == nil { // written before such times were kept; or imported, and the old program may go on with it
				last = run.StartedAt
				if run.OwnerID == nil {
					return true, nil
				}
			}
			if *last >= db.Nanos(before) {
				return true, nil
			}
			if held, err := rx.IsReserved(scope, leaseKind, leaseName(run.Key)); held || err != nil {
				return held, err
			}
			if run.OwnerID != nil {
				if alive, err := rx.OwnerAlive(*run.OwnerID); alive || err != nil {
					return alive, err
				}
			}
			return rx.Find(new(int64), sqlWaits, scope, ref.RunID)
		},
	}
	return e.run(ctx)
}

const (
	sqlCountEnded  = `SELECT coalesce(sum(ended), 0) FROM run_agents WHERE scope = ?`
	sqlNewestEnded = removableColumns + `runs WHERE scope = ? AND (ended_at, key) < (?, ?) AND ` + endedRuns + `
ORDER BY ended_at DESC, key DESC LIMIT ` + db.BoundLimit
	sqlLastWritten = `SELECT recorded_at FROM run_records WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	sqlLoose       = `SELECT 1 FROM runs WHERE key = ? AND ` + loose
	// The last record has the sum, but for runs that began before it was kept.
	sqlTraceTotal = `SELECT bytes FROM run_records WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1`
	sqlTraceBytes = `SELECT coalesce(sum(coalesce(octet_length(raw), 0) + coalesce(octet_length(prompt), 0)
    + coalesce(octet_length(parameters), 0) + coalesce(octet_length(output), 0)), 0) FROM run_records
    WHERE id > ? AND id < ?`
)

// planBytes plans to remove what is behind so many bytes of ended runs, the newest end first.
func (r *removal) planBytes(ctx context.Context, keep int64) error {
	after := removable{EndedAt: math.MaxInt64, Key: math.MaxInt64}
	for more := true; more; {
		var page []removable
		var left int64
		var last removable
		more = false // where nobody wrote to the scope, nothing is read
		err := r.store.read(ctx, func(rx *db.Rx, scope int64) error {
			var runs []removable
			if err := rx.Select(&runs, sqlNewestEnded, scope, after.EndedAt, after.Key, weighedAtOnce); err != nil {
				return err
			}
			page, left = nil, keep
			if more = len(runs) == weighedAtOnce; more {
				last = runs[len(runs)-1]
			}
			for _, run := range runs {
				if left >= 0 && !r.known[run.Key] {
					n, err := traceBytes(rx, run.Key)
					if err != nil {
						return err
					}
					left -= n
				}
				if left >= 0 {
					continue
				}
				if free, err := rx.Find(new(int64), sqlLoose, run.Key); err != nil {
					return err
				} else if free {
					page = append(page, run)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		keep, after = left, last
		r.plan(page)
	}
	return nil
}

// weighedAtOnce is how many runs one read weighs.
var weighedAtOnce = 200

// weigh notes the bytes of what is planned.
func (r *removal) weigh(ctx context.Context) error {
	for part := range slices.Chunk(r.planned, weighedAtOnce) {
		err := r.store.read(ctx, func(rx *db.Rx, _ int64) (err error) {
			for i := range part {
				if part[i].bytes, err = traceBytes(rx, part[i].Key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// traceBytes is how many bytes the records of a run hold.
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
