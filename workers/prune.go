package workers

import (
	"context"
	"fmt"
	"math"
	"slices"

	"selvedge/db"
	"selvedge/internal/workers"
)

const opPruneWorkers = "prune workers"

// Prune removes the workers that have ended and that the policy does not keep, with their transcripts: by the time of their end,
// by runtime, and by the bytes of their transcripts in the scope. The policy pins by the ids of workers. Imported workers that
// ended before they came have no time, and count as the oldest. It works in short transactions, and what it removed before an
// error stays removed; run again, it goes on. Logs are pruned by [Runtime.PruneEvents].
func (s *Runtimes) Prune(ctx context.Context, policy db.Policy) (done db.Pruned, err error) {
	if policy.Age < 0 || policy.Count < 0 || policy.Bytes < 0 {
		return done, &db.Error{Op: opPruneWorkers, Hint: "0 is no limit", Err: fmt.Errorf("%w: a limit below 0", db.ErrInvalid)}
	}
	var ended, planned []workers.EndedWorker
	err = s.db.Read(ctx, opPruneWorkers, func(rx *db.Rx) error {
		planned = nil
		scope, ok, err := s.scopeIn(rx)
		if err != nil || !ok {
			return err
		}
		if ended, err = workers.EndedWorkers(rx, scope); err != nil {
			return err
		}
		ofRuntime, bytes := map[int64]int{}, int64(0)
		for _, w := range ended {
			ofRuntime[w.Runtime]++
			bytes += w.Bytes
			over := policy.Count > 0 && ofRuntime[w.Runtime] > policy.Count ||
				policy.Bytes > 0 && bytes > policy.Bytes ||
				policy.Age > 0 && w.EndedAt < db.Nanos(rx.Now().Add(-policy.Age))
			if over && !slices.Contains(policy.Pinned, w.WorkerID) {
				planned = append(planned, w)
			}
		}
		slices.Reverse(planned)
		return nil
	})
	if err != nil {
		return done, err
	}
	for len(planned) > 0 {
		var part db.Pruned
		rest := planned[len(planned):]
		if policy.DryRun {
			for _, w := range planned {
				part.Removed++
				part.Bytes += w.Bytes
			}
		} else {
			err = s.db.Reclaim(ctx, opPruneWorkers, func(tx *db.Tx) error {
				part, rest, err = pruneWorkers(tx, planned)
				return err
			})
		}
		if err != nil {
			break
		}
		planned = rest
		done.Removed += part.Removed
		done.Bytes += part.Bytes
	}
	done.Remaining = len(ended) - done.Removed
	return done, err
}

// pruneWorkers removes some of the planned workers, as far as one transaction's share goes, and gives the rest.
func pruneWorkers(tx *db.Tx, planned []workers.EndedWorker) (done db.Pruned, rest []workers.EndedWorker, err error) {
	share := int64(deleted)
	for i, next := range planned {
		if share <= 0 {
			return done, planned[i:], nil
		}
		w, found, err := workers.WorkerByKey(&tx.Rx, next.Key)
		if err != nil {
			return done, nil, err
		}
		if !found {
			continue
		}
		row, _, err := workers.RuntimeByKey(&tx.Rx, w.Runtime)
		if err != nil {
			return done, nil, err
		}
		if w.TranscriptLen > share {
			return done, planned[i:], w.Shorten(tx, share)
		}
		if err := row.RemoveWorker(tx, w); err != nil {
			return done, nil, err
		}
		if err := row.Save(tx); err != nil {
			return done, nil, err
		}
		share -= 1 + w.TranscriptLen
		done.Removed++
		done.Bytes += next.Bytes
	}
	return done, nil, nil
}

// pruneBatch is the number of events that PruneEvents removes in one transaction.
const pruneBatch = 500

const opPrune = "prune events"

// PruneEvents removes the events before the cursor, a few hundred in a transaction, and says how many they were. Ids are
// not given again; a cursor before the first event kept is db.ErrCursorExpired to ReadEvents from then on, and a gap to who
// follows. Transcripts stay.
func (r *Runtime) PruneEvents(ctx context.Context, before EventCursor) (removed int64, err error) {
	if err := r.ensureOwnCursor(before); err != nil {
		return 0, err
	}
	for more := true; more; {
		var n int64
		err := r.db.Reclaim(ctx, opPrune, func(tx *db.Tx) error {
			row, err := r.row(&tx.Rx, opPrune)
			if err != nil {
				return err
			}
			end, placed := placeOf(row, before)
			if !placed {
				return &db.Error{
					Op: opPrune, Entity: "runtime", ID: string(r.id), Hint: "take the cursor from ReadEvents, behind an event",
					Err: fmt.Errorf("%w: the ids of this log repeat or go back", db.ErrInvalid),
				}
			}
			if n, more, err = row.Prune(tx, int64(min(end, math.MaxInt64)), pruneBatch); err != nil || n == 0 {
				return err
			}
			return row.Save(tx)
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
