package legacy

import (
	"context"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Conflict is an agent or a paused run that both the old program and this one have continued since
// it was imported. Until a person decides, our version stays as it is, and a checkpoint can't be
// claimed.
type Conflict = tree.Conflict

// Decision is who decided a conflict, when, and how.
type Decision = tree.Decision

// Take is the version of a thing that counts.
type Take = tree.Take

// The two versions.
const (
	TakeOld  = tree.TakeOld  // the old program's; if that program removed the thing, it is removed here too
	TakeOurs = tree.TakeOurs // what is here
)

// Conflicts lists the open conflicts of a scope, oldest first.
func Conflicts(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Conflict], error) {
	return tree.Conflicts(ctx, d, scope, at)
}

// ConflictsOf lists the conflicts that an import was the first to find, including decided ones,
// oldest first, at most 1,000.
func ConflictsOf(ctx context.Context, d *db.DB, entry int64) ([]Conflict, error) {
	return tree.ConflictsOf(ctx, d, entry)
}

// Resolve decides a conflict in the scope of the options, in one transaction, and returns it with
// the decision, which stays in the journal. name is the id of the agent or the run, or the number
// of the conflict. The old program's version is what the folder holds now. db.ErrNotFound: there is
// no such conflict, or the folder can't be read. db.ErrInvalid: the name matches several.
// db.ErrBusy: the folder is being imported.
func Resolve(ctx context.Context, d *db.DB, name string, take Take, o Options) (Conflict, error) {
	return tree.Resolve(ctx, d, func(kind string) (tree.Layout, error) { return Kind(kind).layout() }, name,
		take, o)
}

// Contested returns, by id, what the old program did to agents or runs with an open conflict. One
// without a conflict has no entry.
func Contested(ctx context.Context, d *db.DB, kind Kind, scope string,
	ids ...string,
) (reasons map[string]string, err error) {
	return tree.Contested(ctx, d, string(kind), scope, ids)
}
