package db

import (
	"context"
)

// Backup writes a copy of the file, as it was at one moment, to dest, which must not exist. The file stays in use
// meanwhile. The copy is compact, 0600, on the disk and checked before it gets its name; when Backup fails there is none.
func (d *DB) Backup(ctx context.Context, dest string) error {
	if d.callbacks.Inside() {
		return nested("backup")
	}
	if err := d.engine.Backup(ctx, dest); err != nil {
		return &Error{Op: "backup", Entity: "file", ID: dest, Code: code(err), Hint: hintOf(err), Err: err}
	}
	return nil
}
