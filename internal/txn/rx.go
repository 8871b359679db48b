package txn

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

// A Handle is what all transactions of an open database share.
type Handle struct {
	Engine   engine.Engine
	Path     string // of the file; ":memory:" names no file
	ReadOnly bool
	Now      func() time.Time
	BootTime func() BootTime // the clock of leases

	// Callbacks are the callers' functions that are running.
	Callbacks callback.Callbacks

	Pruned atomic.Int64 // bytes that Prune of all stores removed, about

	scopes         sync.Map     // name -> id, of committed rows
	ownersLookedAt atomic.Int64 // the last owner that Tx.ForgetDeadOwners has examined

	mu        sync.Mutex
	followers Followers
}

// OnServer reports whether the path of a database is a server's address.
func OnServer(path string) bool { return engine.IsAddress(path) }

// Ready returns nil if a call may be made: the database is open, and the caller is not inside a
// function given to a call.
func (h *Handle) Ready() error {
	switch {
	case h.Engine == nil:
		return &engine.Failure{
			Kind: engine.ErrClosed, Hint: "use the *DB that Open returned",
			Err: errors.New("it was never opened"),
		}
	case h.Callbacks.Inside(), callback.Outside.Inside():
		return Invalid("use the transaction that the function was given, or make the call after it",
			"a call from inside a function that was given to a call, or to Options, may wait for itself")
	}
	return nil
}

// Followers are the followers of a handle: package stores makes them at their first use.
type Followers interface {
	// Count returns the number of followers, how many of those inside their loops have something left
	// to read, and how long the furthest behind has had that.
	Count() (followers, catchingUp int, longest time.Duration)
}

// Followers returns the followers of the handle, which first makes. With nil, it returns nil where
// there were none yet.
func (h *Handle) Followers(first func() Followers) Followers {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers == nil && first != nil {
		h.followers = first()
	}
	return h.followers
}

// Rx is a read transaction. Goroutines may share it while its function runs; their statements run
// one at a time. Later use is ErrInvalid.
type Rx struct {
	in     *Handle
	now    time.Time
	writes bool

	mu     sync.Mutex // held while the engine is in use: its transactions are for one goroutine
	engine engine.Rx
	boot   BootTime // read at its first use
	open   bool
}

// errEnded is the error of a transaction that is used after its function returned.
var errEnded = fmt.Errorf("%w: the transaction has ended", engine.ErrInvalid)

// Begin opens the transaction for its function.
func (rx *Rx) Begin(in *Handle, x engine.Rx) {
	now := in.Now().UTC()
	rx.mu.Lock()
	defer rx.mu.Unlock()
	rx.in, rx.now, rx.engine, rx.open = in, now, x, true
}

// End waits for the statement in progress and admits no other: the connection goes to the next
// caller.
func (rx *Rx) End() {
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

// do runs a statement with these arguments, which uses the engine.
func (rx *Rx) do(args []any, statement func() error) error {
	for i, arg := range args {
		switch arg.(type) {
		case nil, int64, string, []byte, int, bool, float64: // the usual ones
		default:
			if isTime(arg) {
				return fmt.Errorf("%w: argument %d is a time.Time; tables keep Unix nanoseconds: give db.Nanos(t)",
					engine.ErrInvalid, i+1)
			}
		}
	}
	if err := rx.enter(); err != nil {
		return err
	}
	defer rx.leave()
	return statement()
}

// ask is do for a statement with an answer.
func ask[T any](rx *Rx, args []any, statement func() (T, error)) (answer T, err error) {
	err = rx.do(args, func() (err error) {
		answer, err = statement()
		return err
	})
	return answer, err
}

// Get reads one row into dest, a struct with db tags or a scalar. No row is engine.ErrNotFound.
func (rx *Rx) Get(dest any, query string, args ...any) error {
	return rx.do(args, func() error { return rx.engine.Get(dest, query, args) })
}

// Find is Get for a row that may be missing: it reports whether there was one. If there was none, a
// struct is zero.
func (rx *Rx) Find(dest any, query string, args ...any) (bool, error) {
	err := rx.Get(dest, query, args...)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Select reads all rows into dest, a pointer to a slice of structs with db tags or of scalars.
func (rx *Rx) Select(dest any, query string, args ...any) error {
	return rx.do(args, func() error { return rx.engine.Select(dest, query, args) })
}

// Prefetch prefetches a query. On a server the query is sent with the next statement, together with
// all others that were prefetched, and its answer is kept for the first Get, Find or Select of the
// same statement and arguments. Exec drops all answers. The caller must know that statements queued
// meanwhile don't change the answer.
func (rx *Rx) Prefetch(query string, args ...any) error {
	return rx.do(args, func() error { return rx.engine.Prefetch(query, args) })
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

// Of returns ErrInvalid if the transaction is one of another file, where row numbers mean other
// things. A store checks the transactions that it is given.
func (rx *Rx) Of(store *Handle) error {
	if rx.in == store || rx.in.Path == store.Path && store.Path != Memory {
		return nil
	}
	return Invalid("give the store a transaction of the file that it was made for",
		"the transaction is of another file, %s; the store's is %s", rx.in.Path, store.Path)
}

// Memory is the path of a database in memory: the same code on a single connection, gone at Close.
const Memory = ":memory:"
