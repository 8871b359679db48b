package tree

import (
	"context"

	"selvedge/db"
)

// Verify reads the tree under dir again and compares it with what is here, record by record. Nothing is written.
func Verify(ctx context.Context, d *db.DB, l Layout, dir string, o Options) (Report, error) {
	t, err := openTree(d, l, dir, o)
	if err == nil {
		err = t.compareAll(ctx)
	}
	return t.Report.Report, interrupted(ctx, "verify", err)
}

func (t *Tree) compareAll(ctx context.Context) error {
	if err := t.measure(); err != nil {
		return err
	}
	err := t.DB.Read(ctx, "begin verification", func(rx *db.Rx) (err error) {
		t.Source, _, err = findSource(rx, t.Scope, t.layout.Name(), t.Root) // never imported: then its things may be here from elsewhere
		if err == nil && t.Source.ID != 0 {
			t.Unread, t.Aside, err = t.Source.inQuarantine(rx)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = t.layout.Walk(t.Folder, func(path string) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return t.layout.Compare(ctx, t, path)
	}, t.Report.Ignore)
	if err == nil && t.Source.ID != 0 {
		t.Report.Files.Gone, err = t.Source.gone(ctx, t.DB, t.Root)
	}
	return err
}
