package db

import (
	"context"
	"errors"
	"fmt"

	"selvedge/migrations"
)

// maxProblems bounds what one kind of check reports: a broken file has thousands.
const maxProblems = 100

// A Problem is one thing that Check found.
type Problem struct {
	Check  string // "integrity", "foreign keys", or the name of an invariant
	Detail string
}

// Check reads the whole file and reports what is wrong with it: SQLite's integrity_check, the foreign keys, and the
// invariants of the schema, at most 100 problems of each. No problems and no error mean that the file is whole.
func (d *DB) Check(ctx context.Context) ([]Problem, error) {
	var found []Problem
	err := d.Read(ctx, "check", func(rx *Rx) error {
		found = nil
		for _, look := range []func(*Rx) ([]Problem, error){checkIntegrity, checkForeignKeys, checkInvariants} {
			problems, err := look(rx)
			if err != nil {
				return err
			}
			found = append(found, problems...)
		}
		return nil
	})
	if errors.Is(err, ErrCorrupt) { // so broken that it can't be read to the end
		return append(found, Problem{"integrity", err.Error()}), nil
	}
	return found, err
}

func checkIntegrity(rx *Rx) ([]Problem, error) {
	var lines []string
	if err := rx.Select(&lines, fmt.Sprintf("PRAGMA integrity_check(%d)", maxProblems)); err != nil {
		return nil, err
	}
	if len(lines) == 1 && lines[0] == "ok" {
		return nil, nil
	}
	var found []Problem
	for _, line := range lines {
		found = append(found, Problem{"integrity", line})
	}
	return found, nil
}

func checkForeignKeys(rx *Rx) ([]Problem, error) {
	var rows []struct {
		Child  string `db:"child"`
		Row    int64  `db:"row"`
		Parent string `db:"parent"`
	}
	const query = `SELECT "table" AS child, coalesce(rowid, 0) AS "row", parent FROM pragma_foreign_key_check LIMIT ?`
	if err := rx.Select(&rows, query, maxProblems); err != nil {
		return nil, err
	}
	var found []Problem
	for _, r := range rows {
		found = append(found, Problem{"foreign keys", fmt.Sprintf("row %d of %s refers to a row of %s that is gone", r.Row, r.Child, r.Parent)})
	}
	return found, nil
}

// checkInvariants runs those of the program's own schema version: an older or newer file may have other tables.
func checkInvariants(rx *Rx) ([]Problem, error) {
	have, err := readVersions(rx)
	if err != nil || have.Schema != rx.db.ladder.last().Version {
		return nil, err
	}
	var found []Problem
	for _, check := range migrations.Checks() {
		var details []string
		if err := rx.Select(&details, check.Query+fmt.Sprintf("\nLIMIT %d", maxProblems)); err != nil {
			return nil, fmt.Errorf("invariant %s: %w", check.Name, err)
		}
		for _, detail := range details {
			found = append(found, Problem{check.Name, detail})
		}
	}
	return found, nil
}
