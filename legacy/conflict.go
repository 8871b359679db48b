package legacy

import (
	"context"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Conflict is an agent or a paused run that the old program and this one both went on with since it
// was imported. Until somebody decides, ours stays as it is, and a checkpoint can't be claimed.
type Conflict = tree.Conflict

// Decision says who decided a conflict, when, and how.
type Decision = tree.Decision

// Take is whose version of a thing counts.
type Take = tree.Take

// The two versions.
const (
	TakeOld  = tree.TakeOld  // what the old program has made of it; where it is gone there it goes here, too
	TakeOurs = tree.TakeOurs // what is here
)

// Conflicts lists what nobody has decided yet in a scope, oldest first.
func Conflicts(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Conflict], error) {
	return tree.Conflicts(ctx, d, scope, at)
}

// ConflictsOf are those that an import was the first to find, decided ones included, oldest first,
// at most 1,000.
func ConflictsOf(ctx context.Context, d *db.DB, entry int64) ([]Conflict, error) {
	return tree.ConflictsOf(ctx, d, entry)
}

// Resolve decides a conflict of the scope of the options in one transaction, and gives it with the
// decision, which stays in the journal. name is the id of the agent or the run, or the number of
// the conflict. The old program's version is what the folder holds now. db.ErrNotFound says that
// there is no such conflict, or that the folder can't be read; db.ErrInvalid that the name means
// several; db.ErrBusy that the folder is being imported.
func Resolve(ctx context.Context, d *db.DB, name string, take Take, o Options) (Conflict, error) {
	return tree.Resolve(ctx, d, func(kind string) (tree.Layout, error) { return Kind(kind).layout() }, name,
		take, o)
}

// Contested gives what the old program did to agents or runs since they were imported, by their
// ids, where nobody has decided about it yet. One of which nothing is to be decided has no entry.
func Contested(ctx context.Context, d *db.DB, kind Kind, scope string,
	ids ...string,
) (reasons map[string]string, err error) {
	return tree.Contested(ctx, d, string(kind), scope, ids)
}
