package txn

import (
	"context"
	"iter"

	"selvedge/internal/engine"
)

// Query reads rows one by one. The rows are closed when the loop over them ends, in whatever way;
// each row is valid until the next one. An error ends the loop.
func (rx *Rx) Query(query string, args ...any) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		rows, err := ask(rx, args, func() (engine.Rows, error) { return rx.engine.Query(query, args) })
		if err != nil {
			yield(nil, err)
			return
		}
		(&Rows{rx, rows}).each(yield)
	}
}

// Each is Query for rows that are structs with db tags: it returns what one makes of each row. An
// error ends the loop.
func Each[R, T any](rx *Rx, one func(*R) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rx.Query(query, args...) {
			var r R
			var made T
			if err == nil {
				err = row.ScanStruct(&r)
			}
			if err == nil {
				made, err = one(&r)
			}
			if !yield(made, err) || err != nil {
				return
			}
		}
	}
}

// QueryContext is Query for statements that people write: the statement is not kept prepared, it is
// interrupted when ctx ends, and its columns are known before the first row.
func (rx *Rx) QueryContext(ctx context.Context, query string, args ...any) (*Rows, error) {
	rows, err := ask(rx, args, func() (engine.Rows, error) { return rx.engine.QueryContext(ctx, query, args) })
	if err != nil {
		return nil, err
	}
	return &Rows{rx, rows}, nil
}

// Rows are the rows of QueryContext. They are closed at the end of All, or with the transaction.
type Rows struct {
	rx   *Rx
	rows engine.Rows
}

// Columns are the names of the columns.
func (r *Rows) Columns() ([]string, error) {
	return ask(r.rx, nil, func() ([]string, error) { return r.rows.Columns() })
}

// All reads the rows once, one by one, as Query does.
func (r *Rows) All() iter.Seq2[*Row, error] { return r.each }

func (r *Rows) each(yield func(*Row, error) bool) {
	defer r.close()
	row := (*Row)(r)
	for {
		there, err := r.next()
		switch {
		case err != nil:
			yield(nil, err)
			return
		case !there || !yield(row, nil):
			return
		}
	}
}

// next reports whether there is another row, and why not.
func (r *Rows) next() (bool, error) {
	return ask(r.rx, nil, func() (bool, error) {
		if r.rows.Next() {
			return true, nil
		}
		return false, r.rows.Err()
	})
}

func (r *Rows) close() {
	if r.rx.enter() == nil { // the engine closes what is open at the end
		defer r.rx.leave()
		_ = r.rows.Close() // what went wrong is in Err
	}
}

// A Row is one row of a query, valid until the next one.
type Row Rows

// Scan reads the row's columns in order.
func (r *Row) Scan(dest ...any) error {
	return r.rx.do(nil, func() error { return r.rows.Scan(dest...) })
}

// Columns are the names of the row's columns.
func (r *Row) Columns() ([]string, error) { return (*Rows)(r).Columns() }

// ScanStruct reads the row into a struct with db tags.
func (r *Row) ScanStruct(dest any) error {
	return r.rx.do(nil, func() error { return r.rows.ScanStruct(dest) })
}

// InOrder is the ORDER BY expression for a column that may hold more than [MaxID] bytes:
// its prefix first, where the indexes hold that.
func (rx *Rx) InOrder(column string) string { return rx.engine.InOrder(column) }

// Relations returns the tables and views of the database, views first, by name.
func (rx *Rx) Relations() ([]engine.Relation, error) {
	return ask(rx, nil, func() ([]engine.Relation, error) { return rx.engine.Relations() })
}
