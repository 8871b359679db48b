package db

import (
	"context"
	"fmt"

	"selvedge/db/internal/engine"
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
	if d.options.ReadOnly {
		return &Error{Op: why, Hint: "open the file without Options.ReadOnly", Err: fmt.Errorf("%w: the file was opened read-only", ErrInvalid)}
	}
	if d.callbacks.Inside() {
		return nested(why)
	}
	call := d.observed(why)
	return call.end(d.engine.Write(ctx, why, func(x engine.Tx) error {
		call.begin()
		tx := &Tx{Rx: Rx{db: d, engine: x, now: d.now(), writes: true}, engine: x}
		defer tx.end()
		return fn(tx)
	}))
}

func nested(why string) error {
	return &Error{
		Op: why, Hint: "use the transaction that the function was given, or make the call after it",
		Err: fmt.Errorf("%w: a call from inside a Read or Write function would wait for itself", ErrInvalid),
	}
}
