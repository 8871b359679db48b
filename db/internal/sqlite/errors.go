package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/db/internal/engine"
)

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

// failure says what an SQLite error means. Other errors, and what is said already, pass as they are.
func failure(err error) error {
	if code(err) == 0 {
		return err
	}
	if _, said := errors.AsType[*engine.Failure](err); said {
		return err
	}
	return &engine.Failure{Kind: kind(err), Constraint: constraint(err), Code: code(err), Err: err}
}

// kind is the sentinel that an SQLite error belongs to, or nil.
func kind(err error) error {
	switch primary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return engine.ErrBusy
	case sqlite3.SQLITE_FULL:
		return engine.ErrFull
	case sqlite3.SQLITE_CORRUPT:
		return engine.ErrCorrupt
	case sqlite3.SQLITE_NOTADB:
		return engine.ErrNotADatabase
	}
	return nil
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
	return &engine.Failure{
		Kind: engine.ErrBusy,
		Hint: "another caller or process holds " + what + "; try again, or give the call more time",
		Err:  fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx)),
	}
}

// unknown is the error of a commit that failed: it may have happened all the same.
func unknown(err error) error {
	return &engine.Failure{
		Kind: engine.ErrOutcomeUnknown, Code: code(err),
		Hint: "look whether the change is there before repeating it",
		Err:  fmt.Errorf("commit: %w", failure(err)),
	}
}
