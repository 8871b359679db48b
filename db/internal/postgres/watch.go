package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/db/internal/engine"
)

// A commit wakes those who wait in its own process at once. Those elsewhere are woken by a NOTIFY over a connection of its own,
// at most one in notifyEvery however many commits there were: in the transactions themselves it would have all of them queue
// for one lock of the server's. And behind it there is a look at the server's snapshot, which is another one after every commit:
// nobody relies on a NOTIFY, which is lost with its connection.
const (
	notifyEvery = 5 * time.Millisecond
	lookEvery   = time.Second
	channelName = "selvedge_changes_" // and the schema
	sqlSnapshot = `SELECT pg_current_snapshot()::text`
)

// A watch is those who wait for changes of one handle.
type watch struct {
	engine *Engine

	mu       sync.Mutex
	closed   bool
	channels map[chan struct{}]func() bool // each with what keeps it from following its context
	listen   context.CancelFunc            // nil while nobody waits
	running  sync.WaitGroup

	dirty     chan struct{} // something was committed that others have not been told of
	notifying atomic.Bool
	ctx       context.Context // of the notifier
	end       context.CancelFunc
}

func newWatch(e *Engine) *watch {
	w := &watch{engine: e, channels: map[chan struct{}]func() bool{}, dirty: make(chan struct{}, 1)}
	w.ctx, w.end = context.WithCancel(background)
	return w
}

// Changes gives a channel that gets a value after every commit.
func (e *Engine) Changes(ctx context.Context) (<-chan struct{}, error) { return e.watch.join(ctx) }

func (w *watch) join(ctx context.Context) (<-chan struct{}, error) {
	if ctx.Err() != nil {
		return nil, waitEnded(ctx, "the server")
	}
	// The snapshot from which on commits are seen is taken before the channel is handed out.
	w.mu.Lock()
	first := w.listen == nil && !w.closed
	w.mu.Unlock()
	var s *session
	var seen string
	if first {
		var err error
		if s, seen, err = w.connect(ctx); err != nil {
			return nil, failure(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		if s != nil {
			_ = s.close()
		}
		return nil, engine.ErrClosed
	}
	switch {
	case w.listen == nil && s != nil:
		within, cancel := context.WithCancel(background)
		w.listen = cancel
		w.running.Go(func() { w.observe(within, s, seen) })
	case s != nil: // another was faster
		_ = s.close()
	case w.listen == nil: // the last one left in between
		within, cancel := context.WithCancel(background)
		w.listen = cancel
		w.running.Go(func() { w.observe(within, nil, "") })
	}
	changes := make(chan struct{}, 1)
	w.channels[changes] = context.AfterFunc(ctx, func() { w.leave(changes) })
	return changes, nil
}

func (w *watch) leave(changes chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.channels[changes]; !ok {
		return
	}
	delete(w.channels, changes)
	close(changes)
	if len(w.channels) == 0 && w.listen != nil {
		w.listen()
		w.listen = nil
	}
}

// tell wakes everybody of this handle.
func (w *watch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for changes := range w.channels {
		select {
		case changes <- struct{}{}:
		default: // one is waiting to be seen
		}
	}
}

// close closes every channel and ends both connections.
func (w *watch) close() {
	w.mu.Lock()
	w.closed = true
	for changes, stay := range w.channels {
		stay()
		close(changes)
	}
	w.channels = nil
	if w.listen != nil {
		w.listen()
		w.listen = nil
	}
	w.mu.Unlock()
	w.end()
	w.running.Wait()
}

// committed wakes those of this process, and has the others told.
func (w *watch) committed() {
	w.tell()
	if w.notifying.CompareAndSwap(false, true) {
		w.mu.Lock()
		if !w.closed {
			w.running.Go(w.notify)
		}
		w.mu.Unlock()
	}
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

func (w *watch) channel() string { return `"` + channelName + w.engine.address.schema + `"` }

// notify tells the other processes, over a connection whose commits don't wait for the disk.
func (w *watch) notify() {
	var s *session
	defer func() {
		if s != nil {
			_ = s.close()
		}
	}()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.dirty:
		}
		if s == nil || s.broken() {
			if s != nil {
				_ = s.close()
			}
			var err error
			if s, err = w.engine.newSession(w.ctx); err == nil {
				_, err = s.wire.simple(w.ctx, "SET synchronous_commit = off")
			}
			if err != nil { // who waits elsewhere looks by itself
				if s != nil {
					_ = s.close()
				}
				s = nil
				engine.Pause(w.ctx, lookEvery)
				continue
			}
		}
		_, _ = s.wire.simple(w.ctx, "NOTIFY "+w.channel())
		engine.Pause(w.ctx, notifyEvery)
	}
}

// connect gives a connection that hears of commits elsewhere, and the snapshot of now.
func (w *watch) connect(ctx context.Context) (*session, string, error) {
	s, err := w.engine.newSession(ctx)
	if err != nil {
		return nil, "", err
	}
	var seen string
	if _, err = s.wire.simple(ctx, "LISTEN "+w.channel()); err == nil {
		seen, err = s.snapshot(ctx)
	}
	if err != nil {
		_ = s.close()
		return nil, "", err
	}
	return s, seen, nil
}

// snapshot is another one after every commit.
func (s *session) snapshot(ctx context.Context) (now string, err error) {
	ctx, cancel := patient(ctx, commitPatience)
	defer cancel()
	defer s.within(ctx)()
	err = s.get(&now, sqlSnapshot)
	return now, err
}

// observe tells of commits elsewhere until ctx ends.
func (w *watch) observe(ctx context.Context, s *session, seen string) {
	defer func() {
		if s != nil {
			_ = s.close()
		}
	}()
	for ctx.Err() == nil {
		if s == nil || s.wire.conn.IsClosed() {
			if s != nil {
				_ = s.close()
			}
			var err error
			if s, seen, err = w.connect(ctx); err != nil {
				s = nil
				w.tell() // who reads then gets the error, or waits for a primary
				engine.Pause(ctx, lookEvery)
				continue
			}
			w.tell()
		}
		heard := w.wait(ctx, s.wire.conn)
		if s.wire.conn.IsClosed() || ctx.Err() != nil {
			continue
		}
		now, err := s.snapshot(ctx)
		if err != nil {
			continue
		}
		if heard || now != seen {
			w.tell()
		}
		seen = now
	}
}

// wait waits for a notification, no longer than lookEvery.
func (w *watch) wait(ctx context.Context, conn *pgconn.PgConn) (heard bool) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	return conn.WaitForNotification(ctx) == nil
}
