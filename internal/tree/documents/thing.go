package documents

import (
	"bytes"
	"context"
	"slices"

	"selvedge/db"
	"selvedge/internal/tree"
)

// A thing is what the folder says of one thing of the store: a document, or a file for each state
// in which the old program keeps it, of which most are not there.
type thing struct {
	kind  Kind
	tree  *tree.Tree
	store Store
	files []*document // one a form
}

// longestLook is how often a thing is read again at most while the old program renames its files.
const longestLook = 8

// look reads all files of the thing that the file at path is of. They are read one after the other:
// if the old program renamed one meanwhile, they are read again, or a claim would look as if the
// thing were gone.
func (l Layout) look(t *tree.Tree, path string) *thing {
	for try := 1; ; try++ {
		th := &thing{kind: l.Kind, tree: t, store: l.Store(t.DB, t.Scope)}
		for _, form := range l.Forms(path) {
			th.files = append(th.files, l.document(t, form))
		}
		moved := func(f *document) bool { return f.gone != t.Folder.Lacks(f.path) }
		if try == longestLook || !slices.ContainsFunc(th.files, moved) {
			return th
		}
	}
}

// Read sends a thing as one piece, with the first of its files.
func (l Layout) Read(_ context.Context, t *tree.Tree, path string, send func(tree.Piece) error) error {
	if _, sent := t.Sent[path]; sent {
		delete(t.Sent, path)
		return nil
	}
	th := l.look(t, path)
	for _, f := range th.files {
		if f.path > path && !f.gone {
			t.Sent[f.path] = struct{}{}
		}
	}
	return send(th)
}

// Gone is the piece of a thing that has no file any more.
func (l Layout) Gone(t *tree.Tree, path string) tree.Piece {
	if th := l.look(t, path); th.isGone() {
		return th
	}
	return nil // it was taken with its other file, or is back, for the next import
}

func (th *thing) isGone() bool {
	return !slices.ContainsFunc(th.files, func(f *document) bool { return !f.gone })
}

// Path is the first of its files that is there, or would be.
func (th *thing) Path() string {
	for _, f := range th.files {
		if !f.gone {
			return f.path
		}
	}
	return th.files[0].path
}

// Held is how much memory the documents take.
func (th *thing) Held() (held int) {
	for _, f := range th.files {
		held += len(f.text)
	}
	return held
}

// Progress counts the files that are there.
func (th *thing) Progress() (files, bytes int64) {
	for _, f := range th.files {
		if !f.gone {
			files, bytes = files+1, bytes+int64(len(f.text))
		}
	}
	return files, bytes
}

// rows are the ledger's, one a form; nil where a form was not there when the thing was imported.
func (th *thing) rows(rx *db.Rx) (rows []*tree.Row, err error) {
	for _, f := range th.files {
		row, err := th.tree.Source.File(rx, f.path)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// imported gives one of the rows of what is here; nil where nothing of the thing is, or it was refused.
func imported(rows []*tree.Row) *tree.Row {
	for _, row := range rows {
		if row != nil && row.State != tree.StateRefused {
			return row
		}
	}
	return nil
}

// moved reports whether the old program did something to a form since it was imported. Of a file
// that can't be read only its name says so.
func (th *thing) moved(form int, rows []*tree.Row) bool {
	f, row := th.files[form], rows[form]
	switch {
	case f.gone:
		return row != nil && row.State != tree.StateRefused
	case f.reason != "":
		return row == nil && imported(rows) != nil
	}
	return row == nil || !bytes.Equal(row.PrefixSHA256, f.sum)
}

func (th *thing) anyMoved(rows []*tree.Row) bool {
	for form := range th.files {
		if th.moved(form, rows) {
			return true
		}
	}
	return false
}

// Prefetch names what is about to be asked of the files, and of what those are that are new.
func (th *thing) Prefetch(f *tree.Prefetcher) error {
	for _, form := range th.files {
		f.File(form.path)
		if !form.gone {
			f.Aside(th.tree, form.path)
		}
		if !f.Taken() {
			continue
		}
		if form.gone || form.reason != "" {
			if form.reason != "" && !form.gone {
				f.ExpectAside(1)
			}
			if form.gone && len(th.files) > 1 { // else nobody knows what it was
				if err := th.prefetch(f, th.kind.Own(form.path, form.value)); err != nil {
					return err
				}
			}
			continue
		}
		own := th.kind.Own(form.path, form.value)
		if form.flaw != "" {
			f.ExpectAside(1)
		}
		f.Expect(th.store.Rows(), 1)
		if err := th.prefetch(f, own); err != nil {
			return err
		}
	}
	return nil
}

func (th *thing) prefetch(f *tree.Prefetcher, e tree.Entity) error {
	f.About("thing " + e.Group + "\x00" + e.ID)
	return th.store.Prefetch(f.Rx, e, f.Ask)
}

// Known counts a thing that is as it was and was taken.
func (th *thing) Known(rx *db.Rx, part *tree.Part) (bool, error) {
	if th.tree.Unread || slices.ContainsFunc(th.files,
		func(f *document) bool { return !f.gone && f.reason != "" }) {
		return false, nil
	}
	rows, err := th.rows(rx)
	if err != nil || th.anyMoved(rows) {
		return false, err
	}
	for form, f := range th.files {
		if f.gone {
			continue
		}
		f.countFile(part)
		if err := f.same(rx, rows[form], part); err != nil {
			return false, err
		}
	}
	return true, th.nameConflict(rx, rows, part)
}

// nameConflict names the conflict over the thing, if there is one, as every import does until it is decided.
func (th *thing) nameConflict(rx *db.Rx, rows []*tree.Row, part *tree.Part) error {
	row := imported(rows)
	if row == nil || !th.tree.Contests {
		return nil
	}
	reason, err := th.tree.Source.Contested(rx, row.EntityID)
	if err == nil && reason != "" {
		part.Contested(th.Path(), row.EntityID, reason)
	}
	return err
}
