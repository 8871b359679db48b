package db

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// Panic is the value with which Read and Write panic if their function, or one passed to
// Tx.AfterCommit, panicked. The function may have run on another goroutine, so Panic holds its
// stack.
type Panic struct {
	Value     any    // what the function panicked with
	Stack     []byte // of that goroutine
	Committed bool   // it was a function of Tx.AfterCommit: the changes of Write are committed
}

// Error returns the value and the stack.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// panicked converts a recovered value to an error with a *Panic in it.
func panicked(v any) error {
	if err, ok := v.(error); ok && isPanic(err) {
		return err
	}
	return &Panic{Value: v, Stack: debug.Stack()}
}

func isPanic(err error) bool {
	_, is := errors.AsType[*Panic](err)
	return is
}

var errGoexit = errors.New("the function left by runtime.Goexit")

// A call is one Read or Write with its transaction.
type call struct {
	db    *DB
	write func(*Tx) error // one of write and read is set
	read  func(*Rx) error
	first transaction // of the first run
	runs  int

	numbering sync.Mutex
	number    int64

	why           string
	queued, began time.Time
	observed      *observed // nil without an observer
}

type observed struct {
	seen Observation
	done bool
}

func (d *DB) call(ctx context.Context, why string, writes bool) *call {
	c := &call{db: d, why: why, queued: time.Now()}
	if d.options.Observe != nil {
		c.observed = &observed{seen: Observation{Context: ctx, Why: why, Write: writes}}
	}
	return c
}

// A transaction is the transaction of one run, with its two sides. A read uses the read half of
// each.
type transaction struct {
	tx    Tx
	store txn.Tx
}

// runWrite is the function that the engine runs, perhaps more than once.
func (c *call) runWrite(x engine.Tx) error {
	t := c.begin()
	c.db.work.waited(c.began.Sub(c.queued))
	t.tx = Tx{Rx: Rx{&t.store.Rx}, in: &t.store, call: c}
	t.store.Begin(&c.db.store, x)
	defer t.store.End()
	if err := c.write(&t.tx); err != nil {
		return err
	}
	return t.store.Finish()
}

func (c *call) runRead(x engine.Rx) error {
	t := c.begin()
	t.tx.Rx.in = &t.store.Rx
	t.store.Rx.Begin(&c.db.store, x)
	defer t.store.End()
	return c.read(&t.tx.Rx)
}

// begin returns the transaction of a run. Each run has its own, so that goroutines left behind by
// an earlier run can't use it.
func (c *call) begin() *transaction {
	c.began = time.Now()
	if c.runs++; c.runs > 1 {
		return new(transaction)
	}
	return &c.first
}

// end reports to the observer, and ends the calling goroutine as the callback ended: a panic
// reaches the caller's defers, and t.Fatal ends the caller's test.
func (c *call) end(out callback.Outcome) error {
	err := wrap(c.why, c.numbered(out.Err))
	if c.observed != nil {
		c.observed.seen.Group, c.observed.seen.Commit = out.Group, out.Commit
	}
	switch {
	case out.Panicked:
		p := &Panic{Value: out.Value, Stack: out.Stack, Committed: out.Committed}
		_ = c.observe(p) // the first panic is the caller's
		panic(p)
	case out.Goexit:
		_ = c.observe(errGoexit)
		runtime.Goexit()
	}
	if failed := c.observe(err); failed != nil {
		err = errors.Join(err, failed)
	}
	return err
}

// left reports a call to the observer when its function ended the calling goroutine.
func (c *call) left() {
	if c.observed != nil && !c.observed.done {
		_ = c.observe(errGoexit)
	}
}

func (c *call) observe(err error) error {
	o := c.observed
	if o == nil {
		return nil
	}
	o.done, o.seen.Err = true, err
	if !c.began.IsZero() {
		o.seen.Wait, o.seen.Run = c.began.Sub(c.queued), time.Since(c.began)
	} else {
		o.seen.Wait = time.Since(c.queued)
	}
	return guarded(&c.db.store.Callbacks, "Options.Observe", func() { c.db.options.Observe(o.seen) })
}

// batches numbers the write transactions of this process, from a random number on, so that no two
// processes share a number.
var batches = func() *atomic.Int64 {
	var from [8]byte
	_, _ = rand.Read(from[:]) // never fails
	n := new(atomic.Int64)
	n.Store(int64(binary.LittleEndian.Uint64(from[:]) >> 2))
	return n
}()

// Batch returns a number that no other Write has, the same for every run of its function. Stores
// write it into the rows that they append, so that a call with an unknown outcome can be repeated:
// see BatchOf.
func (tx *Tx) Batch() int64 {
	tx.call.numbering.Lock()
	defer tx.call.numbering.Unlock()
	if tx.call.number == 0 {
		tx.call.number = batches.Add(1)
	}
	return tx.call.number
}

// BatchOf returns the Tx.Batch of the Write that failed with ErrOutcomeUnknown. A repeat with that
// number does nothing if the first attempt was committed after all. ok is false for other errors,
// and if that Write's function did not ask for a number.
func BatchOf(err error) (batch int64, ok bool) {
	if b, ok := errors.AsType[*batched](err); ok {
		return b.number, true
	}
	return 0, false
}

// batched is the error of a Write that has a number.
type batched struct {
	error
	number int64
}

func (b *batched) Unwrap() error { return b.error }

func (c *call) numbered(err error) error {
	if c.number == 0 || !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	return &batched{error: err, number: c.number}
}
