package tree

import (
	"context"
	"io"

	"selvedge/db"
)

// A Writer is a Layout that can write one thing as a file.
type Writer interface {
	// WriteThing writes it to w; ok is false where it is not there.
	WriteThing(ctx context.Context, t *Tree, e Entity, w io.Writer) (ok bool, err error)
}

// Ours writes what is here under the id that a row of the quarantine says.
func Ours(ctx context.Context, d *db.DB, l Layout, q Quarantined, w io.Writer) (ok bool, err error) {
	writer, can := l.(Writer)
	if !can || q.Entity == nil || q.Group == nil {
		return false, nil
	}
	t := &Tree{
		DB: d, Scope: q.Scope, Options: Options{Scope: q.Scope}, layout: l,
		Report: newPart(q.Kind, q.Scope, q.Source),
	}
	return writer.WriteThing(ctx, t, Entity{Group: *q.Group, ID: *q.Entity}, w)
}
