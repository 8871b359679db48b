package tree

import (
	"context"
	"iter"

	"selvedge/db"
)

// PageRows is how many rows Each reads in one transaction.
const PageRows = 500

// ForEach calls do with each item of a sequence, until an error.
func ForEach[T any](items iter.Seq2[T, error], do func(T) error) error {
	for item, err := range items {
		if err == nil {
			err = do(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Each yields rows that are read a page at a time: no transaction is open while the caller's loop
// runs. page reads into rows at most PageRows rows after the row last, which is zero at first.
func Each[T any](ctx context.Context, d *db.DB, why string,
	page func(rx *db.Rx, last *T, rows *[]T) error,
) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for last := new(T); ; {
			var rows []T
			err := d.Read(ctx, why, func(rx *db.Rx) error {
				rows = nil
				return page(rx, last, &rows)
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range rows {
				if !yield(&rows[i], nil) {
					return
				}
			}
			if len(rows) < PageRows {
				return
			}
			last = &rows[len(rows)-1]
		}
	}
}
