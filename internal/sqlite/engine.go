package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// memoryPath is the path that means a database in memory: the same code on a single connection,
// gone at Close.
const memoryPath = ":memory:"

// Config configures Open. No field has a default.
type Config struct {
	file           fileKey // that connections must be to; zero until the path was examined
	Lazy           bool    // the disk is synced at checkpoints only
	Readers        int     // largest number of reading connections
	ReadOnly       bool
	MustExist      bool
	AnySchema      bool
	KeepSchema     bool  // an older schema is an error, and not migrated
	SchemaVersion  int64 // the target of a migration
	Mover          bool  // opened to move rows from or to it, even if it is closed to writers
	AllowNetworkFS bool
	AllowLinks     bool
	LockTimeout    time.Duration
	Now            func() time.Time
	Observed       bool // an observer wants to know how long commits take
	Ladder         *Ladder
	Callbacks      *callback.Callbacks
}

// An Engine is an open file.
type Engine struct {
	path   string
	memory bool
	config Config

	hold    *lock.Hold   // nil in memory
	writer  *writer      // nil when read-only
	readers *readers     // nil in memory
	file    *sharedFile  // nil in memory
	size    atomic.Int64 // of the file at the last look
	beside  folder
	token   uuid.UUID    // of this handle among the owners
	locked  bool         // this handle's byte is locked; guarded by file.mu
	owner   atomic.Int64 // of this handle's committed row; 0 before its first claim

	watch  *engine.Watchers
	own    ownNotes
	reads  reads
	space  *space // nil in memory and when read-only
	visits visits

	kept      bool  // it has the file to itself until it is closed: rows are moved into it
	onReserve int64 // bytes of the reserve that it was opened with, on a full disk

	rest       *rest // nil unless the file is read at rest
	generation uint64
	moved      engine.Move // what Open did to the schema
	mended     []string    // what of the schema Open made again

	failed atomic.Pointer[engine.Failure] // why every further call is refused
}

var _ engine.Engine = (*Engine)(nil)

// Path is the file's absolute path, links resolved, or ":memory:".
func (e *Engine) Path() string { return e.path }

// Generation distinguishes the files that the path has had.
func (e *Engine) Generation() uint64 { return e.generation }

// Clock returns the machine's clock.
func (e *Engine) Clock() machine.BootTime { return machine.ReadBootTime() }

// OneMachine is true: the users of a WAL share memory.
func (e *Engine) OneMachine() bool { return true }

// Visits are calls that use the file without the engine's own connections. Close waits for them.
type visits struct {
	mu      sync.Mutex
	closing bool
	open    sync.WaitGroup
	begun   chan struct{} // closed by the next one, for a test; else nil
}

// during runs fn, and returns its error as a failure; ErrClosed once Close was called.
func (v *visits) during(fn func() error) error {
	v.mu.Lock()
	if v.closing {
		v.mu.Unlock()
		return engine.ErrClosed
	}
	v.open.Add(1)
	if v.begun != nil {
		close(v.begun)
		v.begun = nil
	}
	v.mu.Unlock()
	defer v.open.Done()
	return failure(fn())
}

func (v *visits) close() {
	v.mu.Lock()
	v.closing = true
	v.mu.Unlock()
	v.open.Wait()
}

// Close ends the readers before the writer: the last connection to close removes the WAL, and a
// reading one can't.
func (e *Engine) Close() error {
	if e.writer != nil {
		e.writer.refuseNew()
	}
	if e.readers != nil {
		e.readers.refuseNew()
	}
	e.visits.close()
	failed := e.watch.Close()
	if e.space != nil {
		e.space.close()
	}
	if e.writer != nil {
		failed = errors.Join(failed, e.resign())
	}
	if e.readers != nil {
		failed = errors.Join(failed, e.readers.close())
	}
	if e.writer != nil {
		failed = errors.Join(failed, e.writer.close())
		if e.writer.turns != nil {
			failed = errors.Join(failed, e.writer.turns.Close())
		}
	}
	if e.space != nil {
		e.space.restock()
	}
	failed = errors.Join(failed, e.reads.close())
	if e.hold != nil {
		failed = errors.Join(failed, e.hold.Close())
	}
	if e.file != nil {
		failed = errors.Join(failed, e.die(), e.file.release())
	}
	return failed
}

// Interrupt ends the statements of the reads under way and of later ones, and returns the names of
// the calls that are not over.
func (e *Engine) Interrupt() []string {
	calls := e.reads.interrupt()
	if e.writer != nil {
		calls = append(calls, e.writer.calls()...)
	}
	return calls
}

// WriteLocked is Write: one function writes at a time.
func (e *Engine) WriteLocked(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	return e.Write(ctx, why, fn)
}

// ReadSingle is Read: a snapshot costs no message.
func (e *Engine) ReadSingle(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	return e.Read(ctx, why, fn)
}

// Write runs fn in a write transaction.
func (e *Engine) Write(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	if e.space != nil {
		if err := e.space.refuses(); err != nil {
			return callback.Outcome{Err: err}
		}
	}
	return e.writer.submit(ctx, &request{why: why, write: fn})
}

// Read runs fn in a read transaction.
func (e *Engine) Read(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	if e.readers == nil {
		return e.writer.submit(ctx, &request{why: why, read: fn, ctx: ctx})
	}
	if err := e.usable(); err != nil {
		return callback.Outcome{Err: err}
	}
	if e.rest != nil {
		return e.readAtRest(ctx, why, fn)
	}
	return e.readers.read(ctx, why, fn)
}
