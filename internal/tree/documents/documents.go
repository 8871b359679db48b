package documents

import (
	"context"
	"io"
	"path/filepath"

	"selvedge/db"
	"selvedge/internal/tree"
)

// A Kind is what is special to a kind of tree. Name, Root, Walk, Title and Tables are those of
// [tree.Layout]; the first table has the row of a thing, and its noun names a document in counts.
type Kind interface {
	Name() string
	Root(dir tree.Folder) (tree.Folder, error)
	Walk(root tree.Folder, file func(path string) error, ignored func(path, reason string) error) error
	Title(e tree.Entity) string
	Tables() []tree.Table
	tree.Beside
	// Describe describes in a few words what a tree holds, by the extensions of its files.
	Describe(files map[string]int) string
	// Decode decodes a document. reason is why it is none; "" if it is one. flaw is why the old
	// program can't read one that is imported all the same: it also goes into quarantine.
	Decode(text []byte) (value any, reason, flaw string)
	// Identities returns the things that the document at path may be, best first. claimed reports
	// whether the tree has a file at a path, which then has a better claim to that path's id.
	Identities(path string, value any, claimed func(path string) bool) []tree.Entity
	// Own returns the thing that the document at path claims to be.
	Own(path string, value any) tree.Entity
	// Forms returns the paths at which the old program keeps the thing at path, one for each of its
	// states; path is among them.
	Forms(path string) []string
	// Once reports whether a thing must be worked on only once. Then a thing that both programs
	// have changed is a conflict even if both have removed it.
	Once() bool
	// Path returns where an export writes a thing that came from no file. problem is why it
	// can't; "" if it can.
	Path(e tree.Entity) (path, problem string)
	// Unlisted returns why the old program never reads the document at path, though it could; ""
	// if it does.
	Unlisted(path string) string
	// Folder is the folder of an export that the paths are below; "" for the export itself.
	Folder() string
	Store
}

// A Store lets an import and an export access the rows of things.
type Store interface {
	// Query is the query for the number of e's row in a scope.
	Query(scope int64, e tree.Entity) (query string, args []any)
	// Text is the thing in a row as a file of the old layout.
	Text(rx *db.Rx, row int64) (text []byte, ok bool, err error)
	// Put adds a thing that has no row to a scope. db.ErrInvalid: it can't be imported.
	Put(tx *db.Tx, scope int64, e tree.Entity, value any, text []byte) (row int64, err error)
	Remove(tx *db.Tx, row int64) error
	// Untouched reports whether a row exists and was not written to since it was added.
	Untouched(rx *db.Rx, row int64) (bool, error)
	// Page reads the things of a scope after one, in order, at most tree.PageRows.
	Page(rx *db.Rx, scope int64, after tree.Entity, page *[]tree.Entity) error
}

// rowOf is the number of e's row in a scope.
func rowOf(rx *db.Rx, s Store, scope int64, e tree.Entity) (row int64, ok bool, err error) {
	query, args := s.Query(scope, e)
	ok, err = rx.Find(&row, query, args...)
	return row, ok, err
}

// A Layout is a [tree.Layout] of documents.
type Layout struct{ Kind }

// Recognise accepts a folder with a document that the old program can read.
func (l Layout) Recognise(dir tree.Folder) (description string, ok bool, err error) {
	files := map[string]int{}
	found, err := tree.EachIn(l, dir, func(root tree.Folder, path string) {
		files[filepath.Ext(path)]++
		ok = ok || Readable(l.Kind, root, path)
	})
	return l.Describe(files), found && ok, err
}

// Foreign asks the kind, if its folder has no name of its own.
func (l Layout) Foreign(root tree.Folder) error {
	if k, ok := l.Kind.(tree.Doubter); ok {
		return k.Foreign(root)
	}
	return nil
}

// Things is the document that a file became.
func (Layout) Things(_ *db.Rx, _ tree.Source, row *tree.Row) ([]tree.Thing, error) {
	return tree.OneThing(row), nil
}

// Find looks a document up.
func (l Layout) Find(rx *db.Rx, scope string, e tree.Entity) (tree.Thing, bool, error) {
	number, ok, err := rx.Store().Scope(scope)
	if err != nil || !ok {
		return tree.Thing{}, false, err
	}
	row, ok, err := rowOf(rx, l, number, e)
	return tree.Thing{Entity: e, Row: row}, ok, err
}

// WriteThing writes a thing as its file.
func (l Layout) WriteThing(ctx context.Context, t *tree.Tree, e tree.Entity, w io.Writer) (ok bool,
	err error,
) {
	var text []byte
	err = t.DB.Read(ctx, "show "+l.Name(), func(rx *db.Rx) error {
		thing, there, err := l.Find(rx, t.Scope, e)
		if err == nil && there {
			text, ok, err = l.Text(rx, thing.Row)
		}
		return err
	})
	if err == nil && ok {
		_, err = w.Write(text)
	}
	return ok, err
}
