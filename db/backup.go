package db

import "context"

// Backup writes a snapshot of the file to dest, which must not exist. The file stays in use
// meanwhile, and Close waits for the copy. The copy is compact, has mode 0600, and is synced and
// checked before it gets its name. If Backup fails there is no copy, unless the error reports one.
// The next Backup removes the files that a killed one left in the folder.
//
// Once the copy replaces the file, by whatever means, older cursors are ErrCursorExpired.
func (d *DB) Backup(ctx context.Context, dest string) (err error) {
	defer func() { err = Heard(ctx, err) }()
	if err := d.ready("backup"); err != nil {
		return err
	}
	return About(d.store.Engine.Backup(ctx, dest), "backup", "file", dest, nil)
}
