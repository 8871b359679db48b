package db

import "context"

// A Problem is one thing that Check found.
type Problem struct {
	Check  string // "integrity", "foreign keys", or the name of an invariant
	Detail string
}

// Check reads the whole file and reports what is wrong with it: SQLite's integrity_check, the foreign keys, and the
// invariants of the schema, at most 100 problems of each. No problems and no error mean that the file is whole.
func (d *DB) Check(ctx context.Context) ([]Problem, error) {
	if d.callbacks.Inside() {
		return nil, nested("check")
	}
	found, err := d.engine.Check(ctx)
	var problems []Problem
	for _, p := range found {
		problems = append(problems, Problem(p))
	}
	return problems, wrap("check", err)
}
