package postgres

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// rx is a read transaction on one connection.
type rx struct {
	engine  *Engine
	session *session
	open    []*rows // not closed yet

	// dead is why the transaction accepts no more statements: its connection is lost, or it lost
	// a race. mayPass reports that a retry may succeed.
	dead    error
	mayPass bool
	// failed is the error of a statement, after which the server accepts nothing until a
	// savepoint that was open then is undone.
	failed      error
	failedDepth int

	engine.Savepoints // of a write

	// how long the commit took, of a write that committed with its last statement; 0 before that
	finished time.Duration

	met *trouble // of a write: what the call has met so far

	// Of a read.
	ctx context.Context // nil in a write
}

// tx is a write transaction.
type tx struct {
	rx
	number  int64   // of this process when the transaction began: its row is in the snapshot
	numbers numbers // of rows that are about to be made
	locks   bool    // the function locks what it reads: the transaction is not serialisable
	unlatch func()  // releases the latch of the rows that it locks first; nil if it has none
}

var (
	_ engine.Rx = (*rx)(nil)
	_ engine.Tx = (*tx)(nil)
)

func (x *rx) usable() error {
	switch {
	case x.dead != nil:
		return x.dead
	case x.ctx != nil && x.ctx.Err() != nil:
		return x.interrupted()
	case x.failed != nil:
		return x.afterFailed()
	case x.finished > 0:
		return errFinished
	}
	return nil
}

var errFinished = fmt.Errorf("%w: Tx.ExecAndCommit was the last statement of the transaction",
	engine.ErrInvalid)

func (x *rx) afterFailed() error {
	return fmt.Errorf("a statement failed before, so the transaction takes no more (use Tx.Savepoint around "+
		"what may fail): %w", x.failed)
}

// interrupted is the error of a read that was ended.
func (x *rx) interrupted() error { return &interruption{context.Cause(x.ctx)} }

// after examines, when a statement failed, the state of the transaction.
func (x *rx) after(err error) error {
	if err == nil || err == engine.ErrNotFound { //nolint:errorlint // the engine returns it unwrapped
		return err
	}
	if x.ctx != nil && x.ctx.Err() != nil {
		err = x.interrupted()
	} else {
		err = failure(err)
	}
	conn, depth := x.session.wire.conn, x.Depth
	if state(err) == "25P02" { // rows that were read into memory for the statement have failed
		for _, r := range x.open {
			if first := r.Rows.Err(); state(first) != "" {
				err, depth = failure(first), r.depth
				break
			}
		}
	}
	if isStale(err) {
		_ = x.session.wire.Close() // it would refuse that statement from now on
	}
	switch {
	case x.dead != nil:
		return x.dead
	case isLost(err) || isBeaten(err) || isStale(err) || x.met != nil && x.met.passing(err, x.mostContested()):
		x.dead, x.mayPass = err, true
	case conn.IsClosed():
		x.dead = err
	case x.failed == nil && !conn.IsBusy() &&
		(conn.TxStatus() == 'E' || conn.TxStatus() == 'I' && state(err) != ""):
		x.failed, x.failedDepth = err, depth
	}
	return err
}

func (x *rx) mostContested() int {
	if x.Depth > 0 {
		return 1
	}
	return mostContested
}

func (x *rx) Get(dest any, query string, args []any) error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.after(x.session.get(dest, query, args...))
}

func (x *rx) Select(dest any, query string, args []any) error {
	if err := x.usable(); err != nil {
		return err
	}
	return x.after(x.session.all(dest, query, args...))
}

func (x *rx) Query(query string, args []any) (engine.Rows, error) {
	if err := x.usable(); err != nil {
		return nil, err
	}
	found, err := x.session.found(query, args)
	if err != nil {
		return nil, x.after(err)
	}
	r := &rows{Rows: found, rx: x, query: query, depth: x.Depth}
	x.open = append(x.open, r)
	return r, nil
}

// QueryContext is Query for a statement that ends with ctx. Ending it ends the connection, and with
// it the transaction.
func (x *rx) QueryContext(ctx context.Context, query string, args []any) (got engine.Rows, err error) {
	wire := x.session.wire
	before := wire.ctx
	merged, cancel := context.WithCancelCause(before)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	release := func() {
		stop()
		cancel(nil)
		wire.mayDial(x.ctx != nil)
	}
	defer func() {
		if wire.ctx = before; got == nil { // a driver.Valuer may have panicked
			release()
		}
	}()
	wire.ctx = merged
	wire.mayDial(true)
	found, err := x.Query(query, args)
	if err != nil {
		if ctx.Err() != nil {
			err = &interruption{context.Cause(ctx)}
		}
		return nil, err
	}
	r := found.(*rows)
	r.ctx, r.release = ctx, release
	return r, nil
}

