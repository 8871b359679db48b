package db

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Changes gives a channel that gets a value when something was committed to the file: by this process at once, by another
// process or program a moment later. Commits that come while a value is waiting share it, and a value may come without
// a commit; what never happens is a commit, ended after Changes returned, that no value follows. So: call Changes, read
// what there is, and read again after each value.
//
// The channel is closed when ctx ends or the file is closed. While a file has no watcher nothing is watched; with one, an
// idle file costs a look a second (20 a second where the system doesn't tell of writes), on a connection of its own.
func (d *DB) Changes(ctx context.Context) (<-chan struct{}, error) {
	if d.callbacks.inside() {
		return nil, nested("watch")
	}
	changes, err := d.watch.join(ctx, d)
	return changes, wrap("watch", err)
}

// A watch is those who wait for changes of one handle, and the observer of other processes while there are any.
type watch struct {
	waiting atomic.Int32 // at 0 a commit costs nothing more

	mu       sync.Mutex
	closed   bool
	channels map[chan struct{}]func() bool // each with what keeps it from following its context
	observer *observer                     // nil in memory and while nobody waits
}

func (w *watch) join(ctx context.Context, d *DB) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, waitEnded(ctx, "watch", "the file")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	if w.observer == nil && !d.memory {
		o, err := observe(ctx, d)
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
	w.mu.Unlock()
	if ended != nil {
		_ = ended.end() // only read
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

// watchWrites is a variable so that a test can be where the system tells nothing.
var watchWrites = fileWritten

type observer struct {
	tell    func()
	session *session
	pool    interface{ Close() error }
	writes  *fileWrites // nil where the system doesn't tell
	version int64
	stop    chan struct{}
	stopped chan struct{}
}

func observe(ctx context.Context, d *DB) (o *observer, err error) {
	pool, err := openPool(d.path, roleReader, 1)
	if err != nil {
		return nil, err
	}
	s, err := retrySession(ctx, pool, roleReader, d.options)
	if err != nil {
		return nil, closeAfter(pool, err)
	}
	o = &observer{tell: d.watch.tell, session: s, pool: pool, stop: make(chan struct{}), stopped: make(chan struct{})}
	// The first look opens the WAL, so that there is a file to be told of. Failing, it is made up for by the next.
	_, _ = o.look()
	if o.writes, err = watchWrites(d.path + "-wal"); err != nil {
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
		longest, written = lookTold, o.writes.seen
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
		err = o.writes.close()
	}
	return errors.Join(err, o.session.Close(), o.pool.Close())
}
