package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"

	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// rx is a read transaction on one connection.
type rx struct {
	engine  *Engine
	session *session
	open    []*rows // not closed yet
	// dead is set when SQLite ended the transaction under the caller. Every later statement would
	// run on its own, outside any transaction, so all are refused.
	dead error

	// Of a read.
	activeRead
	ctx   context.Context
	ended atomic.Bool // its context has ended, or the file is closed without waiting
	busy  error       // a statement found the file locked; a read is repeated for it
}

// tx is a write transaction.
type tx struct {
	rx
	engine.Savepoints
}

// admit returns a statement for a caller's text, if the transaction still takes one.
func (x *rx) admit(query string, args []any) (*statement, error) {
	if err := x.usable(); err != nil {
		return nil, err
	}
	st, err := x.session.admit(query, args)
	return st, x.after(err)
}

func (x *rx) usable() error {
	if x.ended.Load() {
		return x.interrupted()
	}
	return x.dead
}

func (x *rx) Get(dest any, query string, args []any) error {
	return x.scan(scan.One, dest, query, args)
}

func (x *rx) Select(dest any, query string, args []any) error {
	return x.scan(scan.All, dest, query, args)
}

func (x *rx) scan(into scanner, dest any, query string, args []any) error {
	st, err := x.admit(query, args)
	if err != nil {
		return err
	}
	return x.after(x.session.spoiled(x.session.scanOnce(st, into, dest, args), query, args))
}

func (x *rx) Query(query string, args []any) (engine.Rows, error) {
	if err := x.usable(); err != nil {
		return nil, err
	}
	r, err := x.session.query(query, args)
	return x.took(r, err)
}

