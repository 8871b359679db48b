package traces

import (
	"fmt"

	"selvedge/db"
)

const sqlRecords = `SELECT id & 16777215, ` + recordColumns +
	` FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT ` + db.BoundLimit

// PlacedRow is a row with its place in the trace.
type PlacedRow struct {
	Sequence int64
	recordRow
}

// EachRow visits at most limit rows of a run behind a sequence, until visit has enough. The row is
// used again for the next one: what it points at may be kept, the row itself not.
func EachRow(rx *db.Rx, key, after int64, limit int, visit func(*PlacedRow) (on bool, err error)) error {
	var row PlacedRow
	targets := row.targets(&row.Sequence)
	for found, err := range rx.Query(sqlRecords, key<<24|after, (key+1)<<24, limit) {
		if err != nil {
			return err
		}
		if err := found.Scan(targets...); err != nil {
			return err
		}
		on, err := visit(&row)
		if err != nil {
			return fmt.Errorf("line %d: %w", row.Sequence, err)
		}
		if !on {
			return nil
		}
	}
	return nil
}
