package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync"
	"time"

	"selvedge/internal/engine"
)

// Rx is a read transaction: one snapshot of the file. It is valid inside the function that received
// it; later use, by goroutines that the function left behind, is ErrInvalid. Goroutines may share
// it while the function runs; their statements run one at a time.
type Rx struct {
	db     *DB
	call   *call
	now    time.Time
	writes bool

	mu     sync.Mutex // held while the engine is in use: its transactions are for one goroutine
	engine engine.Rx
	boot   BootTime // read at its first use
	open   bool
}

// Tx is a write transaction. Everything done through it is committed together, or not at all.
type Tx struct {
	Rx
	engine engine.Tx
}

// errEnded is the error of a transaction that is used after its function returned.
var errEnded = fmt.Errorf("%w: the transaction has ended", ErrInvalid)

func (rx *Rx) begin(c *call, x engine.Rx, writes bool) {
	now := c.db.now()
	rx.mu.Lock()
	defer rx.mu.Unlock()
	rx.db, rx.call, rx.now, rx.writes = c.db, c, now, writes
	rx.engine, rx.boot, rx.open = x, BootTime{}, true
}

// end waits for the statement in progress and admits no other: the connection goes to the next
// caller.
func (rx *Rx) end() {
	rx.mu.Lock()
	defer rx.mu.Unlock()
	rx.open = false
}

// enter takes the engine for one statement, until leave.
func (rx *Rx) enter() error {
	rx.mu.Lock()
	if !rx.open {
		rx.mu.Unlock()
		return errEnded
	}
	return nil
}

func (rx *Rx) leave() { rx.mu.Unlock() }

// Now is the time of this transaction, in UTC, the same at every call.
func (rx *Rx) Now() time.Time { return rx.now }

// BootTime is the time of this transaction on the clock that leases run on, the same at every call.
func (rx *Rx) BootTime() BootTime {
	rx.mu.Lock()
	now := rx.boot
	rx.mu.Unlock()
	if now != (BootTime{}) {
		return now
	}
	now = rx.db.options.BootTime() // without the lock: the clock is the user's
	rx.mu.Lock()
	defer rx.mu.Unlock()
	if rx.boot == (BootTime{}) {
		rx.boot = now
	}
	return rx.boot
}

// ReadBootTime reads the clock again. Call it after waiting for a row lock, before judging a lease.
// BootTime returns the same value from then on.
func (tx *Tx) ReadBootTime() BootTime {
	tx.mu.Lock()
	tx.boot = BootTime{}
	tx.mu.Unlock()
	return tx.BootTime()
}

// run is enter for a statement with arguments.
func (rx *Rx) run(args []any) error {
	for i, arg := range args {
		switch arg.(type) {
		case nil, int64, string, []byte, int, bool, float64: // the usual ones
		default:
			if isTime(arg) {
				return fmt.Errorf("%w: argument %d is a time.Time; tables keep Unix nanoseconds: give db.Nanos(t)",
					ErrInvalid, i+1)
			}
		}
	}
	return rx.enter()
}

// isTime looks where a driver would look for a value. Drivers write a time as a text of their own,
// which does not sort.
func isTime(arg any) bool {
	for {
		switch a := arg.(type) {
		case time.Time, *time.Time:
			return true
		case sql.NamedArg:
			arg = a.Value
			continue
		case driver.Valuer:
			v := reflect.ValueOf(a)
			if v.Kind() == reflect.Pointer && v.IsNil() {
				return false
			}
			value, err := a.Value()
			if err != nil {
				return false // the driver says it
			}
			_, ok := value.(time.Time)
			return ok
		}
		v := reflect.ValueOf(arg)
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return false
		}
		arg = v.Elem().Interface()
	}
}

// Get reads one row into dest, a struct with db tags or a scalar. No row is ErrNotFound.
func (rx *Rx) Get(dest any, query string, args ...any) error {
	if err := rx.run(args); err != nil {
		return err
	}
	defer rx.leave()
	return rx.engine.Get(dest, query, args)
}

