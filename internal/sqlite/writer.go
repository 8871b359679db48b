package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/lock"
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

// MaxGroup bounds the callers that share one commit, and so how long the first of them waits for
// the last.
const MaxGroup = 256

// fewCallers is the group size below which the writer yields before it takes the next group.
// Otherwise groups of one would alternate with groups of all the others, with twice as many
// commits; with more callers there is always a group waiting.
const fewCallers = 16

// A writer is the writing connection of the process. One goroutine at a time works with it: that of
// a caller that found it idle, or else its own, which serves the waiting callers in groups.
type writer struct {
	engine  *Engine
	session *session    // nil before the first call, once a reader has it
	used    bool        // by a call
	turns   *lock.Turns // among the processes; nil in memory
	stopped chan struct{}

	holds atomic.Bool // it has its turn and SQLite's write lock

	mu      sync.Mutex
	arrived sync.Cond
	pending []*request
	busy    bool // a goroutine works with the connection
	// last is the number of callers in the last group. After a group of several, callers wait for
	// the next one, so that they share it.
	last     int
	refusing bool // new calls
	closing  bool

	own bool // the writer's own goroutine made it busy

	// The group under way. It lives here and not on the goroutine's stack: a callback that leaves
	// by Goexit ends the goroutine, and its deferred calls or the writer's next goroutine
	// continue from here.
	group     []*request
	alone     [1]*request // the group of a caller that serves itself
	at        int
	solos     []*request   // to be run again, each in a separate transaction
	answers   []*request   // whose transaction has ended; they wait for their results
	committed bool         // and it was committed
	caring    bool         // nothing was written but by the care of the file
	drawn     drawnNumbers // drawn in transactions that were undone

	wal        walCare
	onWAL      walHook // SQLite has only its address
	placeWatch placeWatch
	noting     noting

	running atomic.Pointer[request] // whose function runs, for people
	counted counted
}

// counted holds counts of a handle's work since it was opened.
type counted struct {
	callers, commits atomic.Int64 // whose work was committed, and the commits
	restarts, failed atomic.Int64 // of the WAL, and those that a read kept from happening
	// Moves of the WAL into the file that commits found due, and those that failed.
	checkpoints, checkpointsFailed atomic.Int64
}

func startWriter(e *Engine, s *session, turns *lock.Turns) *writer {
	w := &writer{engine: e, session: s, turns: turns, stopped: make(chan struct{})}
	w.countCheckpoints()
	w.arrived.L = &w.mu
	go w.run()
	return w
}

// giveAway returns the connection of a writer that was not used yet; nil if it was. Opening a second
// connection takes as long as opening the file, and a program that only lists or shows something needs one.
func (w *writer) giveAway() *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy || w.used || w.closing {
		return nil
	}
	s := w.session
	w.session = nil
	return s
}

// connect makes sure that the writer has its connection.
func (w *writer) connect() error {
	w.used = true
	if w.session != nil {
		return nil
	}
	s, err := openSession(background, w.engine.path, roleWriter, w.engine.config)
	if err != nil {
		return openFailure(err, w.engine.path)
	}
	if err = s.prepareWriter(background); err == nil {
		err = s.mayWrite()
	}
	if err != nil {
		return closeAfter(s, s.failure(err))
	}
	w.session = s
	w.countCheckpoints()
	return nil
}

// enter hands the writer to a caller that finds it idle, and queues the others.
func (w *writer) enter(r *request) (alone bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing || w.refusing && !r.last {
		return false, engine.ErrClosed
	}
	if err := w.engine.usable(); err != nil {
		return false, err
	}
	if !w.busy && w.last <= 1 && len(w.pending) == 0 {
		w.busy = true
		return true, nil
	}
	r.done = make(chan callback.Outcome, 1)
	w.pending = append(w.pending, r)
	w.arrived.Signal()
	return false, nil
}

// serveAlone runs one caller's call on its own goroutine: handing it to another one and waking up
// again takes longer than an append. It returns false if another process or program has its turn;
// then the caller queues.
func (w *writer) serveAlone(r *request) bool {
	defer w.leave()
	if !w.tryLock() {
		r.done = make(chan callback.Outcome, 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pending = append(w.pending, r)
		return false
	}
	w.alone[0] = r
	w.group, w.at = w.alone[:], 0
	defer func() {
		w.work() // the work that remains when r's function left by Goexit
		w.alone[0] = nil
	}()
	w.work()
	return true
}

// writing names the call whose function runs; "" when none does.
func (w *writer) writing() string {
	if r := w.running.Load(); r != nil && !r.care {
		return r.why
	}
	return ""
}

// leave makes the writer idle and wakes its own goroutine if that has something to do.
func (w *writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	if len(w.pending) > 0 || w.closing {
		w.arrived.Signal()
	}
}

// work takes the present group to its end.
func (w *writer) work() {
	for {
		switch {
		case len(w.answers) > 0:
			w.answerNext()
		case w.group == nil:
			return
		case w.at < len(w.group):
			w.step(w.group[w.at])
		default:
			w.finish()
		}
	}
}

// refuseNew makes the writer refuse new calls, except those of closing.
func (w *writer) refuseNew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusing = true
}

