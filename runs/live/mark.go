package live

import (
	"selvedge/db"
	"selvedge/internal/live"
)

// fail fails a run from outside; a cancelled one stays as it is.
func fail(tx *db.Tx, row *live.Row, message string) error {
	if err := live.CheckText("error", message); err != nil || RunStatus(row.Status) == Cancelled {
		return err
	}
	row.Status = string(Failed)
	if err := changeTexts(tx, row, func(t *live.Texts) { t.Error = &message }); err != nil {
		return err
	}
	return touch(tx, row)
}

// cancel cancels a run, whatever its status.
func cancel(tx *db.Tx, row *live.Row) error {
	row.Status = string(Cancelled)
	return touch(tx, row)
}

func touch(tx *db.Tx, row *live.Row) error {
	row.SetUpdated(nowMillis(&tx.Rx))
	return row.Move(tx)
}
