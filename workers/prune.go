package workers

import (
	"context"
	"math"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Prune removes the workers that have ended and that the policy does not retain, with their
// transcripts. The policy applies to the time of their end, per runtime, and to the bytes of their
// transcripts in the scope. The policy pins by the ids of workers; workers pinned by Pin stay too.
// Workers that had ended before their import have no time, and count as the oldest. Prune works in
// short transactions; what it removed before an error stays removed. [Runtime.PruneEvents] prunes
// logs.
func (s *Runtimes) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	return stores.Prune(ctx, s.db, stores.Pruning{
		Op: "prune workers", Store: txn.StoreWorkers, Kind: txn.Runtimes, Scope: s.scope,
		Ended: stores.SelectEnded(sqlEndedWorkers), Weigh: weighWorker, Lock: lockEnded,
		Remove: removeEnded, Share: deleted,
	}, policy)
}

var runtimeByID = txn.Runtimes.Rows(`SELECT key FROM worker_runtimes WHERE scope = ? AND runtime_id = ?`)

// lockEnded locks the runtimes of workers. It waits for them, since many calls lock a runtime.
func lockEnded(tx *db.Tx, scope int64, ended []stores.Ended) (all map[int64]bool, err error) {
	locked := map[string]bool{}
	for i := 0; i < len(ended) && err == nil; i++ {
		if id := ended[i].Owner; !locked[id] {
			locked[id] = true
			err = tx.Store().WillChange(runtimeByID, scope, id)
		}
	}
	return nil, err
}

// removeEnded removes a worker, or a part of its transcript if that is long.
func removeEnded(tx *db.Tx, ended stores.Ended, share int64) (stores.Removal, int64, error) {
	w, found, err := find[workerRow](&tx.Rx, sqlByKey, ended.Key)
	if err != nil || !found {
		return stores.Kept, 0, err
	}
	row, _, err := find[runtimeRow](&tx.Rx, sqlRuntimeByKey, w.Runtime)
	if err != nil {
		return stores.Kept, 0, err
	}
	long := w.TranscriptLen > share
	if _, err := row.removePart(tx, w, share); err != nil || long {
		return stores.Partial, share, err
	}
	return stores.Removed, w.TranscriptLen, row.save(tx)
}

// pruneBatch is the number of events that PruneEvents removes in one transaction.
const pruneBatch = 500

const opPrune = "prune events"

// PruneEvents removes the events before the cursor, a few hundred in a transaction, and returns
// their number. Ids are not reused. For a cursor before the first remaining event, ReadEvents then
// returns db.ErrCursorExpired, and a follower receives a gap. Transcripts stay.
func (r *Runtime) PruneEvents(ctx context.Context, before EventCursor) (removed int64, err error) {
	if err := r.ensureOwnCursor(before); err != nil {
		return 0, err
	}
	for more := true; more; {
		var n int64
		err := stores.On(r.db, txn.Parts).Remove(ctx, opPrune, func(tx *db.Tx) error {
			row, err := r.row(&tx.Rx, opPrune)
			if err != nil {
				return err
			}
			end, placed := placeOf(row, before)
			if !placed {
				return r.failed(opPrune, txn.Invalid("take the cursor from ReadEvents, behind an event",
					"the ids of this log repeat or go back"))
			}
			if n, more, err = row.prune(tx, int64(min(end, math.MaxInt64)), pruneBatch); err != nil || n == 0 {
				return err
			}
			return row.save(tx)
		})
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}
