package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"selvedge/internal/engine"
)

// A commit wakes the watchers of its own process at once. A NOTIFY over a separate connection
// wakes those elsewhere, at most once in notifyEvery however many commits there were: within the
// transactions it would make them queue for one lock of the server. Watchers also poll the
// server's snapshot, which changes with every commit, since a NOTIFY is lost with its connection.
const (
	notifyEvery = 5 * time.Millisecond
	lookEvery   = time.Second
	channelName = "selvedge_changes_" // and the schema
	sqlSnapshot = `SELECT pg_current_snapshot()::text AS now,
		coalesce((SELECT min_writer FROM selvedge_file), 0) AS min_writer`
)

// A watch holds the watchers of one handle, and notifies other processes of its commits.
type watch struct {
	*engine.Watchers
	engine *Engine

	sender    string          // of this handle's notifications
	mu        sync.Mutex      // guards untold
	untold    engine.Touched  // what commits touched that others have not been told of
	dirty     chan struct{}   // something was committed that others have not been told of
	ctx       context.Context // of the notifier
	end       context.CancelFunc
	notifying sync.Once
	notifier  sync.WaitGroup
}

func newWatch(e *Engine) *watch {
	w := &watch{engine: e, sender: strconv.FormatUint(rand.Uint64(), radix), dirty: make(chan struct{}, 1)}
	w.Watchers = engine.NewWatchers(w.elsewhere)
	w.ctx, w.end = context.WithCancel(background)
	return w
}

// Watch returns a feed of the commits.
func (e *Engine) Watch(ctx context.Context, stream engine.Stream) (*engine.Feed, error) {
	feed, err := e.watch.Join(ctx, stream)
	if err != nil && ctx.Err() != nil {
		err = waitEnded(ctx, "the server")
	}
	return feed, failure(err)
}

// elsewhere begins to report commits of other processes: those after a snapshot that is taken
// before the first watcher waits.
func (w *watch) elsewhere(ctx context.Context) (end func() error, err error) {
	s, seen, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithCancel(background)
	var running sync.WaitGroup
	running.Go(func() { w.observe(within, s, seen) })
	return func() error {
		cancel()
		running.Wait()
		return nil
	}, nil
}

// close closes every channel and ends both connections.
func (w *watch) close() {
	_ = w.Close() // observing never fails
	w.end()
	w.notifier.Wait()
}

// committed wakes the watchers of this process, and has the other processes notified.
func (w *watch) committed(t engine.Touched) {
	w.Touched(t)
	w.Tell()
	w.mu.Lock()
	w.untold.All = w.untold.All || t.All
	for _, row := range t.Rows {
		w.untold.Add(row)
	}
	w.mu.Unlock()
	w.notifying.Do(func() { w.notifier.Go(w.notify) }) // no call is under way when close waits
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// tell wakes the watchers after commits that may have touched anything.
func (w *watch) tell() {
	w.Touched(engine.Touched{All: true})
	w.Tell()
}

func (w *watch) channel() string { return `"` + channelName + w.engine.address.schema + `"` }

// notify notifies the other processes, over a connection whose commits don't wait for the disk.
func (w *watch) notify() {
	var own spare
	defer own.close()
	open := func(ctx context.Context) (*session, error) {
		s, err := w.engine.newSession(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := s.wire.simple(ctx, "SET synchronous_commit = off"); err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	}
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.dirty:
		}
		s, err := own.get(w.ctx, open)
		if err != nil { // waiters in other processes poll by themselves
			engine.Pause(w.ctx, lookEvery)
			continue
		}
		w.mu.Lock()
		touched := w.untold
		w.untold = engine.Touched{}
		w.mu.Unlock()
		touched.Distinct()
		_, _ = s.wire.simple(w.ctx, "NOTIFY "+w.channel()+", '"+notification(w.sender, touched)+"'")
		engine.Pause(w.ctx, notifyEvery)
	}
}

// connect returns a connection that receives notifications of commits, and the current snapshot.
func (w *watch) connect(ctx context.Context) (*session, string, error) {
	s, err := w.engine.newSession(ctx)
	if err != nil {
		return nil, "", err
	}
	var seen string
	if _, err = s.wire.simple(ctx, "LISTEN "+w.channel()); err == nil {
		seen, err = w.snapshot(ctx, s)
	}
	if err != nil {
		_ = s.close()
		return nil, "", err
	}
	return s, seen, nil
}

// snapshot returns the server's snapshot, which changes with every commit. It fails with
// engine.ErrMoved if the database was moved since the handle was opened: nothing is committed
// there any more.
func (w *watch) snapshot(ctx context.Context, s *session) (string, error) {
	ctx, cancel := patient(ctx, commitPatience)
	defer cancel()
	defer s.within(ctx)()
	var seen struct {
		Now string `db:"now"`
		engine.Versions
	}
	err := s.get(&seen, sqlSnapshot)
	if err == nil && seen.Shut() && !w.engine.openedShut {
		err = engine.MovedTo(s.get)
	}
	return seen.Now, err
}

// observe reports commits elsewhere until ctx ends.
func (w *watch) observe(ctx context.Context, s *session, seen string) {
	own := spare{s}
	defer own.close()
	looked := time.Now()
	for ctx.Err() == nil {
		s, err := own.get(ctx, func(ctx context.Context) (s *session, err error) {
			if s, seen, err = w.connect(ctx); err == nil {
				w.tell()
				looked = time.Now()
			}
			return s, err
		})
		if errors.Is(err, engine.ErrMoved) {
			w.Over(err)
			return
		}
		if err != nil {
			w.tell() // the readers that wake then get the error, or wait for a primary
			engine.Pause(ctx, lookEvery)
			continue
		}
		w.wait(ctx, s.wire)
		if time.Since(looked) < lookEvery || s.wire.conn.IsClosed() || ctx.Err() != nil {
			continue
		}
		looked = time.Now()
		now, err := w.snapshot(ctx, s)
		if errors.Is(err, engine.ErrMoved) {
			w.Over(err)
			return
		}
		if err != nil {
			continue
		}
		if now != seen { // by a program that sends no NOTIFY, or told already, which does no harm
			w.tell()
		}
		seen = now
	}
}

// wait waits for a notification, no longer than lookEvery, and passes on what others notify.
func (w *watch) wait(ctx context.Context, from *wire) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	_ = from.conn.WaitForNotification(ctx)
	told := from.told
	from.told = nil
	for _, n := range told {
		if sender, t := notified(n.Payload); sender != w.sender {
			w.Touched(t)
			w.Tell()
		}
	}
}
