package live

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/live"
)

const opDelete = "delete live run"

// Delete takes a run away, with all that belongs to it. One with more than 4,000 events goes in several transactions, so that
// none holds the writer for long: its oldest events first. db.ErrNotFound: there is no such run. db.ErrConflict: somebody holds it.
func (s *Store) Delete(ctx context.Context, runID string) error {
	err := s.db.Read(ctx, opDelete, func(rx *db.Rx) error {
		row, _, err := s.placeIn(rx, runID, "")
		if err == nil {
			err = free(rx, row)
		}
		return err
	})
	if err == nil {
		err = s.shrink(ctx, opDelete, runID)
	}
	if err != nil {
		return named(opDelete, runID, err)
	}
	return s.db.Reclaim(ctx, opDelete, func(tx *db.Tx) error { return s.DeleteTx(tx, runID) })
}

// free reports, as db.ErrConflict, that somebody holds a run.
func free(rx *db.Rx, row *live.Row) error {
	has, err := held(rx, row.Scope, row.Key)
	if err == nil && has {
		err = fmt.Errorf("%w: somebody holds the run", db.ErrConflict)
	}
	return err
}

// DeleteTx is Delete inside a transaction of the caller's, which is as long as the run is.
func (s *Store) DeleteTx(tx *db.Tx, runID string) error {
	return s.inside(tx, opDelete, runID, func(scope int64) error {
		row, found, err := live.FindRow(&tx.Rx, scope, runID)
		if err != nil {
			return err
		}
		if !found {
			return notFound(opDelete, runID)
		}
		if err := free(&tx.Rx, row); err != nil {
			return err
		}
		return row.Remove(tx)
	})
}

// What one transaction takes out for a cap or a policy, so that it keeps the writer for less than 50 ms.
const (
	trimmed     = 4000 // events
	removedRuns = 200  // runs, beside their events
)

// dropOldest holds the cap on runs: those added first go first. What is left to do when a transaction has taken its share
// of events out is left to the next.
func (s *Store) dropOldest(tx *db.Tx, scope int64) error {
	counts, err := live.CountsOf(&tx.Rx, scope)
	if err != nil {
		return err
	}
	share := int64(trimmed)
	for over := min(s.caps.runs.over(counts.Runs), removedRuns); over > 0 && share > 0; over-- {
		row, found, err := live.OldestRun(tx, scope, counts)
		if err != nil || !found {
			return err
		}
		left, err := remove(tx, row, share)
		if err != nil {
			return err
		}
		share = left - 1
		counts.Oldest = row.Key
	}
	return nil
}

// remove takes a run out, or where it has more events than the share the oldest of them. left is what the share has left;
// it is negative where the run is still there.
func remove(tx *db.Tx, row *live.Row, share int64) (left int64, err error) {
	if row.KeptEvents <= share {
		return share - row.KeptEvents, row.Remove(tx)
	}
	if _, err := row.Trim(tx, share, func(int64, int64) bool { return true }); err != nil {
		return 0, err
	}
	return -1, row.Move(tx)
}

// shrink takes events out of a run that is about to be removed, a share in each transaction, until it is small enough to go
// in one.
func (s *Store) shrink(ctx context.Context, why, runID string) error {
	for more := true; more; {
		err := s.read(ctx, why, runID, func(rx *db.Rx, scope int64) error {
			row, found, err := live.FindRow(rx, scope, runID)
			more = found && row.KeptEvents > trimmed
			return err
		})
		if err != nil || !more {
			return err
		}
		err = s.write(ctx, why, runID, func(tx *db.Tx, scope int64) error {
			row, found, err := live.FindRow(&tx.Rx, scope, runID)
			if err != nil || !found || row.KeptEvents <= trimmed {
				return err
			}
			_, err = remove(tx, row, trimmed)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
