package live

import (
	"context"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

const opDelete = "delete live run"

// Delete removes a run and all that belongs to it. db.ErrNotFound: there is no such run.
// db.ErrConflict: it is held. Nil means that the run is gone: events that could not be deleted,
// because ctx ended or the disk failed, are invisible, and the next removal deletes them.
func (s *Store) Delete(ctx context.Context, runID string) error {
	err := stores.On(s.db, txn.LiveRuns).Remove(ctx, opDelete,
		func(tx *db.Tx) error { return s.DeleteTx(tx, runID) })
	if err == nil {
		_ = s.dropLeftovers(ctx) // an error would mean that the run still exists
	}
	return err
}

// DeleteTx is Delete inside the caller's transaction. The events of a long run become
// invisible with its commit; the next removal deletes them.
func (s *Store) DeleteTx(tx *db.Tx, runID string) error {
	return s.inside(tx, opDelete, runID, func(scope int64) error {
		row, err := lockedRow(tx, opDelete, scope, runID)
		if err != nil {
			return err
		}
		if err := s.free(tx, opDelete, row); err != nil {
			return err
		}
		left := fullBudget()
		return row.remove(tx, &left)
	})
}