// Find is Get for a row that may be missing: it reports whether there was one. If there was none, a
// struct is zero.
func (rx *Rx) Find(dest any, query string, args ...any) (bool, error) {
	err := rx.Get(dest, query, args...)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Select reads all rows into dest, a pointer to a slice of structs with db tags or of scalars.
func (rx *Rx) Select(dest any, query string, args ...any) error {
	if err := rx.run(args); err != nil {
		return err
	}
	defer rx.leave()
	return rx.engine.Select(dest, query, args)
}

// Prefetch prefetches a query. On a server the query is sent with the next statement, together with
// all others that were prefetched, and its answer is kept for the first Get, Find or Select of the
// same statement and arguments. Exec drops all answers. The caller must know that statements queued
// meanwhile don't change the answer.
func (rx *Rx) Prefetch(query string, args ...any) error {
	if err := rx.run(args); err != nil {
		return err
	}
	defer rx.leave()
	return rx.engine.Prefetch(query, args)
}

// Prefetches is false if Exec dropped prefetched answers, so that the caller may prefetch again. In a
// file it is true.
func (rx *Rx) Prefetches() bool {
	if rx.enter() != nil {
		return true
	}
	defer rx.leave()
	return rx.engine.Prefetches()
}

// Query reads rows one by one. The rows are closed when the loop over them ends, in whatever way;
// each row is valid until the next one. An error ends the loop.
func (rx *Rx) Query(query string, args ...any) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		rows, err := rx.query(query, args)
		if err != nil {
			yield(nil, err)
			return
		}
		each(rows, yield)
	}
}

// Each is Query for rows that are structs with db tags: it returns what one makes of each row. An
// error ends the loop.
func Each[R, T any](rx *Rx, one func(*R) (T, error), query string, args ...any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rx.Query(query, args...) {
			var r R
			var made T
			if err == nil {
				err = row.ScanStruct(&r)
			}
			if err == nil {
				made, err = one(&r)
			}
			if !yield(made, err) || err != nil {
				return
			}
		}
	}
}

// QueryContext is Query for statements that people write: the statement is not kept prepared, it is
// interrupted when ctx ends, and its columns are known before the first row.
func (rx *Rx) QueryContext(ctx context.Context, query string, args ...any) (*Rows, error) {
	if err := rx.run(args); err != nil {
		return nil, err
	}
	defer rx.leave()
	rows, err := rx.engine.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &Rows{rx, rows}, nil
}

func (rx *Rx) query(query string, args []any) (*Rows, error) {
	if err := rx.run(args); err != nil {
		return nil, err
	}
	defer rx.leave()
	rows, err := rx.engine.Query(query, args)
	return &Rows{rx, rows}, err
}

// Rows are the rows of QueryContext. They are closed at the end of All, or with the transaction.
type Rows struct {
	rx   *Rx
	rows engine.Rows
}

// Columns are the names of the columns.
func (r *Rows) Columns() ([]string, error) {
	if err := r.rx.enter(); err != nil {
		return nil, err
	}
	defer r.rx.leave()
	return r.rows.Columns()
}

// All reads the rows once, one by one, as Query does.
func (r *Rows) All() iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) { each(r, yield) }
}

func each(r *Rows, yield func(*Row, error) bool) {
	defer r.close()
	row := (*Row)(r)
	for {
		there, err := r.next()
		switch {
		case err != nil:
			yield(nil, err)
			return
		case !there || !yield(row, nil):
			return
		}
	}
}

// next reports whether there is another row, and why not.
func (r *Rows) next() (bool, error) {
	if err := r.rx.enter(); err != nil {
		return false, err
	}
	defer r.rx.leave()
	if r.rows.Next() {
		return true, nil
	}
	return false, r.rows.Err()
}

func (r *Rows) close() {
	if r.rx.enter() == nil { // the engine closes what is open at the end
		defer r.rx.leave()
		_ = r.rows.Close() // what went wrong is in Err
	}
}

// A Row is one row of a query, valid until the next one.
type Row Rows

