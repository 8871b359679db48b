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

	"selvedge/db/internal/engine"
)

// Rx is a read transaction: one snapshot of the file. It is valid inside the function that got it:
// what goroutines ask that it left behind is ErrInvalid. Goroutines may share it while the function
// runs; their statements run one at a time.
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

// errEnded is what a transaction answers that is used after its function returned.
var errEnded = fmt.Errorf("%w: the transaction has ended", ErrInvalid)

func (rx *Rx) begin(c *call, x engine.Rx, writes bool) {
	now := c.db.now()
	rx.mu.Lock()
	defer rx.mu.Unlock()
	rx.db, rx.call, rx.now, rx.writes = c.db, c, now, writes
	rx.engine, rx.boot, rx.open = x, BootTime{}, true
}

// end waits for a statement under way, and lets no other through: the connection is somebody else's
// from here on.
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

// ReadBootTime reads that clock anew, for who has waited for a row since: what nobody but this
// transaction can change any more is judged by it. BootTime is the same from here on.
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
// which no list sorts.
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

// Find is Get for a row that may be missing: it reports whether there was one. Where there was
// none, a struct is zero.
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

// Foresee says that the transaction is about to ask a question. On a server it is asked with the
// next statement, together with all others that are foreseen, and its answer is kept for the first
// Get, Find or Select of the same statement and arguments. Exec drops all answers. Who foresees a
// question knows that what was queued meanwhile does not change its answer.
func (rx *Rx) Foresee(query string, args ...any) error {
	if err := rx.run(args); err != nil {
		return err
	}
	defer rx.leave()
	return rx.engine.Foresee(query, args)
}

// Foresees is false where Exec dropped what was foreseen, so that who goes on may foresee it again.
// In a file it is true.
func (rx *Rx) Foresees() bool {
	if rx.enter() != nil {
		return true
	}
	defer rx.leave()
	return rx.engine.Foresees()
}

// Query reads rows one by one. The rows are closed when the loop over them ends, however it ends;
// each is valid until the next one comes. An error ends them.
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

// Each is Query for rows that are structs with db tags: it gives what one makes of each row. An
// error ends them.
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

// QueryContext is Query for statements that people write: it is not kept prepared, it is
// interrupted when ctx ends, and its columns can be asked for before the first row.
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

// Rows are the rows of QueryContext. They are closed at the end of All, or else with the transaction.
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

// next reports whether there is one more row, and where there is none, why.
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

// A Row is one row of a query, valid until the next one comes.
type Row Rows

// Scan reads the row's columns in their order.
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

// Exec changes rows and gives their number.
func (tx *Tx) Exec(query string, args ...any) (int64, error) {
	if err := tx.run(args); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.Exec(query, args)
}

// Lock locks the rows that the query names, until the transaction ends: whoever changes what
// belongs to a row locks it first, or changes it. What is read behind it in WriteLocked is what was
// committed last. The query names rows of one table and has no FOR of its own; several are locked
// in the order in which they come. In a file there is one writer, and nothing to do.
func (tx *Tx) Lock(query string, args ...any) error {
	if err := tx.run(args); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Lock(query, args)
}

// Hold keeps the rows that the query names from being removed, until the transaction ends: who
// holds something by a row does its work behind it. Others may change the row meanwhile where that
// leaves its keys, as a renewal does. The query is as for Lock.
func (tx *Tx) Hold(query string, args ...any) error {
	if err := tx.run(args); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Hold(query, args)
}

// LockName keeps others who lock the same name of a table waiting, until the transaction ends: for
// who looks whether a row is there, and adds it where it isn't, when there is none to lock yet.
// What is read behind it is as for Lock. In a file there is nothing to do.
func (tx *Tx) LockName(table, name string) error {
	if err := tx.enter(); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.LockName(table, name)
}

// mostReplaced is how often a row that is waited for may be gone when its turn comes, and another
// be there in its place, before it is taken for one that can be read and never locked.
const mostReplaced = 100

// FindLocked is Find for a row of one table that is locked as by Lock: it is given as it was
// committed last, and stays so. A row that took the place of another one while that was waited for
// is found too. One that a policy of the server's lets this user read and not change is ErrInvalid.
// The query is as for Lock.
func (tx *Tx) FindLocked(dest any, query string, args ...any) (bool, error) {
	for range mostReplaced {
		found, err := tx.FindToAdd(dest, query, args...)
		if found || err != nil || tx.Alone() {
			return found, err
		}
		// What was waited for may be gone, and what took its place came after the query began.
		if found, err := tx.Find(dest, query, args...); !found || err != nil {
			return false, err
		}
	}
	return false, Invalid("let the user change what it may read: see the policies for row security of "+
		"the table", "a row is there that can't be locked")
}

// FindToAdd is FindLocked for who adds the row where it finds none: then a unique key says that
// there was one after all, and the function runs again.
func (tx *Tx) FindToAdd(dest any, query string, args ...any) (bool, error) {
	return tx.Find(dest, query+tx.engine.Locking(), args...)
}

