package txn

import (
	"errors"

	"selvedge/internal/engine"
)

// Tx is a write transaction.
type Tx struct {
	Rx
	engine engine.Tx
	last   []*change // of QueueLast
	held   any       // of SetHeld
}

type change struct {
	query  string
	args   []any
	undone bool // with its savepoint
}

// Begin opens the transaction for its function.
func (tx *Tx) Begin(in *Handle, x engine.Tx) {
	tx.engine, tx.writes = x, true
	tx.Rx.Begin(in, x)
}

// Finish does what QueueLast left to be done.
func (tx *Tx) Finish() error {
	left := tx.last
	if len(left) == 0 {
		return nil
	}
	tx.last = nil
	err := tx.do(nil, func() error {
		tx.engine.OnRollback(func() { tx.last = append(left, tx.last...) }) // they may be older than the savepoint
		return nil
	})
	for _, c := range left {
		if err == nil && !c.undone {
			err = tx.Queue(c.query, c.args...)
		}
	}
	return err
}

// SetHeld notes a lease that was found to hold, so that it is not looked at again. It is for a function
// that ends the lease in its last call that needs it, if at all, and in no savepoint.
func (tx *Tx) SetHeld(lease any) { tx.held = lease }

// Held reports whether the lease was given to SetHeld.
func (tx *Tx) Held(lease any) bool { return tx.held == lease }

// Exec changes rows and returns their number.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	return ask(&tx.Rx, args, func() (int64, error) { return tx.engine.Exec(query, args) })
}

// Queue is Exec for a change whose row count does not matter. On a server it may be sent with the
// next statement, or with the commit, instead of in a message of its own; its error is then that of
// the next statement or the commit. So use it for changes that the caller's input can't make fail.
func (tx *Tx) Queue(query string, args ...any) error {
	return tx.do(args, func() error { return tx.engine.Queue(query, args) })
}

// QueueLast is Queue for a change of a row that many transactions change, such as a count of rows: on a
// server it is the last change of its transaction, so that the others wait for the commit alone.
func (tx *Tx) QueueLast(query string, args ...any) error {
	if tx.SingleWriter() {
		return tx.Queue(query, args...)
	}
	return tx.do(args, func() error {
		c := &change{query: query, args: args}
		tx.last = append(tx.last, c)
		tx.engine.OnRollback(func() { c.undone = true })
		return nil
	})
}

// ExecAndCommit is Exec for the only change of a transaction, and the last statement of its function if it
// changed a row. On a server it is sent with the commit of a WriteLocked, and stays done even if
// the function then returns an error. If it changed no row, the function may continue, as in a new
// transaction: it must lock again what it had locked.
func (tx *Tx) ExecAndCommit(query string, args ...any) (int64, error) {
	if len(tx.last) > 0 { // it is not the only change
		return tx.Exec(query, args...)
	}
	return ask(&tx.Rx, args, func() (int64, error) { return tx.engine.ExecAndCommit(query, args) })
}

// Number returns the key for a new row of a table that numbers its rows. Later calls return
// higher numbers. On a server an unused number is not used again.
func (tx *Tx) Number(table string) (int64, error) {
	return ask(&tx.Rx, nil, func() (int64, error) { return tx.engine.Number(table) })
}

// Expect announces how many more rows of a table Number will number: a server then numbers them
// together.
func (tx *Tx) Expect(table string, rows int) {
	if rows > 0 && tx.enter() == nil {
		defer tx.leave()
		tx.engine.Expect(table, rows)
	}
}

// Savepoint runs fn inside a savepoint. If fn fails, its changes are undone and earlier ones stay;
// Savepoint returns fn's error. What other goroutines write through tx while fn runs belongs to the
// savepoint. If one of them has a savepoint open when fn returns, or fn still runs when the
// transaction's function has returned, the whole transaction is undone with engine.ErrInvalid.
func (tx *Tx) Savepoint(fn func() error) error {
	inner, err := ask(&tx.Rx, nil, func() (engine.Savepoint, error) { return tx.engine.Savepoint() })
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned && tx.enter() == nil { // fn panicked or left by Goexit
			defer tx.leave()
			_ = inner.RollBack() // the transaction remembers that it failed
		}
	}()
	err = fn()
	returned = true
	if ended := tx.enter(); ended != nil {
		return errors.Join(err, ended)
	}
	defer tx.leave()
	if err == nil {
		return inner.Release()
	}
	if undo := inner.RollBack(); undo != nil {
		return errors.Join(err, undo)
	}
	return err
}

// AfterCommit runs fn once the transaction is committed, before Write returns; not if it is undone.
// fn must be short and must not use the database (an error at once). If fn panics or calls
// runtime.Goexit, so does this Write, and no other: the commit stays done, the other functions
// given to AfterCommit still run, and the *Panic has Committed set.
func (tx *Tx) AfterCommit(fn func()) {
	if tx.enter() == nil { // what has ended has nothing more to commit
		defer tx.leave()
		tx.engine.OnCommit(fn)
	}
}

// Analyze lets a server update the statistics of tables that have grown much, at the end of a bulk
// load. The server does that by itself within about a minute, and until then a page of a list may
// cost as much as the whole list. A file needs none.
func (tx *Tx) Analyze() error {
	return tx.do(nil, func() error { return tx.engine.Analyze() })
}
