package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/machine"
)

// Changes gives a channel that gets a value after every commit.
func (e *Engine) Changes(ctx context.Context) (<-chan struct{}, error) {
	changes, err := e.watch.join(ctx, e)
	return changes, failure(err)
}

// A watch is those who wait for changes of one handle, and the observer of other processes while there are any.
type watch struct {
	waiting atomic.Int32 // at 0 a commit costs nothing more

	mu       sync.Mutex
	closed   bool
	channels map[chan struct{}]func() bool // each with what keeps it from following its context
	observer *observer                     // nil in memory and while nobody waits
	ending   sync.WaitGroup                // observers that the last who waited has left
}

func (w *watch) join(ctx context.Context, e *Engine) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, waitEnded(ctx, "the file")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, engine.ErrClosed
	}
	if w.observer == nil && !e.memory {
		o, err := observe(ctx, e)
		if err != nil {
			return nil, err
		}
		w.observer = o
	}
	if w.channels == nil {
		w.channels = map[chan struct{}]func() bool{}
	}
	changes := make(chan struct{}, 1)
	w.channels[changes] = context.AfterFunc(ctx, func() { w.leave(changes) })
	w.waiting.Add(1)
	return changes, nil
}

func (w *watch) leave(changes chan struct{}) {
	w.mu.Lock()
	var ended *observer
	if _, ok := w.channels[changes]; ok {
		delete(w.channels, changes)
		w.waiting.Add(-1)
		close(changes)
		if len(w.channels) == 0 {
			ended, w.observer = w.observer, nil
		}
	}
	if ended != nil {
		w.ending.Add(1) // before close can come
	}
	w.mu.Unlock()
	if ended != nil {
		_ = ended.end() // only read
		w.ending.Done()
	}
}

// tell wakes everybody.
func (w *watch) tell() {
	if w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for changes := range w.channels {
		select {
		case changes <- struct{}{}:
		default: // one is waiting to be seen
		}
	}
}

// close closes every channel, ends the observer and refuses whoever comes later.
func (w *watch) close() error {
	w.mu.Lock()
	w.closed = true
	for changes, stay := range w.channels {
		stay()
		close(changes)
	}
	w.channels = nil
	w.waiting.Store(0)
	ended := w.observer
	w.observer = nil
	w.mu.Unlock()
	w.ending.Wait() // a connection that outlived the handle would outlive its locks
	if ended == nil {
		return nil
	}
	return ended.end()
}

// The observer looks at PRAGMA data_version, which is another number after every commit of another connection, and costs
// about 10 µs. It looks when the system says that the WAL was written to. That is before the commit can be seen, the
// disk's time before, so it looks again after a millisecond, two, four. It also looks when nobody said anything: once a
// second, for a process that was stopped between its write and its commit, and more often where the system tells nothing.
const (
	lookAgain    = time.Millisecond
	lookTold     = time.Second
	lookUntold   = 50 * time.Millisecond
	sqlDataState = "PRAGMA data_version"
)

type observer struct {
	tell    func()
	session *session
	pool    interface{ Close() error }
	writes  *machine.Writes // nil where the system doesn't tell
	version int64
	stop    chan struct{}
	stopped chan struct{}
}

func observe(ctx context.Context, e *Engine) (o *observer, err error) {
	pool, err := openPool(e.path, e.readRole(), 1)
	if err != nil {
		return nil, err
	}
	s, err := retrySession(ctx, pool, roleReader, e.config)
	if err != nil {
		return nil, closeAfter(pool, err)
	}
	o = &observer{tell: e.watch.tell, session: s, pool: pool, stop: make(chan struct{}), stopped: make(chan struct{})}
	// The first look opens the WAL, so that there is a file to be told of. Failing, it is made up for by the next.
	_, _ = o.look()
	if o.writes, err = machine.WatchWrites(e.path + "-wal"); err != nil {
		o.writes = nil // too many watches, or no WAL: the clock does it alone
	}
	go o.run()
	return o, nil
}

func (o *observer) run() {
	defer close(o.stopped)
	longest := lookUntold
	var written <-chan struct{}
	if o.writes != nil {
		longest, written = lookTold, o.writes.Seen
	}
	pause := lookAgain
	clock := time.NewTimer(pause)
	defer clock.Stop()
	last := time.Now()
	for {
		select {
		case <-o.stop:
			return
		case <-written:
			pause = lookAgain
			if since := time.Since(last); since < lookAgain { // under a storm of commits a look a millisecond is enough
				clock.Reset(lookAgain - since)
				continue
			}
		case <-clock.C:
			pause = min(2*pause, longest)
		}
		last = time.Now()
		changed, err := o.look()
		if changed || err != nil { // who reads then gets the error
			o.tell()
		}
		if changed {
			pause = lookAgain
		}
		clock.Reset(pause)
	}
}

func (o *observer) look() (changed bool, err error) {
	var version int64
	if err := o.session.Get(&version, sqlDataState); err != nil {
		if isBusy(err) {
			err = nil // another process is recovering the WAL
		}
		return false, err
	}
	changed = version != o.version
	o.version = version
	return changed, nil
}

func (o *observer) end() error {
	close(o.stop)
	<-o.stopped
	var err error
	if o.writes != nil {
		err = o.writes.Close()
	}
	return errors.Join(err, o.session.Close(), o.pool.Close())
}
