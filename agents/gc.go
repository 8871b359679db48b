package agents

import (
	"context"
	"time"

	"selvedge/db"
)

// gcBatch is how many entries one statement of GC removes; see longestTurn.
const gcBatch = 50

const (
	opGC         = "remove stale agents"
	opCountAside = "count stale agents"
)

const (
	sqlAside = `FROM agents AS a WHERE scope = ? AND put_aside_at IS NOT NULL AND put_aside_at <= ? AND NOT EXISTS (
	SELECT 1 FROM retention_pins AS p WHERE p.scope = a.scope AND p.store = '` + db.StoreAgents + `' AND p.id = a.session_id AND p.owner = '')`
	sqlCountAside = `SELECT count(*) ` + sqlAside
	sqlGC         = `DELETE FROM agents WHERE id IN (SELECT id ` + sqlAside + ` LIMIT ?)`
)

// CountAside tells how many entries GC would remove.
func (r *Registry) CountAside(ctx context.Context, until time.Time) (n int, err error) {
	err = r.db.Read(ctx, opCountAside, func(rx *db.Rx) error {
		n, err = r.CountAsideTx(rx, until)
		return err
	})
	return n, err
}

// CountAsideTx is CountAside inside a transaction.
func (r *Registry) CountAsideTx(rx *db.Rx, until time.Time) (n int, err error) {
	err = r.readTx(rx, opCountAside, "", func(scope int64) error { return rx.Get(&n, sqlCountAside, scope, db.Nanos(until)) })
	return n, err
}

// GC removes the entries that were put aside at until or before and are not pinned, in short transactions, and counts them. When ctx ends
// in between, what was removed stays removed.
func (r *Registry) GC(ctx context.Context, until time.Time) (removed int, err error) {
	for more := true; more; {
		turn := 0
		err := r.db.Reclaim(ctx, opGC, func(tx *db.Tx) error {
			turn = 0
			return r.writeTx(tx, opGC, "", func(scope int64) error {
				for began := time.Now(); ; {
					n, err := tx.Exec(sqlGC, scope, db.Nanos(until), gcBatch)
					if err != nil {
						return err
					}
					turn += int(n)
					if more = n == gcBatch; !more || time.Since(began) >= longestTurn {
						return nil
					}
				}
			})
		})
		if err != nil {
			return removed, err
		}
		removed += turn
	}
	return removed, nil
}
