package postgres

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"

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
}

var _ scan.Source = (*results)(nil)

// mostKept bounds how many bytes of one query's rows are read into memory to free the connection.
const mostKept = 64 << 20

var errTooMuchOpen = engine.Failf(engine.ErrInvalid,
	"read the rows to their end first, or page by page with LIMIT",
	"another statement ran while more than %d MiB of this one's rows were not read yet", mostKept>>20)

// Columns are the names of the columns.
func (r *results) Columns() ([]string, error) { return r.prepared.columns, nil }

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
	for _, value := range r.reader.Values() {
		r.size += len(value) + 16
	}
	if r.size > mostKept {
		return errTooMuchOpen
	}
	row, err := r.decode()
	if err == nil {
		r.kept = append(r.kept, row)
	}
	return err
}

func (r *results) keepRest() error {
	if r.here {
		r.here = false
		r.row, r.failed = r.decode()
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

// decode returns the row that the connection is at.
func (r *results) decode() (row []driver.Value, err error) {
	row = make([]driver.Value, len(r.prepared.Fields))
	for i, value := range r.reader.Values() {
		if row[i], err = decode(value, r.prepared.Fields[i]); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// Next moves to the next row.
func (r *results) Next() bool {
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

// Err returns the error that ended the rows early.
func (r *results) Err() error { return r.failed }

// Take scans the row if all destinations have common types, and reports whether it did.
func (r *results) Take(dest []any) bool {
	if len(dest) != len(r.prepared.Fields) {
		return false
	}
	if !r.here {
		for i, value := range r.row {
			if b, is := value.([]byte); is { // the row may be read again
				value = bytes.Clone(b)
			}
			if !scan.Assign(dest[i], value) {
				return false
			}
		}
		return r.row != nil
	}
	for i, value := range r.reader.Values() {
		if !take(dest[i], value, &r.prepared.Fields[i]) {
			return false
		}
	}
	return true
}

// values returns the row; nil if there is none.
func (r *results) values() ([]driver.Value, error) {
	if r.here {
		return r.decode()
	}
	return r.row, nil
}

// Scan has database/sql convert the row.
func (r *results) Scan(dest ...any) error {
	row, err := r.values()
	if err == nil && row == nil {
		err = cmp.Or(r.failed, scan.ErrNoRow)
	}
	if err != nil {
		return err
	}
	return scan.Convert(r.prepared.columns, row, dest)
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

// found runs a query.
func (s *session) found(query string, args []any) (scan.Rows, error) {
	rows, err := s.wire.query(query, args)
	return scan.Rows{Source: rows}, err
}
