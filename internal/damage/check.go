package damage

import (
	"context"
	"database/sql"
	"fmt"

	"selvedge/internal/engine"
	"selvedge/migrations"
)

// MaxProblems limits what one kind of check reports, since a broken file has thousands of problems.
const MaxProblems = 100

// A Conn is a connection that nothing else uses at the same time.
type Conn interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	SelectContext(ctx context.Context, dest any, query string, args ...any) error
}

// Integrity runs SQLite's own check of pages, indexes and constraints. It is one statement, and one
// snapshot.
func Integrity(ctx context.Context, c Conn) ([]engine.Problem, error) {
	found, err := problems(ctx, c, "integrity", fmt.Sprintf("PRAGMA integrity_check(%d)", MaxProblems))
	if len(found) == 1 && found[0].Detail == "ok" {
		return nil, err
	}
	return found, err
}

// ForeignKeys returns the rows that refer to missing rows.
func ForeignKeys(ctx context.Context, c Conn) ([]engine.Problem, error) {
	return problems(ctx, c, "foreign keys", fmt.Sprintf(`
SELECT 'row ' || coalesce(rowid,
	0) || ' of ' || "table" || ' refers to a row of ' || parent || ' that is gone'
FROM pragma_foreign_key_check LIMIT %d`, MaxProblems))
}

// Invariant checks one of the schema's own invariants.
func Invariant(ctx context.Context, c Conn, check migrations.Check) ([]engine.Problem, error) {
	return problems(ctx, c, check.Name, fmt.Sprintf("%s\nLIMIT %d", check.Query, MaxProblems))
}

// problems reads a query whose only column describes what is wrong. With an error, it also returns
// what it found before the error.
func problems(ctx context.Context, c Conn, name, query string) (found []engine.Problem, err error) {
	var details []sql.NullString
	err = c.SelectContext(ctx, &details, query)
	for _, detail := range details {
		if !detail.Valid {
			detail.String = "a row of which not even a description can be made"
		}
		found = append(found, engine.Problem{Check: name, Detail: detail.String})
	}
	return found, err
}

// Integers returns the values of a query with one column.
func Integers(ctx context.Context, c Conn, query string) (list []int64, err error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err returns the error
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, fmt.Errorf("%w: %w", engine.ErrCorrupt, err)
		}
		list = append(list, n)
	}
	return list, rows.Err()
}
