package db

import (
	"context"
	"fmt"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

// Read runs fn in a read transaction: one snapshot, on a connection that can't write. Readers and
// the writer never wait for each other. fn must not call Read or Write (an error at once), and
// should be short: the WAL can't restart from its beginning while fn runs, so read large results in
// pages.
//
// If ctx ends while all reading connections are in use, Read returns ErrBusy and the context's
// cause. If it ends later, the statement in progress is interrupted; that one and later ones fail
// with the context's cause, while fn itself continues. fn runs again if SQLite found the file
// locked for a moment (another process recovers its WAL), and on a server if the connection was
// lost, or a statement no longer fits a changed table. So fn must begin by resetting what an
// earlier run gathered.
func (d *DB) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	return d.read(ctx, why, fn, engine.Engine.Read)
}

// ReadSingle is Read for a function with one statement. On a server the statement is then sent and
// answered in one message, without a transaction around it; several statements would each see the
// latest commits. In a file it is Read.
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
	return c.end(begin(d.store.Engine, ctx, why, c.runRead))
}

// Write runs fn in a write transaction and returns when it is committed. why names the call in
// errors and to Options.Observe.
//
// One fn runs at a time in this process: on the caller's goroutine if no other caller waits, else
// on the writer's. So fn must be short, must not wait for other callers, and must not call Read or
// Write of the same file (an error at once). Callers that wait at the same time share a commit; an
// error, a panic or a Goexit in one caller's function undoes its changes alone. fn may run more
// than once, if SQLite ended the transaction of the group (a full disk): whatever it changes
// outside the database must be repeatable.
//
// On a server the functions of several callers run concurrently, each in a serializable
// transaction. fn runs again, as often as it takes, if it loses against another one, if a key that
// it inserts was inserted meanwhile, if its connection is lost before the commit, and if this
// process has a new owner number; ErrIO is returned once no primary has answered for a minute.
// After every eighth loss fn runs alone, and all other writers of the schema wait for it: one more
// reason to be short. See docs/postgres.md.
//
// If ctx ends before fn has begun, Write returns at once with ErrBusy and the context's cause; if
// it had ended before the call, with the context's error alone. Once fn has begun, Write returns
// when fn and its commit have ended.
//
// An error means that nothing was changed, with one exception. If a commit fails, Write makes sure
// that it did not happen before it returns; if the disk does not even allow that, the error is
// ErrOutcomeUnknown. The handle then refuses every call; BatchOf returns the number that makes a
// repeat safe after the file was reopened.
func (d *DB) Write(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.Write)
}

// WriteLocked is Write for a function that changes given items by calls of the stores, which lock
// them first, and by itself only rows that belong to these items. Finding or creating an agent needs
// Write. On a server WriteLocked does not conflict with other transactions, and so does not run again
// because of them: it waits for the rows, and then reads the latest committed state. What it reads
// without a lock may change before it commits. fn may run again for the other reasons of Write: a lost
// connection, a deadlock, a key that was inserted meanwhile. In a file it is Write.
func (d *DB) WriteLocked(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.WriteLocked)
}

// WriteEnd is WriteLocked for a function that ends an item that can be removed only after its end:
// a run, a claim, a lease. It works on a full disk, using the first half of the reserve that is
// kept for Reclaim. It returns ErrFull if the function adds more than 256 KiB to the file: the rest
// of the reserve is for deletions.
func (d *DB) WriteEnd(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.WriteEnd)
}

// Reclaim is Write for a function that removes data. It works on a full disk: FILE-reserve keeps 4
// MiB for it, or a sixth of a small disk. The reserve is emptied when a Reclaim or a WriteEnd needs
// it, and refilled when there is room for it and a quarter more. While it is empty, Write returns
// ErrFull at once, in every process, so that nothing else uses up what Reclaim frees.
func (d *DB) Reclaim(ctx context.Context, why string, fn func(*Tx) error) error {
	return d.write(ctx, why, fn, engine.Engine.Reclaim)
}

func (d *DB) write(
	ctx context.Context, why string, fn func(*Tx) error,
	begin func(engine.Engine, context.Context, string, func(engine.Tx) error) callback.Outcome,
) error {
	if d.options.ReadOnly {
		return &Error{
			Op: why, Hint: "open the file without Options.ReadOnly",
			Err: fmt.Errorf("%w: the file was opened read-only", ErrInvalid),
		}
	}
	if err := d.ready(why); err != nil {
		return err
	}
	c := d.call(ctx, why, true)
	c.write = fn
	defer c.left()
	return heard(ctx, c.end(begin(d.store.Engine, ctx, why, c.runWrite)), toldOfWaits)
}

// ready returns nil if a call may be made: see txn.Handle.Ready.
func (d *DB) ready(why string) error { return wrap(why, d.store.Ready()) }
