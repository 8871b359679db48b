package db

import (
	"sync"
	"sync/atomic"
)

// A Grant is a lease, or a claim, as the transaction knows it that made it. It is dead once that transaction, or the savepoint in
// it, was undone: its row is gone, and its epoch is nobody's. The zero value, and nil, is a grant that was found in the database.
type Grant struct{ undone atomic.Bool }

// Undone reports whether the grant is dead.
func (g *Grant) Undone() bool { return g != nil && g.undone.Load() }

// An EpochOf names what epochs grow for: a table that counts them over all its rows, or one row of a table.
type EpochOf struct {
	Table string
	Row   int64 // 0: the whole table
}

// Grant notes that this transaction gives out an epoch. Where the grant is undone the epoch is not given out again: see NextEpoch.
func (tx *Tx) Grant(of EpochOf, epoch int64) (*Grant, error) {
	if err := tx.enter(); err != nil {
		return nil, err
	}
	defer tx.leave()
	g, undone := &Grant{}, &tx.db.undone
	undone.forget(of)
	tx.engine.OnRollback(func() {
		g.undone.Store(true)
		undone.note(of, epoch)
	})
	return g, nil
}

// NextEpoch gives the epoch that follows: next, but where this handle has given that one out in a transaction that was undone a
// greater one, and then again is true.
func (tx *Tx) NextEpoch(of EpochOf, next int64) (epoch int64, again bool) {
	last := tx.db.undone.last(of)
	return max(next, last+1), last > 0
}

// undoneEpochs are the greatest epochs that were given out in transactions that were undone, and that nothing in the database
// tells of.
type undoneEpochs struct {
	mu     sync.Mutex
	epochs map[EpochOf]int64
}

func (u *undoneEpochs) last(of EpochOf) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.epochs[of]
}

func (u *undoneEpochs) forget(of EpochOf) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.epochs, of)
}

func (u *undoneEpochs) note(of EpochOf, epoch int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.epochs == nil {
		u.epochs = map[EpochOf]int64{}
	}
	u.epochs[of] = max(u.epochs[of], epoch)
}
