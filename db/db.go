package db

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"selvedge/internal/engine"
	"selvedge/internal/txn"
)

// A DB is an open file. Its methods are safe for concurrent use.
type DB struct {
	options    Options
	store      txn.Handle
	giveNumber func()

	work    work
	keepers keepers

	closing sync.Once
	closed  chan struct{}
	failed  error // of closing; set before closed
}

// Path is the file's absolute path, links resolved, or ":memory:".
func (d *DB) Path() string { return d.store.Path }

// Store returns the handle's interface for the stores of this module: see package internal/txn.
func (d *DB) Store() *txn.Handle { return &d.store }

// Close refuses new calls with ErrClosed, waits for those in progress and closes the file. After
// that, other processes can take over the open claims of this process. A second Close returns the
// result of the first.
func (d *DB) Close() error { return d.Shutdown(context.Background()) }

// Shutdown is Close with a time limit. If ctx ends first, Shutdown interrupts the statements of the
// reads in progress and returns ErrBusy with the context's cause and the names of the calls that it
// waits for. A function that writes runs to its end. The file is closed once the last call ends;
// another Shutdown, or Close, waits for that.
func (d *DB) Shutdown(ctx context.Context) error {
	if err := d.ready("close"); err != nil {
		return err
	}
	d.closing.Do(func() {
		d.keepers.end(wrap("close", ErrClosed))
		go func() {
			defer close(d.closed)
			d.failed = wrap("close", d.store.Engine.Close())
			d.giveNumber()
		}()
	})
	select {
	case <-d.closed:
		return d.failed
	case <-ctx.Done():
	}
	what := "the file to be closed"
	if calls := d.store.Engine.Interrupt(); len(calls) > 0 {
		what = strings.Join(calls, ", ")
	}
	return &Error{
		Op: "shut down", Hint: "the file is closed when they end; call Close to wait for that",
		Err: fmt.Errorf("%w: waiting for %s: %w", ErrBusy, what, context.Cause(ctx)),
	}
}

// Changes returns a channel that receives a value after a commit to the file: at once for a commit
// of this process, a moment later for one of another process or program. Commits while a value is
// pending share it, and a value may come without a commit; but every commit that ends after Changes
// returned is followed by a value. So: call Changes, read the current state, and read again after
// each value.
//
// The channel is closed when ctx ends or the file is closed, when another file, or none, is at its
// path, and when a server's database is moved: Changes then returns ErrReplaced or ErrMoved. A file
// without watchers is not watched; with one, an idle file is polled once a second (20 times if the
// system doesn't report writes), on a connection of its own.
func (d *DB) Changes(ctx context.Context) (<-chan struct{}, error) {
	if err := d.ready("watch"); err != nil {
		return nil, err
	}
	feed, err := d.store.Engine.Watch(ctx, engine.NoStream)
	if err != nil {
		return nil, wrap("watch", err)
	}
	return feed.Changes, nil
}
