package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"io"

	"github.com/jmoiron/sqlx"

	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// results are the rows of a query: first those that were read into memory to free the connection,
// then those that are still on it.
type results struct {
	wire     *wire
	ctx      context.Context // ends the statement
	prepared *prepared
	reader   *reader // nil once all is read
	kept     [][]driver.Value
	size     int // of kept, in bytes, rows already returned included
	failed   error

	ahead bool           // the row that the connection is at was not returned yet
	here  bool           // the row that the connection is at was the last one returned
	row   []driver.Value // the last one returned, if it is in memory
	steps bool           // Step goes from row to row, and Next only decodes
}

// mostKept bounds how many bytes of one query's rows are read into memory to free the connection.
const mostKept = 64 << 20

var errTooMuchOpen = engine.Failf(engine.ErrInvalid,
	"read the rows to their end first, or page by page with LIMIT",
	"another statement ran while more than %d MiB of this one's rows were not read yet", mostKept>>20)

// Columns are the names of the columns.
func (r *results) Columns() []string {
	names := make([]string, len(r.prepared.Fields))
	for i, f := range r.prepared.Fields {
		names[i] = f.Name
	}
	return names
}

// advance moves to the next row on the connection, and ends the reading after the last.
func (r *results) advance() bool {
	if r.reader == nil {
		return false
	}
	if r.reader.NextRow() {
		r.wire.touchRow(r.prepared, r.reader.Values())
		return true
	}
	_, err := r.reader.Close()
	r.ended(err)
	return false
}

func (r *results) ended(err error) {
	r.reader = nil
	r.wire.reading = nil
	if r.failed == nil {
		r.failed = r.wire.lost(r.ctx, err)
	}
}

// keep reads the row that the connection is at into memory.
func (r *results) keep() error {
	row := make([]driver.Value, len(r.prepared.Fields))
	for _, value := range r.reader.Values() {
		r.size += len(value) + 16
	}
	if r.size > mostKept {
		return errTooMuchOpen
	}
	if err := r.decode(row); err != nil {
		return err
	}
	r.kept = append(r.kept, row)
	return nil
}

func (r *results) keepRest() error {
	if r.here {
		r.here = false
		r.row = make([]driver.Value, len(r.prepared.Fields))
		if err := r.decode(r.row); err != nil {
			r.row, r.failed = nil, err
		}
	}
	if r.ahead {
		if r.ahead = false; r.failed == nil {
			r.failed = r.keep()
		}
	}
	for r.failed == nil && r.advance() {
		r.failed = r.keep()
	}
	if r.reader != nil { // the first error is the one reported
		_, err := r.reader.Close()
		r.ended(err)
	}
	return nil // the error is reported to their reader
}

func (r *results) decode(dest []driver.Value) (err error) {
	for i, value := range r.reader.Values() {
		if dest[i], err = decode(value, r.prepared.Fields[i]); err != nil {
			return err
		}
	}
	return nil
}

// step moves to the next row.
func (r *results) step() bool {
	r.here, r.row = false, nil
	if len(r.kept) > 0 {
		r.row, r.kept[0] = r.kept[0], nil
		r.kept = r.kept[1:]
		return true
	}
	r.here = r.ahead || r.failed == nil && r.advance()
	r.ahead = false
	return r.here
}

// Next reads a row.
func (r *results) Next(dest []driver.Value) error {
	switch {
	case !r.steps && !r.step() && r.failed == nil:
		return io.EOF
	case r.here:
		return r.decode(dest)
	case r.row == nil:
		return cmp.Or(r.failed, io.EOF)
	}
	copy(dest, r.row)
	return nil
}

// Step moves to the next row, which Next then decodes if Take doesn't.
func (r *results) Step() bool {
	r.steps = true
	return r.step()
}

// Err returns the error that ended the rows early.
func (r *results) Err() error { return r.failed }

// Take reads the row straight from the connection, if it is there and its types are usual ones.
func (r *results) Take(dest []any) bool {
	if !r.here || len(dest) != len(r.prepared.Fields) {
		return false
	}
	for i, value := range r.reader.Values() {
		if !take(dest[i], value, &r.prepared.Fields[i]) {
			return false
		}
	}
	return true
}

// Close ends the reading. The statement's own changes stay.
func (r *results) Close() error {
	r.kept, r.row, r.here, r.ahead = nil, nil, false, false
	if r.reader == nil {
		return nil
	}
	_, err := r.reader.Close()
	r.ended(err)
	return err
}

// found are the rows of a query: straight from the connection where that is possible, else as database/sql
// reads them.
type found struct {
	*sqlx.Rows
	results   *results
	converted bool // database/sql has the row of results
}

var _ scan.Source = (*found)(nil)

// found runs a query.
func (s *session) found(query string, args []any) (scan.Rows, error) {
	rows, err := s.conn.QueryxContext(background, query, args...)
	return scan.Rows{Source: &found{Rows: rows, results: s.wire.asked}}, err
}

// Next moves to the next row.
func (f *found) Next() bool {
	f.converted = false
	return f.results.Step()
}

// Take reads the row straight from the connection, if it can.
func (f *found) Take(dest []any) bool { return f.results.Take(dest) }

// Scan has database/sql read the row. Its Next then does not advance the results.
func (f *found) Scan(dest ...any) error {
	if !f.converted {
		if f.converted = f.Rows.Next(); !f.converted {
			return cmp.Or(f.Rows.Err(), scan.ErrNoRow)
		}
	}
	return f.Rows.Scan(dest...)
}

// Err returns the error that ended the rows early.
func (f *found) Err() error { return cmp.Or(f.Rows.Err(), f.results.Err()) }
