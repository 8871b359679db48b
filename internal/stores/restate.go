package stores

import (
	"context"
	"slices"

	"selvedge/db"
)

// Restate calls fn with each key that the statement keys returns, a hundred in a transaction, and returns
// the notes that are not "".
func Restate(ctx context.Context, d *db.DB, op, keys string, fn func(tx *db.Tx, key int64) (string, error),
) (notes []string, err error) {
	all, err := Get(ctx, d.Read, op, func(rx *db.Rx) (all []int64, err error) {
		err = rx.Select(&all, keys)
		return all, err
	})
	for some := range slices.Chunk(all, 100) {
		found, err := Get(ctx, d.Write, op, func(tx *db.Tx) (found []string, err error) {
			for i := 0; i < len(some) && err == nil; i++ {
				var note string
				if note, err = fn(tx, some[i]); note != "" {
					found = append(found, note)
				}
			}
			return found, err
		})
		if err != nil {
			return notes, err
		}
		notes = append(notes, found...)
	}
	return notes, err
}
