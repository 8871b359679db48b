package sqlite

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db/internal/engine"
	"selvedge/migrations"
)

// maxProblems bounds what one kind of check reports: a broken file has thousands.
const maxProblems = 100

// Check reads the whole file: SQLite's integrity_check, the foreign keys, and the invariants of the schema.
func (e *Engine) Check(ctx context.Context) ([]engine.Problem, error) {
	var found []engine.Problem
	err := e.Read(ctx, "check", func(r engine.Rx) error {
		x := r.(interface{ checked() *rx }).checked()
		found = nil
		for _, look := range []func(*rx) ([]engine.Problem, error){checkIntegrity, checkForeignKeys, checkInvariants} {
			problems, err := look(x)
			if err != nil {
				return err
			}
			found = append(found, problems...)
		}
		return nil
	}).Err
	if errors.Is(err, engine.ErrCorrupt) { // so broken that it can't be read to the end
		return append(found, engine.Problem{Check: "integrity", Detail: err.Error()}), nil
	}
	return found, err
}

func checkIntegrity(x *rx) ([]engine.Problem, error) {
	var lines []string
	if err := x.Select(&lines, fmt.Sprintf("PRAGMA integrity_check(%d)", maxProblems), nil); err != nil {
		return nil, err
	}
	if len(lines) == 1 && lines[0] == "ok" {
		return nil, nil
	}
	var found []engine.Problem
	for _, line := range lines {
		found = append(found, engine.Problem{Check: "integrity", Detail: line})
	}
	return found, nil
}

func checkForeignKeys(x *rx) ([]engine.Problem, error) {
	var rows []struct {
		Child  string `db:"child"`
		Row    int64  `db:"row"`
		Parent string `db:"parent"`
	}
	const query = `SELECT "table" AS child, coalesce(rowid, 0) AS "row", parent FROM pragma_foreign_key_check LIMIT ?`
	if err := x.Select(&rows, query, []any{maxProblems}); err != nil {
		return nil, err
	}
	var found []engine.Problem
	for _, r := range rows {
		found = append(found, engine.Problem{Check: "foreign keys", Detail: fmt.Sprintf("row %d of %s refers to a row of %s that is gone", r.Row, r.Child, r.Parent)})
	}
	return found, nil
}

// checkInvariants runs those of the program's own schema version: an older or newer file may have other tables.
func checkInvariants(x *rx) ([]engine.Problem, error) {
	have, err := readVersions(getter{x})
	if err != nil || have.Schema != x.engine.config.Ladder.Last().Version {
		return nil, err
	}
	var found []engine.Problem
	for _, check := range migrations.Checks() {
		var details []string
		if err := x.Select(&details, check.Query+fmt.Sprintf("\nLIMIT %d", maxProblems), nil); err != nil {
			return nil, fmt.Errorf("invariant %s: %w", check.Name, err)
		}
		for _, detail := range details {
			found = append(found, engine.Problem{Check: check.Name, Detail: detail})
		}
	}
	return found, nil
}