func (x *rx) QueryContext(ctx context.Context, query string, args []any) (engine.Rows, error) {
	if err := x.usable(); err != nil {
		return nil, err
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
	left := x.open[0].statement.query
	for len(x.open) > 0 {
		_ = x.open[0].Close() // takes itself out
	}
	return fmt.Errorf("%w: rows were still being read when the function returned: %s", engine.ErrInvalid, left)
}

// after checks, when a statement of a write failed, whether SQLite ended the whole transaction with
// it, as it does on a full disk, on an I/O error, for OR ROLLBACK, and for an interrupted change.
func (x *rx) after(err error) error {
	if err == nil || err == engine.ErrNotFound { //nolint:errorlint // scan.One returns it unwrapped
		return err
	}
	if x.ctx != nil {
		if isBusy(err) {
			x.busy = err
		}
		if x.ended.Load() && primary(err) == sqlite3.SQLITE_INTERRUPT {
			return x.interrupted()
		}
		return x.session.failure(err)
	}
	err = x.session.failure(err)
	if x.dead == nil && !x.session.inTransaction() {
		x.dead = fmt.Errorf("SQLite ended the transaction: %w", err)
	}
	return cmp.Or(x.dead, err)
}

// interrupted is the error of a read that was ended.
func (x *rx) interrupted() error {
	cause := context.Cause(x.ctx)
	if cause == nil {
		cause = engine.ErrClosed
	}
	return fmt.Errorf("interrupted: %w", cause)
}

func (t *tx) Exec(query string, args []any) (int64, error) {
	st, err := t.admit(query, args)
	if err != nil {
		return 0, err
	}
	n, err := t.session.execOnce(st, args)
	return n, t.after(err)
}

// control runs a statement of ours.
func (t *tx) control(query string) error {
	if t.dead != nil {
		return t.dead
	}
	_, err := t.session.exec(query)
	return t.after(err)
}

// A savepoint is one of a transaction's.
type savepoint struct {
	tx *tx
	engine.Mark
}

func (t *tx) Savepoint() (engine.Savepoint, error) {
	s := &savepoint{t, t.Mark()}
	if err := t.control("SAVEPOINT " + s.Name()); err != nil {
		return nil, err
	}
	t.Opened(s.Mark)
	return s, nil
}

// end comes first in both ways to end it.
func (s *savepoint) end() {
	if err := s.tx.Ended(s.Mark); s.tx.dead == nil {
		s.tx.dead = err
	}
}

func (s *savepoint) Release() error {
	s.end()
	return s.tx.control("RELEASE " + s.Name())
}

func (s *savepoint) RollBack() error {
	t := s.tx
	if s.end(); t.dead != nil {
		return nil //nolint:nilerr // all of the transaction is about to be undone
	}
	t.Undone(s.Mark)
	err := t.control("ROLLBACK TO " + s.Name())
	if err == nil {
		err = t.control("RELEASE " + s.Name())
	}
	if err == nil {
		err = t.after(t.engine.writer.raiseCounters())
	}
	if err != nil && t.dead == nil {
		t.dead = fmt.Errorf("undo a savepoint: %w", err) // what failed would stay
	}
	return err
}

// end is rx.end for a write: a function that left a savepoint open may have done half of its work.
func (t *tx) end() error {
	err := t.rx.end()
	if t.dead == nil && err == nil {
		err = t.StillOpen()
	}
	return err
}

// Lock does nothing: no other transaction writes while this one does. Neither do Take, Hold and the names.
func (*tx) Lock(string, []any) error { return nil }

// Take does nothing.
func (*tx) Take(string, []any) error { return nil }

// Hold does nothing.
func (*tx) Hold(string, []any) error { return nil }

// LockName does nothing.
func (*tx) LockName(string, string) error { return nil }

// HoldName does nothing.
func (*tx) HoldName(string, string) error { return nil }

// LockRows does nothing: a file has one writer.
func (*tx) LockRows() {}

// Locking returns the query unchanged: a file has one writer.
func (*tx) Locking(query string, _ []any, _ bool) string { return query }

// Prefetch does nothing: a query needs no message.
func (*rx) Prefetch(string, []any) error { return nil }

// Prefetches is true: nothing is ever dropped.
func (*rx) Prefetches() bool { return true }

// InOrder returns the column: indexes hold whole values.
func (*rx) InOrder(column string) string { return column }

// Expect does nothing.
func (*tx) Expect(string, int) {}

// Analyze does nothing: the schema alone decides the plans.
func (*tx) Analyze() error { return nil }

// Number returns the number that AUTOINCREMENT would assign: no other transaction numbers rows
// until this one ends.
func (t *tx) Number(table string) (n int64, err error) {
	err = t.Get(&n, `SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0),
		coalesce((SELECT max(rowid) FROM "`+table+`"), 0)) + 1`, []any{table})
	return n, err
}

// Queue is Exec: there is no message to save.
func (t *tx) Queue(query string, args []any) error {
	_, err := t.Exec(query, args)
	return err
}

// ExecAndCommit is Exec: waiting callers share the commit.
func (t *tx) ExecAndCommit(query string, args []any) (int64, error) { return t.Exec(query, args) }

// DeferBegin does nothing: there is no message to save.
func (*tx) DeferBegin() (deferred bool, begin func()) { return false, func() {} }

func (*tx) SingleWriter() bool { return true }

// Serializable is true: no other transaction writes.
func (*tx) Serializable() bool { return true }

// AliveSQL returns a condition that no owner meets: only the locks show which are alive.
func (*tx) AliveSQL(string) string { return "0 = 1" }

// HoldsSQL returns "": SQLite does not have the clock of leases.
func (*tx) HoldsSQL() string { return "" }

// nested runs fn with the session's own connection as the pool that goose wants. goose begins and
// commits a transaction for each migration; here each is a savepoint of the session's transaction,
// so that all of them take effect together or not at all. ctx interrupts the statements that run in it.
func (s *session) nested(ctx context.Context, fn func(*sql.DB) error) error {
	return s.conn.Raw(func(raw any) (err error) {
		c, ok := raw.(nestable)
		if !ok {
			return fmt.Errorf("the driver's connection is a %T, which can't be shared", raw)
		}
		pool := engine.PoolOf(nestedConn{nestable: c, ctx: ctx})
		defer func() {
			if closed := pool.Close(); err == nil {
				err = closed
			}
		}()
		return fn(pool)
	})
}

// nestable is the interface of the driver's connections.
type nestable interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

// A nestedConn is a connection that stays its caller's. Its statements get the context of the
// migration and not that of database/sql, which would roll back on a goroutine of its own when
// the context ends.
type nestedConn struct {
	nestable
	ctx context.Context
}

var (
	_ driver.ConnBeginTx = nestedConn{}
	_ driver.Tx          = nestedTx{}
)

func (c nestedConn) Close() error { return nil }

func (c nestedConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result,
	error,
) {
	return c.nestable.ExecContext(c.ctx, query, args)
}

func (c nestedConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows,
	error,
) {
	return c.nestable.QueryContext(c.ctx, query, args)
}

func (c nestedConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	_, err := c.nestable.ExecContext(background, "SAVEPOINT migration", nil)
	return nestedTx{c.nestable}, err
}

type nestedTx struct{ conn nestable }

func (t nestedTx) Commit() error {
	_, err := t.conn.ExecContext(background, "RELEASE migration", nil)
	return err
}

func (t nestedTx) Rollback() error {
	_, err := t.conn.ExecContext(background, "ROLLBACK TO migration; RELEASE migration", nil)
	return err
}
