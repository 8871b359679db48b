package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

// Config configures Open. No field has a default.
type Config struct {
	Lazy          bool // commits don't wait for the disk
	Writers       int  // largest number of connections that write
	Readers       int  // and that read
	ReadOnly      bool
	MustExist     bool
	AnySchema     bool
	KeepSchema    bool
	SchemaVersion int64
	Mover         bool // opened to move rows from or to it, even if it is closed to writers
	LockTimeout   time.Duration
	Locked        []string // the tables whose rows the stores' calls lock, in the order in which they do
	Now           func() time.Time
	Callbacks     *callback.Callbacks
	Died          func() // called when this process counts as dead, or soon may
	Hooks         Hooks
}

// An Engine is an open database of a server.
type Engine struct {
	address    *Address
	scout      *scout
	config     Config
	generation uint64
	openedShut bool // it was moved already when it was opened to be read
	moved      engine.Move
	patience   time.Duration // with a server that has no primary

	alonePatience time.Duration

	writers *sessions // nil when read-only
	readers *sessions
	latches latches
	swept   atomic.Bool   // the rows of old sessions were deleted
	losers  chan struct{} // held by the one call of this handle that waits in the retry queue

	keeper  *session // keeps other programs from moving rows into the database; else nil
	calls   calls
	home    *home // nil when read-only
	clock   clock
	watch   *watch
	counted struct{ callers, commits atomic.Int64 }

	closing sync.Once
	failed  error // of closing
}

var _ engine.Engine = (*Engine)(nil)

// Open connects to the server, creates or migrates the schema, and returns the open database.
func Open(ctx context.Context, address string, config Config) (*Engine, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	a.hook(config.Hooks)
	e := &Engine{
		address: a, scout: newScout(a), config: config, patience: primaryPatience,
		alonePatience: alonePatience, losers: make(chan struct{}, 1),
	}
	var t trouble
	for err := e.prepare(ctx); err != nil; err = e.prepare(ctx) {
		if !e.replacing(err) || !t.again(ctx, e.patience, err) {
			e.scout.close()
			return nil, failure(err)
		}
	}
	e.readers = newSessions(config.Readers, e.newReader)
	e.watch = newWatch(e)
	if !config.ReadOnly {
		e.writers = newSessions(config.Writers, e.newWriter)
		e.home = homeOf(e)
	}
	return e, nil
}

// replacing reports whether a primary is being elected, as a standby answers and other hosts may, or
// whether a server is starting, recovers from a crash, or has cut a connection that stood. If no host
// answers, the call does not wait.
func (e *Engine) replacing(err error) bool {
	_, unanswered := errors.AsType[*unreached](err)
	switch {
	case errors.Is(err, errStandby):
		return len(e.address.hosts) > 1
	case unanswered, errors.Is(err, errStray):
		return state(err) == "57P03"
	}
	return isLost(err)
}

// Path is the address without its secrets.
func (e *Engine) Path() string { return e.address.String() }

// Generation distinguishes the databases that the address has had.
func (e *Engine) Generation() uint64 { return e.generation }

// Close refuses new calls, waits for those under way, and closes the connections side by side, so
// that a silent server delays it no longer than a single connection would. A second Close waits for
// the first, and returns its result.
func (e *Engine) Close() error {
	e.closing.Do(func() {
		e.calls.close()
		parts := []func() error{func() error { e.watch.close(); return nil }, e.readers.close}
		if e.keeper != nil {
			parts = append(parts, e.keeper.close)
		}
		if e.writers != nil {
			parts = append(parts, e.home.leave, e.writers.close)
		}
		e.failed = together(parts)
		e.scout.close()
	})
	return e.failed
}

// together runs all parts side by side.
func together(parts []func() error) error {
	failed := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { failed[i] = part() })
	}
	all.Wait()
	return errors.Join(failed...)
}

// Interrupt ends the statements of the reads under way and of later ones, and returns the names
// of the calls that are not over.
func (e *Engine) Interrupt() []string { return e.calls.interrupt() }

// A call is one under way.
type call struct {
	why   string
	write bool
	began time.Time
	end   context.CancelCauseFunc // of a read
}

// calls are the calls under way through a handle.
type calls struct {
	mu      sync.Mutex
	open    map[*call]struct{}
	closing bool // new ones are refused
	ending  bool // reads are interrupted
	left    sync.WaitGroup
}

// begin registers a call, and returns for a read the context that interrupts it.
func (c *calls) begin(ctx context.Context, why string, write bool) (*call, context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil, ctx, engine.ErrClosed
	}
	one := &call{why: why, write: write, began: time.Now()}
	if !write {
		ctx, one.end = context.WithCancelCause(ctx)
		if c.ending {
			one.end(engine.ErrClosed)
		}
	}
	if c.open == nil {
		c.open = map[*call]struct{}{}
	}
	c.open[one] = struct{}{}
	c.left.Add(1)
	return one, ctx, nil
}

func (c *calls) over(one *call) {
	c.mu.Lock()
	delete(c.open, one)
	c.mu.Unlock()
	if one.end != nil {
		one.end(nil)
	}
	c.left.Done()
}

func (c *calls) close() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.left.Wait()
}

func (c *calls) interrupt() (whys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	for one := range c.open {
		whys = append(whys, one.why)
		if one.end != nil {
			one.end(engine.ErrClosed)
		}
	}
	return whys
}

// oldest is the call of its kind that began first.
func (c *calls) oldest(write bool) (why string, took time.Duration, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *call
	for one := range c.open {
		if one.write != write {
			continue
		}
		count++
		if first == nil || one.began.Before(first.began) {
			first = one
		}
	}
	if first == nil {
		return "", 0, 0
	}
	return first.why, time.Since(first.began), count
}
