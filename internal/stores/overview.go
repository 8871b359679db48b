package stores

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"selvedge/db"
)

type overviewKey struct {
	stream string
	key    any
}

// A sight is what a poll found of one stream.
type sight[R comparable] struct {
	Head[R]
	removed bool // only Key is set
}

// An overview is where followers of many things wait, if they share a list of heads. It polls the heads
// of the keys that commits touched, and all heads where it is not known what they touched.
type overview[R comparable] struct {
	poller
	between  func(rx *db.Rx, behind, last int64) ([]Head[R], error)
	nextKeys string // sqlNextKeys of the table

	mu      sync.Mutex
	heads   map[int64]Head[R]
	err     error           // of the last poll
	changes []int64         // keys of heads that changed, the last ones of all
	dropped int             // changes before them
	changed chan struct{}   // closed when changes or err does
	joining []chan struct{} // each closed after a poll of all that began later

	// Used by the poller's goroutine only:
	isKnown bool      // heads are complete but for what is touched and isOwed
	isOwed  bool      // a poll of all, which is not before restsTo
	restsTo time.Time // when all may be polled again
}

// joinOverview returns an overview, the heads that a poll found which began after the call, and the
// number of changes that are in them. The caller must leave the overview; the end of ctx leaves it too.
func joinOverview[R comparable](
	ctx context.Context, d *db.DB, key overviewKey, table, nextKeys string,
	between func(rx *db.Rx, behind, last int64) ([]Head[R], error),
) (o *overview[R], heads map[int64]Head[R], seen int, leave func(), err error) {
	o, err = join(ctx, d, key, &overview[R]{
		poller: poller{table: table}, between: between, nextKeys: nextKeys,
		heads: map[int64]Head[R]{}, changed: make(chan struct{}),
	})
	if err != nil {
		return nil, nil, 0, nil, err
	}
	once := sync.OnceFunc(o.leave)
	stop := context.AfterFunc(ctx, once)
	leave = func() { stop(); once() }
	if heads, seen, err = o.now(ctx); err != nil {
		leave()
	}
	return o, heads, seen, leave, err
}

// now waits for a poll of all that begins after the call.
func (o *overview[R]) now(ctx context.Context) (heads map[int64]Head[R], seen int, err error) {
	polled := make(chan struct{})
	o.mu.Lock()
	o.joining = append(o.joining, polled)
	o.mu.Unlock()
	o.ask()
	if err := o.await(ctx, polled); err != nil {
		return nil, 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.heads), o.dropped + len(o.changes), o.err
}

// wait waits for changes after the first seen ones, and returns the heads that changed and the number
// of changes that are in them. all: it returns all heads, and what is missing was removed.
func (o *overview[R]) wait(ctx context.Context, seen int) (list []sight[R], now int, all bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && seen == o.dropped+len(o.changes) {
		changed := o.changed
		o.mu.Unlock()
		err := o.await(ctx, changed)
		o.mu.Lock()
		if err != nil {
			return nil, seen, false, err
		}
	}
	now = o.dropped + len(o.changes)
	if o.err != nil {
		return nil, now, false, o.err
	}
	var keys []int64
	if all = seen < o.dropped; all {
		keys = slices.Sorted(maps.Keys(o.heads))
	} else {
		keys = slices.Clone(o.changes[seen-o.dropped:])
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	for _, key := range keys {
		head, found := o.heads[key]
		head.Key = key
		list = append(list, sight[R]{head, !found})
	}
	return list, now, all, nil
}

// longPoll is the duration from which on a poll of all heads is followed by a long rest. Tests
// shorten it.
var longPoll = 5 * time.Millisecond

// allRest is how many times its own duration that rest is.
const allRest = 20

func (o *overview[R]) poll(ctx context.Context) {
	o.mu.Lock()
	joining := o.joining
	o.joining = nil
	o.mu.Unlock()
	keys, all := o.feed.Take()
	o.polled = len(keys)
	resting := time.Until(o.restsTo)
	var found []sight[R]
	var err error
	switch {
	case len(joining) > 0 || !o.isKnown || all && resting <= 0 || o.isOwed && resting <= 0:
		found, err = o.pollAll(ctx)
	default:
		if all && !o.isOwed {
			o.isOwed = true
			time.AfterFunc(resting, o.ask)
		}
		found, err = o.pollKeys(ctx, keys)
	}
	if err != nil {
		o.isKnown = false // what was taken from the feed is still to be polled
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(found, err)
	for _, polled := range joining {
		close(polled)
	}
}

// mostChanges is how many changes are kept for followers that are in their loops. One that is further
// behind compares all heads.
const mostChanges = 10_000

// note keeps what a poll found. The caller has o.mu.
func (o *overview[R]) note(found []sight[R], err error) {
	before := len(o.changes)
	for _, s := range found {
		head, was := o.heads[s.Key]
		switch {
		case s.removed && was:
			delete(o.heads, s.Key)
		case s.removed || was && head == s.Head:
			continue
		default:
			o.heads[s.Key] = s.Head
		}
		o.changes = append(o.changes, s.Key)
	}
	if len(o.changes) == before && err == nil && o.err == nil {
		return
	}
	if extra := len(o.changes) - mostChanges; extra > mostChanges {
		o.changes = slices.Delete(o.changes, 0, extra)
		o.dropped += extra
	}
	o.err = err
	close(o.changed)
	o.changed = make(chan struct{})
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
	list, err = o.between(rx, behind, next.Last)
	return list, next.Last, next.Keys == headsAtATime, err
}

// pollAll polls all heads, some in each read. It polls each stream at one moment, which is all that
// followers compare.
func (o *overview[R]) pollAll(ctx context.Context) (found []sight[R], err error) {
	before := o.worked
	o.isOwed, o.isKnown = false, true
	there := make(map[int64]struct{}, len(o.heads))
	newest := int64(0)
	for more := true; more; {
		var part []Head[R]
		err = o.read(ctx, o.d.Read, func(rx *db.Rx) (err error) {
			part, newest, more, err = o.page(rx, newest)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, head := range part {
			there[head.Key] = struct{}{}
			found = append(found, sight[R]{Head: head})
		}
	}
	for key := range o.heads { // only this goroutine changes them
		if _, still := there[key]; !still {
			found = append(found, removal[R](key))
		}
	}
	if took := o.worked - before; took >= longPoll {
		o.restsTo = time.Now().Add(allRest * took)
		o.seldom = took
	}
	return found, nil
}

func removal[R comparable](key int64) sight[R] {
	return sight[R]{Head: Head[R]{Place: Place{Key: key}}, removed: true}
}

// pollKeys polls the heads of some keys, some in each read.
func (o *overview[R]) pollKeys(ctx context.Context, keys []int64) (found []sight[R], err error) {
	for part := range slices.Chunk(keys, headsAtATime) {
		done := found
		err = o.read(ctx, o.d.Read, func(rx *db.Rx) error {
			found = slices.Clip(done)
			for _, key := range part {
				one, err := o.between(rx, key-1, key)
				if err != nil {
					return err
				}
				if len(one) == 0 {
					found = append(found, removal[R](key))
					continue
				}
				found = append(found, sight[R]{Head: one[0]})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