// close closes the rows that are still open, and reports them.
func (x *rx) close() error {
	if len(x.open) == 0 {
		return nil
	}
	left := x.open[0].query
	for len(x.open) > 0 {
		_ = x.open[0].Close() // removes itself from open
	}
	return fmt.Errorf("%w: %s", errLeftOpen, left)
}

// rows belong to the transaction that reads them.
type rows struct {
	scan.Rows
	rx      *rx
	query   string
	depth   int             // of the savepoints when the query ran
	ctx     context.Context // of QueryContext
	release func()
	closed  bool
}

var _ engine.Rows = (*rows)(nil)

// Err returns the error that ended the rows early.
func (r *rows) Err() error { return r.ended(r.Rows.Err()) }

// ended replaces the error by the end of QueryContext's context, if that is what ended the rows.
func (r *rows) ended(err error) error {
	err = r.rx.after(err)
	if err != nil && r.ctx != nil && r.ctx.Err() != nil {
		return &interruption{context.Cause(r.ctx)}
	}
	return err
}

// Close ends the query.
func (r *rows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	err := r.Rows.Close()
	r.rx.open = slices.DeleteFunc(r.rx.open, func(other *rows) bool { return other == r })
	if r.release != nil {
		r.release()
	}
	return r.ended(err)
}

// LockRows makes the transaction READ COMMITTED, unless it has begun, as one that runs alone or in
// the queue has.
func (t *tx) LockRows() {
	if wire := t.session.wire; wire.unbegun() {
		t.locks, wire.ahead = true, []bound{control(sqlBeginLocked)}
	}
}

// DeferBegin leaves BEGIN for later, in a transaction that locks what it reads and has sent nothing. A number
// that its queries draw is committed with them.
func (t *tx) DeferBegin() (deferred bool, begin func()) {
	wire := t.session.wire
	if !t.locks || !wire.unbegun() || len(wire.ahead) != 1 || t.usable() != nil {
		return false, func() {}
	}
	ahead := wire.ahead
	wire.ahead = nil
	begin = func() { wire.ahead, wire.changed = ahead, false }
	return true, sync.OnceFunc(begin)
}

// Lock locks the rows that a query names before the next statement, which then sees what was
// committed to them before. FOR NO KEY UPDATE is the lock of an UPDATE that does not change the
// key.
func (t *tx) Lock(query string, args []any) error {
	if locked, err := t.latch(query, args); locked || err != nil {
		return err
	}
	return t.Queue(query+forChange, args)
}

// Take is Lock with the lock of a DELETE.
func (t *tx) Take(query string, args []any) error {
	if _, err := t.latch(query, args); err != nil {
		return err
	}
	return t.Queue(query+" FOR UPDATE", args)
}

const (
	forChange  = " FOR NO KEY UPDATE"
	skipLocked = " SKIP LOCKED"
)

// Hold protects rows from deletion, before the next statement. FOR KEY SHARE lets others change
// columns that are not in a key.
func (t *tx) Hold(query string, args []any) error { return t.Queue(query+" FOR KEY SHARE", args) }

// LockName takes one of the table's advisory locks until the transaction ends. A table has as
// many as one transaction can hold on any server, so two names may share one. It locks the table
// first, as a row lock does, so a transaction that runs alone never waits for an advisory lock.
func (t *tx) LockName(table, name string) error { return t.name("pg_advisory_xact_lock", table, name) }

// HoldName takes the same lock, shared.
func (t *tx) HoldName(table, name string) error {
	return t.name("pg_advisory_xact_lock_shared", table, name)
}

func (t *tx) name(lock, table, name string) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.control("LOCK TABLE " + table + " IN ROW SHARE MODE"); err != nil {
		return err
	}
	ofName := crc32.ChecksumIEEE([]byte(name))
	return t.Queue("SELECT "+lock+"(CAST(CAST('"+table+"' AS REGCLASS) AS OID)::INTEGER, ?)",
		[]any{int64(ofName % namesLocked)})
}

// namesLocked is how many advisory locks a table has: max_locks_per_transaction for each connection is 64.
const namesLocked = 1024

// Locking makes a query lock the rows that it returns. It returns them as they are once it has
// the lock, even if they were changed while it waited.
func (t *tx) Locking(query string, args []any, free bool) string {
	if free {
		return query + forChange + skipLocked
	}
	_, _ = t.latch(query, args) // the query reports what failed
	return query + forChange
}

// InOrder returns the order of the indexes, so that only rows with the same beginning are sorted.
func (*rx) InOrder(column string) string { return engine.Start(column) + ", " + column }

// Queue is Exec for a change whose count the caller does not need: it goes with the next statement,
// or the commit.
func (t *tx) Queue(query string, args []any) error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.after(t.session.wire.queue(background, query, args))
}

