package stores

import (
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
)

// FillPage is paging.Fill for a db.Page.
func FillPage[T any](room paging.Room, items iter.Seq2[T, error], weigh func(*T) int,
	next func(*T) string,
) (page db.Page[T], err error) {
	page.Items, page.Next, err = paging.Fill(room, items, weigh, next)
	return page, err
}
