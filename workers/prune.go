package workers

import (
	"context"
	"fmt"
	"math"

	"selvedge/db"
	"selvedge/internal/workers"
)

// Prune removes the workers that have ended and that the policy does not keep, with their
// transcripts: by the time of their end, by runtime, and by the bytes of their transcripts in the
// scope. The policy pins by the ids of workers; those that Pin pinned stay too. Imported workers
// that ended before they came have no time, and count as the oldest. It works in short
// transactions, and what it removed before an error stays removed; run again, it goes on. Logs are
// pruned by [Runtime.PruneEvents].
func (s *Runtimes) Prune(ctx context.Context, policy db.Policy) (db.Pruned, error) {
	return db.Prune(ctx, s.db, db.Pruning{
		Op: "prune workers", Store: db.StoreWorkers, Scope: s.scope, Ended: workers.EndedWorkers,
		Weigh:  workers.WeighWorker,
		Remove: removeEnded, Share: deleted,
	}, policy)
}

// removeEnded removes a worker, or where its transcript is long a part of that.
func removeEnded(tx *db.Tx, ended db.Ended, share int64) (db.Removal, int64, error) {
	w, found, err := workers.WorkerByKey(&tx.Rx, ended.Key)
	if err != nil || !found {
		return db.Kept, 0, err
	}
	if w.TranscriptLen > share {
		return db.Partial, share, w.Shorten(tx, share)
	}
	row, _, err := workers.RuntimeByKey(&tx.Rx, w.Runtime)
	if err == nil {
		err = row.RemoveWorker(tx, w)
	}
	if err == nil {
		err = row.Save(tx)
	}
	return db.Removed, w.TranscriptLen, err
}

// pruneBatch is the number of events that PruneEvents removes in one transaction.
const pruneBatch = 500

const opPrune = "prune events"

// PruneEvents removes the events before the cursor, a few hundred in a transaction, and says how
// many they were. Ids are not given again; a cursor before the first event kept is
// db.ErrCursorExpired to ReadEvents from then on, and a gap to who follows. Transcripts stay.
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
					Op: opPrune, Entity: "runtime", ID: string(r.id),
					Hint: "take the cursor from ReadEvents, behind an event",
					Err:  fmt.Errorf("%w: the ids of this log repeat or go back", db.ErrInvalid),
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
