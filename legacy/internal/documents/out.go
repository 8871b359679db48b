package documents

import (
	"bytes"
	"context"
	"os"

	"selvedge/db"
	"selvedge/legacy/internal/tree"
)

// Compare compares one document.
func (l Layout) Compare(ctx context.Context, t *tree.Tree, path string) error {
	f := l.document(t, path)
	err := t.DB.Read(ctx, "verify "+l.Name(), func(rx *db.Rx) error {
		if err := f.verify(rx, t.Report); err != nil {
			return err
		}
		return t.NameAside(rx, path, t.Report)
	})
	t.Advance(f.Progress())
	return err
}

// verify runs once: a read is never repeated.
func (f *document) verify(rx *db.Rx, r *tree.Part) error {
	f.countFile(r)
	if f.unread {
		r.Files.Unreadable++
		r.Differ(f.path, f.reason)
		return nil
	}
	if f.reason != "" {
		_, ok, err := f.tree.Source.Quarantined(rx, f.path, 0, tree.WhatFile)
		f.add(r, tree.Quarantine)
		reason := f.reason
		if !ok {
			reason += "; and it is not in quarantine"
		}
		r.Differ(f.path, reason)
		return err
	}
	row, ok, err := f.counterpart(rx)
	switch {
	case err != nil:
		return err
	case row == nil:
		r.Files.New++
		f.add(r, tree.New)
		r.Differ(f.path, "was not imported")
	case row.State == tree.StateRefused:
		r.Files.Refused++
		f.add(r, tree.Quarantine)
		r.Differ(f.path, "is in quarantine")
	case !ok:
		r.Files.Changed++
		f.add(r, tree.Changed)
		r.Differ(f.path, f.kind.Title(row.Entity())+" was removed here")
	default:
		return f.compare(rx, row, r)
	}
	return nil
}

func (f *document) compare(rx *db.Rx, row *tree.Row, r *tree.Part) error {
	text, _, err := f.store.Text(rx, *row.EntityRow)
	switch {
	case err != nil:
		return err
	case bytes.Equal(text, f.text):
		r.Files.Already++
		f.add(r, tree.Already)
		return nil
	}
	r.Files.Changed++
	f.add(r, tree.Changed)
	reason := "the file has changed since it was imported"
	if bytes.Equal(f.sum, row.PrefixSHA256) {
		reason = f.kind.Title(row.Entity()) + " was written to here since it was imported"
	}
	r.Differ(f.path, reason)
	return nil
}

// counterpart is the ledger's row of a file, or what would be one for a document that is here from elsewhere; ok tells
// whether its thing is there.
func (f *document) counterpart(rx *db.Rx) (row *tree.Row, ok bool, err error) {
	if row, err = f.tree.Source.File(rx, f.path); err != nil {
		return nil, false, err
	}
	if row != nil {
		if row.EntityRow != nil {
			_, ok, err = f.store.Text(rx, *row.EntityRow)
		}
		return row, ok, err
	}
	for _, e := range f.kind.Identities(f.path, f.value, f.claimed) {
		number, there, err := f.store.Row(rx, e)
		if err != nil {
			return nil, false, err
		}
		if there {
			return &tree.Row{State: tree.StateShared, EntityGroup: e.Group, EntityID: e.ID, EntityRow: &number}, true, nil
		}
	}
	return nil, false, nil
}

// Export writes every thing of the scope to where it came from, or to where the old program would put it.
func (l Layout) Export(ctx context.Context, t *tree.Tree) error {
	if folder := l.Folder(); folder != "" {
		t.Root = tree.Below(t.Root, folder)
		if err := os.MkdirAll(t.Root, 0o700); err != nil {
			return err
		}
	}
	store := l.Store(t.DB, t.Scope)
	for e, err := range store.All(ctx) {
		if err == nil {
			err = l.exportOne(ctx, t, store, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l Layout) exportOne(ctx context.Context, t *tree.Tree, store Store, e tree.Entity) error {
	var path, problem string
	var text []byte
	err := t.DB.Read(ctx, "export "+l.Name(), func(rx *db.Rx) error {
		row, ok, err := store.Row(rx, e)
		if err != nil || !ok {
			return err // removed meanwhile
		}
		held, fromFile, err := t.Source.Holder(rx, e, row)
		if err != nil {
			return err
		}
		if path = string(held.Path); !fromFile {
			path, problem = l.Path(e)
		}
		text, _, err = store.Text(rx, row)
		return err
	})
	if err != nil || text == nil {
		return err
	}
	if problem == "" {
		problem, err = t.Write(path, text)
	}
	switch {
	case err != nil:
		return err
	case problem != "":
		t.Report.LeaveOut(path, l.Title(e)+": "+problem)
	default:
		t.Report.CountAll(tree.Tally{l.Noun(): 1}, tree.New)
	}
	return nil
}
