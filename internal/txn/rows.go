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
		rows, err := rx.query(query, args)
		if err != nil {
			yield(nil, err)
			return
		}
		each(rows, yield)
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
	if err := rx.run(args); err != nil {
		return nil, err
	}
	defer rx.leave()
	rows, err := rx.engine.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &Rows{rx, rows}, nil
}

func (rx *Rx) query(query string, args []any) (*Rows, error) {
	if err := rx.run(args); err != nil {
		return nil, err
	}
	defer rx.leave()
	rows, err := rx.engine.Query(query, args)
	return &Rows{rx, rows}, err
}

// Rows are the rows of QueryContext. They are closed at the end of All, or with the transaction.
type Rows struct {
	rx   *Rx
	rows engine.Rows
}

// Columns are the names of the columns.
func (r *Rows) Columns() ([]string, error) {
	if err := r.rx.enter(); err != nil {
		return nil, err
	}
	defer r.rx.leave()
	return r.rows.Columns()
}

// All reads the rows once, one by one, as Query does.
func (r *Rows) All() iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) { each(r, yield) }
}

func each(r *Rows, yield func(*Row, error) bool) {
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
	if err := r.rx.enter(); err != nil {
		return false, err
	}
	defer r.rx.leave()
	if r.rows.Next() {
		return true, nil
	}
	return false, r.rows.Err()
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
	if err := r.rx.enter(); err != nil {
		return err
	}
	defer r.rx.leave()
	return r.rows.Scan(dest...)
}

// ScanStruct reads the row into a struct with db tags.
func (r *Row) ScanStruct(dest any) error {
	if err := r.rx.enter(); err != nil {
		return err
	}
	defer r.rx.leave()
	return r.rows.ScanStruct(dest)
}

// InOrder is the ORDER BY expression for a column that may hold more than [MaxID] bytes:
// its prefix first, where the indexes hold that.
func (rx *Rx) InOrder(column string) string { return rx.engine.InOrder(column) }

// Relations returns the tables and views of the database, views first, by name.
func (rx *Rx) Relations() ([]engine.Relation, error) {
	if err := rx.enter(); err != nil {
		return nil, err
	}
	defer rx.leave()
	return rx.engine.Relations()
}
