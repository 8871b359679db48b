package maintenance

import (
	"context"

	"selvedge/db"
	"selvedge/internal/engine"
)

// A Restored is the result of Restore.
type Restored = engine.Restored

// Restore replaces the file at path with a copy of the backup, or creates it. The copy is checked
// and synced first. No handle may be open on the file: db.ErrBusy names the holder after
// db.Options.LockTimeout. A crash leaves either file, whole. db.ErrOutcomeUnknown means that the restored
// file is in place, but a power cut may still bring the old one back: until its folder can be synced, this
// process opens it with the same error. The old file is kept beside it, at Restored.Kept.
//
// The file gets a new generation: older cursors are db.ErrCursorExpired. Its schema is the backup's.
func Restore(ctx context.Context, backup, path string, o db.Options) (r Restored, err error) {
	err = inFile(ctx, path, o, "this way to restore", "use pg_restore, or bring back the server's own backup",
		func(f engine.ClosedFile) (err error) {
			r, err = f.Restore(ctx, backup)
			return err
		})
	return r, err
}
