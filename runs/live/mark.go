package live

import (
	"context"

	"selvedge/db"
)

// MarkFailed fails a run from outside, with what went wrong. A cancelled run stays as it is. found is false for a run that
// is not here.
func (s *Store) MarkFailed(ctx context.Context, runID, message string) (run RunSnapshot, found bool, err error) {
	return s.mark(ctx, "mark live run failed", runID, func(tx *db.Tx, row *runRow) error {
		if err := checkText("error", message); err != nil || row.Status == Cancelled {
			return err
		}
		row.Status, row.Error = Failed, &message
		if err := row.setTexts(tx); err != nil {
			return err
		}
		return row.touch(tx)
	})
}

// MarkCancelled cancels a run, whatever its status. found is false for a run that is not here.
func (s *Store) MarkCancelled(ctx context.Context, runID string) (run RunSnapshot, found bool, err error) {
	return s.mark(ctx, "mark live run cancelled", runID, func(tx *db.Tx, row *runRow) error {
		row.Status = Cancelled
		return row.touch(tx)
	})
}

func (s *Store) mark(ctx context.Context, why, runID string, change func(*db.Tx, *runRow) error) (run RunSnapshot, found bool, err error) {
	err = s.write(ctx, why, runID, func(tx *db.Tx, scope int64) error {
		row, ok, err := findRun(&tx.Rx, scope, runID)
		found = ok
		if err != nil || !ok {
			return err
		}
		if err := change(tx, row); err != nil {
			return err
		}
		run = row.snapshot()
		return nil
	})
	return run, found && err == nil, err
}

func (w *runRow) touch(tx *db.Tx) error {
	w.setUpdated(nowMillis(&tx.Rx))
	return w.move(tx)
}