// ExecAndCommit is Exec for the only change of the transaction, which is also its last statement:
// it goes with the commit if the transaction locks what it reads. If it changed nothing, the
// transaction continues as a new one.
func (t *tx) ExecAndCommit(query string, args []any) (int64, error) {
	wire := t.session.wire
	if !t.locks || wire.changed || t.Depth > 0 {
		return t.Exec(query, args)
	}
	if err := t.usable(); err != nil {
		return 0, err
	}
	if err := t.close(); err != nil {
		return 0, err
	}
	began := time.Now()
	n, again, err := t.engine.commit(t.session, &change{query, args})
	switch {
	case err != nil:
		t.dead, t.mayPass = err, t.worthAgain(again) != nil
		return 0, err
	case n == 0:
		return 0, t.begin(background, beside)
	}
	t.finished = max(time.Since(began), 1)
	return n, nil
}

// Exec changes rows and returns their number.
func (t *tx) Exec(query string, args []any) (int64, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	n, err := t.session.exec(query, args...)
	return n, t.after(err)
}

// A savepoint is one of a transaction's.
type savepoint struct {
	tx *tx
	engine.Mark
}

// Savepoint begins a part that can be undone by itself.
func (t *tx) Savepoint() (engine.Savepoint, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	s := &savepoint{t, t.Mark()}
	if err := t.control("SAVEPOINT " + s.Name()); err != nil {
		return nil, err
	}
	t.Opened(s.Mark)
	return s, nil
}

// control queues a text of ours before the next statement. Queued changes are sent first, so that
// a failing one fails in the savepoint that it belongs to.
func (t *tx) control(text string) error {
	wire := t.session.wire
	if slices.ContainsFunc(wire.ahead, func(b bound) bool { return b.prepared != nil && b.changes }) {
		if err := t.after(wire.flush(background)); err != nil {
			return err
		}
	}
	wire.ahead = append(wire.ahead, control(text))
	return nil
}

// end marks the savepoint as ended; Release and RollBack call it first.
func (s *savepoint) end() {
	if err := s.tx.Ended(s.Mark); s.tx.dead == nil {
		s.tx.dead = err
	}
}

// Release keeps the changes since the savepoint. After a failed statement whose error the caller
// ignored there are none to keep.
func (s *savepoint) Release() error {
	t := s.tx
	if t.dead == nil && t.failed != nil {
		err := t.afterFailed()
		_ = s.RollBack()
		return err
	}
	s.end()
	if t.dead != nil {
		return t.dead
	}
	return t.control("RELEASE " + s.Name())
}

// RollBack undoes the changes since the savepoint.
func (s *savepoint) RollBack() error {
	t := s.tx
	if s.end(); t.dead != nil {
		return nil //nolint:nilerr // all of the transaction is about to be undone
	}
	t.Undone(s.Mark)
	if t.failed != nil && s.Holds(t.failedDepth) {
		t.failed = nil
	}
	if t.failed != nil { // from before the savepoint: it was never made
		return nil //nolint:nilerr // all of the transaction is about to be undone
	}
	wire := t.session.wire
	unsent := len(wire.ahead) - 1 // the last of its name: one before it was released
	for unsent >= 0 && wire.ahead[unsent].text != "SAVEPOINT "+s.Name() {
		unsent--
	}
	if unsent >= 0 {
		wire.ahead = wire.ahead[:unsent]
		return nil
	}
	wire.ahead = nil // all of it is within the savepoint
	_, err := wire.simple(background, "ROLLBACK TO "+s.Name()+"; RELEASE "+s.Name())
	if err := t.after(err); err != nil {
		if t.dead == nil {
			t.dead = fmt.Errorf("undo a savepoint: %w", err) // the failed part would stay
		}
		return err
	}
	return nil
}

// finish is close for a write. A savepoint whose function still runs may be half done, and after
// a failed statement there is nothing to commit.
func (t *tx) finish() error {
	err := t.close()
	switch {
	case t.dead != nil || err != nil:
		return err
	case t.Depth == 0 && t.failed != nil:
		return t.afterFailed()
	}
	return t.StillOpen()
}

// SingleWriter returns false: others write at the same time.
func (*tx) SingleWriter() bool { return false }

// Serializable reports whether the server checks what the transaction reads.
func (t *tx) Serializable() bool { return !t.locks }

// AliveSQL compares the owner's time in owner_beats with the server's clock.
func (*tx) AliveSQL(column string) string {
	return "EXISTS (SELECT 1 FROM owner_beats WHERE owner = " + column + " AND until > server_nanos())"
}

// HoldsSQL compares the times of the lease and of its owner with the server's clock.
func (t *tx) HoldsSQL() string { return "lease_until > server_nanos() AND " + t.AliveSQL("owner_id") }
