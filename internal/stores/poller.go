package stores

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// Followers of one thing wait at the handle's tail. After a commit, the tail polls the ends of all
// their streams in one read, and wakes the followers whose stream has grown. Followers of many
// things wait at an overview; there is one for each list of heads. Both rest after a poll, so that a
// burst of commits becomes one poll: restAtLeast for each stream that the last poll read, up to
// mostRests of them, and at least restFactor times as long as the poll read.
const (
	restAtLeast = time.Millisecond
	mostRests   = 4
	restFactor  = 4

	pollWhy = "poll for followers"
)

// pollers are the tail and the overviews of a handle, while they have followers.
type pollers struct {
	// a semaphore for starting a poller, which takes as long as a server takes to answer
	starting chan struct{}

	mu      sync.Mutex
	running map[any]interface{ base() *poller } // the tail by tailKey{}, overviews by their overviewKey
	lags    map[*lag]struct{}
}

func pollersOf(d *db.DB) *pollers {
	return d.Store().Followers(func() txn.Followers {
		return &pollers{
			starting: make(chan struct{}, 1),
			running:  map[any]interface{ base() *poller }{}, lags: map[*lag]struct{}{},
		}
	}).(*pollers)
}

// join returns the poller with that key, and starts the fresh one if there is none. The caller must
// leave it. Waiting ends with ctx.
func join[P interface {
	base() *poller
	poll(ctx context.Context)
}](ctx context.Context, d *db.DB, key any, fresh P) (P, error) {
	var none P
	l := pollersOf(d)
	existing := func() (p P, found bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if p, found = l.running[key].(P); found && p.base().useful() {
			p.base().users++
			return p, true
		}
		return none, false
	}
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	if p, found := existing(); found {
		return p, nil
	}
	select {
	case l.starting <- struct{}{}:
		defer func() { <-l.starting }()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	if p, found := existing(); found { // another caller has started it in the meantime
		return p, nil
	}
	p := fresh.base()
	p.d, p.key, p.users = d, key, 1
	if err := p.start(ctx, fresh.poll); err != nil {
		return none, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[key] = fresh
	return fresh, nil
}

// Count is for txn.Handle.
func (l *pollers) Count() (followers, catchingUp int, longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.running {
		followers += p.base().users
	}
	for lag := range l.lags {
		longest = max(longest, time.Since(lag.since))
	}
	return followers, len(l.lags), longest
}

// A lag holds the time since which a follower has had something left to read.
type lag struct{ since time.Time }

// behind marks a follower that may have something to read. It may be called repeatedly.
func (l *pollers) behind(f *lag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, already := l.lags[f]; !already {
		f.since = time.Now()
		l.lags[f] = struct{}{}
	}
}

// caughtUp unmarks a follower that has read everything, or leaves.
func (l *pollers) caughtUp(f *lag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lags, f)
}

// A poller calls poll after each commit, and on request, while it has users.
type poller struct {
	d     *db.DB
	key   any    // in pollers.running
	table string // of the streams that it polls; "": of all
	feed  *engine.Feed
	users int // under pollers.mu
	asked chan struct{}
	stop  func()
	ended chan struct{} // closed when no more polls come
	why   error         // why polling has ended; set before ended
	// worked is how long the poll read, without waits. seldom is the part of it that limits itself and
	// needs no rest. Set by poll.
	worked, seldom time.Duration
	polled         int // streams; set by poll
}

func (l *poller) base() *poller { return l }

// start starts polling, with the first poll on request. ctx ends only the start.
func (l *poller) start(ctx context.Context, poll func(context.Context)) error {
	within, stop := context.WithCancelCause(context.Background())
	started := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	var err error
	l.feed, err = l.watch(within)
	if !started() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop(nil)
		return err
	}
	l.asked, l.stop, l.ended = make(chan struct{}, 1), func() { stop(nil) }, make(chan struct{})
	go l.run(within, poll)
	return nil
}

// leave ends the poller with its last user.
func (l *poller) leave() {
	all := pollersOf(l.d)
	all.mu.Lock()
	defer all.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.stop()
	if p := all.running[l.key]; p != nil && p.base() == l {
		delete(all.running, l.key)
	}
}

// watch returns a feed of the streams.
func (l *poller) watch(ctx context.Context) (*engine.Feed, error) {
	if err := l.d.Store().Ready(); err != nil {
		return nil, err
	}
	stream, _, _ := engine.StreamOf(l.table)
	return l.d.Store().Engine.Watch(ctx, stream)
}

func (l *poller) run(ctx context.Context, poll func(context.Context)) {
	defer close(l.ended)
	defer l.stop()
	for {
		select {
		case _, open := <-l.feed.Changes:
			if !open {
				_, l.why = l.watch(ctx) // the followers get the reason why there are none
				return
			}
		case <-l.asked:
		}
		for again := true; again; {
			l.worked, l.seldom, l.polled = 0, 0, 0
			if !l.returns(ctx, poll) {
				return
			}
			select {
			case <-time.After(max(restAtLeast*time.Duration(min(max(l.polled, 1), mostRests)),
				restFactor*(l.worked-l.seldom))):
				again = false
			case <-l.asked: // by a new follower, which must not wait until the rest is over
			case <-ctx.Done():
				again = false
			}
		}
	}
}

// returns reports whether a poll returned. If a clock or an observer panics, the followers end with
// that panic as their error.
func (l *poller) returns(ctx context.Context, poll func(context.Context)) (ended bool) {
	defer func() {
		if v := recover(); v != nil {
			l.why = Panicked(v)
		} else if !ended {
			l.why = errGoexit
		}
	}()
	poll(ctx)
	return true
}

// read is Read for a poll. It does not count as work the wait for a server that is being replaced,
// or a run of fn that was lost with a server: the rest after such a poll would keep followers
// waiting several times as long.
func (l *poller) read(ctx context.Context, by In[*db.Rx], fn func(*db.Rx) error) error {
	before := l.worked
	err := by(ctx, pollWhy, func(rx *db.Rx) error {
		began := time.Now()
		defer func() { l.worked = before + time.Since(began) }()
		return fn(rx)
	})
	if errors.Is(err, db.ErrIO) {
		l.worked = before
	}
	if isPanic(err) { // an observer panicked, and would panic at the next poll too
		panic(err)
	}
	return err
}

func (l *poller) ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// useful reports whether the poller still polls. One that panicked may still have users.
func (l *poller) useful() bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// await returns nil once there is news, or the error for a follower that can't wait any longer.
func (l *poller) await(ctx context.Context, news <-chan struct{}) error {
	select {
	case <-news:
		return nil
	case <-ctx.Done():
	case <-l.ended: // it sets why
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cmp.Or(l.why, db.ErrClosed)
}

var errGoexit = errors.New("the function left by runtime.Goexit")

// Panicked converts a recovered value to an error with a *db.Panic in it.
func Panicked(v any) error {
	if err, ok := v.(error); ok && isPanic(err) {
		return err
	}
	return &db.Panic{Value: v, Stack: debug.Stack()}
}

func isPanic(err error) bool {
	_, is := errors.AsType[*db.Panic](err)
	return is
}
