package tree

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
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

// page lists the items of a scope in the order of their numbers. The arguments of query are the
// scope, the number after which the page begins (first, for the first page), and a limit. item
// converts a row; size returns an item's number and its approximate size in bytes.
func page[R, T any](ctx context.Context, d *db.DB, name, scope string, at db.At, first int64, query string,
	item func(*R) (T, error), size func(*T) (number int64, bytes int),
) (page db.Page[T], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, "list "+name, func(rx *db.Rx) error {
		after := []int64{first}
		if at.After != "" {
			if err := rx.Store().ReadCursor(name, at.After, after); err != nil {
				return err
			}
		}
		id, ok, err := rx.Store().Scope(scope)
		if err != nil || !ok {
			return err
		}
		items := txn.Each(rx.Store(), item, query, id, after[0], room.Items+1)
		page, err = stores.FillPage(room, items, func(t *T) int { _, bytes := size(t); return bytes },
			func(t *T) string { number, _ := size(t); return rx.Store().Cursor(name, []int64{number}) })
		return err
	})
	return page, err
}
