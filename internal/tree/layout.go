package tree

import (
	"context"
	"os"
	"path/filepath"

	"selvedge/db"
)

// A Layout is one of the old programs' ways to lay its files out. Its methods may be called at the
// same time for different folders.
//
// What a walk calls a file is what is taken or compared as one: a file, or a folder whose files
// only make sense together.
type Layout interface {
	// Name is the word on the command line and in the ledger.
	Name() string
	// Recognise says in a few words what of this kind lies under dir, and whether anything does: a
	// record that can be read.
	Recognise(dir Folder) (description string, ok bool, err error)
	// Root is the folder that the paths of a walk are below, which dir is or holds: whichever way a
	// tree is named, it is the same source. db.ErrNotFound says that dir neither is nor holds one.
	Root(dir Folder) (Folder, error)
	// Walk calls file for every file below root that should hold records, by its path below root,
	// always in the same order, and ignored for what the old program does not read.
	Walk(root Folder, file func(path string) error, ignored func(path, reason string) error) error
	// Read reads a file and sends the pieces that it is taken in. Trouble with the file is no error;
	// it is a piece, too. Read runs on a goroutine of its own, ahead of the pieces that are being
	// taken.
	Read(ctx context.Context, t *Tree, path string, send func(Piece) error) error
	// Tables are those that the rows of a thing are in, the first of them with one row for the thing itself.
	Tables() []Table
	// Things are what a file became, as the ledger's row says.
	Things(rx *db.Rx, s Source, row *Row) ([]Thing, error)
	// Find looks for a thing in the store; the ids say where, and scope in which scope else.
	Find(rx *db.Rx, scope string, e Entity) (t Thing, ok bool, err error)
	// Title names a thing to people.
	Title(e Entity) string
	// Export writes the things of t's scope below t.Root, which is an empty folder. It leaves t.Root
	// at the folder that the paths of a walk are below.
	Export(ctx context.Context, t *Tree) error
	// ReadBack reads a file of a walk as the old program does, and says of each file that it is made
	// of why that program can't read it, from which line on; "" if it can.
	ReadBack(root Folder, path string, say func(file string, line int, reason string)) error
}

// WholeFiles is a Layout whose files in quarantine, whole, go back where they were.
type WholeFiles interface {
	// GivesBack reports whether the old program would look at such a file in what was written, or pass
	// it over, and go on as before.
	GivesBack(written Folder, path string) bool
}

// A Finisher is a Layout that has something to do once every file was taken.
type Finisher interface {
	Finish(ctx context.Context, t *Tree) error
}

// A Sizer is a Layout whose files are folders, and which counts what a walk will meet.
type Sizer interface {
	Size(root Folder) (files, bytes int64, err error)
}

// A Piece is what is taken of a file in one transaction, with others: some of its lines, or all of it.
type Piece interface {
	// Path is that of its file.
	Path() string
	// Held is how many bytes of memory it holds, about.
	Held() int
	// Progress is how many files of the tree, and bytes of them, are done when the piece is.
	Progress() (files, bytes int64)
	// Prefetch says what Known, or Take, is about to ask.
	Prefetch(f *Prefetcher) error
	// Known counts a piece of which nothing has to be written; else it reports false, and what it
	// counted is forgotten.
	Known(rx *db.Rx, part *Part) (bool, error)
	// Take writes the piece, the ledger's row with it. It may run twice: what it counts goes into a
	// part of its own, and what it decides is decided from what it finds in tx.
	Take(tx *db.Tx, part *Part) error
}

// Options are the choices of an import, a verification or an export. The zero value is the default.
type Options struct {
	// Scope is where records go to or come from; "" is the default scope.
	Scope string
	// Progress, when set, is called now and then on the caller's goroutine, with no transaction open.
	// When it panics or leaves by runtime.Goexit, so does the call: what was acknowledged is kept, and
	// the folder is free for the next import.
	Progress func(Progress)
	// Program is what the journal calls the program that imports; "" is its name and the version that
	// its build says.
	Program string
	// FollowLinks has links followed that lead out of the tree. Else they are reported, and what they
	// lead to is left alone.
	FollowLinks bool
	// OtherFolder imports a folder also where another one was imported under its name before; from
	// then on it is the one that is followed. Without it that is ErrOtherFolder.
	OtherFolder bool
	// BatchBytes is how much of a tree is written in one transaction, about; 0 means 4 MiB.
	BatchBytes int
}

