package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
)

// Rx is a read transaction: one snapshot of the file. It is valid inside the function that got it.
type Rx struct {
	db      *DB
	session *session
	now     time.Time
	ended   bool
	// dead is set when SQLite ended the transaction under the caller. Every later statement would run on its own, outside
	// any transaction, so none is let through.
	dead error
	// writes is nil in a read.
	writes *Tx
}

// Tx is a write transaction. Everything done through it is committed together, or not at all.
type Tx struct {
	Rx
	depth      int
	afterwards []func()
	undone     []func()
}

// errEnded is what a transaction answers that is used after its function returned.
var errEnded = fmt.Errorf("%w: the transaction has ended", ErrInvalid)

// Now is the time of this transaction, in UTC, the same at every call.
func (rx *Rx) Now() time.Time { return rx.now }

// Get reads one row into dest, a struct with db tags or a scalar. No row is sql.ErrNoRows.
func (rx *Rx) Get(dest any, query string, args ...any) error {
	st, err := rx.prepare(query)
	if err != nil {
		return err
	}
	return rx.after(st.GetContext(background, dest, args...))
}

// Find is Get for a row that may be missing: it reports whether there was one.
func (rx *Rx) Find(dest any, query string, args ...any) (bool, error) {
	err := rx.Get(dest, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Select reads all rows into dest, a pointer to a slice of structs with db tags or of scalars.
func (rx *Rx) Select(dest any, query string, args ...any) error {
	st, err := rx.prepare(query)
	if err != nil {
		return err
	}
	return rx.after(st.SelectContext(background, dest, args...))
}

// Query reads rows one by one; the caller closes them before the transaction ends.
func (rx *Rx) Query(query string, args ...any) (*sqlx.Rows, error) {
	st, err := rx.prepare(query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryxContext(background, args...)
	return rows, rx.after(err)
}

// QueryContext is Query for statements that people write: it is not kept prepared, and it is interrupted when ctx ends.
func (rx *Rx) QueryContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error) {
	if rx.ended {
		return nil, errEnded
	}
	return rx.session.conn.QueryxContext(ctx, query, args...)
}

func (rx *Rx) prepare(query string) (*sqlx.Stmt, error) {
	switch {
	case rx.ended:
		return nil, errEnded
	case rx.dead != nil:
		return nil, rx.dead
	}
	st, err := rx.session.prepare(query)
	return st, rx.after(err)
}

// after looks, when a statement of a write failed, whether SQLite ended the whole transaction with it, as it does when
// the disk is full, on an I/O error and for OR ROLLBACK. BEGIN tells: it fails inside a transaction and changes nothing.
func (rx *Rx) after(err error) error {
	if err == nil || rx.writes == nil || code(err) == 0 {
		return err
	}
	if _, probe := rx.session.exec(sqlBegin); probe != nil {
		return err
	}
	if _, undo := rx.session.exec(sqlRollback); undo != nil {
		err = fmt.Errorf("%w (and ending the probe: %w)", err, undo)
	}
	rx.dead = fmt.Errorf("SQLite ended the transaction: %w", err)
	return rx.dead
}

// Exec changes rows.
func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	st, err := tx.prepare(query)
	if err != nil {
		return nil, err
	}
	result, err := st.ExecContext(background, args...)
	return result, tx.after(err)
}

// ExecAffected is Exec that gives the number of rows changed.
func (tx *Tx) ExecAffected(query string, args ...any) (int64, error) {
	result, err := tx.Exec(query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Savepoint runs fn inside a savepoint: when fn fails, what it did is undone and what the transaction did before it stays.
// It returns fn's error.
func (tx *Tx) Savepoint(fn func() error) error {
	tx.depth++
	name := fmt.Sprintf("inner_%d", tx.depth)
	hooks, undone := len(tx.afterwards), len(tx.undone)
	returned := false
	defer func() {
		tx.depth--
		if !returned { // fn panicked or left by Goexit: the whole transaction is about to be undone
			tx.afterwards = tx.afterwards[:hooks]
		}
	}()
	if _, err := tx.Exec("SAVEPOINT " + name); err != nil {
		returned = true
		return err
	}
	err := fn()
	returned = true
	if err == nil {
		_, err = tx.Exec("RELEASE " + name)
		return err
	}
	if tx.dead != nil {
		return err
	}
	tx.afterwards = tx.afterwards[:hooks]
	for _, f := range tx.undone[undone:] {
		f()
	}
	tx.undone = tx.undone[:undone]
	if _, undo := tx.Exec("ROLLBACK TO " + name); undo != nil {
		return errors.Join(err, undo)
	}
	if _, undo := tx.Exec("RELEASE " + name); undo != nil {
		return errors.Join(err, undo)
	}
	return err
}

// AfterCommit has fn run once the transaction is committed, before Write returns; not when it is undone. fn must be short
// and must not use the database (an error at once).
func (tx *Tx) AfterCommit(fn func()) { tx.afterwards = append(tx.afterwards, fn) }

// afterRollback has fn run when the transaction, or the savepoint it is in, is undone.
func (tx *Tx) afterRollback(fn func()) { tx.undone = append(tx.undone, fn) }

func (tx *Tx) committed() {
	for _, f := range tx.afterwards {
		f()
	}
}

func (tx *Tx) rolledBack() {
	for _, f := range tx.undone {
		f()
	}
}
