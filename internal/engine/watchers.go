package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Watchers are the waiters for changes of one handle. While there are any, something else reports
// the commits of other handles.
type Watchers struct {
	elsewhere Elsewhere
	waiting   atomic.Int32  // at 0 a commit has no extra cost
	turn      chan struct{} // held while joining: the first watcher starts what the others rely on

	mu    sync.Mutex
	over  error // why no watcher may join any more
	feeds map[chan struct{}]*Feed
	// end ends the reports of commits elsewhere, or their start; nil while there are none.
	end    func() error
	ending sync.WaitGroup // starts, and ends after the last watcher left
}

// An Elsewhere starts calling Watchers.Tell after commits of others, and returns the function that
// ends that. It is called for the first watcher, and again for one that joins after the last one
// has left. Its context ends when no watcher is left.
type Elsewhere func(ctx context.Context) (end func() error, err error)

// NewWatchers returns the watchers of a handle. elsewhere is nil if no other handle can commit.
func NewWatchers(elsewhere Elsewhere) *Watchers {
	return &Watchers{
		elsewhere: elsewhere, turn: make(chan struct{}, 1),
		feeds: map[chan struct{}]*Feed{},
	}
}

// Join returns a feed of the commits from now on, which ends with ctx. It tells which rows of the
// stream's table were touched.
func (w *Watchers) Join(ctx context.Context, stream Stream) (*Feed, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	changes := make(chan struct{}, 1)
	feed := &Feed{Changes: changes, stream: stream, keys: map[int64]struct{}{}}
	w.mu.Lock()
	if w.over != nil {
		defer w.mu.Unlock()
		return nil, w.over
	}
	feed.stay = context.AfterFunc(ctx, func() { _ = w.leave(changes) })
	w.feeds[changes] = feed
	w.waiting.Add(1)
	if w.end != nil || w.elsewhere == nil {
		w.mu.Unlock()
		return feed, nil
	}
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	w.end = func() error { cancel(); return nil }
	w.ending.Add(1)
	w.mu.Unlock()
	defer w.ending.Done()

	end, err := w.elsewhere(starting)
	w.mu.Lock()
	wanted := w.end != nil
	w.end = nil
	if wanted && err == nil {
		w.end = end
	}
	w.mu.Unlock()
	switch {
	case !wanted && err == nil:
		err = errors.Join(w.gone(ctx), end())
	case !wanted, err != nil && ctx.Err() != nil: // the channel may still follow the ended context
		err = w.gone(ctx)
	}
	if err != nil {
		_ = w.leave(changes)
		return nil, err
	}
	return feed, nil
}

// gone returns the error for a start that no watcher waits for any more.
func (w *Watchers) gone(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrClosed
}

func (w *Watchers) leave(changes chan struct{}) error {
	w.mu.Lock()
	feed, ok := w.feeds[changes]
	if !ok {
		w.mu.Unlock()
		return nil
	}
	feed.stay()
	delete(w.feeds, changes)
	w.waiting.Add(-1)
	close(changes)
	var end func() error
	if len(w.feeds) == 0 {
		end, w.end = w.end, nil
	}
	if end == nil {
		w.mu.Unlock()
		return nil
	}
	w.ending.Add(1) // before Close can wait
	defer w.ending.Done()
	w.mu.Unlock()
	return end()
}

// Tell wakes all watchers.
func (w *Watchers) Tell() {
	if w.waiting.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for changes := range w.feeds {
		select {
		case changes <- struct{}{}:
		default: // a value is waiting already
		}
	}
}

// Over closes every channel and refuses later watchers with the error why. The goroutine of
// Elsewhere may call it.
func (w *Watchers) Over(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = why
	for changes, feed := range w.feeds {
		feed.stay()
		close(changes)
	}
	clear(w.feeds)
	w.waiting.Store(0)
}

// Close is Over for a handle that is closed. It also ends the reports of commits elsewhere.
func (w *Watchers) Close() error {
	w.Over(ErrClosed)
	w.mu.Lock()
	end := w.end
	w.end = nil
	w.mu.Unlock()
	var err error
	if end != nil {
		err = end()
	}
	w.ending.Wait() // a connection that outlived the handle would outlive its locks
	return err
}
