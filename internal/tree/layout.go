package tree

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"selvedge/db"
)

// A Layout is how one of the old programs lays out its files. Its methods may be called at the same
// time for different folders.
//
// A walk visits files that are imported or compared as one: single files, or folders whose files
// only make sense together.
type Layout interface {
	// Name is the word for the kind on the command line and in the ledger.
	Name() string
	// Recognise describes in a few words what dir holds. ok reports whether a record of this kind
	// can be read there.
	Recognise(dir Folder) (description string, ok bool, err error)
	// Root returns the root of the tree, which dir is or holds; the paths of a walk are relative to
	// it. So a tree is the same source whichever way it is named. db.ErrNotFound: dir neither is
	// nor holds a tree.
	Root(dir Folder) (Folder, error)
	// Walk calls file for every file below root that should hold records, by its path below root,
	// always in the same order, and ignored for what the old program does not read.
	Walk(root Folder, file func(path string) error, ignored func(path, reason string) error) error
	// Read reads a file and sends its pieces. What is wrong with the file is no error but a piece too.
	// Read runs on a goroutine of its own, ahead of the pieces that are being imported.
	Read(ctx context.Context, t *Tree, path string, send func(Piece) error) error
	// Tables are the tables with the rows of a thing; the first has one row for the thing itself.
	Tables() []Table
	// Things are what a file became, according to its row of the ledger.
	Things(rx *db.Rx, s Source, row *Row) ([]Thing, error)
	// Find looks a thing up in the scope, or in the scope that its ids name.
	Find(rx *db.Rx, scope string, e Entity) (t Thing, ok bool, err error)
	// Title names a thing to people.
	Title(e Entity) string
	// Export writes the things of t's scope below t.Root, an empty folder. It sets t.Root to what
	// Root would return.
	Export(ctx context.Context, t *Tree) error
	// ReadBack reads what a walk visits at path as the old program does. For each file there it
	// calls say with the reason why that program can't read it ("" if it can), and the first line
	// that it can't read.
	ReadBack(root Folder, path string, say func(file string, line int, reason string)) error
}

// A Doubter is a Layout whose Root accepts any folder as a tree.
type Doubter interface {
	// Foreign returns db.ErrNotFound if root is not empty and all of its content belongs to another
	// program.
	Foreign(root Folder) error
}

// WholeFiles is a Layout that exports whole files out of quarantine to where they were.
type WholeFiles interface {
	// GivesBack reports whether a file may be written back: the old program would read or ignore
	// it, and otherwise work as before.
	GivesBack(written Folder, path string) bool
}

// A Finisher is a Layout with work to do after all files are imported.
type Finisher interface {
	Finish(ctx context.Context, t *Tree) error
}

// A Piece is a part of a file that is imported in one transaction, with others: some of its
// lines, or all.
type Piece interface {
	// Path is the path of its file.
	Path() string
	// Held is the approximate size of the piece in memory, in bytes.
	Held() int
	// Progress is how many files and bytes of the tree are done when the piece is.
	Progress() (files, bytes int64)
	// Prefetch announces the queries of Known or, if f.Taken, of Take.
	Prefetch(f *Prefetcher) error
	// Known counts a piece for which nothing must be written, and returns true. If it returns
	// false, its counts are dropped.
	Known(rx *db.Rx, part *Part) (bool, error)
	// Take writes the piece and the ledger's row. It may run twice: each run counts into a new part,
	// and decides by what it finds in tx.
	Take(tx *db.Tx, part *Part) error
}

// Options are the choices of an import, a verification or an export. The zero value is the default.
type Options struct {
	// Scope is where records go to or come from; "" is the default scope.
	Scope string
	// Progress, if set, is called from time to time on the caller's goroutine, with no transaction
	// open. If it panics or ends in runtime.Goexit, so does the call: what was acknowledged stays, and
	// the folder is free for the next import.
	Progress func(Progress)
	// Program is the program's name in the journal; "" is its file name and the version of its build.
	Program string
	// FollowLinks follows links that lead out of the tree. By default they are reported, and what they
	// lead to is not read.
	FollowLinks bool
	// OtherFolder allows importing a folder although another one was imported under its name
	// before. By default that fails with ErrOtherFolder.
	OtherFolder bool
	// BatchBytes is about how much of a tree is written in one transaction; 0 means 4 MiB.
	BatchBytes int
}

// Progress is how far an import, a verification or an export is. The totals are counted before it
// starts; an export has none.
type Progress struct {
	Files, TotalFiles int64
	Bytes, TotalBytes int64
}

