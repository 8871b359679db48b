package db

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	sqlBegin          = "BEGIN"
	sqlBeginImmediate = "BEGIN IMMEDIATE"
	sqlCommit         = "COMMIT"
	sqlRollback       = "ROLLBACK"
	sqlSavepoint      = "SAVEPOINT caller"
	sqlRelease        = "RELEASE caller"
	sqlRollbackTo     = "ROLLBACK TO caller"
)

// maxGroup bounds the callers that share one commit, and so how long the first of them waits for the last.
const maxGroup = 256

// The WAL is looked at every walLookEvery commits. Under readers that never leave a gap SQLite moves it into the file but
// can't start it again from its beginning, and it grows without end (300 MB in 0.7 s were seen); above walRestartPages
// the writer waits, for a moment, for the readers.
const (
	walLookEvery    = 64
	walRestartPages = 4 * walCheckpointPages
)

// Write runs fn in a write transaction and returns when it is committed. why names the call in errors and to
// Options.Observe.
//
// One fn runs at a time in this process, on the caller's goroutine when nobody else waits and on the writer's own else. So
// it must be short, must not block on other callers, and must not call Read or Write of the same file (an error at once).
// Callers that wait at the same time share a commit; an error, a panic or a Goexit in one caller's function undoes its
// changes alone. fn may run more than once, when SQLite ended the transaction of the group (a full disk): what it changes
// outside the database it must be able to change again.
//
// When ctx ends before fn has begun, Write returns at once with ErrBusy and the context's cause. Once fn has begun, Write
// returns when fn and its commit have ended. A commit that fails is not known to have failed: ErrOutcomeUnknown.
func (d *DB) Write(ctx context.Context, why string, fn func(*Tx) error) error {
	if d.writer == nil {
		return &Error{Op: why, Hint: "open the file without Options.ReadOnly", Err: fmt.Errorf("%w: the file was opened read-only", ErrInvalid)}
	}
	return d.writer.submit(ctx, &request{why: why, write: fn})
}

// A request is one caller's call, from the queue to its answer.
type request struct {
	why   string
	write func(*Tx) error // one of write and read is set; read only in an in-memory database
	read  func(*Rx) error

	state  atomic.Int32 // waiting, taken or left
	done   chan outcome // gets one value; nil while the caller serves itself
	queued time.Time
	began  time.Time

	// Used by the writer alone.
	tx     Tx
	called bool
	result outcome
}

const (
	waiting int32 = iota
	taken         // the writer has it: its caller waits for the answer
	left          // its caller has gone
)

// A writer is the writing connection of the process. One goroutine at a time works with it: that of a caller who found it
// idle, or else its own, which serves those who wait, in groups.
type writer struct {
	db      *DB
	pool    *sqlx.DB
	session *session
	queue   *processQueue // nil in memory
	stopped chan struct{}

	mu      sync.Mutex
	arrived sync.Cond
	pending []*request
	busy    bool // somebody works with the connection
	last    int  // callers in the last group; after one of several callers wait for the next group, so that they share it
	closing bool

	own bool // the writer's own goroutine is who made it busy

	// The group under way. It lives here and not on the goroutine's stack: a callback that leaves by Goexit takes the
	// goroutine with it, and what follows, its deferred calls or the writer's next goroutine, goes on from here.
	group   []*request
	alone   [1]*request // the group of a caller who serves itself
	at      int
	solos   []*request // to be run again, each in a transaction of its own
	commits int

	restartAbove int64 // pages in the WAL
}

func startWriter(d *DB, pool *sqlx.DB, s *session, q *processQueue) *writer {
	w := &writer{db: d, pool: pool, session: s, queue: q, stopped: make(chan struct{}), restartAbove: walRestartPages}
	w.arrived.L = &w.mu
	go w.run()
	return w
}

