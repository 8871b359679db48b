package runs

import (
	"context"
	"iter"

	"selvedge/db"
)

// The import door: it keeps times and lines as they are given, and marks no process as the writer. Nothing but
// internal/legacy uses it.

// ImportRecords appends the lines of an old trace to a run, in their order, and makes the run where it is missing, also
// for no lines at all: an empty file is a run with an empty trace. Every line takes a place in the trace, records of later
// versions and lines that are no records too (blank ones among them), so that [Store.Lines] gives the file back.
func (s *Store) ImportRecords(tx *db.Tx, run RunRef, lines []Line) error {
	const op = "import records"
	if err := run.check(); err != nil {
		return run.failed(op, err)
	}
	scope, err := tx.Scope(s.scope)
	if err != nil {
		return err
	}
	p := prepared{ref: run, records: make([]Record, len(lines)), rows: make([]recordRow, len(lines))}
	for i, line := range lines {
		p.records[i], p.rows[i] = line.Record, rowOfLine(line)
	}
	_, err = appendToAny(tx, scope, nil, p)
	return err
}

// DeleteImported removes a run with all its records, for a source that has changed. It reports whether there was one.
func (s *Store) DeleteImported(tx *db.Tx, run RunRef) (bool, error) {
	scope, ok, err := tx.Rx.Scope(s.scope)
	if err != nil || !ok {
		return false, err
	}
	n, err := tx.Exec(`DELETE FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`, scope, run.RunID, run.AgentID)
	return n > 0, err
}

// A Standing tells whether a run was touched since an import: then it has another row, or more lines.
type Standing struct {
	Row   int64 `db:"key"`   // number of its row, never used again
	Lines int64 `db:"lines"` // number of lines in its trace, and so the sequence of the last one
}

const sqlStanding = `
SELECT key, coalesce((SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24), 0) AS lines
FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

// Standing tells where a run stands. found is false when there is no such run.
func (s *Store) Standing(rx *db.Rx, run RunRef) (at Standing, found bool, err error) {
	scope, ok, err := rx.Scope(s.scope)
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

// Lines gives the lines of a run's trace, read in pages, with no transaction open while the caller's loop runs: an
// imported line as it was, one that came through the API in the original's own encoding. A run that is not there is
// ErrNotFound.
func (s *Store) Lines(ctx context.Context, run RunRef) iter.Seq2[TraceLine, error] {
	const op = "read lines"
	return func(yield func(TraceLine, error) bool) {
		var at db.Place
		for more := true; more; {
			var page []TraceLine
			err := s.db.Read(ctx, op, func(rx *db.Rx) (err error) {
				key, found, err := s.find(rx, run)
				switch {
				case err != nil:
					return err
				case at.Key == 0 && !found:
					return run.failed(op, db.ErrNotFound)
				case at.Key != 0 && at.Key != key:
					return run.failed(op, runGone())
				}
				at.Key = key
				page, more, err = readLines(rx, key, at.Seen, db.MaxPageBytes)
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
				at.Seen = line.Sequence
			}
		}
	}
}

// LinesTx gives the lines behind a sequence inside a transaction: about maxBytes of them, and at least one where there is
// one; none when there is no such run.
func (s *Store) LinesTx(rx *db.Rx, run RunRef, after int64, maxBytes int) ([]TraceLine, error) {
	key, found, err := s.find(rx, run)
	if err != nil || !found {
		return nil, err
	}
	lines, _, err := readLines(rx, key, after, maxBytes)
	return lines, err
}

func readLines(rx *db.Rx, key, after int64, maxBytes int) (lines []TraceLine, more bool, err error) {
	const most = 512
	taken := 0
	err = eachRow(rx, key, after, most, func(row *placedRow) (bool, error) {
		size := row.size()
		if taken += size; len(lines) > 0 && taken > maxBytes {
			more = true
			return false, nil
		}
		text, err := row.line()
		lines = append(lines, TraceLine{Sequence: row.sequence, Kind: row.lineKind(), Text: text})
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

const sqlRefs = `SELECT key, agent_id, run_id FROM runs WHERE +scope = ? AND key > ? ORDER BY key LIMIT ` + boundLimit

// Refs gives the names of all runs of the scope, in the order in which they were made, those that no list shows too.
func (s *Store) Refs(ctx context.Context) iter.Seq2[RunRef, error] {
	return func(yield func(RunRef, error) bool) {
		const pageSize = 500
		var last int64
		for {
			var page []struct {
				Key     int64  `db:"key"`
				AgentID string `db:"agent_id"`
				RunID   string `db:"run_id"`
			}
			err := s.db.Read(ctx, "read names of runs", func(rx *db.Rx) error {
				page = nil
				scope, ok, err := rx.Scope(s.scope)
				if err != nil || !ok {
					return err
				}
				return rx.Select(&page, sqlRefs, scope, last, pageSize)
			})
			if err != nil {
				yield(RunRef{}, err)
				return
			}
			for _, row := range page {
				last = row.Key
				if !yield(RunRef{AgentID: row.AgentID, RunID: row.RunID}, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}
