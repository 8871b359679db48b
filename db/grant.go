package db

import "sync/atomic"

// A Grant is a lease, or a claim, as the transaction knows it that made it. It is dead once that
// transaction, or the savepoint in it, was undone: its row is gone. The zero value, and nil, is a grant that
// was found in the database.
type Grant struct{ undone atomic.Bool }

// Undone reports whether the grant is dead.
func (g *Grant) Undone() bool { return g != nil && g.undone.Load() }

// Grant notes that this transaction gives out an epoch, by a number that it drew of a table, and gives what
// tells whether that was undone. Nobody draws that number, or a lower one, again, also where the transaction
// or the savepoint is undone: who got the epoch may have passed it on.
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

// Drawing gives an expression in SQL for a number that is not less than those of the rows of a table, nor
// than any of a Grant that was undone. On a server, where several draw at once, no two get the same one. key
// is the column that the table counts.
func (tx *Tx) Drawing(table, key string) string { return tx.engine.Drawing(table, key) }