func (w *writer) submit(ctx context.Context, r *request) error {
	if w.db.callbacks.inside() {
		return nested(r.why)
	}
	if err := ctx.Err(); err != nil {
		return waitEnded(ctx, r.why, "the writer")
	}
	if w.db.options.Observe != nil {
		r.queued = time.Now()
	}
	alone, err := w.enter(r)
	if err != nil {
		return err
	}
	var out outcome
	if alone && w.serveAlone(r) {
		out = r.result
	} else {
		select {
		case out = <-r.done:
		case <-ctx.Done():
			if r.state.CompareAndSwap(waiting, left) {
				return waitEnded(ctx, r.why, "the writer")
			}
			out = <-r.done
		}
	}
	out.err = wrap(r.why, out.err)
	w.db.observe(r, out)
	return out.leave()
}

// enter gives the writer to a caller who finds it idle, and lets others wait.
func (w *writer) enter(r *request) (alone bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false, closedError(r.why)
	}
	if !w.busy && w.last <= 1 && len(w.pending) == 0 {
		w.busy = true
		return true, nil
	}
	r.done = make(chan outcome, 1)
	w.pending = append(w.pending, r)
	w.arrived.Signal()
	return false, nil
}

// serveAlone runs one caller's call on its own goroutine: handing it to another one and waking up again takes longer
// than an append. It returns false where another process or program has its turn; then the caller waits among the others.
func (w *writer) serveAlone(r *request) bool {
	defer w.leave()
	if !w.tryLock() {
		r.done = make(chan outcome, 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pending = append(w.pending, r)
		return false
	}
	w.alone[0] = r
	w.group, w.at = w.alone[:], 0
	defer func() {
		w.work() // what is left to do when r's function left by Goexit
		w.alone[0] = nil
	}()
	w.work()
	return true
}

// leave makes the writer idle and wakes its own goroutine if there is something to do for it.
func (w *writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	if len(w.pending) > 0 || w.closing {
		w.arrived.Signal()
	}
}

// work takes the group under way to its end.
func (w *writer) work() {
	for w.group != nil {
		if w.at < len(w.group) {
			w.step(w.group[w.at])
		} else {
			w.finish()
		}
	}
}

// close finishes what the writer took, ends it and closes its connection.
func (w *writer) close() error {
	w.mu.Lock()
	w.closing = true
	w.arrived.Signal()
	w.mu.Unlock()
	<-w.stopped
	return errors.Join(w.session.Close(), w.pool.Close())
}

func (w *writer) run() {
	ended := false
	defer func() {
		if ended {
			close(w.stopped)
			return
		}
		go w.run() // a callback left by Goexit; go on where it was
	}()
	if w.own {
		w.work()
	}
	for w.next() {
		w.work()
	}
	ended = true
}

// next waits for callers, gets the locks and then takes everybody who waits. It returns false when the writer is to end.
func (w *writer) next() bool {
	for {
		again := len(w.solos) > 0
		if !again && !w.await() {
			return false
		}
		if !w.lock(again) {
			continue // nobody waits any more
		}
		if again {
			w.group, w.solos = w.solos[:1:1], w.solos[1:]
		} else {
			w.group = w.take()
		}
		w.at = 0
		if len(w.group) > 0 {
			return true
		}
		w.group = nil
		w.abandon()
	}
}

// await makes the writer idle, blocks until somebody waits, and takes it again; false means that the writer is closing
// and nobody waits.
func (w *writer) await() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own {
		w.busy, w.own = false, false
	}
	if 2*len(w.pending) < w.last {
		// Those who were just answered come back: let them run first. Else groups of one alternate with groups of all the
		// others, and there are twice as many commits.
		w.mu.Unlock()
		runtime.Gosched()
		w.mu.Lock()
	}
	for w.busy || len(w.pending) == 0 && !w.closing {
		w.arrived.Wait()
	}
	if len(w.pending) == 0 {
		return false
	}
	w.busy, w.own = true, true
	return true
}

// wanted drops the callers who left and reports whether anybody still waits.
func (w *writer) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	still := w.pending[:0]
	for _, r := range w.pending {
		if r.state.Load() == waiting {
			still = append(still, r)
		}
	}
	clear(w.pending[len(still):])
	w.pending = still
	return len(still) > 0
}

