package live

import (
	"selvedge/db"
	"selvedge/internal/live"
)

const (
	opFail   = "mark live run failed"
	opCancel = "mark live run cancelled"
)

// MarkFailedTx is MarkFailed inside a transaction of the caller's.
func (s *Store) MarkFailedTx(tx *db.Tx, runID, message string) (run RunSnapshot, found bool, err error) {
	return s.mark(tx, opFail, runID, func(row *live.Row) error {
		if err := live.CheckText("error", message); err != nil || RunStatus(row.Status) == Cancelled {
			return err
		}
		row.Status = string(Failed)
		if err := changeTexts(tx, row, func(t *live.Texts) { t.Error = &message }); err != nil {
			return err
		}
		return touch(tx, row)
	})
}

// MarkCancelledTx is MarkCancelled inside a transaction of the caller's.
func (s *Store) MarkCancelledTx(tx *db.Tx, runID string) (run RunSnapshot, found bool, err error) {
	return s.mark(tx, opCancel, runID, func(row *live.Row) error {
		row.Status = string(Cancelled)
		return touch(tx, row)
	})
}

func (s *Store) mark(tx *db.Tx, why, runID string, change func(*live.Row) error) (run RunSnapshot,
	found bool, err error,
) {
	err = s.inside(tx, why, runID, func(scope int64) error {
		row, ok, err := live.FindLocked(tx, scope, runID)
		if err != nil || !ok {
			return err
		}
		if err := change(row); err != nil {
			return err
		}
		whole, err := row.Whole(&tx.Rx)
		run, found = snapshotOf(whole.Snapshot()), true
		return err
	})
	return run, found && err == nil, err
}

func touch(tx *db.Tx, row *live.Row) error {
	row.SetUpdated(nowMillis(&tx.Rx))
	return row.Move(tx)
}