// Progress is how far an import, a verification or an export is. The totals are counted before it
// starts; those of an export are 0.
type Progress struct {
	Files, TotalFiles int64
	Bytes, TotalBytes int64
}

const defaultBatchBytes = 4 << 20

// Batch is how much of a tree is written in one transaction, about.
func (o Options) Batch() int {
	if o.BatchBytes <= 0 {
		return defaultBatchBytes
	}
	return o.BatchBytes
}

// A Tree is one folder in one call: what a Layout works with.
type Tree struct {
	DB      *db.DB
	Scope   string
	Dir     Folder // as the caller named it; of an import or a verification
	Folder  Folder // that the paths of a walk are below; of an import or a verification
	Root    string // the path of that folder
	Source  Source
	Options Options
	// Unread says that something of the source is in quarantine as a whole file, from an earlier import.
	Unread bool
	// Aside says that anything of the source is in quarantine from an earlier import.
	Aside bool
	// Contests says that there is an open conflict over a thing of the source.
	Contests bool
	// Alone says that the folder has one file, out of quarantine, of a source with others: what else
	// is not in it is not gone, and the quarantine keeps the bytes until all of them are taken.
	Alone bool
	// Sent are the files that were sent with another, and are still to be met. It is the reader's.
	Sent map[string]struct{}
	// Ahead is what was looked up of files that are about to be read. It is the reader's.
	Ahead map[string]Ahead
	// Report is that of the call. While a tree is imported only the parts of its pieces are written to.
	Report *Part

	layout Layout
	lease  *db.Lease   // of the source, which an import has for itself
	folder os.FileInfo // that of the root when an import began
	at     Progress
	entry  entry // of the journal
}

func openTree(d *db.DB, l Layout, dir string, o Options) (*Tree, error) {
	t := &Tree{DB: d, Scope: o.Scope, Root: dir, Options: o, Sent: map[string]struct{}{}, layout: l}
	var err error
	if t.Dir, err = OpenFolder(dir, o); err == nil {
		t.Folder, err = l.Root(t.Dir)
	}
	if err == nil {
		t.Root = t.Folder.Path()
	}
	t.Report = newPart(l.Name(), o.Scope, t.Root)
	return t, err
}

// measure counts what a walk will meet, for whoever watches.
func (t *Tree) measure() error {
	if t.Options.Progress == nil {
		return nil
	}
	var err error
	if sizer, ok := t.layout.(Sizer); ok {
		t.at.TotalFiles, t.at.TotalBytes, err = sizer.Size(t.Folder)
	} else {
		err = t.layout.Walk(t.Folder, func(path string) error {
			t.at.TotalFiles++
			if info, err := t.Folder.Stat(path); err == nil && info.Mode().IsRegular() {
				t.at.TotalBytes += info.Size()
			}
			return nil
		}, func(string, string) error { return nil })
	}
	if err == nil {
		t.Options.Progress(t.at)
	}
	return err
}

// Advance tells whoever watches that so much more is done.
func (t *Tree) Advance(files, bytes int64) {
	t.at.Files += files
	t.at.Bytes += bytes
	if t.Options.Progress != nil {
		t.Options.Progress(t.at)
	}
}

// SizeOf counts the regular files below a folder.
func SizeOf(folder Folder) (files, bytes int64, err error) {
	err = filepath.WalkDir(folder.path, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // what can't be read is reported when it is read
		}
		if info, err := entry.Info(); err == nil {
			files++
			bytes += info.Size()
		}
		return nil
	})
	return files, bytes, err
}