// take claims the callers who wait, up to maxGroup of them. From here on they can't leave.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var group []*request
	n := 0
	for ; n < len(w.pending) && len(group) < maxGroup; n++ {
		if r := w.pending[n]; r.state.CompareAndSwap(waiting, taken) {
			group = append(group, r)
		}
	}
	rest := copy(w.pending, w.pending[n:])
	clear(w.pending[rest:])
	w.pending = w.pending[:rest]
	w.last = len(group)
	return group
}

// tryLock is lock for a caller alone, who goes to wait among the others when it fails.
func (w *writer) tryLock() bool {
	if w.queue != nil && !w.queue.tryLock() {
		return false
	}
	if _, err := w.session.exec(sqlBeginImmediate); err != nil {
		w.unlock()
		return false
	}
	return true
}

// lock gets this process's turn among the processes and then SQLite's write lock. It returns false when, before that,
// everybody left, or when the lock can't be had at all: then those who wait have been told.
func (w *writer) lock(again bool) bool {
	stay := func() bool { return again || w.wanted() }
	if w.queue != nil {
		if ok, err := w.queue.lock(stay); !ok || err != nil {
			if err != nil {
				w.refuse(fmt.Errorf("get a turn among the writing processes: %w", err))
			}
			return false
		}
	}
	for {
		_, err := w.session.exec(sqlBeginImmediate)
		switch {
		case err == nil:
			return true
		case isBusy(err) && stay(): // a program outside our queue, such as sqlite3, is writing
			time.Sleep(lockRetry)
		case isBusy(err):
			w.unlock()
			return false
		default:
			w.unlock()
			w.refuse(err)
			return false
		}
	}
}

// refuse answers everybody who waits with err: no transaction could be begun.
func (w *writer) refuse(err error) {
	group := slices.Concat(w.solos, w.take())
	w.solos = nil
	for _, r := range group {
		r.done <- outcome{err: err}
	}
}

func (w *writer) unlock() {
	if w.queue != nil {
		w.queue.unlock()
	}
}

// abandon rolls back and gives the locks back. Where SQLite ended the transaction itself the rollback fails, and says
// nothing new.
func (w *writer) abandon() {
	_, _ = w.session.exec(sqlRollback)
	w.unlock()
}

// step runs one caller's function, in a savepoint when others share the transaction.
func (w *writer) step(r *request) {
	shared := len(w.group) > 1
	if !r.called {
		r.called = true
		w.prepare(r)
		if shared {
			if _, err := w.session.exec(sqlSavepoint); err != nil {
				w.breakUp(err)
				return
			}
		}
		w.db.callbacks.invoke(r.call, func(out outcome) { r.result = out })
	}
	r.tx.ended = true
	if r.tx.dead != nil {
		w.breakUp(r.tx.dead)
		return
	}
	if shared {
		if err := w.settle(r); err != nil {
			w.breakUp(err)
			return
		}
	}
	w.at++
}

func (w *writer) prepare(r *request) {
	r.began = w.db.observedNow()
	r.tx = Tx{Rx: Rx{db: w.db, session: w.session, now: w.db.now()}}
	r.tx.writes = &r.tx
}

func (r *request) call() error {
	if r.read != nil {
		return r.tx.queryOnly(r.read)
	}
	return r.write(&r.tx)
}

// queryOnly runs a read on the writing connection of an in-memory database, which can't write meanwhile.
func (tx *Tx) queryOnly(fn func(*Rx) error) (err error) {
	if _, err := tx.Exec("PRAGMA query_only=1"); err != nil {
		return err
	}
	defer func() {
		_, off := tx.session.exec("PRAGMA query_only=0")
		err = errors.Join(err, off)
	}()
	return fn(&tx.Rx)
}

// settle ends a caller's savepoint.
func (w *writer) settle(r *request) error {
	if r.result.failed() {
		r.tx.rolledBack()
		if _, err := w.session.exec(sqlRollbackTo); err != nil {
			return err
		}
	}
	_, err := w.session.exec(sqlRelease)
	return err
}

