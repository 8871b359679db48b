package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// An sqliteError is an error of a statement that the driver did not run.
type sqliteError struct {
	code int // extended
	text string
}

func (e *sqliteError) Error() string { return e.text }

// sqliteError describes the result code of the connection's last call as the driver does.
func (s *session) sqliteError(rc int32) error {
	text := libc.GoString(sqlite3.Xsqlite3_errstr(s.tls, rc))
	if more := libc.GoString(sqlite3.Xsqlite3_errmsg(s.tls, s.db)); more != text {
		text += ": " + more
	}
	return &sqliteError{int(rc), fmt.Sprintf("%s (%d)", text, rc)}
}

// code returns the extended SQLite result code in err's chain, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*sqliteError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// primary returns the primary result code: extended codes carry it in the low byte (sqlite.org/rescode.html).
func primary(err error) int { return code(err) & 0xff }

func isBusy(err error) bool {
	p := primary(err)
	return p == sqlite3.SQLITE_BUSY || p == sqlite3.SQLITE_LOCKED || p == sqlite3.SQLITE_PROTOCOL
}

// failure classifies an error of SQLite or the system. Other errors, and failures, pass as they
// are.
func failure(err error) error { return failed(err, 0) }

// failure also asks for the system's error behind one of SQLite's: it distinguishes a full disk
// from a broken one, and a page that can't be read from a damaged one.
func (h handle) failure(err error) error {
	var errno syscall.Errno
	switch primary(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		errno = h.errno()
		_ = h.unread() // so that damage that is found later is not taken for this error
	case sqlite3.SQLITE_CORRUPT:
		errno = h.unread()
	}
	return failed(err, errno)
}

func failed(err error, errno syscall.Errno) error {
	if err == nil {
		return nil
	}
	if _, said := errors.AsType[*engine.Failure](err); said {
		return err
	}
	if errno == 0 && primary(err) == sqlite3.SQLITE_CANTOPEN {
		errno = machine.NoDescriptors() // only this reveals it: SQLite's error does not
	}
	kind, hint := kind(err, errno), ""
	switch {
	case errno != 0 && machine.LacksDescriptors(errno) || machine.LacksDescriptors(err):
		hint = "raise the limit of open files (ulimit -n), or have fewer open: a handle takes about 10, and one " +
			"for each reader"
	case code(err) == 0 && (kind == nil || errors.Is(err, kind)):
		return err
	default:
		hint = hints[kind]
	}
	if errno != 0 {
		err = fmt.Errorf("%w: %w", err, errno)
	}
	return &engine.Failure{
		Kind: kind, Constraint: constraint(err), Code: code(err), Statement: blame(err),
		Hint: hint, Err: err,
	}
}

// openFailure is failure for an error of opening the file at path. If no -wal or -shm can be
// made, SQLite looks for an existing one, and reports that there is none; if the -shm has a hole
// that can't be filled, its memory can't be written.
func openFailure(err error, path string) error {
	err = failure(err)
	f, ok := errors.AsType[*engine.Failure](err)
	unmade := ok && (f.Kind == nil && f.Code&0xff == sqlite3.SQLITE_CANTOPEN ||
		f.Code == sqlite3.SQLITE_IOERR_IN_PAGE)
	if unmade && machine.IsFull(filepath.Dir(path)) {
		f.Kind, f.Hint = engine.ErrFull, hints[engine.ErrFull]
	}
	return err
}

var hints = map[error]string{
	engine.ErrBusy: "another program holds the file: end it, or try again later",
	engine.ErrFull: "nothing was changed; free space on the disk or in the quota, and repeat the call",
	engine.ErrIO:   "the disk or the file system fails: look at the system's log before going on",
}

// kind is the sentinel that an error belongs to, or nil.
func kind(err error, errno syscall.Errno) error {
	switch primary(err) {
	case 0:
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return kindOfErrno(errno)
		}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return engine.ErrBusy
	case sqlite3.SQLITE_FULL:
		return engine.ErrFull
	case sqlite3.SQLITE_CORRUPT:
		if errno != 0 {
			return engine.ErrIO
		}
		return engine.ErrCorrupt
	case sqlite3.SQLITE_NOTADB:
		return engine.ErrNotADatabase
	case sqlite3.SQLITE_IOERR:
		if kind := kindOfErrno(errno); kind != nil {
			return kind
		}
		return engine.ErrIO
	case sqlite3.SQLITE_CANTOPEN:
		return kindOfErrno(errno)
	}
	return nil
}

