package db

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"selvedge/internal/engine"
)

// The sentinel errors that every layer wraps; test for them with errors.Is.
var (
	// ErrNotFound: the requested item is not in the file.
	ErrNotFound = engine.ErrNotFound
	// ErrConflict: an item with that identity exists, with other contents.
	ErrConflict = engine.ErrConflict
	// ErrInvalid: an argument is unusable; nothing was changed.
	ErrInvalid = engine.ErrInvalid
	// ErrBusy: the context ended, or the lock timeout passed, while another caller or process held
	// what was needed.
	ErrBusy = engine.ErrBusy
	// ErrLeaseLost: the call's lease has passed to another holder; nothing was changed.
	ErrLeaseLost = engine.ErrLeaseLost
	// ErrOutcomeUnknown: a commit failed, and the disk did not let Write find out whether it happened.
	// The handle refuses every call until the file is closed and reopened; then repeat the call with
	// BatchOf, or look for the change. On a server it means that no primary answered, and the handle
	// continues to work. From Backup and Restore: the file has its name, which a power cut may undo.
	ErrOutcomeUnknown = engine.ErrOutcomeUnknown
	// ErrCursorExpired: retention removed the items that the cursor points at.
	ErrCursorExpired = engine.ErrCursorExpired
	// ErrCorrupt: stored data can't be read.
	ErrCorrupt = engine.ErrCorrupt
	// ErrFull: the disk, or the quota, is full. Nothing was changed.
	ErrFull = engine.ErrFull
	// ErrIO: the disk or the file system failed. Nothing was changed, unless the error is also
	// ErrOutcomeUnknown.
	ErrIO = engine.ErrIO
	// ErrSchemaTooNew: the file needs a newer program, to be written or even to be read.
	ErrSchemaTooNew = engine.ErrSchemaTooNew
	// ErrNotADatabase: the file is not an SQLite database, or it belongs to another program.
	ErrNotADatabase = engine.ErrNotADatabase
	// ErrUnsupported: the file system, or how the file lies on it, can't hold the database safely; or
	// the engine lacks the feature, and the hint names the alternative.
	ErrUnsupported = engine.ErrUnsupported
	// ErrReplaced: the file, or its -wal or -shm, was removed, renamed or replaced while it was open;
	// nothing was changed. Every later Write of the handle fails the same way until the file is back,
	// and so does Open of the path in this process until the handle is closed. Open, Restore and
	// Salvage also return it for a file beside a -wal that a killed program left and that belongs to
	// another file.
	ErrReplaced = engine.ErrReplaced
	// ErrMoved: the database was moved, or is being moved, to another one and can't be written here;
	// or a move has not filled it yet. The error and its hint name the other one.
	ErrMoved = engine.ErrMoved
	// ErrClosed: the handle was closed, or never opened.
	ErrClosed = engine.ErrClosed
)

// Error is the error of this package and the stores. Error() is one line for logs; Hint is for a
// person and not part of it.
type Error struct {
	Op     string // what was being done, in the caller's words: "append records"
	Entity string // the kind of thing: "run", "file"; may be empty
	ID     string // its id or path; may be empty
	// the extended SQLite result code, or the SQLSTATE as a base-36 number; 0 if the database did not
	// fail
	Code int
	Hint string // what a person can do about it; may be empty
	// with ErrBusy, the pids of the processes that hold the lock; none if the system doesn't report
	// them, nor for a server's locks: see Health
	HeldBy []int
	Err    error // the cause, which wraps a sentinel if one fits
}

// Error names the operation, the item and the cause, in one printable line of at most 4 KiB.
func (e *Error) Error() string {
	text := line(e.Op, 512)
	if e.Entity != "" {
		text += ": " + line(e.Entity, 512)
		if e.ID != "" {
			text += " " + line(strconv.Quote(e.ID[:min(len(e.ID), 1024)]), 1024)
		}
	}
	return text + ": " + line(e.Err.Error(), 2000)
}

// line returns a text as one printable line of at most that many bytes.
func line(text string, most int) string {
	const longestEscape = len(`\U0010ffff`)
	var b strings.Builder
	for _, r := range text {
		if b.Len() > most-longestEscape-len("…") {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n': // between joined errors
			b.WriteString("; ")
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// LogValue returns the fields of the error for log/slog: op, entity, id, code, held_by, hint and
// error. Empty ones are left out.
func (e *Error) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("op", line(e.Op, 512))}
	for _, a := range []struct{ name, value string }{{"entity", e.Entity}, {"id", e.ID}} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.name, line(a.value, 512)))
		}
	}
	if e.Code != 0 {
		attrs = append(attrs, slog.Int("code", e.Code))
	}
	if len(e.HeldBy) > 0 {
		attrs = append(attrs, slog.Any("held_by", e.HeldBy))
	}
	if hint := Hint(e); hint != "" {
		attrs = append(attrs, slog.String("hint", hint))
	}
	return slog.GroupValue(append(attrs, slog.String("error", line(e.Err.Error(), 2000)))...)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Hint returns the hint of the outermost *Error in err's chain that has one, else that of the
// underlying failure.
func Hint(err error) string {
	for at := err; at != nil; {
		e, ok := errors.AsType[*Error](at)
		if !ok {
			break
		}
		if e.Hint != "" {
			return e.Hint
		}
		at = e.Err
	}
	return errorOf("", err).Hint
}

// errorOf returns the error of an operation, with what the underlying failure says.
func errorOf(op string, err error) *Error {
	e := &Error{Op: op, Err: err}
	if f, ok := errors.AsType[*engine.Failure](err); ok {
		e.Code, e.Hint, e.HeldBy = f.Code, f.Hint, f.HeldBy
	}
	return e
}

// wrap adds the operation. An error that already is an *Error is returned as it is: it was wrapped
// where it arose.
func wrap(op string, err error) error { return About(err, op, "", "", nil) }

// About adds the item to a store's error that names none: an *Error gets the entity and the id, and
// any other error becomes one, with the operation and the hint of hint, if not nil. An empty entity
// adds nothing. The error may be the caller's own, so it is copied, not changed.
func About(err error, op, entity, id string, hint func(error) string) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok:
		e = errorOf(op, err)
		if e.Hint == "" && hint != nil {
			e.Hint = hint(err)
		}
	case e != err || e.Entity != "" || entity == "": //nolint:errorlint // only the outermost is made again
		return err
	}
	about := *e
	about.Entity, about.ID = entity, id
	return &about
}
