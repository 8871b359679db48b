// Package documents is how trees whose files are whole documents, each one thing in the store, are
// taken, compared and written. The rooms of such trees say what is special to theirs.
package documents

import (
	"context"
	"crypto/sha256"
	"iter"

	"selvedge/db"
	"selvedge/internal/tree"
)

// Kind is what is special to a kind of tree whose files are documents.
type Kind interface {
	// Name, Recognise, Root and Walk are those of [tree.Layout].
	Name() string
	Recognise(dir tree.Folder) (description string, ok bool, err error)
	Root(dir tree.Folder) (tree.Folder, error)
	Walk(root tree.Folder, file func(path string) error, ignored func(path, reason string) error) error
	// Noun is what the counts call a document.
	Noun() string
	// Decode decodes a document; reason says why it is none, "" if it is one. flaw says why the old
	// program can't read one that is taken all the same: such a document stands in quarantine besides.
	Decode(text []byte) (value any, reason, flaw string)
	// Identities are the things that the document at path may be, the best first. claimed tells
	// whether the tree has a file at a path, which then is the better owner of what leads there.
	Identities(path string, value any, claimed func(path string) bool) []tree.Entity
	// Own is the thing that the document at path says it is.
	Own(path string, value any) tree.Entity
	// Forms are the paths, that of a file among them, at which the old program keeps one thing in
	// turn, one a state.
	Forms(path string) []string
	// Once reports whether a thing is to be worked on once: then what both programs went on with is
	// for a person to decide, also where it is gone from both.
	Once() bool
	// Path is where a thing that came from no file belongs, and why it can't be there ("" if it can).
	Path(e tree.Entity) (path, problem string)
	// Title names a thing to people.
	Title(e tree.Entity) string
	// Tables are those of [tree.Layout].
	Tables() []tree.Table
	// Unlisted says why the old program never comes to the document at path, though it could read it;
	// "" if it does.
	Unlisted(path string) string
	// Folder is the folder below that of an export that the paths are below; "" for none.
	Folder() string
	Store(d *db.DB, scope string) Store
}

// Store is the import door of a store of documents, for one scope.
type Store interface {
	// Row is the number of e's row.
	Row(rx *db.Rx, e tree.Entity) (row int64, ok bool, err error)
	// Text is the thing in a row as a file of the old layout.
	Text(rx *db.Rx, row int64) (text []byte, ok bool, err error)
	// Prefetch names what Row is about to ask.
	Prefetch(rx *db.Rx, e tree.Entity, ask func(query string, args ...any)) error
	// Rows is the table that a thing has its row in.
	Rows() string
	// Put adds a thing that Row did not find; db.ErrInvalid says that it can't be taken.
	Put(tx *db.Tx, e tree.Entity, value any, text []byte) (row int64, err error)
	Remove(tx *db.Tx, row int64) error
	// Untouched reports whether a row is there and nothing was done to it but to add it; what its text
	// is says Text.
	Untouched(rx *db.Rx, row int64) (bool, error)
	// All gives the things of the scope for an export.
	All(ctx context.Context) iter.Seq2[tree.Entity, error]
}

// Layout is a [tree.Layout] of documents.
type Layout struct{ Kind }

// maxDocument is the largest document that is taken.
const maxDocument = 64 << 20

// A File is a document that was read.
type File struct {
	path   string
	text   []byte
	sum    []byte
	value  any
	reason string // why it is no document, or can't be read
	unread bool   // it can't even be read
	gone   bool   // there is no such file; then it can't be read either
	flaw   string // why the old program can't read it
}

// Readable reports whether the old program can read it.
func (f *File) Readable() bool { return f.reason == "" && f.flaw == "" }

// ReadFile reads a file of the tree. Nothing of what may be wrong with it is an error.
func ReadFile(k Kind, root tree.Folder, path string) *File {
	f := &File{path: path}
	text, err := root.Read(path, maxDocument)
	if err != nil {
		f.reason, f.unread, f.gone = root.Why(path, err), true, root.Lacks(path)
		return f
	}
	f.text, f.sum = text, sumOf(text)
	f.value, f.reason, f.flaw = k.Decode(f.text)
	return f
}

func sumOf(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:]
}

// noun is what the counts call the document.
func (f *File) noun(k Kind) string {
	if !f.Readable() {
		return tree.Undecodable
	}
	return k.Noun()
}

// A document is a file in a tree.
type document struct {
	*File
	kind  Kind
	tree  *tree.Tree
	store Store
}

func (l Layout) document(t *tree.Tree, path string) *document {
	return &document{
		File: ReadFile(l.Kind, t.Folder, path), kind: l.Kind, tree: t,
		store: l.Store(t.DB, t.Scope),
	}
}

func (f *document) countFile(part *tree.Part) {
	part.Files.Found++
	part.Files.Bytes += int64(len(f.text))
}

// add counts the document in one of the report's columns.
func (f *document) add(part *tree.Part, column func(*tree.Count) *int64) {
	part.CountAll(tree.Tally{f.noun(f.kind): 1}, column)
}
