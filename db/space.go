package db

import (
	"context"

	"selvedge/db/internal/sqlite"
)

// GiveBack returns to the disk what deletions freed, and cuts the WAL off, at once: a handle that
// stays open does so by itself within a minute. It works in steps that hold the writer for about 10
// ms each, and ends with ctx. Room inside pages stays: see [Compact].
func (d *DB) GiveBack(ctx context.Context) error {
	if err := d.ready("give space back"); err != nil {
		return err
	}
	return Heard(ctx, wrap("give space back", d.engine.GiveBack(ctx)))
}

// A Compacted says what Compact did.
type Compacted struct {
	Path   string // the file, absolute
	Before int64  // bytes of the file and its -wal
	After  int64  // the same, afterwards
}

// Compact puts a compact copy into the place of the file at path: all free room goes back to the
// disk, that inside pages too. The copy is checked and on the disk before, no handle is open on the
// file meanwhile (ErrBusy, with whose it is, after Options.LockTimeout), and a crash leaves one of
// the two there, whole. It needs as much room on the disk as the copy takes. The rows are the same,
// so cursors stay good; so does the schema, whichever it is.
func Compact(ctx context.Context, path string, o Options) (done Compacted, err error) {
	defer func() { err = Heard(ctx, err) }()
	return inFile(path, o, "compacting", "use VACUUM FULL on the tables, or pg_repack",
		func(c sqlite.Config) (Compacted, error) {
			r, err := sqlite.Compact(ctx, path, c)
			return Compacted(r), err
		})
}

// Scrub writes the whole file anew and cuts its -wal off. Afterwards nothing of what was deleted or
// changed before lies in either: a deletion alone leaves it in free pages, and in what is left of
// pages. Records of a long run that is being removed are not deleted yet, and lie in it until the
// last step of that: see the table run_leavings, and maintenance.Redact, which ends it first. It
// needs the room of the file once more, first in SQLite's temporary folder and then in the -wal:
// ErrFull where one has it not. The folder is the first that can be written of $SQLITE_TMPDIR,
// $TMPDIR, /var/tmp, /usr/tmp and /tmp (sqlite.org/tempfiles.html). Scrub keeps writers waiting
// meanwhile, and waits for reads of any process that were there before: ErrBusy, after 30 s, where
// one does not end. What a disk keeps of blocks that were written over, and copies of the file, are
// beyond it.
//
// On a server it writes each table anew (VACUUM FULL), as the owner of the tables, which keeps
// everybody from that table meanwhile. It waits 30 s for transactions from before, which could
// still see what was there, and for who uses a table: ErrBusy. Beyond it are the server's WAL, its
// archive and backups.
func (d *DB) Scrub(ctx context.Context) error {
	if err := d.ready("scrub"); err != nil {
		return err
	}
	return Heard(ctx, wrap("scrub", d.engine.Scrub(ctx)))
}
