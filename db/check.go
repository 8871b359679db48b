package db

import "context"

// A Problem is one thing that Check found.
type Problem struct {
	// integrity, schema, versions, foreign keys, checksums, the name of an invariant of the schema,
	// derived, or deep
	Check  string `json:"check"`
	Detail string `json:"detail"` // what it found
	Table  string `json:"-"`      // the table, if the problem is in one row
	Row    string `json:"-"`      // that row's key; several columns of a key stand in brackets
}

// Check reads the whole file and reports at most 100 problems of each kind: SQLite's
// integrity_check; tables, indexes, triggers and views of the schema that are missing or differ
// from what this program creates; foreign keys; the invariants of the schema; and rows that don't
// match their checksum. No problems and no error mean that the file is intact.
//
// It reads on a connection of its own, so that it delays no Read, and ends with ctx's cause. Each
// part is a snapshot of its own; the longest is the integrity check's, which reads every page.
// Checksums are compared 1,000 rows at a time.
func (d *DB) Check(ctx context.Context) (problems []Problem, err error) {
	defer func() { err = Heard(ctx, err) }()
	if err := d.ready("check"); err != nil {
		return nil, err
	}
	checked, err := d.store.Engine.Check(ctx)
	for _, p := range checked.Problems {
		problems = append(problems, Problem(p))
	}
	return problems, wrap("check", err)
}
