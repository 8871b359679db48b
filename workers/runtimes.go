package workers

import (
	"context"
	"iter"

	"selvedge/db"
)

// Runtimes gives the ids of the scope's runtimes, in their order, read in pages. After an error there is nothing more.
func Runtimes(ctx context.Context, d *db.DB, scopeName string) iter.Seq2[RuntimeID, error] {
	return func(yield func(RuntimeID, error) bool) {
		const pageSize = 200
		const first = ` WHERE scope = ? ORDER BY runtime_id LIMIT ?`
		const behind = ` WHERE scope = ? AND runtime_id > ? ORDER BY runtime_id LIMIT ?`
		var last *RuntimeID
		for {
			var ids []RuntimeID
			err := d.Read(ctx, "list runtimes", func(rx *db.Rx) error {
				scope, ok, err := rx.Scope(scopeName)
				switch {
				case err != nil || !ok:
					return err
				case last == nil:
					return rx.Select(&ids, sqlRuntimeIDs+first, scope, pageSize)
				}
				return rx.Select(&ids, sqlRuntimeIDs+behind, scope, string(*last), pageSize)
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
			if len(ids) < pageSize {
				return
			}
			last = &ids[len(ids)-1]
		}
	}
}

const sqlRuntimeIDs = `SELECT runtime_id FROM worker_runtimes`
