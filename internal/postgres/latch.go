package postgres

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A serialisable transaction that waits for a row continues with its snapshot from before the wait, and
// most often loses, which is an ERROR in the server's log. So the calls of a handle that lock the same
// rows first wait for each other in the process, before they have a snapshot: a serialisable one for all
// others, and the others, which read what was committed while they waited on the server, for the
// serialisable ones only. Such a wait holds nothing on the server.
//
// Calls of different handles do not wait for each other until a serialisable one loses, and then finds the
// rows locked. From then on, those of its handle look first: they wait on the server, before they have a
// snapshot.

// latches are the waits of a handle, by the query that locks the rows, with its arguments.
type latches struct {
	mu    sync.Mutex
	by    map[string]*latch
	looks map[string]int // how many of the next calls look first
}

// A latch is fair: later callers wait behind earlier ones.
type latch struct {
	*semaphore.Weighted
	users int
}

// exclusively is the weight of a serialisable transaction. Other transactions have the weight 1.
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
// snapshot already does not wait; its call waits when it is run again. locked reports that the rows are
// locked already.
func (t *tx) latch(query string, args []any) (locked bool, err error) {
	if err := t.usable(); err != nil {
		return false, err
	}
	wire, latches := t.session.wire, &t.engine.latches
	begun, name := !wire.unbegun(), fmt.Sprint(query, args)
	if t.unlatch == nil && (!begun || !t.locks && t.met.latch == "") {
		weight := int64(1)
		if !t.locks {
			t.met.latch, weight = name, exclusively
		}
		if !begun {
			t.unlatch = latches.acquire(background, name, weight)
		}
	}
	if begun || t.locks || len(wire.ahead) > len(beginBeside) {
		return false, nil
	}
	if latches.looksFirst(name) {
		t.met.looks = true
	} else if t.met.losses == 0 {
		return false, nil
	}
	locked, err = t.look(name, query, args)
	return locked, t.after(err)
}

const (
	// looksAfter is how many calls look first after one that found the rows locked. A call that
	// loses without having looked is an ERROR in the server's log.
	looksAfter = 1000
	// mostLooked is how many rows a handle remembers for this. It forgets all of them when there are more.
	mostLooked = 1000
	// sqlLookLock locks or unlocks a number. Names, and the registry of sessions, use the OIDs of other tables.
	sqlLookLock = "SELECT pg_advisory_%s(CAST(CAST('sessions' AS REGCLASS) AS OID)::INTEGER, %d)"
)

// mostLooks bounds how often a call waits for the rows in vain, because others lock them in between. A test
// lowers it.
var mostLooks = 20

// look begins a serialisable transaction with the lock of its first rows. It waits for them in READ
// COMMITTED, so that it does not wait with a snapshot. All of it is one message. If others lock the rows in
// between, it looks again. In the end, or after a long wait, the transaction begins without the lock.
//
// The calls that look at the same rows take turns by an advisory lock, which the session keeps until the
// message that ends the transaction. When the server frees the rows of a commit, it still counts the
// transaction among the concurrent ones for a moment; when it has unlocked, it does not.
func (t *tx) look(name, query string, args []any) (locked bool, err error) {
	wire := t.session.wire
	begin := wire.ahead
	for _, query := range []string{query + forChange, query + forChange + skipLocked} {
		if err := wire.put(background, query, args); err != nil {
			return false, err
		}
	}
	all, free := wire.ahead[len(begin)], wire.ahead[len(begin)+1]
	number := crc32.ChecksumIEEE([]byte(name)) >> 1 // an INTEGER is not negative then
	message := slices.Concat([]bound{
		control(sqlBeginLocked), free, control(sqlUndo + " AND CHAIN"),
		control(fmt.Sprintf("SET LOCAL lock_timeout = %d", latchPatience.Milliseconds())),
		control(fmt.Sprintf(sqlLookLock, "lock", number)), all, control(sqlUndo),
	}, begin, []bound{free})
	for left := mostLooks; left > 0; left-- {
		wire.ahead, wire.unlock = nil, []bound{control(fmt.Sprintf(sqlLookLock, "unlock", number))}
		answers, err := wire.exchange(background, message)
		switch {
		case state(err) == "55P03":
			left = 1 // the wait was too long
		case err != nil:
			return false, err
		default:
			before, waited, after := answers[1].tag, answers[5].tag, answers[len(answers)-1].tag
			locked = after == waited
			if !locked || before != waited {
				t.met.looks = true
				t.engine.latches.lookFirst(name)
			}
			if locked {
				return true, nil
			}
		}
		if err := wire.undo(); err != nil {
			return false, err
		}
	}
	wire.ahead = begin
	return false, nil
}

// lookFirst makes the next calls on these rows look first.
func (l *latches) lookFirst(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looks == nil || len(l.looks) == mostLooked {
		l.looks = map[string]int{}
	}
	l.looks[name] = looksAfter
}

// looksFirst reports whether a call is to look first, and counts it.
func (l *latches) looksFirst(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.looks[name]
	if left > 1 {
		l.looks[name]--
	} else {
		delete(l.looks, name)
	}
	return left > 0
}

// releaseLatch lets the next call continue.
func (t *tx) releaseLatch() {
	if t.unlatch != nil {
		t.unlatch()
		t.unlatch = nil
	}
}
