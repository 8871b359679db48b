package maintenance

import (
	"context"

	"selvedge/db"
	"selvedge/internal/engine"
)

// GiveBack returns to the disk what deletions freed, and truncates the WAL, at once; an open handle
// does so by itself within a minute. It works in steps that hold the writer for about 10 ms each,
// and ends with ctx. It waits a second for a read of any process that keeps the WAL as it is; behind
// a longer one the file becomes smaller after the read. Free room inside pages stays: see [Compact].
func GiveBack(ctx context.Context, d *db.DB) error {
	return on(ctx, d, "give space back", func(e engine.Engine) error { return e.GiveBack(ctx) })
}

// on runs fn with the engine of an open handle.
func on(ctx context.Context, d *db.DB, op string, fn func(engine.Engine) error) error {
	err := d.Store().Ready()
	if err == nil {
		err = fn(d.Store().Engine)
	}
	return db.Heard(ctx, named(op, err))
}

// named adds the operation to an error of an engine.
func named(op string, err error) error { return db.About(err, op, "", "", nil) }

// A Compacted is the result of Compact.
type Compacted = engine.Compacted

// Compact replaces the file at path with a compact copy: all free room returns to the disk, also
// that inside pages. The copy is checked and synced first. No handle may be open on the file:
// db.ErrBusy names the holder after db.Options.LockTimeout. A crash leaves either file, whole. It needs
// as much room on the disk as the copy takes. The rows, the schema and the validity of cursors
// don't change.
func Compact(ctx context.Context, path string, o db.Options) (c Compacted, err error) {
	err = inFile(ctx, path, o, "compacting", "use VACUUM FULL on the tables, or pg_repack",
		func(f engine.ClosedFile) (err error) {
			c, err = f.Compact(ctx)
			return err
		})
	return c, err
}

// Scrub rewrites the whole file and truncates its -wal, so that neither contains anything that was
// deleted or overwritten before. (A deletion alone leaves it in free pages and in the free parts of
// pages.) Records of a long run that is being removed remain until the removal's last step: see the
// table run_leavings, and Redact, which finishes the removal first. Scrub needs the
// room of the file once more, first in SQLite's temporary folder and then in the -wal, and returns
// db.ErrFull if either has too little. The folder is the first writable one of $SQLITE_TMPDIR,
// $TMPDIR, /var/tmp, /usr/tmp and /tmp (sqlite.org/tempfiles.html). Scrub blocks writers, and waits
// for earlier reads of any process: db.ErrBusy after 30 s. Copies, and blocks that a disk keeps after
// they are overwritten, are out of its reach.
//
// On a server it rewrites each table (VACUUM FULL), as the owner of the tables, and blocks all use
// of that table meanwhile. It waits 30 s for earlier transactions, which could still see the old
// rows, and for users of a table: db.ErrBusy. The server's WAL, its archive and backups are out of its
// reach.
func Scrub(ctx context.Context, d *db.DB) error {
	return on(ctx, d, "scrub", func(e engine.Engine) error { return e.Scrub(ctx) })
}
