package runs

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/tree"
)

// stored is the state of a run in its store. It shows whether the run was changed since it was
// imported: then it is gone, has another row, or has a later last line.
type stored struct {
	Row  int64 `db:"key"`   // number of its row, never reused
	Last int64 `db:"lines"` // sequence of the last line of its trace
}

const sqlStored = `
SELECT key, coalesce((SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24
	AND id < (key + 1) << 24), 0) AS lines
FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`

// stateOf returns the state of a run; found is false if the run does not exist.
func stateOf(rx *db.Rx, scope int64, e tree.Entity) (at stored, found bool, err error) {
	found, err = rx.Find(&at, sqlStored, scope, e.ID, e.Group)
	return at, found, err
}

// prefetch prefetches what stateOf will read of e and, if it has a row, what importRecords will;
// row is 0 if it has none.
func prefetch(ask func(query string, args ...any), scope int64, e tree.Entity, row int64) {
	ask(sqlStored, scope, e.ID, e.Group)
	if row != 0 {
		ask(sqlFindRun, scope, e.ID, e.Group)
		ask(sqlLastRecord, row<<24, (row+1)<<24)
	}
}

// importRecords appends the lines of an old trace in order and returns the new state. It keeps
// times and lines as they are, and sets no owner. If was is nil it creates the run, even without
// lines: an empty file is a run with an empty trace. Every line takes a place in the trace, also
// blank lines and others that are no records, so that an export writes the same file.
func importRecords(tx *db.Tx, scope int64, e tree.Entity, was *stored, records []record) (stored, error) {
	run := RunRef{AgentID: e.Group, RunID: e.ID}
	if err := run.check(); err != nil {
		return stored{}, run.failed("import records", err)
	}
	p := prepared{
		Batch: Batch{Records: make([]Record, len(records))}, ref: run,
		rows: make([]recordRow, len(records)),
	}
	for i := range records {
		p.Records[i], p.rows[i] = records[i].record, rowOfLine(records[i].parsedLine)
		p.rows[i].count()
	}
	lines := int64(len(records))
	if was == nil {
		key, err := p.addRun(tx, scope)
		return stored{key, lines}, err
	}
	_, _, err := p.appendToAny(tx, nil, scope, nil)
	return stored{was.Row, was.Last + lines}, err
}

const sqlEntities = `SELECT key, agent_id, run_id FROM runs WHERE +scope = ? AND key > ?
ORDER BY key LIMIT ` + paging.BoundLimit

type keyedRun struct {
	Key int64 `db:"key"`
	RunRef
}

// entities returns the runs of the scope in order of creation, also those that no list shows.
func entities(ctx context.Context, t *tree.Tree) iter.Seq2[*keyedRun, error] {
	return tree.Each(ctx, t.DB, "read names of runs", func(rx *db.Rx, last *keyedRun, rows *[]keyedRun) error {
		return rx.Select(rows, sqlEntities, t.Source.Scope, last.Key, tree.PageRows)
	})
}
