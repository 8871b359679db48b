package stores

import (
	"context"
	"slices"
	"sync"
	"time"

	"selvedge/db"
)

type overviewKey struct {
	stream string
	key    any
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
	heads    Heads[R]
	nextKeys string // sqlNextKeys of the table

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
	ctx context.Context, d *db.DB, key overviewKey, heads Heads[R], nextKeys string,
) (o *overview[R], now snapshot[R], leave func(), err error) {
	o, err = join(ctx, d, key, &overview[R]{heads: heads, nextKeys: nextKeys, changed: make(chan struct{})})
	if err != nil {
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

// now waits for a poll that begins after the call.
func (o *overview[R]) now(ctx context.Context) (snapshot[R], error) {
	polled := make(chan struct{})
	o.mu.Lock()
	o.joining = append(o.joining, polled)
	o.mu.Unlock()
	o.ask()
	if err := o.await(ctx, polled); err != nil {
		return snapshot[R]{}, err
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
		if err := o.await(ctx, changed); err != nil {
			return before, err
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

// headsAtATime is how many keys one read polls.
const headsAtATime = 1000

// sqlNextKeys returns the greatest of the next keys of a table after a key, and their number.
const sqlNextKeys = `SELECT coalesce(max(%[2]s), 0) AS last, count(*) AS keys
	FROM (SELECT %[2]s FROM %[1]s WHERE %[2]s > ? ORDER BY %[2]s LIMIT ?) AS next`

// page returns the heads of the next keys, and the last of these.
func (o *overview[R]) page(rx *db.Rx, behind int64) (list []Head[R], last int64, more bool, err error) {
	var next struct {
		Last int64 `db:"last"`
		Keys int64 `db:"keys"`
	}
	if err := rx.Get(&next, o.nextKeys, behind, headsAtATime); err != nil || next.Keys == 0 {
		return nil, behind, false, err
	}
	list, err = o.heads.Between(rx, behind, next.Last)
	return list, next.Last, next.Keys == headsAtATime, err
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
			part, o.newest, more, err = o.page(rx, o.newest)
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
		fresh, newest, more, err = o.page(rx, o.newest)
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
