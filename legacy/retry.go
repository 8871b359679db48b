package legacy

import (
	"context"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Retried is the result of trying again to import a row of the quarantine.
type Retried = tree.Retried

// RetryQuarantine tries to import what a row of the quarantine keeps, since its cause may be gone:
// a newer program reads more, or an obstacle was removed. What it imports leaves the quarantine;
// otherwise the row stays as it is, with the reason. Whole files of runs, agents, checkpoints and
// live runs, and single records of live runs, are imported from the stored bytes; a runtime of
// workers is imported as a whole, from its folder. The journal records the call as an import. The
// error is db.ErrNotFound if there is no such row, and db.ErrBusy if its folder is being imported.
func RetryQuarantine(ctx context.Context, d *db.DB, id int64, o Options) (Retried, error) {
	return tree.RetryQuarantine(ctx, d, func(kind string) (tree.Layout, error) { return Kind(kind).layout() },
		id, o)
}

// DropQuarantine removes rows of the quarantine, with their bytes, in one transaction: all, or none
// if there is an error. The next import treats a file that was quarantined whole as new. What was
// found in a file that was imported is not found again while the file stays as it is.
// db.ErrNotFound and db.ErrBusy are those of [RetryQuarantine].
func DropQuarantine(ctx context.Context, d *db.DB, ids ...int64) error {
	return tree.DropQuarantine(ctx, d, ids)
}

// QuarantineOurs writes to w, as a file of the old layout, the thing that has the id in a row of
// the quarantine. ok is false if there is no such thing, or if the kind of tree keeps several
// things in a file.
func QuarantineOurs(ctx context.Context, d *db.DB, q Quarantined, w io.Writer) (ok bool, err error) {
	l, err := Kind(q.Kind).layout()
	if err != nil {
		return false, err
	}
	return tree.Ours(ctx, d, l, q, w)
}
