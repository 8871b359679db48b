package db

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// The sentinels that every layer wraps; test for them with errors.Is.
var (
	// ErrNotFound: what was asked for is not in the file.
	ErrNotFound = errors.New("not found")
	// ErrConflict: a row of that identity is there already, with other content.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: an argument can't be used; nothing was changed.
	ErrInvalid = errors.New("invalid argument")
	// ErrBusy: the context ended, or the lock timeout passed, while another caller or process held what was needed.
	ErrBusy = errors.New("busy")
	// ErrLeaseLost: the lease that the call was made under has passed to another holder; nothing was changed.
	ErrLeaseLost = errors.New("lease lost")
	// ErrOutcomeUnknown: the commit failed in a way that leaves open whether it happened. Read before trying again,
	// or repeat a call that is idempotent.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrCursorExpired: what the cursor points at was removed by retention.
	ErrCursorExpired = errors.New("cursor expired")
	// ErrCorrupt: stored data can't be read as what it should be.
	ErrCorrupt = errors.New("corrupt")
	// ErrFull: the disk, or the quota, is full.
	ErrFull = errors.New("disk full")
	// ErrSchemaTooNew: the file needs a newer program, to be written or even to be read.
	ErrSchemaTooNew = errors.New("schema too new")
	// ErrNotADatabase: the file is not an SQLite database, or it belongs to another program.
	ErrNotADatabase = errors.New("not a selvedge database")
	// ErrUnsupported: the file system can't hold the database safely.
	ErrUnsupported = errors.New("unsupported file system")
	// ErrClosed: the handle was closed.
	ErrClosed = errors.New("closed")
)

// Error is what this package and the stores return. Error() is one line for logs; Hint is for a person and stays out of
// it.
type Error struct {
	Op     string // what was being done, in the caller's words: "append records"
	Entity string // the kind of thing: "run", "file"; may be empty
	ID     string // its id or path; may be empty
	Code   int    // the extended SQLite result code; 0 when SQLite did not fail
	Hint   string // what a person can do about it; may be empty
	Err    error  // the cause, which wraps a sentinel where one fits
}

// Error names the operation, the thing and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Entity != "" {
		b.WriteString(": ")
		b.WriteString(e.Entity)
		if e.ID != "" {
			fmt.Fprintf(&b, " %q", e.ID)
		}
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the hint of the outermost *Error in err's chain that has one.
func Hint(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// code returns the extended SQLite result code in err's chain, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// primary returns the primary result code: extended codes carry it in the low byte (sqlite.org/rescode.html).
func primary(err error) int { return code(err) & 0xff }

func isBusy(err error) bool {
	p := primary(err)
	return p == sqlite3.SQLITE_BUSY || p == sqlite3.SQLITE_LOCKED
}

// IsConstraint reports whether err is a violated constraint: UNIQUE, PRIMARY KEY, CHECK, NOT NULL or FOREIGN KEY.
func IsConstraint(err error) bool { return primary(err) == sqlite3.SQLITE_CONSTRAINT }

// IsUnique reports whether err is a violated UNIQUE or PRIMARY KEY constraint.
func IsUnique(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return true
	}
	return false
}

// sentinel is the sentinel that an SQLite error belongs to, or nil.
func sentinel(err error) error {
	switch primary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return ErrBusy
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_CORRUPT:
		return ErrCorrupt
	case sqlite3.SQLITE_NOTADB:
		return ErrNotADatabase
	}
	return nil
}

// wrap names what was being done. An error that is an *Error already passes as it is: it was wrapped where it arose.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	out := &Error{Op: op, Code: code(err), Err: err}
	if s := sentinel(err); s != nil && !errors.Is(err, s) {
		out.Err = fmt.Errorf("%w: %w", s, err)
	}
	return out
}

// waitEnded is the error of a caller whose context ended while it waited for what.
func waitEnded(ctx context.Context, op, what string) error {
	return &Error{
		Op:   op,
		Hint: "another caller or process holds " + what + "; try again, or give the call more time",
		Err:  fmt.Errorf("%w: waiting for %s: %w", ErrBusy, what, context.Cause(ctx)),
	}
}

// unknown is the error of a commit that failed: it may have happened all the same.
func unknown(op string, err error) error {
	e := &Error{
		Op: op, Code: code(err),
		Hint: "look whether the change is there before repeating it",
		Err:  fmt.Errorf("%w: commit: %w", ErrOutcomeUnknown, err),
	}
	if s := sentinel(err); s != nil {
		e.Err = fmt.Errorf("%w: commit: %w: %w", ErrOutcomeUnknown, s, err)
	}
	return e
}
