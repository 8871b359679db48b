package db

import (
	"context"

	"selvedge/internal/sqlite"
)

// Backup writes a snapshot of the file to dest, which must not exist. The file stays in use
// meanwhile, and Close waits for the copy. The copy is compact, has mode 0600, and is synced and
// checked before it gets its name. If Backup fails there is no copy, unless the error says so. The
// next Backup removes what a killed one left in the folder.
//
// Once the copy replaces the file, by whatever means, older cursors are ErrCursorExpired.
func (d *DB) Backup(ctx context.Context, dest string) (err error) {
	defer func() { err = Heard(ctx, err) }()
	if err := d.ready("backup"); err != nil {
		return err
	}
	if err := d.engine.Backup(ctx, dest); err != nil {
		return &Error{Op: "backup", Entity: "file", ID: dest, Code: code(err), Hint: hintOf(err), Err: err}
	}
	return nil
}

// A Restored is the result of Restore.
type Restored struct {
	Path   string // the file, absolute
	Kept   string // where the file is now that was there before; "" where there was none
	Schema int64  // of the file: that of the backup
}

// Restore replaces the file at path with a copy of the backup, or creates it. The copy is checked
// and synced first. No handle may be open on the file: ErrBusy names the holder after
// Options.LockTimeout. A crash leaves either file, whole. ErrOutcomeUnknown means that the restored
// file is in place, but a power cut may still bring the old one back. The old file is kept beside
// it, at Restored.Kept.
//
// The file gets a new generation: older cursors are ErrCursorExpired. Its schema is the backup's.
func Restore(ctx context.Context, backup, path string, o Options) (restored Restored, err error) {
	defer func() { err = Heard(ctx, err) }()
	return inFile(path, o, "this way to restore", "use pg_restore, or bring back the server's own backup",
		func(c sqlite.Config) (Restored, error) {
			r, err := sqlite.Restore(ctx, backup, path, c)
			return Restored(r), err
		})
}
