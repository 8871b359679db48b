package legacy

import (
	"context"
	"io"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Quarantined is a row of the quarantine: bytes that could not be imported as they are, and why.
type Quarantined = tree.Quarantined

// Quarantine lists the rows of a scope's quarantine, oldest first.
func Quarantine(ctx context.Context, d *db.DB, scope string, at db.At) (db.Page[Quarantined], error) {
	return tree.ListQuarantine(ctx, d, scope, at)
}

// ShowQuarantine returns one row of the quarantine, of any scope; db.ErrNotFound if there is none
// with that id.
func ShowQuarantine(ctx context.Context, d *db.DB, id int64) (Quarantined, error) {
	return tree.ShowQuarantine(ctx, d, id)
}

// QuarantineRaw writes the bytes of the row to w, part by part.
func QuarantineRaw(ctx context.Context, d *db.DB, id int64, w io.Writer) error {
	return tree.QuarantineRaw(ctx, d, id, w)
}
