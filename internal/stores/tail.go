package stores

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
)

// Followers of one thing wait at the handle's tail. After a commit, the tail polls the ends of all
// their streams in one read, and wakes the followers whose stream has grown. Followers of many
// things wait at an overview; there is one for each list of heads. Both rest after a poll: at least
// restAtLeast, so that a burst of commits becomes one poll every few milliseconds, and restFactor
// times as long as the poll read.
const (
	restAtLeast = 2 * time.Millisecond
	restFactor  = 4

	pollWhy = "poll for followers"
)

// pollers are the tail and the overviews of a handle, while they have followers.
type pollers struct {
	// a semaphore for starting a poller, which takes as long as a server takes to answer
	starting chan struct{}

	mu        sync.Mutex
	tail      *tail
	overviews map[overviewKey]any // *overview[R]

	lagging sync.Mutex
	lags    map[*lag]struct{}
}

func pollersOf(d *db.DB) *pollers {
	return d.Store().Followers(func() txn.Followers {
		return &pollers{starting: make(chan struct{}, 1)}
	}).(*pollers)
}

// join calls use, which finds an existing poller and counts its caller, under mu. If there is none,
// start starts one and keep stores it for use to find. Waiting for that ends with ctx.
func (l *pollers) join(ctx context.Context, use func() bool, start func() error, keep func()) error {
	used := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return use()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if used() {
		return nil
	}
	select {
	case l.starting <- struct{}{}:
		defer func() { <-l.starting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if used() { // another caller has started it in the meantime
		return nil
	}
	if err := start(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	keep()
	use()
	return nil
}

// Count is for txn.Handle.
func (l *pollers) Count() (followers, catchingUp int, longest time.Duration) {
	l.mu.Lock()
	if t := l.tail; t != nil {
		followers = t.users
	}
	for _, o := range l.overviews {
		followers += o.(interface{ following() int }).following()
	}
	l.mu.Unlock()
	l.lagging.Lock()
	defer l.lagging.Unlock()
	for lag := range l.lags {
		longest = max(longest, time.Since(lag.since))
	}
	return followers, len(l.lags), longest
}

// A lag holds the time since which a follower has had something left to read.
type lag struct{ since time.Time }

// behind marks a follower that may have something to read. It may be called repeatedly.
func (l *pollers) behind(f *lag) {
	l.lagging.Lock()
	defer l.lagging.Unlock()
	if _, already := l.lags[f]; already {
		return
	}
	if l.lags == nil {
		l.lags = map[*lag]struct{}{}
	}
	f.since = time.Now()
	l.lags[f] = struct{}{}
}

// caughtUp unmarks a follower that has read everything, or leaves.
func (l *pollers) caughtUp(f *lag) {
	l.lagging.Lock()
	defer l.lagging.Unlock()
	delete(l.lags, f)
}

// following is the number of users of a poller; under pollers.mu.
func (l *poller) following() int { return l.users }

// A poller calls poll after each commit, and on request, while it has users.
type poller struct {
	users int // under pollers.mu
	asked chan struct{}
	stop  func()
	ended chan struct{} // closed when no more polls come
	why   error         // why polling has ended; set before ended
	// worked is how long the poll read, without waits. seldom is the part of it that limits itself and
	// needs no rest. Set by poll.
	worked, seldom time.Duration
}

// start starts polling, with the first poll on request. ctx ends only the start.
func (l *poller) start(ctx context.Context, d *db.DB, poll func(context.Context)) error {
	within, stop := context.WithCancelCause(context.Background())
	started := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	changes, err := d.Changes(within)
	if !started() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop(nil)
		return err
	}
	l.asked, l.stop, l.ended = make(chan struct{}, 1), func() { stop(nil) }, make(chan struct{})
	go l.run(within, d, changes, poll)
	return nil
}

func (l *poller) run(ctx context.Context, d *db.DB, changes <-chan struct{}, poll func(context.Context)) {
	defer close(l.ended)
	defer l.stop()
	for {
		select {
		case _, open := <-changes:
			if !open {
				_, l.why = d.Changes(ctx) // the followers get the reason why there are none
				return
			}
		case <-l.asked:
		}
		for again := true; again; {
			l.worked, l.seldom = 0, 0
			if !l.polled(ctx, poll) {
				return
			}
			select {
			case <-time.After(max(restAtLeast, restFactor*(l.worked-l.seldom))):
				again = false
			case <-l.asked: // by a new follower, which must not wait until the rest is over
			case <-ctx.Done():
				again = false
			}
		}
	}
}

// polled reports whether a poll returned. If a clock or an observer panics, the followers end with
// that panic as their error.
func (l *poller) polled(ctx context.Context, poll func(context.Context)) (ended bool) {
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
func (l *poller) read(ctx context.Context, by func(context.Context, string, func(*db.Rx) error) error,
	fn func(*db.Rx) error,
) error {
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

// over is the error for waiting followers once polling has ended.
func (l *poller) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cmp.Or(l.why, db.ErrClosed)
}

// A tail is where followers of single things wait.
type tail struct {
	poller
	d *db.DB

	mu      sync.Mutex
	begun   int // polls begun
	waiting map[*waiter]struct{}
}

// A waiter is a follower that has read all there was.
type waiter struct {
	came  func(*db.Rx) (bool, error) // reports whether its stream has news, by one statement
	woken chan struct{}              // closed when its stream may have news
}

// joinTail returns the tail of the handle. The caller must leave it.
func joinTail(ctx context.Context, d *db.DB) (t *tail, err error) {
	use := func() bool {
		if t = pollersOf(d).tail; t == nil || !t.useful() {
			return false
		}
		t.users++
		return true
	}
	var fresh *tail
	start := func() error {
		fresh = &tail{d: d, waiting: map[*waiter]struct{}{}}
		return fresh.start(ctx, d, fresh.poll)
	}
	err = pollersOf(d).join(ctx, use, start, func() { pollersOf(d).tail = fresh })
	return t, err
}

func (t *tail) leave() {
	pollersOf(t.d).mu.Lock()
	defer pollersOf(t.d).mu.Unlock()
	if t.users--; t.users == 0 {
		if t.stop(); pollersOf(t.d).tail == t {
			pollersOf(t.d).tail = nil
		}
	}
}

// polls is the number of polls begun. A follower that notes it before a read can tell whether a
// poll may have missed what the read did not see.
func (t *tail) polls() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

// wait returns nil once something may have come since the caller read, when since polls had begun.
func (t *tail) wait(ctx context.Context, since int, came func(*db.Rx) (bool, error)) error {
	w := &waiter{came: came, woken: make(chan struct{})}
	t.mu.Lock()
	t.waiting[w] = struct{}{}
	missed := t.begun != since
	t.mu.Unlock()
	if missed {
		t.ask()
	}
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
	case <-t.ended:
	}
	t.mu.Lock()
	delete(t.waiting, w)
	t.mu.Unlock()
	return t.over(ctx)
}

// poll wakes the followers whose streams have news. On an error it wakes all of them, to meet the
// error themselves.
func (t *tail) poll(ctx context.Context) {
	t.mu.Lock()
	t.begun++
	waiting := make([]*waiter, 0, len(t.waiting))
	for w := range t.waiting {
		waiting = append(waiting, w)
	}
	t.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	var woken []*waiter
	err := t.read(ctx, t.d.ReadSingle, func(rx *db.Rx) error { // each asks only for its own end
		woken = woken[:0]
		for _, w := range waiting {
			if came, err := w.came(rx); came || err != nil {
				woken = append(woken, w)
			}
		}
		return nil
	})
	if err != nil {
		woken = waiting
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range woken {
		if _, still := t.waiting[w]; still {
			delete(t.waiting, w)
			close(w.woken)
		}
	}
}

type overviewKey struct {
	stream string
	key    any
}

// A pageOfHeads returns the heads of the next keys, and the last of these.
type pageOfHeads[R comparable] func(
	rx *db.Rx, behind int64,
) (list []Head[R], last int64, more bool, err error)

type someHeads[R comparable] struct {
	page pageOfHeads[R]
	Heads[R]
}

// A snapshot is what an overview found in a poll.
type snapshot[R comparable] struct {
	poll  int
	heads []Head[R]
	err   error
}

// An overview is where followers of many things wait, if they share a list of heads.
type overview[R comparable] struct {
	poller
	d     *db.DB
	key   overviewKey
	heads someHeads[R]

	mu      sync.Mutex
	begun   int             // polls begun
	last    snapshot[R]     // the last one that differed from the one before
	changed chan struct{}   // closed when last changes
	joining []chan struct{} // each closed after a poll that began later

	// Used by the poller's goroutine only:
	open   []int64       // keys that were open at the last poll
	newest int64         // the last key of all scopes that was polled
	allAt  time.Time     // when all were last polled
	took   time.Duration // how long that took
	isOwed bool          // a poll of all is requested
}

// joinOverview returns an overview and its current snapshot. The caller must leave the overview;
// the end of ctx leaves it too.
func joinOverview[R comparable](
	ctx context.Context, d *db.DB, key overviewKey, heads someHeads[R],
) (o *overview[R], now snapshot[R], leave func(), err error) {
	if o, err = findOverview(ctx, d, key, heads); err != nil {
		return nil, now, nil, err
	}
	once := sync.OnceFunc(o.leave)
	stop := context.AfterFunc(ctx, once)
	leave = func() { stop(); once() }
	if now, err = o.now(ctx); err != nil {
		leave()
	}
	return o, now, leave, err
}

func findOverview[R comparable](ctx context.Context, d *db.DB, key overviewKey,
	heads someHeads[R],
) (o *overview[R], err error) {
	use := func() (found bool) {
		if o, found = pollersOf(d).overviews[key].(*overview[R]); !found || !o.useful() {
			return false
		}
		o.users++
		return true
	}
	var fresh *overview[R]
	start := func() error {
		fresh = &overview[R]{d: d, key: key, heads: heads, changed: make(chan struct{})}
		return fresh.start(ctx, d, fresh.poll)
	}
	err = pollersOf(d).join(ctx, use, start, func() {
		if pollersOf(d).overviews == nil {
			pollersOf(d).overviews = map[overviewKey]any{}
		}
		pollersOf(d).overviews[key] = fresh
	})
	return o, err
}

func (o *overview[R]) leave() {
	pollersOf(o.d).mu.Lock()
	defer pollersOf(o.d).mu.Unlock()
	if o.users--; o.users == 0 {
		if o.stop(); pollersOf(o.d).overviews[o.key] == any(o) {
			delete(pollersOf(o.d).overviews, o.key)
		}
	}
}

// now waits for a poll that begins after the call.
func (o *overview[R]) now(ctx context.Context) (snapshot[R], error) {
	polled := make(chan struct{})
	o.mu.Lock()
	o.joining = append(o.joining, polled)
	o.mu.Unlock()
	o.ask()
	select {
	case <-polled:
	case <-ctx.Done():
		return snapshot[R]{}, o.over(ctx)
	case <-o.ended:
		return snapshot[R]{}, o.over(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.last.err
}

// wait returns the next snapshot that differs from before.
func (o *overview[R]) wait(ctx context.Context, before snapshot[R]) (snapshot[R], error) {
	o.mu.Lock()
	now, changed := o.last, o.changed
	o.mu.Unlock()
	if now.poll == before.poll {
		select {
		case <-changed:
		case <-ctx.Done():
			return before, o.over(ctx)
		case <-o.ended:
			return before, o.over(ctx)
		}
		o.mu.Lock()
		now = o.last
		o.mu.Unlock()
	}
	return now, now.err
}

func (o *overview[R]) poll(ctx context.Context) {
	o.mu.Lock()
	o.begun++
	now := snapshot[R]{poll: o.begun}
	joining := o.joining
	o.joining = nil
	o.mu.Unlock()
	if o.pollsAll(len(joining) > 0) {
		now.heads, now.err = o.pollAll(ctx)
	} else {
		now.heads, now.err = o.pollOpen(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.err != nil || o.last.err != nil || o.last.poll == 0 || !slices.Equal(now.heads, o.last.heads) {
		o.last = now
		close(o.changed)
		o.changed = make(chan struct{})
	}
	for _, polled := range joining {
		close(polled)
	}
}

// longPoll is the duration from which on polling all heads is not done after each commit. Tests
// shorten it.
var longPoll = 5 * time.Millisecond

// allRest is how many times its own duration such a poll then rests. Tests lengthen it.
var allRest = 20

// mostOpen is how many open streams are polled one by one; for more, polling all is faster.
const mostOpen = 500

// pollsAll decides how to poll. A follower that joins needs the end of every stream.
func (o *overview[R]) pollsAll(joined bool) bool {
	o.mu.Lock()
	known := o.last.poll > 0 && o.last.err == nil
	o.mu.Unlock()
	return joined || !known || o.heads.Open == nil || o.took < longPoll ||
		time.Since(o.allAt) >= time.Duration(allRest)*o.took
}

// pollAll polls all heads, some in each read. It polls each stream at one moment, which is all that
// followers compare. A key that is missing between others was removed.
func (o *overview[R]) pollAll(ctx context.Context) (heads []Head[R], err error) {
	before := o.worked
	if o.heads.Open != nil { // before the poll: what ends during it is polled once more
		err = o.read(ctx, o.d.Read, func(rx *db.Rx) (err error) {
			o.open, err = o.heads.Open(rx, mostOpen)
			return err
		})
	}
	o.newest = 0
	for more := true; more && err == nil; {
		var part []Head[R]
		err = o.read(ctx, o.d.Read, func(rx *db.Rx) (err error) {
			part, o.newest, more, err = o.heads.page(rx, o.newest)
			return err
		})
		heads = append(heads, part...)
	}
	o.allAt, o.took, o.isOwed = time.Now(), o.worked-before, false
	if o.heads.Open != nil && o.took >= longPoll {
		o.seldom = o.took // the next poll of all is far away
	}
	return heads, err
}

// pollOpen returns the previous snapshot with some streams polled again: those that are open, were
// open then, or are new. Changes and removals of the others are found when all are polled, which is
// requested here.
func (o *overview[R]) pollOpen(ctx context.Context) (heads []Head[R], err error) {
	if !o.isOwed {
		o.isOwed = true
		time.AfterFunc(time.Duration(allRest)*o.took-time.Since(o.allAt), o.ask)
	}
	polled := make(map[int64]*Head[R]) // nil: it was removed
	var open []int64
	var fresh []Head[R]
	newest, more := o.newest, false
	err = o.read(ctx, o.d.Read, func(rx *db.Rx) (err error) {
		clear(polled)
		if open, err = o.heads.Open(rx, mostOpen); err != nil {
			return err
		}
		if len(open) == mostOpen {
			return nil
		}
		for _, key := range slices.Concat(open, o.open) {
			if _, twice := polled[key]; twice {
				continue
			}
			one, err := o.heads.Between(rx, key-1, key)
			if err != nil {
				return err
			}
			if polled[key] = nil; len(one) > 0 {
				polled[key] = &one[0]
			}
		}
		fresh, newest, more, err = o.heads.page(rx, o.newest)
		return err
	})
	if err != nil || more || len(open) == mostOpen {
		if err == nil {
			heads, err = o.pollAll(ctx)
			o.seldom = 0 // it may run after each commit
		}
		return heads, err
	}
	o.mu.Lock()
	before := o.last.heads
	o.mu.Unlock()
	for _, head := range before {
		now, again := polled[head.Key]
		switch {
		case !again:
			heads = append(heads, head)
		case now != nil:
			heads = append(heads, *now)
		}
	}
	o.open, o.newest = open, newest
	return append(heads, fresh...), nil
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
