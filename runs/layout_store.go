package runs

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/tree"
)

// A store is the run store as an import needs it, for one scope. It keeps times and lines as they
// are given, and marks no process as the writer.
type store struct {
	scope string
	d     *db.DB
}

// stored is the state of a run in its store. It tells whether the run was changed since it was
// imported: it is gone, has another row, or a later last line.
type stored struct {
	Row  int64 `db:"key"`   // number of its row, never used again
	Last int64 `db:"lines"` // sequence of the last line of its trace
}

// A storedLine is a line of a trace, as an export writes it, without its line feed.
type storedLine struct {
	sequence int64 // its place, from 1
	text     []byte
}

func ref(e tree.Entity) RunRef { return RunRef{AgentID: e.Group, RunID: e.ID} }

const sqlStored = `
SELECT key, coalesce((SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24
	AND id < (key + 1) << 24), 0) AS lines
FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

// state returns the state of a run; found is false if there is no such run.
func (s store) state(rx *db.Rx, e tree.Entity) (at stored, found bool, err error) {
	scope, ok, err := rx.Store().Scope(s.scope)
	if err != nil || !ok {
		return at, false, err
	}
	found, err = rx.Find(&at, sqlStored, scope, e.ID, e.Group)
	return at, found, err
}

// append appends the lines of an old trace in their order and returns the new state. With a nil
// was it creates the run, also for no lines: an empty file is a run with an empty trace. Every line
// takes a place in the trace, records of later versions and lines that are no records (blank ones
// among them) too, so that an export gives the file back.
func (s store) append(tx *db.Tx, e tree.Entity, was *stored, records []record) (stored, error) {
	const op = "import records"
	run := ref(e)
	if err := run.check(); err != nil {
		return stored{}, run.failed(op, err)
	}
	scope, err := tx.Store().Scope(s.scope)
	if err != nil {
		return stored{}, err
	}
	p := prepared{
		Batch: Batch{Records: make([]Record, len(records))}, ref: run,
		rows: make([]recordRow, len(records)),
	}
	for i := range records {
		p.Records[i], p.rows[i] = records[i].line.record, rowOfLine(records[i].line)
	}
	if was == nil {
		key, err := p.addRun(tx, scope)
		return stored{key, int64(len(records))}, err
	}
	_, err = p.appendToAny(tx, scope, nil)
	return stored{was.Row, was.Last + int64(len(records))}, err
}

// prefetch prefetches what state will read of e and, if it has a row, what append will; row is 0 if
// it has none.
func (s store) prefetch(rx *db.Rx, e tree.Entity, row int64, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Store().Scope(s.scope)
	if err != nil || !ok {
		return err
	}
	ask(sqlStored, scope, e.ID, e.Group)
	if row != 0 {
		ask(sqlFindRun, scope, e.ID, e.Group)
		ask(sqlLastRecord, row<<24, (row+1)<<24)
	}
	return nil
}

// remove deletes a run with everything that belongs to it.
func (s store) remove(tx *db.Tx, e tree.Entity) error {
	scope, ok, err := tx.Rx.Store().Scope(s.scope)
	if err != nil || !ok {
		return err
	}
	_, err = tx.Exec(`DELETE FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`, scope, e.ID, e.Group)
	return err
}

// lines returns the next lines of e behind the sequence after: about maxBytes of them, at least one
// if there is one, and none if there is no such run.
func (s store) lines(rx *db.Rx, e tree.Entity, after int64, maxBytes int) ([]storedLine, error) {
	at, found, err := s.state(rx, e)
	if err != nil || !found {
		return nil, err
	}
	lines, _, err := readLines(rx, at.Row, after, maxBytes)
	return lines, err
}

const sqlEntities = `SELECT key, agent_id, run_id FROM runs WHERE +scope = ? AND key > ?
ORDER BY key LIMIT ` + paging.BoundLimit

// entities returns the runs of the scope in the order in which they were made, those that no list
// shows too.
func (s store) entities(ctx context.Context) iter.Seq2[tree.Entity, error] {
	return func(yield func(tree.Entity, error) bool) {
		const pageSize = 500
		var last int64
		for {
			var page []struct {
				Key int64 `db:"key"`
				RunRef
			}
			err := s.d.Read(ctx, "read names of runs", func(rx *db.Rx) error {
				page = nil
				scope, ok, err := rx.Store().Scope(s.scope)
				if err != nil || !ok {
					return err
				}
				return rx.Select(&page, sqlEntities, scope, last, pageSize)
			})
			if err != nil {
				yield(tree.Entity{}, err)
				return
			}
			for _, row := range page {
				last = row.Key
				if !yield(tree.Entity{Group: row.AgentID, ID: row.RunID}, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}
