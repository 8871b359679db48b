package db

import (
	"context"
	"fmt"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
)

// Read runs fn in a read transaction: one snapshot, on a connection that can't write. It never
// waits for the writer, and the writer never waits for it. fn must not call Read or Write (an error
// at once), and should be short: while it runs the WAL can't start again from its beginning, so
// page through what is large.
//
// When ctx ends while all reading connections are in use, Read returns ErrBusy and the context's
// cause. When it ends later, the statement that runs is interrupted, and it and those that follow
// fail with the context's cause; fn itself goes on. fn runs again when SQLite found the file locked
// for a moment (another process recovers its WAL), and on a server when the connection was lost, or
// a statement no longer fits a table that was changed: so it begins by forgetting what an earlier
// run of it gathered.
func (d *DB) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	return d.read(ctx, why, fn, engine.Engine.Read)
}

// ReadSingle is Read for a function of one statement. On a server that one then goes and is
// answered in one message, without a transaction around it; where there are more, each sees what
// was committed before it. In a file it is Read.
func (d *DB) ReadSingle(ctx context.Context, why string, fn func(*Rx) error) error {
	return d.read(ctx, why, fn, engine.Engine.ReadSingle)
}

func (d *DB) read(
	ctx context.Context, why string, fn func(*Rx) error,
	begin func(engine.Engine, context.Context, string, func(engine.Rx) error) callback.Outcome,
) error {
	if err := d.ready(why); err != nil {
		return err
	}
	c := d.call(ctx, why, false)
	c.read = fn
	defer c.left()
	return c.end(begin(d.engine, ctx, why, c.runRead))
}

// Write runs fn in a write transaction and returns when it is committed. why names the call in errors and to
// Options.Observe.
//
// One fn runs at a time in this process, on the caller's goroutine when nobody else waits and on
// the writer's own else. So it must be short, must not block on other callers, and must not call
// Read or Write of the same file (an error at once). Callers that wait at the same time share a
// commit; an error, a panic or a Goexit in one caller's function undoes its changes alone. fn may
// run more than once, when SQLite ended the transaction of the group (a full disk): what it changes
// outside the database it must be able to change again.
//
// On a server functions of several callers run side by side, each in a serialisable transaction of
// its own. fn runs again, as often as it takes, when it loses against another one, when a key that
// it adds was added meanwhile, when its connection is lost before the commit, and when this process
// has a new number among the owners; where no primary answers for a minute that is ErrIO. At each
// eighth loss it runs alone, and all other writers of the schema wait as long as it takes: one more
// reason to be short. See docs/postgres.md.
//
// When ctx ends before fn has begun, Write returns at once with ErrBusy and the context's cause; a
// context that had ended before the call is no more than its own error. Once fn has begun, Write
// returns when fn and its commit have ended.
//
// An error means that nothing was changed, but for one: where a commit fails, Write makes sure that
// it did not happen before it returns, and where the disk does not even allow that, the error is
// ErrOutcomeUnknown. The handle then refuses every call; BatchOf gives what makes a repeat safe
// after the file was opened again.
func (d *DB) Write(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.Write)
}

// WriteLocked is Write for a function that keeps to rows which it locks first, by Tx.Lock, and to
// what belongs to them: an operation on one run, one claim, one lease. On a server it then neither
// loses against others nor runs again for them: it waits for the rows, and reads behind that what
// was committed last. What it reads without a lock may change before it commits. For the other
// reasons of a Write fn runs again there too: a lost connection, a deadlock, a key that somebody
// added meanwhile. In a file it is Write.
func (d *DB) WriteLocked(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.WriteLocked)
}

// WriteEnd is WriteLocked for a function that ends something which can be removed only then: a run,
// a claim, a lease. On a full disk it still works, with the first half of what is kept for Reclaim.
// It is ErrFull where the function adds more than 256 KiB to the file meanwhile: the rest is for
// deletions.
func (d *DB) WriteEnd(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.WriteEnd)
}

// Reclaim is Write for a function that removes data. On a full disk it still works: for that,
// FILE-reserve keeps 4 MiB of the disk, or a sixth of a small one. It is emptied when a Reclaim or
// a WriteEnd needs it, and filled again when there is room for it and a quarter more. While it is
// empty Write returns ErrFull at once, in every process, so that nothing else uses up what Reclaim
// frees.
func (d *DB) Reclaim(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.Reclaim)
}

func (d *DB) write(
	ctx context.Context, why string, fn func(*Tx) error,
	begin func(engine.Engine, context.Context, string, func(engine.Tx) error) callback.Outcome,
) error {
	if d.options.ReadOnly {
		return &Error{Op: why, Hint: "open the file without Options.ReadOnly",
			Err: fmt.Errorf("%w: the file was opened read-only", ErrInvalid)}
	}
	if err := d.ready(why); err != nil {
		return err
	}
	c := d.call(ctx, why, true)
	c.write = fn
	defer c.left()
	return heard(ctx, c.end(begin(d.engine, ctx, why, c.runWrite)), toldOfWaits)
}

// ready is nil where a call may be made: of an open file, and not from inside a function given to
// Read or Write.
func (d *DB) ready(why string) error {
	switch {
	case d.engine == nil:
		return &Error{Op: why, Hint: "use the *DB that Open returned",
			Err: fmt.Errorf("%w: it was never opened", ErrClosed)}
	case d.callbacks.Inside(), callback.Outside.Inside():
		return nested(why)
	}
	return nil
}

func nested(why string) error {
	return &Error{
		Op: why, Hint: "use the transaction that the function was given, or make the call after it",
		Err: fmt.Errorf("%w: a call from inside a function that was given to a call, or to Options, may wait "+
			"for itself", ErrInvalid),
	}
}
