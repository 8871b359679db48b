package db

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Those who follow one thing wait at the handle's tail, which looks at the ends of all their
// streams in one read after a commit and wakes those to whom something came. Those who follow many
// wait at an overview, one for each list of heads. Both rest after a look: at least restAtLeast, so
// that a storm of commits is one look every few milliseconds, and restFactor times as long as the
// look read.
const (
	restAtLeast = 2 * time.Millisecond
	restFactor  = 4

	lookWhy = "look for what followers wait for"
)

// lookouts are the tail and the overviews of a handle, while somebody waits there.
type lookouts struct {
	// has room for the one who starts one, which takes as long as a server takes to answer
	starting chan struct{}

	mu        sync.Mutex
	tail      *tail
	overviews map[overviewKey]any // *overview[R]

	lagging sync.Mutex
	lags    map[*lag]struct{}
}

// join has use find a lookout that is there and count its caller, under mu. Where there is none
// start starts it, and then keep keeps it for use to find. Who waits for that ends with ctx.
func (l *lookouts) join(ctx context.Context, use func() bool, start func() error, keep func()) error {
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
	if used() { // another has started it meanwhile
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

// count tells how many follow something, how many of those in their loops have not had everything
// that is there, and for how long the one of these that is furthest behind.
func (l *lookouts) count() (followers, catchingUp int, longest time.Duration) {
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

// A lag is since when a follower has not had everything that is there.
type lag struct{ since time.Time }

// behind is called when a follower may have something to read, and again as often as one likes.
func (l *lookouts) behind(f *lag) {
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

// caughtUp is called when a follower has had everything, and when it leaves.
func (l *lookouts) caughtUp(f *lag) {
	l.lagging.Lock()
	defer l.lagging.Unlock()
	delete(l.lags, f)
}

// following is how many use a lookout; under lookouts.mu.
func (l *lookout) following() int { return l.users }

// A lookout calls look after each commit, and when it is asked to, until nobody uses it any more.
type lookout struct {
	users int // under lookouts.mu
	asked chan struct{}
	stop  func()
	ended chan struct{} // closed when no more looks come
	why   error         // nothing more can come; set before ended
	// worked is how long the look read, without what it waited for. seldom is how long of that was
	// something that keeps its own measure, and needs no rest. For look to set.
	worked, seldom time.Duration
}

// start begins to look out, which ctx ends only until then; the first look comes when it is asked for.
func (l *lookout) start(ctx context.Context, d *DB, look func(context.Context)) error {
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
	go l.run(within, d, changes, look)
	return nil
}

func (l *lookout) run(ctx context.Context, d *DB, changes <-chan struct{}, look func(context.Context)) {
	defer close(l.ended)
	defer l.stop()
	for {
		select {
		case _, open := <-changes:
			if !open {
				_, l.why = d.Changes(ctx) // who asks is told why there are none
				return
			}
		case <-l.asked:
		}
		for again := true; again; {
			l.worked, l.seldom = 0, 0
			if !l.looked(ctx, look) {
				return
			}
			select {
			case <-time.After(max(restAtLeast, restFactor*(l.worked-l.seldom))):
				again = false
			case <-l.asked: // by somebody new, who is not to wait for the rest of the others
			case <-ctx.Done():
				again = false
			}
		}
	}
}

// looked reports whether a look came to its end: where a clock or an observer panics, those who
// follow end with that.
func (l *lookout) looked(ctx context.Context, look func(context.Context)) (ended bool) {
	defer func() {
		if v := recover(); v != nil {
			l.why = Panicked(v)
		} else if !ended {
			l.why = errGoexit
		}
	}()
	look(ctx)
	return true
}

// read is Read for a look. A wait for a server that is being replaced is no work, nor is a run of
// fn that was lost with one: else those who follow would hear nothing for several times as long as
// that took.
func (l *lookout) read(ctx context.Context, by func(context.Context, string, func(*Rx) error) error,
	fn func(*Rx) error) error {
	before := l.worked
	err := by(ctx, lookWhy, func(rx *Rx) error {
		began := time.Now()
		defer func() { l.worked = before + time.Since(began) }()
		return fn(rx)
	})
	if errors.Is(err, ErrIO) {
		l.worked = before
	}
	if isPanic(err) { // of an observer, which would panic at the next look, too
		panic(err)
	}
	return err
}

func (l *lookout) ask() {
	select {
	case l.asked <- struct{}{}:
	default:
	}
}

// useful reports whether looks come still. One that panicked may be used by those whose loops have
// not met that yet.
func (l *lookout) useful() bool {
	select {
	case <-l.ended:
		return false
	default:
		return true
	}
}

// over is the error with which those who wait end when no more looks come.
func (l *lookout) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cmp.Or(l.why, ErrClosed)
}

// A tail is where the followers of single things wait.
type tail struct {
	lookout
	d *DB

	mu      sync.Mutex
	looked  int // looks begun
	waiting map[*waiter]struct{}
}

// A waiter is a follower who has read everything that there was.
type waiter struct {
	came  func(*Rx) (bool, error) // reports whether something came to its stream, by one statement
	woken chan struct{}           // closed when something may have
}

// joinTail gives the tail of the handle, which the caller leaves in the end.
func joinTail(ctx context.Context, d *DB) (t *tail, err error) {
	use := func() bool {
		if t = d.lookouts.tail; t == nil || !t.useful() {
			return false
		}
		t.users++
		return true
	}
	var fresh *tail
	start := func() error {
		fresh = &tail{d: d, waiting: map[*waiter]struct{}{}}
		return fresh.start(ctx, d, fresh.look)
	}
	err = d.lookouts.join(ctx, use, start, func() { d.lookouts.tail = fresh })
	return t, err
}

func (t *tail) leave() {
	t.d.lookouts.mu.Lock()
	defer t.d.lookouts.mu.Unlock()
	if t.users--; t.users == 0 {
		if t.stop(); t.d.lookouts.tail == t {
			t.d.lookouts.tail = nil
		}
	}
}

// looks counts the looks that have begun: a follower who takes the count before it reads knows by
// it whether one may have missed what the read did not see.
func (t *tail) looks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.looked
}

// wait returns nil once something may have come since the caller read, which was when since looks had begun.
func (t *tail) wait(ctx context.Context, since int, came func(*Rx) (bool, error)) error {
	w := &waiter{came: came, woken: make(chan struct{})}
	t.mu.Lock()
	t.waiting[w] = struct{}{}
	missed := t.looked != since
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

// look wakes those to whom something came. Where that can't be told they are woken as well, and
// meet the error themselves.
func (t *tail) look(ctx context.Context) {
	t.mu.Lock()
	t.looked++
	waiting := make([]*waiter, 0, len(t.waiting))
	for w := range t.waiting {
		waiting = append(waiting, w)
	}
	t.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	var woken []*waiter
	err := t.read(ctx, t.d.ReadSingle, func(rx *Rx) error { // each asks for its own end alone
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

// A pageOfHeads gives the heads of the next keys, and the last of these.
type pageOfHeads[R comparable] func(rx *Rx, behind int64) (list []Head[R], last int64, more bool, err error)

type someHeads[R comparable] struct {
	page pageOfHeads[R]
	Heads[R]
}

// A sight is what an overview saw at a look.
type sight[R comparable] struct {
	look  int
	heads []Head[R]
	err   error
}

// An overview is where the followers of many things wait, those whose lists of heads are the same.
type overview[R comparable] struct {
	lookout
	d     *DB
	key   overviewKey
	heads someHeads[R]

	mu      sync.Mutex
	looked  int             // looks begun
	last    sight[R]        // of the last one that saw something else than the one before
	changed chan struct{}   // closed when there is another last
	joining []chan struct{} // each closed after a look that began later

	// Of the lookout's goroutine alone:
	open   []int64       // keys that were open at the last look
	newest int64         // the last key of all scopes that was looked at
	allAt  time.Time     // when the last look at all ended
	took   time.Duration // how long that took
	isOwed bool          // a look at all will be asked for
}

// joinOverview gives an overview and what is there now. The caller leaves it in the end; it is left
// when ctx ends, too.
func joinOverview[R comparable](
	ctx context.Context, d *DB, key overviewKey, heads someHeads[R],
) (o *overview[R], now sight[R], leave func(), err error) {
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

func findOverview[R comparable](ctx context.Context, d *DB, key overviewKey,
	heads someHeads[R]) (o *overview[R], err error) {
	use := func() (found bool) {
		if o, found = d.lookouts.overviews[key].(*overview[R]); !found || !o.useful() {
			return false
		}
		o.users++
		return true
	}
	var fresh *overview[R]
	start := func() error {
		fresh = &overview[R]{d: d, key: key, heads: heads, changed: make(chan struct{})}
		return fresh.start(ctx, d, fresh.look)
	}
	err = d.lookouts.join(ctx, use, start, func() {
		if d.lookouts.overviews == nil {
			d.lookouts.overviews = map[overviewKey]any{}
		}
		d.lookouts.overviews[key] = fresh
	})
	return o, err
}

func (o *overview[R]) leave() {
	o.d.lookouts.mu.Lock()
	defer o.d.lookouts.mu.Unlock()
	if o.users--; o.users == 0 {
		if o.stop(); o.d.lookouts.overviews[o.key] == any(o) {
			delete(o.d.lookouts.overviews, o.key)
		}
	}
}

// now waits for a look that begins after the call.
func (o *overview[R]) now(ctx context.Context) (sight[R], error) {
	looked := make(chan struct{})
	o.mu.Lock()
	o.joining = append(o.joining, looked)
	o.mu.Unlock()
	o.ask()
	select {
	case <-looked:
	case <-ctx.Done():
		return sight[R]{}, o.over(ctx)
	case <-o.ended:
		return sight[R]{}, o.over(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.last.err
}

// wait gives what a look saw that is something else than before.
func (o *overview[R]) wait(ctx context.Context, before sight[R]) (sight[R], error) {
	o.mu.Lock()
	now, changed := o.last, o.changed
	o.mu.Unlock()
	if now.look == before.look {
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

func (o *overview[R]) look(ctx context.Context) {
	o.mu.Lock()
	o.looked++
	now := sight[R]{look: o.looked}
	joining := o.joining
	o.joining = nil
	o.mu.Unlock()
	if o.looksAtAll(len(joining) > 0) {
		now.heads, now.err = o.atAll(ctx)
	} else {
		now.heads, now.err = o.atOpen(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.err != nil || o.last.err != nil || o.last.look == 0 || !slices.Equal(now.heads, o.last.heads) {
		o.last = now
		close(o.changed)
		o.changed = make(chan struct{})
	}
	for _, looked := range joining {
		close(looked)
	}
}

// longLook is how long a look at all takes that does not come after each commit any more. Tests shorten it.
var longLook = 5 * time.Millisecond

// allRest is how many times as long as it took there is none then. Tests lengthen it.
var allRest = 20

// mostOpen is how many open streams are looked at one by one; more than that are found faster by a
// look at all.
const mostOpen = 500

// looksAtAll decides how to look. Who joins needs to know where each stream ends.
func (o *overview[R]) looksAtAll(joined bool) bool {
	o.mu.Lock()
	known := o.last.look > 0 && o.last.err == nil
	o.mu.Unlock()
	return joined || !known || o.heads.Open == nil || o.took < longLook ||
		time.Since(o.allAt) >= time.Duration(allRest)*o.took
}

// atAll looks at all heads, in a read for some of them at a time. Each stream is as it was at one
// moment of the look, which is all that followers compare; a key that is missing between others was
// removed.
func (o *overview[R]) atAll(ctx context.Context) (heads []Head[R], err error) {
	before := o.worked
	if o.heads.Open != nil { // before the look: what ends meanwhile is looked at once more
		err = o.read(ctx, o.d.Read, func(rx *Rx) (err error) {
			o.open, err = o.heads.Open(rx, mostOpen)
			return err
		})
	}
	o.newest = 0
	for more := true; more && err == nil; {
		var part []Head[R]
		err = o.read(ctx, o.d.Read, func(rx *Rx) (err error) {
			part, o.newest, more, err = o.heads.page(rx, o.newest)
			return err
		})
		heads = append(heads, part...)
	}
	o.allAt, o.took, o.isOwed = time.Now(), o.worked-before, false
	if o.heads.Open != nil && o.took >= longLook {
		o.seldom = o.took // the next of its kind is far away
	}
	return heads, err
}

// atOpen is what was seen before, with another look at those streams that are open, were open then,
// or are new. The others, and removals among them, are seen by a look at all, which is asked for.
func (o *overview[R]) atOpen(ctx context.Context) (heads []Head[R], err error) {
	if !o.isOwed {
		o.isOwed = true
		time.AfterFunc(time.Duration(allRest)*o.took-time.Since(o.allAt), o.ask)
	}
	looked := make(map[int64]*Head[R]) // nil: it is gone
	var open []int64
	var fresh []Head[R]
	newest, more := o.newest, false
	err = o.read(ctx, o.d.Read, func(rx *Rx) (err error) {
		clear(looked)
		if open, err = o.heads.Open(rx, mostOpen); err != nil {
			return err
		}
		if len(open) == mostOpen {
			return nil
		}
		for _, key := range slices.Concat(open, o.open) {
			if _, twice := looked[key]; twice {
				continue
			}
			one, err := o.heads.Between(rx, key-1, key)
			if err != nil {
				return err
			}
			if looked[key] = nil; len(one) > 0 {
				looked[key] = &one[0]
			}
		}
		fresh, newest, more, err = o.heads.page(rx, o.newest)
		return err
	})
	if err != nil || more || len(open) == mostOpen {
		if err == nil {
			heads, err = o.atAll(ctx)
			o.seldom = 0 // it may come after each commit
		}
		return heads, err
	}
	o.mu.Lock()
	before := o.last.heads
	o.mu.Unlock()
	for _, head := range before {
		now, again := looked[head.Key]
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
