package usage

import (
	"reflect"

	"selvedge/db"
	"selvedge/internal/txn"
)

// Said is a record that counts, with what it counts.
type Said struct {
	Record
	Counts
}

// A Difference is between the records of a trace or live run and their rows in usage_records.
type Difference struct {
	Lost  []Said  // records without their row
	moved []moved // rows of another place than that of their record, if their record is there at all
}

// Moved returns how many rows are not at the place of their record.
func (d *Difference) Moved() int { return len(d.moved) }

type moved struct {
	kept
	to any // sequence; nil: the record is lost
}

type kept struct {
	ID         int64   `db:"id"`
	UsageRun   int64   `db:"usage_run"`
	Account    string  `db:"account"`
	Sequence   *int64  `db:"sequence"`
	StepKey    *string `db:"step_key"`
	RecordedAt *int64  `db:"recorded_at"`
	Counts
	Checksum *int64 `db:"checksum"`
}

const (
	sqlKept = `SELECT id, usage_run, account, sequence, step_key, recorded_at,
	` + countColumns + `, checksum FROM usage_records WHERE usage_run = ?`
	sqlMove = `UPDATE usage_records SET sequence = ?, checksum = ? WHERE id = ?`
)

// Compare compares all records of a trace or live run with its rows. A live run may have rows of events
// that its cap took. A row without a checksum counts as that of the record at its place: it is of an
// earlier schema, or a person changed it.
func Compare(rx *db.Rx, of Record, said []Said) (d Difference, err error) {
	var rows []kept
	if err := rx.Select(&rows, sqlKept, of.usageRun()); err != nil {
		return d, err
	}
	taken := make([]bool, len(rows))
	var without []Said
	for i := range said {
		if !said[i].take(rows, taken) {
			without = append(without, said[i])
		}
	}
	for i := range without {
		before := len(d.moved)
		for n := range rows {
			if !taken[n] && without[i].Account != Reply && without[i].alike(&rows[n]) {
				taken[n] = true
				d.moved = append(d.moved, moved{rows[n], without[i].Sequence})
				break
			}
		}
		if len(d.moved) == before {
			d.Lost = append(d.Lost, without[i])
		}
	}
	for n := range rows {
		if !taken[n] && of.LiveRun == 0 && rows[n].Sequence != nil {
			d.moved = append(d.moved, moved{rows[n], nil})
		}
	}
	return d, nil
}

// take finds the row at the place of the record.
func (s *Said) take(rows []kept, taken []bool) bool {
	for n := range rows {
		r := &rows[n]
		at := s.Account == Reply && txn.Arg(r.StepKey) == any(s.StepKey) ||
			s.Account != Reply && txn.Arg(r.Sequence) == any(s.Sequence)
		if !taken[n] && at && (s.alike(r) || r.Checksum == nil && r.Account == s.Account) {
			taken[n] = true
			return true
		}
	}
	return false
}

// alike reports whether a row says what the record says. A reply does not say when it was recorded.
func (s *Said) alike(r *kept) bool {
	return r.Account == s.Account && reflect.DeepEqual(r.Counts, s.Counts) &&
		(s.Account == Reply || txn.Arg(r.RecordedAt) == s.RecordedAt)
}

// Mend adds the rows that are lost, and gives the others the places of their records.
func (d *Difference) Mend(tx *db.Tx) error {
	for _, m := range d.moved {
		columns := append([]any{m.UsageRun, m.Account, m.to, txn.Arg(m.StepKey), txn.Arg(m.RecordedAt)},
			m.columns()...)
		if _, err := tx.Exec(sqlMove, m.to, txn.Checksum(columns...), m.ID); err != nil {
			return err
		}
	}
	for _, s := range d.Lost {
		if err := Put(tx, s.Record, s.Counts); err != nil {
			return err
		}
	}
	return nil
}
