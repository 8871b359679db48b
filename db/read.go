package db

import "context"

// Read runs fn in a read transaction: one snapshot, on a connection that can't write. It never waits for the writer, and
// the writer never waits for it. fn must not call Read or Write (an error at once), and should be short: while it runs the
// WAL can't start again from its beginning, so page through what is large.
//
// When ctx ends while all reading connections are in use, Read returns ErrBusy and the context's cause. When it ends later,
// the statement that runs is interrupted, and it and those that follow fail with the context's cause; fn itself goes on. fn
// runs again when SQLite found the file locked for a moment (another process recovers its WAL).
func (d *DB) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	if d.callbacks.Inside() {
		return nested(why)
	}
	c := d.call(ctx, why, false)
	c.read = fn
	defer c.left()
	return c.end(d.engine.Read(ctx, why, c.runRead))
}
