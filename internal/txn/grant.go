package txn

import "sync/atomic"

// A Grant is the origin of a lease or claim: the transaction that made it. It is dead once that
// transaction, or a savepoint in it, was rolled back: the row is gone. The zero value, and nil, is
// a grant that was found in the database.
type Grant struct{ undone atomic.Bool }

// Undone reports whether the grant is dead.
func (g *Grant) Undone() bool { return g != nil && g.undone.Load() }

// Grant records that this transaction hands out an epoch, from a number that it drew for a table.
// The result reports whether that was rolled back. That number, or a lower one, is not drawn
// again even then, because the caller may have passed the epoch on.
func (tx *Tx) Grant(table string, drawn int64) (*Grant, error) {
	if err := tx.enter(); err != nil {
		return nil, err
	}
	defer tx.leave()
	g := &Grant{}
	tx.engine.OnRollback(func() { g.undone.Store(true) })
	tx.engine.Drawn(table, drawn)
	return g, nil
}

// Drawing returns an SQL expression for a number that is at least that of every row of a table, and
// of every Grant that was rolled back. On a server, where transactions draw concurrently, no two
// get the same number. key is the column that the table counts.
func (tx *Tx) Drawing(table, key string) string { return tx.engine.Drawing(table, key) }