// breakUp is what happens when SQLite ended the transaction under the group. A caller who was alone gets the error; a
// group is run again one by one, so that only the one who can't be served fails. Those who panicked or left are not.
func (w *writer) breakUp(err error) {
	group := w.group
	w.group = nil
	w.abandon()
	if len(group) == 1 {
		r := group[0]
		r.tx.rolledBack()
		if !r.result.failed() || r.tx.dead != nil {
			r.result.err = err
		}
		r.answer()
		return
	}
	for i, r := range group {
		ran := i <= w.at && r.called
		if ran && !r.result.failed() {
			r.tx.rolledBack()
		}
		if ran && (r.result.panic != nil || r.result.goexit) {
			r.answer()
			continue
		}
		r.called, r.result = false, outcome{}
		w.solos = append(w.solos, r)
	}
}

// finish commits the group, unless all in it failed, and answers everybody.
func (w *writer) finish() {
	group := w.group
	worked := false
	for _, r := range group {
		worked = worked || !r.result.failed()
	}
	if !worked {
		w.group = nil
		w.abandon()
		w.answer(group, nil)
		return
	}
	_, err := w.session.exec(sqlCommit)
	if err != nil && len(group) > 1 && primary(err) == sqlite3.SQLITE_FULL {
		// The frames that did not fit are written over by the next transaction, so running again can't do it twice.
		w.breakUp(err)
		return
	}
	w.group = nil
	if err != nil {
		w.abandon()
		w.answer(group, err)
		return
	}
	w.boundWAL()
	w.unlock()
	w.answer(group, nil)
	w.db.watch.tell()
}

// answer tells each caller how its call ended; failed is the commit's error.
func (w *writer) answer(group []*request, failed error) {
	for _, r := range group {
		switch {
		case r.result.failed():
			if len(group) == 1 {
				r.tx.rolledBack()
			}
		case failed != nil:
			r.tx.rolledBack()
			r.result.err = unknown(r.why, failed)
		default:
			r.tx.committed()
		}
		r.answer()
	}
}

// answer gives a caller who waits the result; one who serves itself has it.
func (r *request) answer() {
	if r.done != nil {
		r.done <- r.result
	}
}

// boundWAL starts the WAL again from its beginning when it has grown far beyond its working size. Where a reader stays
// (a long query, a backup), the wait for it was in vain: it is tried again when the WAL has grown by another working size. An
// error is nothing to report: the commit is done, and the next look comes.
func (w *writer) boundWAL() {
	w.commits++
	if w.commits%walLookEvery != 0 || w.db.memory {
		return
	}
	size, err := w.session.checkpoint("NOOP")
	if err != nil || size.Log <= w.restartAbove {
		return
	}
	size, err = w.session.restartWAL()
	if err == nil && size.Busy == 0 {
		w.restartAbove = walRestartPages
	} else {
		w.restartAbove = size.Log + walCheckpointPages
	}
}

// walSize is what PRAGMA wal_checkpoint answers: the pages in the WAL and those of them that are in the file too.
type walSize struct {
	Busy         int64 `db:"busy"`
	Log          int64 `db:"log"`
	Checkpointed int64 `db:"checkpointed"`
}

func (s *session) checkpoint(mode string) (walSize, error) {
	var size walSize
	err := s.Get(&size, "PRAGMA wal_checkpoint("+mode+")")
	return size, err
}

// restartWAL has a moment's patience with readers, which the writing connection has not elsewhere.
func (s *session) restartWAL() (size walSize, err error) {
	if err := setPragma(background, s.conn, patience); err != nil {
		return size, err
	}
	size, err = s.checkpoint("RESTART")
	return size, errors.Join(err, setPragma(background, s.conn, noPatience))
}

func nested(why string) error {
	return &Error{
		Op: why, Hint: "use the transaction that the function was given, or make the call after it",
		Err: fmt.Errorf("%w: a call from inside a Read or Write function would wait for itself", ErrInvalid),
	}
}

func closedError(why string) error {
	return &Error{Op: why, Err: ErrClosed}
}