func kindOfErrno(errno syscall.Errno) error {
	switch {
	case isFull(errno):
		return engine.ErrFull
	case errno == syscall.EIO:
		return engine.ErrIO
	}
	return nil
}

// isFull reports whether the disk, a quota or the limit of a file's size refused to hold more.
func isFull(errno syscall.Errno) bool {
	return errno == syscall.ENOSPC || errno == syscall.EDQUOT || errno == syscall.EFBIG
}

func constraint(err error) engine.Constraint {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return engine.Unique
	}
	if primary(err) == sqlite3.SQLITE_CONSTRAINT {
		return engine.OtherConstraint
	}
	return engine.NoConstraint
}

// waitEnded is the error of a caller whose context ended while it waited for what.
func waitEnded(ctx context.Context, what string) error {
	return engine.Failf(engine.ErrBusy,
		"another caller or process holds "+what+"; try again, or give the call more time",
		"waiting for %s: %w", what, context.Cause(ctx))
}

// notCommitted is the error of a commit that did not happen.
func notCommitted(err error) error { return fmt.Errorf("commit: %w", err) }

// unknown is the error of a commit whose outcome can't be settled.
func unknown(err error) error {
	return &engine.Failure{
		Kind: engine.ErrOutcomeUnknown, Code: code(err),
		Hint: "close the file and open it again, which makes sure of what the disk has; then look for the " +
			"change, or repeat the call with the batch of this error",
		Err: notCommitted(err),
	}
}

// spoiled turns the error of a row that could not be scanned into ErrCorrupt if the row holds a
// value that its table does not allow. It returns all other errors unchanged.
func (s *session) spoiled(err error, query string, args []any) error {
	if err == nil || err == engine.ErrNotFound { //nolint:errorlint // scan.One returns it unwrapped
		return err
	}
	if code(err) != 0 || !repeatable(query) {
		return err
	}
	st := &statement{session: s, query: query}
	defer s.closeStatement(st) //nolint:errcheck // it only reads
	rows, failed := st.run(background, args)
	if failed != nil || st.handle == 0 {
		return err
	}
	defer rows.Close() //nolint:errcheck // it only reads
	for rows.Next() {
		if wrong := damage.Wrong(background, s.conn, query, &st.found); wrong != nil {
			return spoiled(wrong)
		}
	}
	return err
}

func spoiled(wrong error) error {
	return &engine.Failure{Kind: engine.ErrCorrupt, Hint: "run: migrate check", Err: wrong}
}

// repeatable reports whether a statement can be run once more without changing anything.
func repeatable(query string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	return strings.EqualFold(first, "SELECT")
}

// writerBusy returns the error of a caller whose context ended before its turn. It names the
// holder of the turn if that is known.
func (e *Engine) writerBusy(ctx context.Context) error {
	f := &engine.Failure{Kind: engine.ErrBusy}
	who := "the writer"
	if e.writer.serving() {
		f.Hint = "another call of this process is writing; give this one more time, or make that one shorter"
	} else if f.HeldBy = e.writerHolders(); len(f.HeldBy) > 0 {
		who = "the writer, which " + lock.Name(f.HeldBy) + " has"
		f.Hint = "wait for " + lock.Name(f.HeldBy) + ", or see what it does: it may be stopped"
	} else {
		f.Hint = "another call or process is writing; try again, or give the call more time"
	}
	f.Err = fmt.Errorf("waiting for %s: %w", who, context.Cause(ctx))
	return f
}

// writerHolders returns the other processes that keep this one from writing: the holder of the
// turn, or else a program that does not take turns, such as sqlite3, and holds SQLite's own lock.
func (e *Engine) writerHolders() []int {
	if e.memory {
		return nil
	}
	if pids := lock.Holders(e.path + queueSuffix); len(pids) > 0 {
		return pids
	}
	return lock.WALWriters(e.path + "-shm")
}

// serving reports whether a caller's function, or its commit, is running.
func (w *writer) serving() bool { return w.holds.Load() }

var absent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`no such (table|column): (?:\w+\.)?(\w+)`)
})

// blame returns what SQLite finds wrong with a statement (sqlite.org/rescode.html).
func blame(err error) (s engine.Statement) {
	switch primary(err) {
	case sqlite3.SQLITE_READONLY:
		s.Writes = true
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_RANGE:
		s.Wrong = true
		if named := absent().FindStringSubmatch(err.Error()); named != nil && named[1] == "table" {
			s.Table = named[2]
		} else if named != nil {
			s.Column = named[2]
		}
	}
	return s
}