// Batch is about how many bytes of a tree are written in one transaction.
func (o Options) Batch() int { return cmp.Or(max(o.BatchBytes, 0), 4<<20) }

// A Tree is one folder in one call: what a Layout works with.
type Tree struct {
	DB      *db.DB
	Scope   string
	Dir     Folder // as the caller named it, in an import or a verification
	Folder  Folder // that the paths of a walk are below, in an import or a verification
	Root    string // the path of that folder
	Source  Source
	Options Options
	earlier
	// Alone: the folder holds a single file from the quarantine, and the source has others. Files
	// that it lacks are not gone, and the quarantine keeps the bytes until all of them are
	// imported.
	Alone bool
	// Sent are the files that were sent with another one before the walk visits them. Only the
	// reader uses it.
	Sent map[string]struct{}
	// Ahead is what was looked up about files that are about to be read. Only the reader uses it.
	Ahead map[string]Ahead
	// Report is the report of the call. During an import, pieces count into parts of their own
	// instead.
	Report *Part

	layout Layout
	lease  *db.Lease   // of the source, during an import
	folder os.FileInfo // of the root when an import began
	at     Progress
	entry  entry // of the journal
}

// earlier is what earlier imports of a source left.
type earlier struct {
	Unread   bool `db:"unread"`   // a whole file is in quarantine
	Aside    bool `db:"aside"`    // anything is in quarantine
	Contests bool `db:"contests"` // a conflict is open over a thing of the source
}

func newTree(d *db.DB, l Layout, kind, root string, o Options) *Tree {
	return &Tree{
		DB: d, Scope: o.Scope, Root: root, Options: o, Sent: map[string]struct{}{}, layout: l,
		Report: newPart(kind, o.Scope, root),
	}
}

// knownTree is the tree of a source that was imported into the scope in o.
func knownTree(d *db.DB, l Layout, s Source, root string, o Options) *Tree {
	t := newTree(d, l, s.kind, root, o)
	t.Source, t.Source.scope, t.Source.root = s, o.Scope, root
	return t
}

func openTree(d *db.DB, l Layout, dir string, o Options) (*Tree, error) {
	t := newTree(d, l, l.Name(), dir, o)
	var err error
	if t.Dir, err = OpenFolder(dir, o); err == nil {
		t.Folder, err = l.Root(t.Dir)
	}
	if err == nil {
		t.Root = t.Folder.Path()
	}
	t.Report.Source = Shown(t.Root)
	return t, err
}

// A walker is a Layout, or a part of one.
type walker interface {
	Root(dir Folder) (Folder, error)
	Walk(root Folder, file func(path string) error, ignored func(path, reason string) error) error
}

// HasFile reports whether a walk visits a file for which is returns true.
func HasFile(l walker, root Folder, is func(path string) bool) (bool, error) {
	err := l.Walk(root, func(path string) error {
		if is(path) {
			return errFound
		}
		return nil
	}, ignoreNothing)
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// EachIn walks the files below the root of dir, for Layout.Recognise; found is false if dir holds no tree
// of the layout.
func EachIn(l walker, dir Folder, visit func(root Folder, path string)) (found bool, err error) {
	root, err := l.Root(dir)
	if errors.Is(err, db.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = l.Walk(root, func(path string) error { visit(root, path); return nil }, ignoreNothing)
	}
	return err == nil, err
}

func ignoreNothing(string, string) error { return nil }

// measure counts what a walk will visit, for Options.Progress.
func (t *Tree) measure() error {
	if t.Options.Progress == nil {
		return nil
	}
	err := t.layout.Walk(t.Folder, func(path string) error {
		files, bytes := t.sizeOf(path)
		t.at.TotalFiles, t.at.TotalBytes = t.at.TotalFiles+files, t.at.TotalBytes+bytes
		return nil
	}, ignoreNothing)
	if err == nil {
		t.Options.Progress(t.at)
	}
	return err
}

// Advance reports that so much more is done.
func (t *Tree) Advance(files, bytes int64) {
	t.at.Files += files
	t.at.Bytes += bytes
	if t.Options.Progress != nil {
		t.Options.Progress(t.at)
	}
}

// sizeOf counts what a walk visits at a path: a file, or the regular files of a folder.
func (t *Tree) sizeOf(path string) (files, bytes int64) {
	folder, err := t.Folder.Sub(path)
	if err != nil {
		if info, err := t.Folder.Stat(path); err == nil && info.Mode().IsRegular() {
			bytes = info.Size()
		}
		return 1, bytes
	}
	_ = filepath.WalkDir(folder.path, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // reading it reports the error
		}
		if info, err := entry.Info(); err == nil {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes
}
