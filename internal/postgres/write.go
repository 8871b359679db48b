package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

const (
	sqlBeginWrite = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	// sqlBeginLocked begins a transaction in which each statement sees what was committed before
	// it. Once it has locked a row, it sees what the lock's earlier holders did.
	sqlBeginLocked = "BEGIN ISOLATION LEVEL READ COMMITTED"
	// sqlEnter is the first lock of every serialisable transaction. It blocks only transactions
	// that want to run alone.
	sqlEnter = "LOCK TABLE selvedge_file IN ROW SHARE MODE"
	// sqlBeginQueued waits in the retry queue before it takes a snapshot, so that the snapshot is
	// new. The lock ends with the transaction, even if this process stops in the middle of it,
	// and blocks no transaction outside the queue.
	sqlBeginQueued = sqlBeginWrite + "; LOCK TABLE selvedge_file IN SHARE UPDATE EXCLUSIVE MODE"

	// queueAfter is how many lost races bring a call into the retry queue. The calls in it don't
	// collide with each other, so many calls on one row all succeed in the end.
	queueAfter = 2
	// aloneEvery: after each aloneEvery losses a call runs alone, since others might always commit
	// first.
	aloneEvery = 8
	// alonePatience bounds the wait for each lock of a transaction that wants to run alone, since
	// all later transactions wait behind it. An autovacuum gives the table up after a second of
	// that (deadlock_timeout); a user's transaction or VACUUM may take hours.
	alonePatience = 2 * time.Second

	// primaryPatience is how long a call waits for a primary before it fails, and how long a
	// COMMIT that was cut off waits to be settled. A failover takes half of it.
	primaryPatience = 60 * time.Second
)

// sqlBeginAlone waits first for all our serialisable transactions under way, which hold the lock
// of sqlEnter, and then for the transactions that lock rows first; new ones wait behind it,
// before they hold anything. Readers continue. All of the waiting comes before the snapshot.
// Afterwards the session's own lock_timeout holds again; DEFAULT is the role's.
func (a *Address) sqlBeginAlone(patience time.Duration, locked []string) string {
	return fmt.Sprintf("%s; SET LOCAL lock_timeout = %d; LOCK TABLE selvedge_file IN EXCLUSIVE MODE; LOCK "+
		"TABLE %s IN EXCLUSIVE MODE; SET LOCAL lock_timeout TO %s",
		sqlBeginWrite, patience.Milliseconds(), strings.Join(locked, ", "), a.lockTimeout)
}

// beginBeside begins a serialisable transaction beside others.
var beginBeside = []bound{control(sqlBeginWrite), control(sqlEnter)}

// A turn is how a call runs relative to other calls.
type turn int

const (
	beside turn = iota // as all do
	queued             // in the retry queue
	alone              // while no other call of ours writes
)

// A trouble records what a call has met so far.
type trouble struct {
	losses int       // against other transactions
	since  time.Time // when the connection was first lost; zero if it has lost a race since
	tried  int

	contested map[string]int // how often keys were found taken, or missing
	alone     bool           // no other of our transactions runs beside the present one
	strange   int            // how many keys were found taken in runs alone
	latch     string         // that the next run waits for before its snapshot; "" for none
	looks     bool           // others lock the rows that it locks first
}

// turn returns the mode of the next run. A call that locks its rows waits for those locks instead
// of the retry queue, and so does one that looks at them first.
func (t *trouble) turn(locks bool) turn {
	switch {
	case t.losses > 0 && t.losses%aloneEvery == 0:
		return alone
	case t.losses >= queueAfter && !locks && !t.looks:
		return queued
	}
	return beside
}

const (
	// mostContested is how often a key may be found taken, since several others may take and leave
	// it one after the other. Within a savepoint, where the caller may expect it, the limit is one.
	mostContested = 3
	// mostStrange bounds how many keys may be found taken in runs alone before the next one
	// counts as the caller's own conflict: programs other than ours may have taken them.
	mostStrange = 3
)

// passing reports whether a key that is found taken may have been committed by another
// transaction just now, which the transaction's own reads don't show. The server reports the key
// instead of a lost race; in a retry, the transaction sees the row. The same holds for a row that
// a foreign key names and that was committed after the transaction's snapshot. A key that is
// found taken again and again, or in two runs, one of them alone, is the caller's own conflict.
func (t *trouble) passing(err error, most int) bool {
	key := contested(err)
	if n := t.contested[key]; key == "" || n == most || n > 0 && t.alone {
		return false
	}
	if t.alone {
		if t.strange++; t.strange > mostStrange {
			return false
		}
	}
	if t.contested == nil {
		t.contested = map[string]int{}
	}
	t.contested[key]++
	return true
}