// Scan reads the row's columns in order.
func (r *Row) Scan(dest ...any) error {
	if err := r.rx.enter(); err != nil {
		return err
	}
	defer r.rx.leave()
	return r.rows.Scan(dest...)
}

// ScanStruct reads the row into a struct with db tags.
func (r *Row) ScanStruct(dest any) error {
	if err := r.rx.enter(); err != nil {
		return err
	}
	defer r.rx.leave()
	return r.rows.ScanStruct(dest)
}

// Exec changes rows and returns their number.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	if err := tx.run(args); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.Exec(query, args)
}

// Lock locks the rows that the query selects, until the transaction ends. A transaction that
// changes what belongs to a row locks the row first, or changes it. What is read after Lock in
// WriteLocked is the latest committed state. The query selects rows of one table, without a FOR
// clause; rows are locked in the order of the result. In a file there is one writer, and Lock does
// nothing.
func (tx *Tx) Lock(query string, args ...any) error {
	if err := tx.run(args); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Lock(query, args)
}

// Hold keeps the rows that the query selects from being removed, until the transaction ends: the
// holder of a lease does its work after it. Others may still change a row, but not its keys, as a
// renewal does. The query is as for Lock.
func (tx *Tx) Hold(query string, args ...any) error {
	if err := tx.run(args); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Hold(query, args)
}

// LockName excludes other transactions that lock the same name of a table, until this one ends. It
// is for check-then-insert, when there is no row to lock yet. What is read after it is as for Lock.
// In a file it does nothing.
func (tx *Tx) LockName(table, name string) error {
	if err := tx.enter(); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.LockName(table, name)
}

// mostReplaced is how often a row may be replaced while its lock is awaited, before the row counts
// as readable but not lockable.
const mostReplaced = 100

// FindLocked is Find for a row of one table, locked as by Lock: the row is the latest committed
// one, and stays so. If another row replaced it during the wait, that one is found. A row that a
// policy of the server lets this user read but not change is ErrInvalid. The query is as for Lock.
func (tx *Tx) FindLocked(dest any, query string, args ...any) (bool, error) {
	for range mostReplaced {
		found, err := tx.FindForInsert(dest, query, args...)
		if found || err != nil || tx.SingleWriter() {
			return found, err
		}
		// The row may be gone, and its replacement newer than the query.
		if found, err := tx.Find(dest, query, args...); !found || err != nil {
			return false, err
		}
	}
	return false, Invalid("let the user change what it may read: see the policies for row security of "+
		"the table", "a row is there that can't be locked")
}

// FindForInsert is FindLocked for a caller that inserts the row if there is none: if another
// transaction inserted it meanwhile, a unique key fails and the function runs again.
func (tx *Tx) FindForInsert(dest any, query string, args ...any) (bool, error) {
	return tx.Find(dest, query+tx.engine.Locking(), args...)
}

// Queue is Exec for a change whose row count does not matter. On a server it may be sent with the
// next statement, or with the commit, instead of in a message of its own; its error is then that of
// the next statement or the commit. So use it for changes that the caller's input can't make fail.
func (tx *Tx) Queue(query string, args ...any) error {
	if err := tx.run(args); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Queue(query, args)
}

// Number returns the key for a new row of a table that numbers its rows. Later calls return higher
// numbers. On a server an unused number is not given out again.
func (tx *Tx) Number(table string) (int64, error) {
	if err := tx.enter(); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.Number(table)
}

// Expect announces how many more rows of a table Number will number: a server then numbers them
// together.
func (tx *Tx) Expect(table string, rows int) {
	if rows > 0 && tx.enter() == nil {
		defer tx.leave()
		tx.engine.Expect(table, rows)
	}
}

// ExecAndCommit is Exec for the only change of a transaction, and the last statement of its function if it
// changed a row. On a server it is sent with the commit of a WriteLocked, and stays done even if
// the function then returns an error. If it changed no row, the function may continue, as in a new
// transaction: it must lock again what it had locked.
func (tx *Tx) ExecAndCommit(query string, args ...any) (int64, error) {
	if err := tx.run(args); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.ExecAndCommit(query, args)
}

