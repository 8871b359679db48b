package db

import (
	"context"

	"selvedge/db/internal/sqlite"
)

// Backup writes a copy of the file, as it was at one moment, to dest, which must not exist. The
// file stays in use meanwhile, and Close waits for the copy. The copy is compact, 0600, on the disk
// and checked before it gets its name; when Backup fails there is none, unless the error says so.
// What a killed Backup leaves in the folder the next one removes.
//
// Whichever way the copy is put in the file's place later, cursors from before are ErrCursorExpired then.
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

// A Restored says what Restore did.
type Restored struct {
	Path   string // the file, absolute
	Kept   string // where the file is now that was there before; "" where there was none
	Schema int64  // of the file: that of the backup
}

// Restore puts a copy of the backup into the place of the file at path, or makes it. The copy is
// checked and on the disk before, no handle is open on the file meanwhile (ErrBusy, with whose it
// is, after Options.LockTimeout), and a crash leaves one of the two there, whole; ErrOutcomeUnknown
// says that the restored file is there and a power cut may still bring back the one before. The
// file that was there is kept beside it, at Restored.Kept.
//
// The file has another generation then: cursors from before are ErrCursorExpired. Its schema is the backup's.
func Restore(ctx context.Context, backup, path string, o Options) (restored Restored, err error) {
	defer func() { err = Heard(ctx, err) }()
	return inFile(path, o, "this way to restore", "use pg_restore, or bring back the server's own backup",
		func(c sqlite.Config) (Restored, error) {
			r, err := sqlite.Restore(ctx, backup, path, c)
			return Restored(r), err
		})
}
