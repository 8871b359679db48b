package txn

import (
	"selvedge/internal/engine"
)

// Owner returns the number under which this process owns claims in the file. The first call creates
// its row and its lock.
func (tx *Tx) Owner() (int64, error) {
	return ask(&tx.Rx, nil, func() (int64, error) { return tx.engine.Owner() })
}

// Owns reports whether id is this process.
func (rx *Rx) Owns(id int64) (bool, error) {
	return ask(rx, nil, func() (bool, error) { return rx.engine.Owns(id) })
}

// OwnerAlive reports whether the process with this number is running, or may be: a stopped process
// is alive, and so is one that can't be asked. OwnerLife distinguishes them.
func (rx *Rx) OwnerAlive(id int64) (bool, error) {
	life, err := rx.OwnerLife(id)
	return life != LifeDead, err
}

// Life is whether a process is running.
type Life = engine.Life

// The values of Life. Only LifeDead lets others take what the process holds.
const (
	LifeUnknown = engine.LifeUnknown // it can't be asked
	LifeAlive   = engine.LifeAlive   // it runs, or is stopped
	LifeDead    = engine.LifeDead    // it is gone, for ever
)

// OwnerLife reports whether the process with this number is running.
func (rx *Rx) OwnerLife(id int64) (Life, error) {
	return ask(rx, nil, func() (Life, error) { return rx.engine.Life(id) })
}

// AliveSQL returns an SQL condition that is true if the owner in a column is known to be alive. A
// server keeps that in a table. In a file it is always false, and OwnerAlive asks.
func (tx *Tx) AliveSQL(column string) string { return tx.engine.AliveSQL(column) }

// HoldsSQL returns an SQL condition on a row with the columns of a lease that has a time and an owner: the
// lease is not over. It is "" in a file, where HoldsLease tells.
func (tx *Tx) HoldsSQL() string { return tx.engine.HoldsSQL() }

// OneMachine reports whether all programs that use the database run on this machine, so that pids
// and boot ids of owners are this machine's. For a server that is false, unless its address says
// selvedge.hosts=one.
func (rx *Rx) OneMachine() bool { return rx.in.Engine.OneMachine() }

// ForgetDeadOwners deletes the rows of dead processes that nothing refers to any more. A call
// examines at most 256 rows, to keep the write short, and the next one continues after them. The
// first call of a handle begins at a random row, so that short-lived programs together reach all of
// them. stores.ForgetDeadOwners examines all.
func (tx *Tx) ForgetDeadOwners() error {
	last, _, err := tx.ForgetDeadOwnersAfter(tx.in.ownersLookedAt.Load())
	if err == nil {
		tx.in.ownersLookedAt.Store(last)
	}
	return err
}

// ForgetDeadOwnersAfter is ForgetDeadOwners for the rows behind a number; engine.BeforeOwners begins.
// last is the last row that it examined, and more is false at the end.
func (tx *Tx) ForgetDeadOwnersAfter(after int64) (last int64, more bool, err error) {
	if err := tx.enter(); err != nil {
		return 0, false, err
	}
	defer tx.leave()
	return tx.engine.ForgetDeadOwners(after)
}
