package live

import (
	"errors"

	"selvedge/db"
)

const (
	opFail   = "mark live run failed"
	opCancel = "mark live run cancelled"
)

// MarkFailedTx is MarkFailed inside the caller's transaction.
func (s *Store) MarkFailedTx(tx *db.Tx, runID, message string) (run RunSnapshot, found bool, err error) {
	if err := checkText("error", &message); err != nil {
		return run, false, named(opFail, runID, err)
	}
	return s.mark(tx, opFail, runID, func(row *runRow) error {
		if RunStatus(row.Status) == Cancelled {
			return nil
		}
		row.Status = string(Failed)
		if err := row.changeTexts(tx, func(t *runTexts) { t.Error = &message }); err != nil {
			return err
		}
		return touch(tx, row)
	})
}

// MarkCancelledTx is MarkCancelled inside the caller's transaction.
func (s *Store) MarkCancelledTx(tx *db.Tx, runID string) (run RunSnapshot, found bool, err error) {
	return s.mark(tx, opCancel, runID, func(row *runRow) error {
		row.Status = string(Cancelled)
		return touch(tx, row)
	})
}

const (
	// Before the run's row is locked: its holder has the lease of a trace first.
	sqlEndTraceLease = `DELETE FROM leases WHERE kind <> '` + leaseKind + `'
	AND epoch = (SELECT epoch FROM live_runs WHERE scope = ? AND run_id = ?)`
	sqlEndLease = `DELETE FROM leases WHERE epoch = ?`
)

// mark changes the run from outside and ends the lease by which it is held.
func (s *Store) mark(tx *db.Tx, why, runID string, change func(*runRow) error) (run RunSnapshot, found bool,
	err error,
) {
	err = s.inside(tx, why, runID, func(scope int64) error {
		if err := tx.Store().Queue(sqlEndTraceLease, scope, runID); err != nil {
			return err
		}
		row, ok, err := rowToChange(tx, runByID, scope, runID)
		if err != nil || !ok {
			return err
		}
		err = change(row)
		if err == nil && row.Epoch != nil {
			err = errors.Join(tx.Store().Queue(sqlEndLease, *row.Epoch),
				tx.Store().Queue(sqlFree, row.Key, *row.Epoch))
		}
		if err != nil {
			return err
		}
		run, err = row.seen(&tx.Rx)
		found = true
		return err
	})
	return run, found && err == nil, err
}

func touch(tx *db.Tx, row *runRow) error {
	row.setUpdated(nowMillis(&tx.Rx))
	return row.move(tx)
}
