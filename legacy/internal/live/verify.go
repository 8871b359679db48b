package live

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/legacy/internal/tree"
)

// Compare compares one file, record by record.
func (Layout) Compare(ctx context.Context, t *tree.Tree, path string) error {
	f := readFile(t, path)
	err := f.compare(ctx, t.Report)
	t.Advance(f.Progress())
	return err
}

func (f *file) compare(ctx context.Context, r *tree.Part) error {
	r.Files.Found++
	r.Files.Bytes += int64(len(f.text))
	if f.reason != "" {
		r.Files.Unreadable++
		r.Differ(f.path, f.reason)
		return nil
	}
	f.parse()
	differ := len(r.Differs)
	err := f.DB.Read(ctx, "verify live", func(rx *db.Rx) error {
		if err := f.inScope(rx); err != nil {
			return err
		}
		for i := range f.elements {
			if err := f.compareRun(rx, i, r); err != nil {
				return err
			}
		}
		return f.NameAside(rx, f.path, r)
	})
	if d := f.damage; d != nil {
		r.Files.Unreadable++
		if len(d.Text) > 0 || len(f.elements) == 0 {
			countBad(r)
		}
		r.Differ(f.path, d.String())
		return err
	}
	if len(r.Differs) > differ {
		r.Files.Changed++
	} else {
		r.Files.Already++
	}
	return err
}

func (f *file) compareRun(rx *db.Rx, i int, r *tree.Part) error {
	e := &f.elements[i]
	differs := func(reason string) { r.Differ(f.path, reason) }
	if e.Reason != "" {
		countBad(r)
		differs(fmt.Sprintf("offset %d: %s", e.Offset, e.Reason))
		return nil
	}
	id, n := e.Record.Snapshot.ID, len(e.Record.Events)
	if f.superseded(i) {
		countRun(r, n, tree.Quarantine)
		differs(fmt.Sprintf("run %q has a later record in the same file", id))
		return nil
	}
	ours, found, err := f.store.FindImported(rx, id)
	if err != nil {
		return err
	}
	if !found {
		countRun(r, n, tree.New)
		differs(fmt.Sprintf("run %q is not here", id))
		return nil
	}
	same, err := f.store.Holds(rx, ours.Key, e)
	switch {
	case err != nil:
		return err
	case same:
		countRun(r, n, tree.Already)
	case ours.Source != f.Source.ID || string(ours.Path) != f.path:
		countRun(r, n, tree.Quarantine)
		differs(fmt.Sprintf("run %q is here from elsewhere and with other contents", id))
	default:
		countRun(r, n, tree.Changed)
		reason := "has changed since it was imported"
		if ours.Touched {
			reason = "was written to here since it was imported"
		}
		differs(fmt.Sprintf("run %q %s", id, reason))
	}
	return nil
}
