package workers

import (
	"context"
	"fmt"

	"selvedge/db"
)

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
		err := r.db.Write(ctx, opPrune, func(tx *db.Tx) error {
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
			if n, more, err = row.Prune(tx, int64(min(end, uint64(row.NextPosition))), pruneBatch); err != nil || n == 0 {
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
