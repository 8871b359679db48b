package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/db"
	"selvedge/internal/txn"
)

// Export writes the scope's things in the old layout into dir, which must be empty or missing. It
// never overwrites anything. It first writes into a folder inside dir, syncs all files and reads
// them back, and then moves them up. If that fails, it removes the folder; if a move fails, the
// folder stays.
func Export(ctx context.Context, d *db.DB, l Layout, dir string, o Options) (Report, error) {
	abs, err := filepath.Abs(dir)
	t := newTree(d, l, l.Name(), cmp.Or(abs, dir), o)
	if err == nil {
		err = inTurn(
			func() error { return t.findScope(ctx) },
			func() error { return makeFolder(t.Root) },
			func() error { return holdsOnly(t.Root, "") },
			func() error { return t.exportAll(ctx, t.Root) },
		)
	}
	return t.Report.Report, interrupted(ctx, "export", err)
}

// A Writer is a Layout that can write one thing as a file.
type Writer interface {
	// WriteThing writes it to w; ok is false if it does not exist.
	WriteThing(ctx context.Context, t *Tree, e Entity, w io.Writer) (ok bool, err error)
}

// Ours writes the thing in d that has the ids in the quarantine row q.
func Ours(ctx context.Context, d *db.DB, l Layout, q Quarantined, w io.Writer) (ok bool, err error) {
	writer, can := l.(Writer)
	if !can || q.Entity == nil || q.Group == nil {
		return false, nil
	}
	t := newTree(d, l, q.Kind, q.Source, Options{Scope: q.Scope})
	return writer.WriteThing(ctx, t, Entity{Group: *q.Group, ID: *q.Entity}, w)
}

// findScope returns an error for an unknown scope: an export of nothing would look like success.
func (t *Tree) findScope(ctx context.Context) error {
	return t.DB.Read(ctx, "begin export", func(rx *db.Rx) (err error) {
		var found bool
		t.Source.kind = t.layout.Name()
		t.Source.Scope, found, err = rx.Store().Scope(t.Scope)
		if err == nil && !found && t.Scope != "" {
			err = &db.Error{
				Op: "export", Entity: "scope", ID: t.Scope,
				Hint: "see which there are: migrate scopes list", Err: db.ErrNotFound,
			}
		}
		return err
	})
}

// Unfinished is the folder of an export until it is done.
const Unfinished = ".unfinished-export"

func (t *Tree) exportAll(ctx context.Context, dir string) error {
	part := Below(dir, Unfinished)
	err := os.Mkdir(part, 0o700)
	if err != nil {
		return err
	}
	if held, _, _ := hold(part); held != nil { // so that another export can tell that this one lives
		defer held.release()
	}
	t.Root = part
	err = inTurn(
		func() error { return t.layout.Export(ctx, t) },
		func() error { return t.giveBack(ctx) },
		func() error { return t.readBack(ctx) },
		func() error { return syncFolders(part) },
		ctx.Err,
		func() error { return holdsOnly(dir, Unfinished) }, // another program may have written there
	)
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return moveUp(part, dir)
}

// moveUp moves what is in part to dir, and replaces nothing. If it fails, part still exists, and so
// shows that dir is not complete.
func moveUp(part, dir string) error {
	return inTurn(
		func() error {
			return Folder{path: part}.Names(".",
				func(name string) error { return move(Below(part, name), Below(dir, name)) })
		},
		func() error { return syncFolder(dir) },
		func() error { return os.Remove(part) },
		func() error { return syncFolder(dir) },
	)
}

// move moves a file or a folder to an unused name, or fails. A rename replaces a file, but a link
// does not; neither replaces a folder that is not empty.
func move(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Rename(from, to)
	}
	err = os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM):
		return err
	}
	// The file system has no links: an empty file reserves the name.
	if err := WriteMark(to, nil); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// syncFolders syncs a folder and those below it. Their files are synced already.
func syncFolders(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncFolder(path)
	})
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return closeSynced(f, nil)
}

// makeFolder makes dir and the missing folders above it, and syncs their names to the disk.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	err := makeFolder(above)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = syncFolder(above)
	}
	return err
}

// holdsOnly checks that dir is empty except for one name.
func holdsOnly(dir, own string) error {
	names, more, err := Folder{path: dir}.namesAfter(".", "", 1)
	switch {
	case err != nil || len(names) == 0 || names[0] == own && !more:
		return err
	case names[0] == Unfinished && !more:
		held, _, looked := hold(Below(dir, Unfinished))
		if held == nil {
			return cmp.Or(looked, error(&db.Error{
				Op: "export", Entity: "folder", ID: dir, Hint: "wait until it has ended",
				Err: fmt.Errorf("%w: another export writes there", db.ErrBusy),
			}))
		}
		held.release()
		err = txn.Invalid("remove "+Below(dir, Unfinished), "it holds a part of an export that did not end")
	default:
		err = txn.Invalid("export into a new folder", "it is not empty")
	}
	return db.About(err, "export", "folder", dir, nil)
}

// Create makes the file at path, which must not exist, and its folder. problem is why the layout
// can't have such a file.
func (t *Tree) Create(path string) (f *os.File, problem string, err error) {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return nil, "its file name leads out of the folder", nil
		}
	}
	at := Below(t.Root, path)
	err = os.MkdirAll(filepath.Dir(at), 0o700)
	if err == nil {
		f, err = os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR):
		return nil, "its file name is taken by another", nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return nil, "its file name is too long", nil
	case errors.Is(err, syscall.EILSEQ):
		return nil, "the file system can't hold its file name", nil
	}
	return f, "", err
}

// Finish syncs and closes a file that Create made, and counts it. err is the error of writing it.
func (t *Tree) Finish(f *os.File, bytes int64, err error) error {
	if err := closeSynced(f, err); err != nil {
		return err
	}
	t.Report.Files.Found++
	t.Report.Files.New++
	t.Report.Files.Bytes += bytes
	t.Advance(1, bytes)
	return nil
}

// Write makes the file at path, as Create does, and writes text to it.
func (t *Tree) Write(path string, text []byte) (problem string, err error) {
	f, problem, err := t.Create(path)
	if err != nil || problem != "" {
		return problem, err
	}
	_, err = f.Write(text)
	if err = t.Finish(f, int64(len(text)), err); err != nil {
		return "", fmt.Errorf("export %s: %w", path, err)
	}
	return "", nil
}

// WriteMark makes a file that holds no records, and is not counted.
func WriteMark(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return closeSynced(f, err)
}

// closeSynced syncs a file, unless writing it failed with err, and closes it.
func closeSynced(f *os.File, err error) error {
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
