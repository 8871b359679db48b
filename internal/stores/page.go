package stores

import (
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

// FillPage is paging.Fill for a db.Page.
func FillPage[T any](room paging.Room, items iter.Seq2[T, error], weigh func(*T) int,
	next func(*T) string,
) (page db.Page[T], err error) {
	page.Items, page.Next, err = paging.Fill(room, items, weigh, next)
	return page, err
}

// FindPrefix returns what a query finds in a scope under ids that begin with prefix; noun is what the ids are
// of. The query takes the scope, the further arguments, the prefix, the first text behind all that begin with
// it, and a limit.
func FindPrefix[T any](rx *db.Rx, d *db.DB, scope, noun, prefix string, limit int, query string,
	further ...any,
) (found []T, err error) {
	room, err := paging.RoomFor(limit)
	if err == nil {
		err = txn.CheckID(noun, prefix)
	}
	if err != nil {
		return nil, err
	}
	id, ok, err := Scope(rx, d, scope)
	if err == nil && ok {
		args := append([]any{id}, further...)
		err = rx.Select(&found, query, append(args, prefix, paging.AfterPrefix(prefix), room.Items)...)
	}
	return found, err
}
