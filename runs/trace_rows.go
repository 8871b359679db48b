package runs

import (
	"fmt"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

const sqlRecords = `SELECT id & 16777215, ` + recordColumns +
	` FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT ` + paging.BoundLimit

// placedRow is a row and its place in the trace.
type placedRow struct {
	Sequence int64
	recordRow
}

// eachRow visits at most limit rows of a run after a sequence, until visit returns false. The row
// is reused for the next one: what it points at may be kept, the row itself not.
func eachRow(rx *db.Rx, key, after int64, limit int, visit func(*placedRow) (on bool, err error)) error {
	var row placedRow
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

// sqlRunOfAgent finds the key of a run.
const sqlRunOfAgent = `SELECT key FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

const whyGone = "the run was removed, by retention or an import"

// errGone is the error for a reader of a run that was removed.
func errGone() error { return txn.CursorExpired(whyGone) }

// A storedLine is a line of a trace, as an export writes it, without its line feed.
type storedLine struct {
	sequence int64 // its place, from 1
	text     []byte
}

// readLines returns the lines of a run after a sequence, about maxBytes of them; more is true if
// there may be others.
func readLines(rx *db.Rx, key, after int64, maxBytes int) (lines []storedLine, more bool, err error) {
	const most = 512
	taken := 0
	err = eachRow(rx, key, after, most, func(row *placedRow) (bool, error) {
		if taken += row.size(); len(lines) > 0 && taken > maxBytes {
			more = true
			return false, nil
		}
		text, err := row.Line()
		lines = append(lines, storedLine{row.Sequence, text})
		return true, err
	})
	return lines, more || len(lines) == most, err
}
