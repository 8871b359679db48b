package db

import (
	"context"

	"selvedge/db/internal/engine"
)

// Read runs fn in a read transaction: one snapshot, on a connection that can't write. It never waits for the writer, and
// the writer never waits for it. fn must not call Read or Write (an error at once), and should be short: while it runs the
// WAL can't start again from its beginning, so page through what is large.
//
// When ctx ends while all reading connections are in use, Read returns ErrBusy and the context's cause; fn itself is not
// interrupted.
func (d *DB) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	if d.callbacks.Inside() {
		return nested(why)
	}
	call := d.observed(why)
	call.seen.Write = false
	return call.end(d.engine.Read(ctx, why, func(x engine.Rx) error {
		call.begin()
		rx := &Rx{db: d, engine: x, now: d.now()}
		defer rx.end()
		return fn(rx)
	}))
}