// again waits before the call is retried, and reports whether it is to be retried.
func (t *trouble) again(ctx context.Context, patience time.Duration, err error) bool {
	switch {
	case isBeaten(err) || contested(err) != "" || errors.Is(err, errNotAlone):
		t.losses++
		t.since, t.tried = time.Time{}, 0
		most := time.Millisecond << min(t.losses, 5)
		return engine.Pause(ctx, rand.N(most))
	case isStale(err), errors.Is(err, errNewNumber):
		return ctx.Err() == nil
	case !isLost(err):
		return false
	}
	if t.since.IsZero() {
		t.since = time.Now()
	}
	if time.Since(t.since) > patience {
		return false
	}
	t.tried++
	most := time.Millisecond << min(t.tried, 9)
	return engine.Pause(ctx, most/2+rand.N(most/2+1))
}

// WriteEnd is WriteLocked: the server's disk has no reserve of ours.
func (e *Engine) WriteEnd(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	return e.WriteLocked(ctx, why, fn)
}

// Reclaim is Write: the server's disk has no reserve of ours.
func (e *Engine) Reclaim(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	return e.Write(ctx, why, fn)
}

// Write runs fn in a serialisable transaction. It retries after a race lost against another
// transaction, and after a connection lost before the commit.
func (e *Engine) Write(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	return e.write(ctx, why, fn, false)
}

// WriteLocked is Write in a transaction that is not serialisable by itself: fn locks what it
// reads.
func (e *Engine) WriteLocked(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	return e.write(ctx, why, fn, true)
}

func (e *Engine) write(ctx context.Context, why string, fn func(engine.Tx) error,
	locks bool,
) (out callback.Outcome) {
	if ctx.Err() != nil {
		return callback.Outcome{Err: engine.EndedBefore(ctx)}
	}
	one, _, err := e.calls.begin(ctx, why, true)
	if err != nil {
		return callback.Outcome{Err: err}
	}
	defer e.calls.over(one)
	var t trouble
	for {
		again := e.tryWrite(ctx, &t, fn, locks, &out)
		if again == nil {
			return out
		}
		if !t.again(ctx, e.patience, again) {
			if ctx.Err() != nil {
				out.Err = engine.Failf(engine.ErrBusy,
					"nothing was changed; try again, or give the call more time",
					"running it again: %w (%w)", context.Cause(ctx), again)
			}
			return out
		}
		switch {
		case isLost(again):
			e.writers.renew()
		case state(again) == "23503":
			e.home.doubt() // a missing row may be that of this process's number
		}
	}
}

// tryWrite runs fn once. again is why it may be run once more: nothing of it was committed.
func (e *Engine) tryWrite(ctx context.Context, met *trouble, fn func(engine.Tx) error, locks bool,
	out *callback.Outcome,
) (again error) {
	*out = callback.Outcome{}
	turn := met.turn(locks)
	met.alone = turn == alone
	refused := func(err error) error {
		out.Err = failure(err)
		return err
	}
	if turn != beside {
		select {
		case e.losers <- struct{}{}:
			defer func() { <-e.losers }()
		case <-ctx.Done():
			return refused(waitEnded(ctx, "the rows that it changes"))
		}
	}
	s, err := e.writers.acquire(ctx)
	if err != nil {
		return refused(err)
	}
	defer e.writers.release(s)
	if err := s.renewRow(ctx); err != nil {
		return refused(err)
	}
	defer e.reportWaits(ctx, s)()
	t := &tx{rx: rx{engine: e, session: s, met: met}, number: e.home.number(), locks: locks && turn != alone}
	defer t.releaseLatch()
	if met.latch != "" {
		t.unlatch = e.latches.acquire(ctx, met.latch, exclusively)
	}
	if err := t.begin(ctx, turn); err != nil {
		return refused(err)
	}
	e.config.Callbacks.Invoke(func() error { return fn(t) }, func(o callback.Outcome) {
		again = e.conclude(t, &o)
		t.releaseLatch()
		*out = o
	})
	if again == nil && !out.Failed() {
		e.committed(t, out)
	}
	return again
}

