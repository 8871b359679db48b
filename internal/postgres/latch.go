package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A serialisable transaction that waits for a row continues with its snapshot from before the wait, and
// most often loses, which is an ERROR in the server's log. So the calls of a handle that lock the same
// rows first wait for each other in the process, before they have a snapshot: a serialisable one for all
// others, and the others, which read what was committed while they waited on the server, for the
// serialisable ones only. Such a wait holds nothing on the server.

// latches are the waits of a handle, by the query that locks the rows, with its arguments.
type latches struct {
	mu sync.Mutex
	by map[string]*latch
}

// A latch is fair: who comes later waits behind.
type latch struct {
	*semaphore.Weighted
	users int
}

// exclusively is the weight of a serialisable transaction. That of the others is 1.
const exclusively = 1 << 30

// latchPatience bounds the wait, because a function may wait for another call that locks the same rows.
// Tests shorten it.
var latchPatience = 2 * time.Second

// acquire waits for the latch of that name, or until the patience or the context ends.
func (l *latches) acquire(ctx context.Context, name string, weight int64) (release func()) {
	l.mu.Lock()
	one := l.by[name]
	if one == nil {
		if l.by == nil {
			l.by = map[string]*latch{}
		}
		one = &latch{Weighted: semaphore.NewWeighted(exclusively)}
		l.by[name] = one
	}
	one.users++
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, latchPatience)
	defer cancel()
	err := one.Acquire(ctx, weight)
	return func() {
		if err == nil {
			one.Release(weight)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.by, name)
		}
	}
}

// latch waits for the other calls that lock these rows first. A serialisable transaction that has a
// snapshot already does not wait; its call waits when it is run again.
func (t *tx) latch(query string, args []any) {
	begun := !t.session.wire.unbegun()
	if t.unlatch != nil || begun && (t.locks || t.met.latch != "") {
		return
	}
	name, weight := fmt.Sprint(query, args), int64(1)
	if !t.locks {
		t.met.latch, weight = name, exclusively
	}
	if !begun {
		t.unlatch = t.engine.latches.acquire(background, name, weight)
	}
}

// releaseLatch lets the next call continue.
func (t *tx) releaseLatch() {
	if t.unlatch != nil {
		t.unlatch()
		t.unlatch = nil
	}
}
