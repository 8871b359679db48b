package sqlite

import (
	"context"
	"errors"
	"fmt"

	"selvedge/db/internal/engine"
)

// rx is a read transaction on one connection.
type rx struct {
	engine  *Engine
	session *session
	open    []*rows // not closed yet
	// dead is set when SQLite ended the transaction under the caller. Every later statement would run on its own, outside
	// any transaction, so none is let through.
	dead error
	// write is nil in a read.
	write *tx
}

// tx is a write transaction.
type tx struct {
	rx
	depth      int
	afterwards []func()
	undone     []func()
}

func (x *rx) Get(dest any, query string, args []any) error {
	if x.dead != nil {
		return x.dead
	}
	return x.after(x.session.get(dest, query, args))
}

func (x *rx) Select(dest any, query string, args []any) error {
	if x.dead != nil {
		return x.dead
	}
	return x.after(x.session.selectAll(dest, query, args))
}

func (x *rx) Query(query string, args []any) (engine.Rows, error) {
	if x.dead != nil {
		return nil, x.dead
	}
	r, err := x.session.query(query, args)
	return x.took(r, err)
}

func (x *rx) QueryContext(ctx context.Context, query string, args []any) (engine.Rows, error) {
	if x.dead != nil {
		return nil, x.dead
	}
	r, err := x.session.queryContext(ctx, query, args)
	return x.took(r, err)
}

// took makes rows part of the transaction.
func (x *rx) took(r *rows, err error) (engine.Rows, error) {
	if err != nil {
		return nil, x.after(err)
	}
	r.rx = x
	x.open = append(x.open, r)
	return r, nil
}

// end closes the rows that are still open, and reports them.
func (x *rx) end() error {
	if len(x.open) == 0 {
		return nil
	}
	left := x.open[0].query
	for len(x.open) > 0 {
		_ = x.open[0].Close() // takes itself out
	}
	return fmt.Errorf("%w: rows were still being read when the function returned: %s", engine.ErrInvalid, left)
}

// after looks, when a statement of a write failed, whether SQLite ended the whole transaction with it, as it does when
// the disk is full, on an I/O error and for OR ROLLBACK. BEGIN tells: it fails inside a transaction and changes nothing.
func (x *rx) after(err error) error {
	if err == nil {
		return nil
	}
	if x.write == nil || code(err) == 0 {
		return failure(err)
	}
	if _, probe := x.session.exec(sqlBegin); probe != nil {
		return failure(err)
	}
	if _, undo := x.session.exec(sqlRollback); undo != nil {
		err = fmt.Errorf("%w (and ending the probe: %w)", err, undo)
	}
	x.dead = failure(fmt.Errorf("SQLite ended the transaction: %w", err))
	return x.dead
}

func (t *tx) Exec(query string, args []any) (int64, error) {
	if t.dead != nil {
		return 0, t.dead
	}
	n, err := t.session.exec(query, args...)
	return n, t.after(err)
}

func (t *tx) Savepoint(fn func() error) error {
	t.depth++
	name := fmt.Sprintf("inner_%d", t.depth)
	hooks, undone := len(t.afterwards), len(t.undone)
	returned := false
	defer func() {
		t.depth--
		if !returned { // fn panicked or left by Goexit: the whole transaction is about to be undone
			t.afterwards = t.afterwards[:hooks]
		}
	}()
	if _, err := t.Exec("SAVEPOINT "+name, nil); err != nil {
		returned = true
		return err
	}
	err := fn()
	returned = true
	if err == nil {
		_, err = t.Exec("RELEASE "+name, nil)
		return err
	}
	if t.dead != nil {
		return err
	}
	t.afterwards = t.afterwards[:hooks]
	for _, f := range t.undone[undone:] {
		f()
	}
	t.undone = t.undone[:undone]
	if _, undo := t.Exec("ROLLBACK TO "+name, nil); undo != nil {
		return errors.Join(err, undo)
	}
	if _, undo := t.Exec("RELEASE "+name, nil); undo != nil {
		return errors.Join(err, undo)
	}
	return err
}

func (t *tx) OnCommit(fn func()) { t.afterwards = append(t.afterwards, fn) }

func (t *tx) OnRollback(fn func()) { t.undone = append(t.undone, fn) }

func (t *tx) committed() {
	for _, f := range t.afterwards {
		f()
	}
}

func (t *tx) rolledBack() {
	for _, f := range t.undone {
		f()
	}
}

// checked gives the reading half, of a read in memory too.
func (x *rx) checked() *rx { return x }
