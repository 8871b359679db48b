package traces

import (
	"context"
	"iter"

	"selvedge/db"
)

// A Table is the runs of a scope as an import needs them: it keeps times and lines as they are
// given, and marks no process as the writer.
type Table struct{ Scope string }

// Import appends the lines of an old trace to a run, in their order, and makes the run where it is
// missing, also for no lines at all: an empty file is a run with an empty trace. Every line takes a
// place in the trace, records of later versions and lines that are no records too (blank ones among
// them), so that [Table.Lines] gives the file back.
func (t Table) Import(tx *db.Tx, run Ref, lines []Line) error {
	const op = "import records"
	if err := run.Check(); err != nil {
		return run.Failed(op, err)
	}
	scope, err := tx.Scope(t.Scope)
	if err != nil {
		return err
	}
	_, err = prepareLines(run, lines).AppendToAny(tx, scope, nil)
	return err
}

// ImportNew is Import for a run that is not there, and tells where it stands then.
func (t Table) ImportNew(tx *db.Tx, run Ref, lines []Line) (Standing, error) {
	const op = "import records"
	if err := run.Check(); err != nil {
		return Standing{}, run.Failed(op, err)
	}
	scope, err := tx.Scope(t.Scope)
	if err != nil {
		return Standing{}, err
	}
	p := prepareLines(run, lines)
	key, err := p.addRun(tx, scope)
	return Standing{Row: key, Lines: int64(len(lines))}, err
}

func prepareLines(run Ref, lines []Line) Prepared {
	p := Prepared{
		Batch: Batch{Ref: run, Records: make([]Record, len(lines))},
		rows:  make([]recordRow, len(lines)),
	}
	for i, line := range lines {
		p.Records[i], p.rows[i] = line.Record, rowOfLine(line)
	}
	return p
}

// Prefetch names what Standing is about to ask and, of a run that has this row, what Import is: 0 is
// a run that has none.
func (t Table) Prefetch(rx *db.Rx, run Ref, row int64, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Scope(t.Scope)
	if err != nil || !ok {
		return err
	}
	ask(sqlStanding, scope, run.RunID, run.AgentID)
	if row != 0 {
		ask(SQLFindRun, scope, run.RunID, run.AgentID)
		ask(sqlLastRecord, row<<24, (row+1)<<24)
	}
	return nil
}

// Delete removes a run with all its records, for a source that has changed. It reports whether there was one.
func (t Table) Delete(tx *db.Tx, run Ref) (bool, error) {
	scope, ok, err := tx.Rx.Scope(t.Scope)
	if err != nil || !ok {
		return false, err
	}
	n, err := tx.Exec(`DELETE FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`, scope, run.RunID,
		run.AgentID)
	return n > 0, err
}

func (t Table) find(rx *db.Rx, run Ref) (key int64, found bool, err error) {
	scope, ok, err := rx.Scope(t.Scope)
	if err != nil || !ok {
		return 0, false, err
	}
	found, err = rx.Find(&key, SQLRunOfAgent, scope, run.RunID, run.AgentID)
	return key, found, err
}

// SQLRunOfAgent finds the key of a run.
const SQLRunOfAgent = `SELECT key FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

// Gone is the error for who reads a run that was removed.
func Gone() error { return db.CursorExpired("the run was removed, by retention or an import") }

// A Standing tells whether a run was touched since an import: then it has another row, or more lines.
type Standing struct {
	Row   int64 `db:"key"`   // number of its row, never used again
	Lines int64 `db:"lines"` // number of lines in its trace, and so the sequence of the last one
}

const sqlStanding = `
SELECT key, coalesce((SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24
	AND id < (key + 1) << 24), 0) AS lines
FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

// Standing tells where a run stands. found is false when there is no such run.
func (t Table) Standing(rx *db.Rx, run Ref) (at Standing, found bool, err error) {
	scope, ok, err := rx.Scope(t.Scope)
	if err != nil || !ok {
		return Standing{}, false, err
	}
	found, err = rx.Find(&at, sqlStanding, scope, run.RunID, run.AgentID)
	return at, found, err
}

// A TraceLine is a line of a trace as an export writes it.
type TraceLine struct {
	Sequence int64    // its place, from 1
	Kind     LineKind // LineBlank only for imported blank lines
	Text     []byte   // without a line feed
}

// Lines gives the lines of a run's trace, read in pages, with no transaction open while the
// caller's loop runs: an imported line as it was, one that came through the API in the original's
// own encoding. A run that is not there is ErrNotFound.
func (t Table) Lines(ctx context.Context, d *db.DB, run Ref) iter.Seq2[TraceLine, error] {
	const op = "read lines"
	return func(yield func(TraceLine, error) bool) {
		var row, last int64
		for more := true; more; {
			var page []TraceLine
			err := d.Read(ctx, op, func(rx *db.Rx) (err error) {
				key, found, err := t.find(rx, run)
				switch {
				case err != nil:
					return err
				case row == 0 && !found:
					return run.Failed(op, db.ErrNotFound)
				case row != 0 && row != key:
					return run.Failed(op, Gone())
				}
				row = key
				page, more, err = readLines(rx, key, last, db.MaxPageBytes)
				return err
			})
			if err != nil {
				yield(TraceLine{}, err)
				return
			}
			for _, line := range page {
				if !yield(line, nil) {
					return
				}
				last = line.Sequence
			}
		}
	}
}

// LinesTx gives the lines behind a sequence inside a transaction: about maxBytes of them, and at
// least one where there is one; none when there is no such run.
func (t Table) LinesTx(rx *db.Rx, run Ref, after int64, maxBytes int) ([]TraceLine, error) {
	key, found, err := t.find(rx, run)
	if err != nil || !found {
		return nil, err
	}
	lines, _, err := readLines(rx, key, after, maxBytes)
	return lines, err
}

func readLines(rx *db.Rx, key, after int64, maxBytes int) (lines []TraceLine, more bool, err error) {
	const most = 512
	taken := 0
	err = EachRow(rx, key, after, most, func(row *PlacedRow) (bool, error) {
		size := row.Size()
		if taken += size; len(lines) > 0 && taken > maxBytes {
			more = true
			return false, nil
		}
		text, err := row.Line()
		lines = append(lines, TraceLine{Sequence: row.Sequence, Kind: row.lineKind(), Text: text})
		return true, err
	})
	return lines, more || len(lines) == most, err
}

func (r *recordRow) lineKind() LineKind {
	switch r.kind {
	case kindUnknown:
		return LineUnknown
	case kindOpaque:
		return ReadLine(r.raw).Kind
	}
	return LineRecord
}

const sqlRefs = `SELECT key, agent_id, run_id FROM runs WHERE +scope = ? AND key > ? ORDER BY key LIMIT ` +
	db.BoundLimit

// Refs gives the names of all runs of the scope, in the order in which they were made, those that
// no list shows too.
func (t Table) Refs(ctx context.Context, d *db.DB) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		const pageSize = 500
		var last int64
		for {
			var page []struct {
				Key     int64  `db:"key"`
				AgentID string `db:"agent_id"`
				RunID   string `db:"run_id"`
			}
			err := d.Read(ctx, "read names of runs", func(rx *db.Rx) error {
				page = nil
				scope, ok, err := rx.Scope(t.Scope)
				if err != nil || !ok {
					return err
				}
				return rx.Select(&page, sqlRefs, scope, last, pageSize)
			})
			if err != nil {
				yield(Ref{}, err)
				return
			}
			for _, row := range page {
				last = row.Key
				if !yield(Ref{AgentID: row.AgentID, RunID: row.RunID}, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}
