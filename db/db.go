package db

import (
	"context"
	"sync"
	"time"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
)

// A DB is an open file. Its methods are safe for concurrent use.
type DB struct {
	path    string
	options Options

	engine    engine.Engine
	callbacks callback.Callbacks
	giveLane  func()

	scopes sync.Map // name -> id, of committed rows

	lookouts lookouts
	keepers  keepers

	closing sync.Once
	failed  error
}

// Path is the file's absolute path, links resolved, or ":memory:".
func (d *DB) Path() string { return d.path }

// ReadOnly reports whether the handle was opened with Options.ReadOnly.
func (d *DB) ReadOnly() bool { return d.options.ReadOnly }

// Close waits for the calls that were taken, refuses new ones with ErrClosed and closes the file. Claims of this process
// that are still open can be taken over by others from then on. A second Close returns what the first did.
func (d *DB) Close() error {
	if d.callbacks.Inside() {
		return nested("close")
	}
	d.closing.Do(func() {
		d.keepers.end(wrap("close", ErrClosed))
		d.failed = wrap("close", d.engine.Close())
		d.giveLane()
	})
	return d.failed
}

func (d *DB) now() time.Time { return d.options.Now().UTC() }

// Changes gives a channel that gets a value when something was committed to the file: by this process at once, by another
// process or program a moment later. Commits that come while a value is waiting share it, and a value may come without
// a commit; what never happens is a commit, ended after Changes returned, that no value follows. So: call Changes, read
// what there is, and read again after each value.
//
// The channel is closed when ctx ends or the file is closed. While a file has no watcher nothing is watched; with one, an
// idle file costs a look a second (20 a second where the system doesn't tell of writes), on a connection of its own.
func (d *DB) Changes(ctx context.Context) (<-chan struct{}, error) {
	if d.callbacks.Inside() {
		return nil, nested("watch")
	}
	changes, err := d.engine.Changes(ctx)
	return changes, wrap("watch", err)
}