// errNotAlone makes a call that wanted to run alone continue beside the others: another
// transaction held its locks for too long.
var errNotAlone = errors.New("a transaction that takes long has locks that would be in the way")

// begin begins the transaction. If it has to wait for others before its first statement, that
// wait ends with ctx. Else BEGIN goes with the first statement.
func (t *tx) begin(ctx context.Context, turn turn) error {
	wire := t.session.wire
	wire.changed, wire.answers, wire.dropped, wire.touched = false, answers{}, false, engine.Touched{}
	wire.unlock = nil
	text := sqlBeginQueued
	switch {
	case turn == alone:
		text = t.engine.address.sqlBeginAlone(t.engine.alonePatience, t.engine.config.Locked)
	case turn == queued:
	case t.locks:
		wire.ahead = []bound{control(sqlBeginLocked)}
		return nil
	default:
		wire.ahead = slices.Clone(beginBeside)
		return nil
	}
	wire.mayDial(true)
	_, err := wire.simple(ctx, text)
	wire.mayDial(false)
	if err != nil {
		_ = wire.undo()
	}
	if turn == alone && state(err) == "55P03" {
		err = fmt.Errorf("%w: %w", errNotAlone, err)
	}
	return err
}

// conclude commits the changes of fn, or undoes them.
func (e *Engine) conclude(t *tx, out *callback.Outcome) (again error) {
	err := t.finish()
	switch {
	case t.dead != nil && !out.Gone() && t.mayPass:
		out.Err, again = t.dead, t.dead // whatever fn returned
	case t.dead != nil && !out.Failed(),
		errors.Is(t.dead, engine.ErrOutcomeUnknown) && !errors.Is(out.Err, engine.ErrOutcomeUnknown):
		out.Err = t.dead // a function's own error would mean that nothing was changed
	case err != nil && !out.Failed():
		out.Err = err
	}
	wire := t.session.wire
	switch {
	case t.finished > 0:
		out.Group, out.Commit, out.Committed = 1, t.finished, out.Failed()
		return nil
	case out.Failed():
	case !wire.changed && (t.locks || wire.unbegun()):
		wire.endLater() // there is nothing to commit, and what was read needs no validation
		out.Group = 1
	case !wire.changed:
		again, out.Err = t.endUnchanged()
		out.Group = 1
	default:
		began := time.Now()
		_, again, out.Err = e.commit(t.session, nil)
		out.Group, out.Commit = 1, time.Since(began)
		again = t.worthAgain(again)
	}
	if !out.Failed() {
		return nil
	}
	out.Group, out.Commit = 0, 0
	t.RolledBack()
	_ = wire.undo()
	return again
}

// endUnchanged commits a serialisable transaction that changed nothing: the server validates its
// reads. There is nothing to settle, and nothing to wait for on the disk.
func (t *tx) endUnchanged() (again, err error) {
	ctx, cancel := patient(background, commitPatience)
	defer cancel()
	wire := t.session.wire
	at, all := len(wire.ahead), slices.Concat(wire.ahead, wire.ending("COMMIT"))
	wire.ahead = nil
	answers, err := wire.exchange(ctx, all)
	switch {
	case err != nil:
		err = failure(fmt.Errorf("commit: %w", err))
		return err, err
	case answers[at].tag != "COMMIT":
		return nil, fmt.Errorf("commit: the server answers %q", answers[at].tag)
	}
	return nil, nil
}

// worthAgain returns why a commit that failed may be retried; nil for a key that was found taken
// too often.
func (t *tx) worthAgain(again error) error {
	if contested(again) != "" && !t.met.passing(again, mostContested) {
		return nil
	}
	return again
}

// committed finishes a call after its commit.
func (e *Engine) committed(t *tx, out *callback.Outcome) {
	e.counted.callers.Add(1)
	e.counted.commits.Add(1)
	e.watch.committed(t.session.wire.touched)
	e.runHooks(t.Committed, out)
}

// runHooks runs all hooks, even after one that ends the goroutine; out records the first that did
// not return.
func (e *Engine) runHooks(hooks []func(), out *callback.Outcome) {
	if len(hooks) == 0 {
		return
	}
	defer func() { e.runHooks(hooks[1:], out) }()
	e.config.Callbacks.Invoke(func() error { hooks[0](); return nil }, func(o callback.Outcome) {
		if o.Gone() && !out.Gone() {
			o.Committed, o.Group, o.Commit = true, out.Group, out.Commit
			*out = o
		}
	})
}
