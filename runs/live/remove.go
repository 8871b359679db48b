package live

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/live"
)

const opDelete = "delete live run"

// Delete takes a run away, with all that belongs to it. db.ErrNotFound: there is no such run.
// db.ErrConflict: somebody holds it. Nil says that the run is gone: events that could not be
// dropped any more, because ctx ended or the disk failed, nobody sees, and the next removal drops
// them.
func (s *Store) Delete(ctx context.Context, runID string) error {
	err := s.db.Reclaim(ctx, opDelete, func(tx *db.Tx) error { return s.DeleteTx(tx, runID) })
	if err == nil {
		_ = s.dropLeft(ctx) // an error would say that the run is there
	}
	return err
}

// DeleteTx is Delete inside a transaction of the caller's. Of a run with many events, nobody sees
// them once it is committed, and the next removal drops them.
func (s *Store) DeleteTx(tx *db.Tx, runID string) error {
	return s.inside(tx, opDelete, runID, func(scope int64) error {
		row, found, err := live.FindLocked(tx, scope, runID)
		if err != nil {
			return err
		}
		if !found {
			return notFound(opDelete, runID)
		}
		free, err := tx.Unreserve(scope, leaseKind, leaseName(row.Key))
		if err == nil && !free {
			err = fmt.Errorf("%w: somebody holds the run", db.ErrConflict)
		}
		if err != nil {
			return err
		}
		share := live.FullShare()
		return row.Leave(tx, &share)
	})
}

// removedRuns is what one transaction takes out for a cap, so that it keeps the writer for less than 50 ms.
const removedRuns = 200

// dropOldest holds the cap on runs: those added first go first.
func (s *Store) dropOldest(tx *db.Tx, scope int64) error {
	counts, err := live.CountsOf(&tx.Rx, scope)
	if err != nil {
		return err
	}
	share := live.FullShare()
	for over := min(s.caps.runs.over(counts.Runs), removedRuns); over > 0; over-- {
		row, found, err := live.OldestRun(tx, scope, counts)
		if err == nil && found {
			err = row.Leave(tx, &share)
		}
		if err != nil || !found {
			return err
		}
		counts.Oldest = row.Key
	}
	return nil
}

// dropLeft removes the events that are left of runs that are gone, in short transactions, those
// that somebody else left too.
func (s *Store) dropLeft(ctx context.Context) error {
	for last := int64(0); ; {
		var run int64
		some := false
		err := s.db.Read(ctx, opDelete, func(rx *db.Rx) (err error) {
			run, some, err = live.Left(rx, last)
			return err
		})
		if err != nil || !some {
			return err
		}
		behind := run - 1
		err = s.db.Reclaim(ctx, opDelete, func(tx *db.Tx) (err error) {
			last, err = live.DropLeft(tx, behind)
			return err
		})
		if err != nil {
			return err
		}
	}
}