// close finishes the queued calls, ends the writer and closes its connection.
func (w *writer) close() error {
	w.mu.Lock()
	w.closing = true
	w.arrived.Signal()
	w.mu.Unlock()
	<-w.stopped
	w.awaitCopy()
	if w.session == nil {
		return w.placeWatch.end()
	}
	return errors.Join(w.session.Close(), w.placeWatch.end())
}

// calls names the running call and the waiting ones.
func (w *writer) calls() (whys []string) {
	if r := w.running.Load(); r != nil {
		whys = append(whys, r.why)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.pending {
		whys = append(whys, r.why)
	}
	return whys
}

func (w *writer) run() {
	ended := false
	defer func() {
		if ended {
			close(w.stopped)
			return
		}
		go w.run() // a callback left by Goexit; continue where it was
	}()
	if w.own {
		w.work()
	}
	for w.next() {
		w.work()
	}
	ended = true
}

// next waits for callers, gets the locks and then takes all that wait. It returns false when the
// writer is to end.
func (w *writer) next() bool {
	for {
		again := len(w.solos) > 0
		if !again && !w.await() {
			return false
		}
		if err := w.engine.usable(); err != nil {
			w.refuse(err)
			continue
		}
		if !w.lock(again) {
			continue // every caller has left
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

// await makes the writer idle, blocks until a caller waits, and takes the writer again. It is false
// when the writer is closing and no caller waits.
func (w *writer) await() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own {
		w.busy, w.own = false, false
	}
	if len(w.pending) < min(w.last, fewCallers) {
		// The callers that were just answered come back: let them run first.
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

// wanted drops the callers that have left and reports whether any still waits.
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

// take claims the waiting callers, up to MaxGroup of them. From here on they can't leave.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var group []*request
	n := 0
	for ; n < len(w.pending) && len(group) < MaxGroup; n++ {
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

// tryLock is lock for a lone caller, which queues when it fails.
func (w *writer) tryLock() bool {
	if w.connect() != nil { // lock reports it
		return false
	}
	if w.turns != nil && !w.turns.TryLock() {
		return false
	}
	if w.inPlace() != nil { // lock reports it
		w.unlock()
		return false
	}
	if err := w.session.begin(); err != nil {
		w.unlock()
		return false
	}
	w.holds.Store(true)
	w.beginNoting()
	return true
}

// lock gets this process's turn among the processes and then SQLite's write lock. It returns false
// if every caller has left before that, or if the lock can't be had at all; then the waiting
// callers have their error.
func (w *writer) lock(again bool) bool {
	if err := w.connect(); err != nil {
		w.refuse(err)
		return false
	}
	stay := func() bool { return again || w.wanted() }
	if w.turns != nil {
		if ok, err := w.turns.Lock(stay); !ok || err != nil {
			if err != nil {
				err = fmt.Errorf("get a turn among the writing processes: %w", err)
				if gone := w.engine.inPlace(); gone != nil { // the folder with it
					err = gone
				}
				w.refuse(err)
			}
			return false
		}
	}
	for {
		if err := w.inPlace(); errors.Is(err, errOldQueue) {
			w.unlock()
			return w.lock(again)
		} else if err != nil {
			w.unlock()
			w.refuse(err)
			return false
		}
		err := w.session.begin()
		switch {
		case err == nil:
			w.holds.Store(true)
			w.beginNoting()
			return true
		case isBusy(err) && stay(): // a program outside our queue, such as sqlite3, is writing
			time.Sleep(lock.Retry)
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

// refuse returns err to all waiting callers: no transaction could be begun.
func (w *writer) refuse(err error) {
	group := slices.Concat(w.solos, w.take())
	w.solos = nil
	for _, r := range group {
		r.done <- callback.Outcome{Err: failure(err)}
	}
}

func (w *writer) unlock() {
	w.holds.Store(false)
	if w.turns != nil {
		w.turns.Unlock()
	}
}

// abandon rolls back and releases the locks. The rollback fails, and is ignored, if SQLite ended
// the transaction itself.
func (w *writer) abandon() {
	_, _ = w.session.exec(sqlRollback)
	w.keepDrawn()
	w.unlock()
}

// A request is one caller's call, from the queue to its answer.
type request struct {
	why   string
	write func(engine.Tx) error // one of write and read is set; read only in an in-memory database
	read  func(engine.Rx) error
	ctx   context.Context // of read
	last  bool            // of closing: it is taken when new calls are not
	care  bool            // of the file: it wakes no watcher

	state atomic.Int32          // waiting, taken or left
	done  chan callback.Outcome // gets one value; nil while the caller serves itself

	// Used by the writer alone.
	tx     tx
	called bool
	result callback.Outcome
	hook   *callback.Outcome // of the first function of AfterCommit that did not return
}

const (
	waiting int32 = iota
	taken         // the writer has it: its caller waits for the answer
	left          // its caller has gone
)

func (w *writer) submit(ctx context.Context, r *request) callback.Outcome {
	if ctx.Err() != nil {
		return callback.Outcome{Err: engine.EndedBefore(ctx)}
	}
	alone, err := w.enter(r)
	if err != nil {
		return callback.Outcome{Err: err}
	}
	if alone && w.serveAlone(r) {
		return r.result
	}
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, left) {
			return callback.Outcome{Err: w.engine.writerBusy(ctx)}
		}
		return <-r.done
	}
}
