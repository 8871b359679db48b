package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
)

// A COMMIT that failed may have left its pages in the WAL, among them the one that marks the
// commit. No reader sees them now, because the index of the WAL was not advanced, but a recovery
// after a crash would take them for a commit. So the writer, which still has its turn, commits a
// small change of its own before it answers any caller. Its pages overwrite the failed ones. Since
// each page's checksum continues that of the page before, the failed pages after them can't be read
// any more, unless both transactions are identical. Decision 0013.

// settled returns the outcome of a failed COMMIT. If undone is true it did not happen, and never
// will.
func (w *writer) settled(commit error) (undone bool, err error) {
	err = w.session.failure(commit)
	if w.session.inTransaction() { // a deferred constraint, or a lock: SQLite has not begun to write
		return true, err
	}
	if w.engine.memory || isRefusedWrite(commit, w.session.handle) {
		return true, err
	}
	w.awaitCopy()
	if failed := w.session.settle(w.engine.config); failed != nil {
		return false, fmt.Errorf("%w (and making sure that it did not happen: %w)", err, failed)
	}
	return true, err
}

// isRefusedWrite reports whether the disk refused a page of the transaction, in whole or in part.
// The page that marks the commit is the last one written, so it can't be whole. An error of fsync,
// or in the index of the WAL, comes after it.
func isRefusedWrite(commit error, h handle) bool {
	switch {
	case primary(commit) == sqlite3.SQLITE_FULL:
		return true
	case code(commit) == sqlite3.SQLITE_IOERR_WRITE:
		return isFull(h.errno())
	}
	return false
}

// settle commits a change of ours, durably even if the handle is lazy. If that fails too, it starts the
// WAL again from its beginning, which overwrites any failed page.
func (s *session) settle(o Config) error {
	if o.Lazy {
		if err := setPragma(background, s.conn, syncFull); err != nil {
			return s.failure(err)
		}
		defer func() { _ = setPragma(background, s.conn, syncNormal) }()
	}
	err := s.mark(o)
	if err == nil {
		return nil
	}
	if _, again := s.checkpoint("RESTART"); again != nil {
		return s.failure(err)
	}
	return s.failure(s.mark(o))
}

// mark changes the file's number: one page, in every file whatever its schema.
func (s *session) mark(o Config) error {
	end := time.Now().Add(o.LockTimeout)
	return s.commit(func() bool { return time.Now().Before(end) }, s.number)
}

// commit commits what fn changes. The caller has the turn; while stay returns true, commit waits
// for a program outside our queue that is writing.
func (s *session) commit(stay func() bool, fn func() error) (err error) {
	for {
		if err = s.begin(); err == nil {
			break
		}
		if !isBusy(err) || !stay() {
			return err
		}
		time.Sleep(lock.Retry)
	}
	defer func() {
		if err != nil {
			_, _ = s.exec(sqlRollback)
		}
	}()
	if err = fn(); err == nil {
		err = s.commitNow()
	}
	return err
}

// fail makes the handle refuse every further call: what its callers would read may be gone, or
// back, after a crash.
func (e *Engine) fail(err error) {
	e.failed.CompareAndSwap(nil, &engine.Failure{
		Kind: engine.ErrOutcomeUnknown,
		Hint: "close the file and open it again: that makes sure of what the disk has",
		Err:  fmt.Errorf("an earlier commit failed, and whether the disk has it could not be settled: %w", err),
	})
	leaveUnsettled(e.file.key)
}

// usable returns nil while calls are accepted.
func (e *Engine) usable() error {
	failed := e.failed.Load()
	if failed == nil {
		return nil // and not a nil pointer in an interface
	}
	return failed
}

// unsettled holds the files with a commit, or a name, that may not be on the disk.
var unsettled = struct {
	sync.Mutex
	files map[fileKey]bool
}{files: map[fileKey]bool{}}

func leaveUnsettled(file fileKey) {
	unsettled.Lock()
	defer unsettled.Unlock()
	unsettled.files[file] = true
}

// settleOpening settles what an earlier handle of this process could not.
func (s *session) settleOpening(e *Engine, turns *lock.Turns) error {
	unsettled.Lock()
	defer unsettled.Unlock()
	if !unsettled.files[e.file.key] {
		return nil
	}
	return e.inTurn(turns, "settle a failed commit", func(func() bool) error {
		err := syncFile(filepath.Dir(e.path))
		if err == nil {
			err = s.settle(e.config)
		}
		if err != nil {
			return &engine.Failure{
				Kind: engine.ErrOutcomeUnknown, Code: code(err),
				Hint: "the disk still fails: mend it, and open the file again", Err: err,
			}
		}
		delete(unsettled.files, e.file.key)
		return nil
	})
}

// inTurn runs fn, which a file that is being opened needs, in a turn among the writing processes.
// stay reports whether there is time left to wait.
func (e *Engine) inTurn(turns *lock.Turns, what string, fn func(stay func() bool) error) error {
	end := time.Now().Add(e.config.LockTimeout)
	stay := func() bool { return time.Now().Before(end) }
	ok, err := turns.Lock(stay)
	if err != nil {
		return err
	}
	if !ok {
		return &engine.Failure{
			Kind: engine.ErrBusy, HeldBy: e.writerHolders(), Hint: "another process is writing; try again",
			Err: fmt.Errorf("%s: %w", what, syscall.ETIMEDOUT),
		}
	}
	defer turns.Unlock()
	return fn(stay)
}
