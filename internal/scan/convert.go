package scan

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"selvedge/internal/engine"
)

// Convert has database/sql read the values of a row.
func Convert(columns []string, row []driver.Value, dest []any) (err error) {
	pool := engine.PoolOf(&oneRow{columns: columns, row: row})
	rows, err := pool.QueryContext(context.Background(), "")
	if err == nil {
		rows.Next()
		err = errors.Join(rows.Scan(dest...), rows.Close())
	}
	return errors.Join(err, pool.Close())
}

// oneRow is a connection whose only query has one row.
type oneRow struct {
	columns []string
	row     []driver.Value // nil once it was read
}

var _ driver.QueryerContext = (*oneRow)(nil)

// QueryContext returns the row.
func (r *oneRow) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return r, nil
}

// Columns are the names of the columns.
func (r *oneRow) Columns() []string { return r.columns }

// Next reads the row.
func (r *oneRow) Next(dest []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(dest, r.row)
	r.row = nil
	return nil
}

// Close does nothing.
func (r *oneRow) Close() error { return nil }

var errOneRow = errors.New("it has one row, and nothing else")

// Prepare is never called.
func (r *oneRow) Prepare(string) (driver.Stmt, error) { return nil, errOneRow }

// Begin is never called.
func (r *oneRow) Begin() (driver.Tx, error) { return nil, errOneRow }
