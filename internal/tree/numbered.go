package tree

import (
	"context"

	"selvedge/db"
)

// A numbered list has what a scope has of something in the order of its numbers, up or down.
type numbered[T any] struct {
	name   string
	first  int64 // behind it the first page begins
	read   func(rx *db.Rx, scope, behind int64, limit int) ([]T, error)
	size   func(*T) int // in bytes, about
	number func(*T) int64
}

func (n *numbered[T]) page(ctx context.Context, d *db.DB, scope string, at db.At) (page db.Page[T],
	err error,
) {
	room, err := at.Room()
	if err != nil {
		return page, err
	}
	err = d.Read(ctx, "list "+n.name, func(rx *db.Rx) error {
		behind := []int64{n.first}
		if at.After != "" {
			if err := rx.ReadCursor(n.name, at.After, behind); err != nil {
				return err
			}
		}
		id, ok, err := rx.Scope(scope)
		if err != nil || !ok {
			return err
		}
		list, err := n.read(rx, id, behind[0], room.Items+1)
		if err != nil {
			return err
		}
		items := func(yield func(T, error) bool) {
			for _, item := range list {
				if !yield(item, nil) {
					return
				}
			}
		}
		page, err = db.FillPage(room, items, n.size,
			func(item *T) string { return rx.Cursor(n.name, []int64{n.number(item)}) })
		return err
	})
	return page, err
}
