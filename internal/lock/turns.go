package lock

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Turns orders the processes that write to one file: a turn is an exclusive flock, which the
// kernel grants in the order of asking. SQLite's own busy handler polls, and lets one process
// have nearly every turn (7 against 7,910 commits in two seconds were measured). One goroutine at
// a time uses it.
type Turns struct {
	path string
	file *os.File
	wait *wait // in the kernel's queue, for this file; nil: none
}

// OpenTurns opens the file at path, which is only ever locked, and makes it if it is missing. It
// takes over a wait that an earlier Turns of this process left in the kernel's queue.
func OpenTurns(path string) (*Turns, error) {
	if q := unpark(path); q != nil {
		return q, nil
	}
	file, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	return &Turns{path: path, file: file}, nil
}

// lookEvery is how often a waiting process checks whether its turn is still wanted.
const lookEvery = 250 * time.Millisecond

// TryLock takes a turn if it is free. The caller checks Removed.
func (q *Turns) TryLock() bool {
	if q.wait.outstanding() {
		return false // it would get the turn too, on the same open file
	}
	return flock(q.file, unix.LOCK_EX|unix.LOCK_NB) == nil
}

// Removed reports whether the file was deleted, so that others queue at another one, which Lock
// opens.
func (q *Turns) Removed() bool { return removed(q.file) }

// Lock waits for this process's turn while stay returns true.
func (q *Turns) Lock(stay func() bool) (bool, error) {
	for {
		ok, err := q.lock(stay)
		if !ok || err != nil || !removed(q.file) {
			return ok, err
		}
		fresh, err := OpenFile(q.path)
		if err != nil {
			q.Unlock()
			return false, err
		}
		if err := q.file.Close(); err != nil {
			return false, errors.Join(err, fresh.Close())
		}
		q.file = fresh
	}
}

func (q *Turns) lock(stay func() bool) (bool, error) {
	if !q.wait.resume() {
		err := flock(q.file, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, err
		}
		q.wait = startWait(q.file)
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-q.wait.got:
			return err == nil, err
		case <-look.C:
			if stay() {
				continue
			}
			err, came := q.wait.leave()
			return came && err == nil, err
		}
	}
}

// Unlock passes the turn to the next waiter. If the call fails, closing the file does so.
func (q *Turns) Unlock() {
	if unlock(q.file) == nil {
		return
	}
	if fresh, err := OpenFile(q.path); err == nil {
		_ = q.file.Close()
		q.file = fresh
	}
}

// unlock is tried four times, as SQLite's lock calls are (decision 0015).
func unlock(file *os.File) (err error) {
	for range 4 {
		if err = flock(file, unix.LOCK_UN); err == nil {
			break
		}
	}
	return err
}

// Close closes the file, and passes on a turn that it holds. A wait in the kernel's queue can't
// be ended: it is kept for the next Turns of this file, and closes by itself when the turn comes.
func (q *Turns) Close() error {
	if q.wait.outstanding() {
		park(q)
		return nil
	}
	return q.file.Close()
}

// A wait is a goroutine, and so a thread, in the kernel's queue, which can't be left. A process
// has one for each queue: the next waiter resumes it, and it passes on an unwanted turn at once.
type wait struct {
	got chan error // gets the outcome, if it is wanted

	mu     sync.Mutex
	wanted bool
	ended  bool
	then   func() // called once it has ended; nil: nothing
}

func startWait(file *os.File) *wait {
	w := &wait{got: make(chan error, 1), wanted: true}
	go func() {
		err := flock(file, unix.LOCK_EX)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = true
		if w.wanted {
			w.got <- err
			return
		}
		if err == nil {
			_ = unlock(file)
		}
		if w.then != nil {
			w.then()
		}
	}()
	return w
}

// outstanding reports whether the turn may still come.
func (w *wait) outstanding() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.ended
}

// resume makes the turn wanted. False: there is no wait, or its turn came and went.
func (w *wait) resume() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = !w.ended
	return w.wanted
}

// leave makes the turn unwanted, unless it has just come.
func (w *wait) leave() (err error, came bool) { //nolint:revive // the outcome of the wait, not of the call
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return <-w.got, true
	}
	w.wanted = false
	return nil, false
}

// parked are the waits that were left behind by a Close.
var parked = struct {
	sync.Mutex
	byPath map[string]*Turns
}{byPath: map[string]*Turns{}}

func park(q *Turns) {
	q.wait.mu.Lock()
	defer q.wait.mu.Unlock()
	parked.Lock()
	defer parked.Unlock()
	if q.wait.ended || parked.byPath[q.path] != nil {
		_ = q.file.Close() // ends what it holds; a thread is left that another handle's wait made
		return
	}
	parked.byPath[q.path] = q
	q.wait.then = func() {
		parked.Lock()
		defer parked.Unlock()
		if parked.byPath[q.path] == q {
			delete(parked.byPath, q.path)
			_ = q.file.Close()
		}
	}
}

// unpark returns what park kept for the path, if the file is still there.
func unpark(path string) *Turns {
	parked.Lock()
	q := parked.byPath[path]
	if q == nil || removed(q.file) {
		parked.Unlock()
		return nil
	}
	delete(parked.byPath, path)
	parked.Unlock()
	return q
}
