package db

import "context"

// Scrub writes the whole file anew and cuts its -wal off. Afterwards nothing of what was deleted or changed before lies in
// either: a deletion alone leaves it in free pages, and in what is left of pages. It needs the room of the file once more,
// first in SQLite's temporary folder and then in the -wal: ErrFull where one has it not. The folder is the first that can be
// written of $SQLITE_TMPDIR, $TMPDIR, /var/tmp, /usr/tmp and /tmp (sqlite.org/tempfiles.html). Scrub keeps writers waiting
// meanwhile, and waits for reads of any process that were there before: ErrBusy, after 30 s, where one does not end. What a
// disk keeps of blocks that were written over, and copies of the file, are beyond it.
func (d *DB) Scrub(ctx context.Context) error {
	if d.callbacks.Inside() {
		return nested("scrub")
	}
	return wrap("scrub", d.engine.Scrub(ctx))
}
