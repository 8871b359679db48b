package legacy

import (
	"context"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Entry is one import in the journal.
type Entry = tree.Entry

// Outcome is how an import ended.
type Outcome = tree.Outcome

// The outcomes.
const (
	Complete = tree.Complete // everything was imported
	Partial  = tree.Partial  // something was quarantined, or differs and was left as it is
	Stopped  = tree.Stopped  // by its caller
	Failed   = tree.Failed   // see Entry.Error
	Running  = tree.Running
	Killed   = tree.Killed // its process is gone
)

// Journal lists the imports into a scope, newest first.
func Journal(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Entry], error) {
	return tree.Journal(ctx, d, scope, at)
}

// JournalEntry returns one import, into any scope; db.ErrNotFound if there is none with that
// number.
func JournalEntry(ctx context.Context, d *db.DB, id int64) (Entry, error) {
	return tree.JournalEntry(ctx, d, id)
}