// Queue is Exec for a change whose number of rows nobody asks for. On a server it may go with the
// next statement, or with the commit, in place of a message of its own; where it fails, the next
// statement or the commit says so. So it is for what does not fail by what the caller did.
func (tx *Tx) Queue(query string, args ...any) error {
	if err := tx.run(args); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Queue(query, args)
}

// Number gives the number that a new row of a table has to have as its key, for a table that
// numbers its rows. Of several the one that is asked for later is higher. A number that is not used
// is given to nobody else on a server.
func (tx *Tx) Number(table string) (int64, error) {
	if err := tx.enter(); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.Number(table)
}

// Expect says for how many more rows of a table Number is about to be called: on a server they are
// numbered together.
func (tx *Tx) Expect(table string, rows int) {
	if rows > 0 && tx.enter() == nil {
		defer tx.leave()
		tx.engine.Expect(table, rows)
	}
}

// Finish is Exec for the only change of a transaction, and the last thing that its function does
// where a row was changed: on a server it goes with the commit of a WriteLocked, and stays done
// though the function then returns an error. Where no row was, the function may go on, as a new
// transaction: what it had locked it locks again.
func (tx *Tx) Finish(query string, args ...any) (int64, error) {
	if err := tx.run(args); err != nil {
		return 0, err
	}
	defer tx.leave()
	return tx.engine.Finish(query, args)
}

// Savepoint runs fn inside a savepoint: when fn fails, what it did is undone and what the
// transaction did before it stays. It returns fn's error. What other goroutines write through tx
// while fn runs goes with it; where one of them has a savepoint of its own open when fn returns, or
// fn still runs when the transaction's function has returned, the whole transaction is undone and
// ErrInvalid.
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

// Analyze has a server look at what its tables hold that have grown much since it did, as who
// brings very many rows asks for in the end: the server does so by itself within a minute or so,
// and until then a page of a list may cost as much as the whole list. A file needs none.
func (tx *Tx) Analyze() error {
	if err := tx.enter(); err != nil {
		return err
	}
	defer tx.leave()
	return tx.engine.Analyze()
}

// AfterCommit has fn run once the transaction is committed, before Write returns; not when it is
// undone. fn must be short and must not use the database (an error at once). When fn panics or
// leaves by runtime.Goexit, so does this Write, and no other: the commit stays done, the other
// functions given here still run, and the *Panic says Committed.
func (tx *Tx) AfterCommit(fn func()) {
	if tx.enter() == nil { // what has ended has nothing more to commit
		defer tx.leave()
		tx.engine.OnCommit(fn)
	}
}

// Alone reports whether no other transaction writes while this one does, so that one statement may
// read what is last and write what comes next. Where it isn't, those are two statements, and
// db.Write runs the transaction again when it met another.
func (tx *Tx) Alone() bool { return tx.engine.Alone() }

// Lives gives a condition in SQL that is true where the owner whose number a column holds is known
// to live: of a server, which keeps who does. In a file it is true of none, and OwnerAlive asks.
func (tx *Tx) Lives(column string) string { return tx.engine.Lives(column) }

// OneMachine reports whether all programs that use the database run on this machine: then a pid is
// one of this machine's, and another start of a machine is an earlier one of it. Of a server
// neither is so, unless its address says selvedge.hosts=one.
func (rx *Rx) OneMachine() bool { return rx.db.engine.OneMachine() }

// Owner gives the number under which this process owns claims in the file; its row and its lock are
// made at the first call.
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

// OwnerAlive reports whether the process with this number still runs, or may: a stopped process is
// alive, and so is one that can't be asked. OwnerLife tells them apart.
func (rx *Rx) OwnerAlive(id int64) (bool, error) {
	life, err := rx.OwnerLife(id)
	return life != LifeDead, err
}

// Life is what can be said about whether a process still runs.
type Life = engine.Life

// The answers. Only LifeDead lets anybody take what the process holds.
const (
	LifeUnknown = engine.LifeUnknown // it can't be asked
	LifeAlive   = engine.LifeAlive   // it runs, or is stopped
	LifeDead    = engine.LifeDead    // it is gone, for ever
)

// OwnerLife says whether the process with this number still runs.
func (rx *Rx) OwnerLife(id int64) (Life, error) {
	if err := rx.enter(); err != nil {
		return LifeUnknown, err
	}
	defer rx.leave()
	return rx.engine.Life(id)
}

// ForgetDeadOwners deletes the rows of processes that are gone and that nothing refers to any more.
// A call looks at 256 rows at most, so that it does not keep the writer, and the next one goes on
// behind them. The first of a handle begins anywhere, so that programs that live for one call come
// to all of them. DB.ForgetDeadOwners looks at all.
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

// ForgetDeadOwners deletes the rows of all processes that are gone and that nothing refers to any
// more, in as many transactions as that takes.
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

// Of reports, as ErrInvalid, that the transaction is one of another file than d. A store asks it of
// the transactions that it is given: numbers of rows mean other things there.
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
