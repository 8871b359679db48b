package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// nested is a connection as a driver of database/sql. In the middle of a transaction each of goose's
// transactions is a savepoint, so that all steps take effect together or not at all.
type nested struct{ *wire }

var (
	_ driver.ConnBeginTx    = nested{}
	_ driver.QueryerContext = nested{}
	_ driver.ExecerContext  = nested{}
)

// ExecContext runs a statement and counts the rows that it changed.
func (n nested) ExecContext(_ context.Context, query string, args []driver.NamedValue) (
	driver.Result, error,
) {
	rows, err := n.exec(query, valuesOf(args))
	return driver.RowsAffected(rows), err
}

// QueryContext runs a query.
func (n nested) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := n.query(query, valuesOf(args))
	if err != nil {
		return nil, err
	}
	return sqlRows{rows}, nil
}

func valuesOf(args []driver.NamedValue) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	return values
}

var errNoPlainSQL = errors.New("statements are run with their arguments")

// Prepare is never called: database/sql passes statements with their arguments.
func (nested) Prepare(string) (driver.Stmt, error) { return nil, errNoPlainSQL }

// Begin is never called: BeginTx is.
func (nested) Begin() (driver.Tx, error) { return nil, errNoPlainSQL }

// Close leaves the connection open.
func (nested) Close() error { return nil }

// BeginTx begins a step.
func (n nested) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := n.simple(ctx, "SAVEPOINT migration")
	return n, err
}

// Commit ends the step.
func (n nested) Commit() error {
	_, err := n.simple(background, "RELEASE migration")
	return err
}

// Rollback undoes the step.
func (n nested) Rollback() error {
	_, err := n.simple(background, "ROLLBACK TO migration; RELEASE migration")
	return err
}

// sqlRows are results as database/sql reads them.
type sqlRows struct{ *results }

// Columns are the names of the columns.
func (r sqlRows) Columns() []string { return r.prepared.columns }

// Next reads a row.
func (r sqlRows) Next(dest []driver.Value) error {
	if !r.results.Next() {
		return cmp.Or(r.failed, io.EOF)
	}
	row, err := r.values()
	copy(dest, row)
	return err
}