// Savepoint runs fn inside a savepoint. If fn fails, its changes are undone and earlier ones stay;
// Savepoint returns fn's error. What other goroutines write through tx while fn runs belongs to the
// savepoint. If one of them has a savepoint open when fn returns, or fn still runs when the
// transaction's function has returned, the whole transaction is undone with ErrInvalid.
func (tx *Tx) Savepoint(fn func() error) error {
	inner, err := tx.savepoint()
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

func (tx *Tx) savepoint() (engine.Savepoint, error) {
	if err := tx.enter(); err != nil {
		return nil, err
	}
	defer tx.leave()
	return tx.engine.Savepoint()
}

// Analyze lets a server update the statistics of tables that have grown much, at the end of a bulk
// load. The server does that by itself within about a minute, and until then a page of a list may
// cost as much as the whole list. A file needs none.
func (tx *Tx) Analyze() error {
	if err := tx.enter(); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Analyze()
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

// SingleWriter reports whether this is the only writing transaction, so that one statement may read the
// last value and write the next. Otherwise those are two statements, and db.Write runs the
// transaction again if it conflicts with another.
func (tx *Tx) SingleWriter() bool { return tx.engine.SingleWriter() }

// AliveSQL returns an SQL condition that is true if the owner in a column is known to be alive. A
// server keeps that in a table. In a file it is always false, and OwnerAlive asks.
func (tx *Tx) AliveSQL(column string) string { return tx.engine.AliveSQL(column) }

// OneMachine reports whether all programs that use the database run on this machine, so that pids
// and boot ids of owners are this machine's. For a server that is false, unless its address says
// selvedge.hosts=one.
func (rx *Rx) OneMachine() bool { return rx.db.engine.OneMachine() }

// Owner returns the number under which this process owns claims in the file. The first call creates
// its row and its lock.
func (tx *Tx) Owner() (int64, error) {
	if err := tx.enter(); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.Owner()
}

// Owns reports whether id is this process.
func (rx *Rx) Owns(id int64) (bool, error) {
	if err := rx.enter(); err != nil {
		return false, err
	}
	defer rx.leave()
	return rx.engine.Owns(id)
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
	if err := rx.enter(); err != nil {
		return LifeUnknown, err
	}
	defer rx.leave()
	return rx.engine.Life(id)
}

// ForgetDeadOwners deletes the rows of dead processes that nothing refers to any more. A call
// examines at most 256 rows, to keep the write short, and the next one continues after them. The
// first call of a handle begins at a random row, so that short-lived programs together reach all of
// them. DB.ForgetDeadOwners examines all.
func (tx *Tx) ForgetDeadOwners() error {
	last, _, err := tx.forgetDeadOwners(tx.db.ownersLookedAt.Load())
	if err == nil {
		tx.db.ownersLookedAt.Store(last)
	}
	return err
}

func (tx *Tx) forgetDeadOwners(after int64) (last int64, more bool, err error) {
	if err := tx.enter(); err != nil {
		return 0, false, err
	}
	defer tx.leave()
	return tx.engine.ForgetDeadOwners(after)
}

// ForgetDeadOwners deletes the rows of all dead processes that nothing refers to any more, in as
// many transactions as that takes.
func (d *DB) ForgetDeadOwners(ctx context.Context) error {
	for after, more := engine.BeforeOwners, true; more; {
		last := after
		err := d.Write(ctx, "forget dead owners", func(tx *Tx) (err error) {
			last, more, err = tx.forgetDeadOwners(after)
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	return nil
}

// Of returns ErrInvalid if the transaction is one of another file than d, where row numbers mean
// other things. A store checks the transactions that it is given.
func (rx *Rx) Of(d *DB) error {
	if rx.db == d || rx.db.path == d.path && d.path != memoryPath {
		return nil
	}
	return &Error{
		Op: "use transaction", Hint: "give the store a transaction of the file that it was made for",
		Err: fmt.Errorf("%w: the transaction is of another file, %s; the store's is %s", ErrInvalid, rx.db.path,
			d.path),
	}
}
