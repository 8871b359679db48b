package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"selvedge/db"
)

// Export writes the scope's things in the old layout into dir, which must be empty or not there.
// Nothing that is there is ever overwritten. What is written lies in a folder of its own inside dir
// until it is on the disk and was read again; where that fails nothing of it is left.
func Export(ctx context.Context, d *db.DB, l Layout, dir string, o Options) (Report, error) {
	t := &Tree{DB: d, Scope: o.Scope, Root: dir, Options: o, layout: l}
	abs, err := filepath.Abs(dir)
	if err == nil {
		t.Root = abs
	}
	t.Report = newPart(l.Name(), o.Scope, t.Root)
	if err == nil {
		err = t.findScope(ctx)
	}
	if err == nil {
		err = emptyFolder(t.Root)
	}
	if err == nil {
		err = t.exportAll(ctx, t.Root)
	}
	return t.Report.Report, interrupted(ctx, "export", err)
}

// findScope is about a scope that was misspelt: an export of nothing would look like one that is done.
func (t *Tree) findScope(ctx context.Context) error {
	return t.DB.Read(ctx, "begin export", func(rx *db.Rx) (err error) {
		var found bool
		t.Source.kind = t.layout.Name()
		t.Source.Scope, found, err = rx.Scope(t.Scope)
		if err == nil && !found && t.Scope != "" {
			err = &db.Error{
				Op: "export", Entity: "scope", ID: t.Scope,
				Hint: "see which there are: migrate scopes list", Err: db.ErrNotFound,
			}
		}
		return err
	})
}

// unfinished is where an export lies until it is done.
const unfinished = ".unfinished-export"

func (t *Tree) exportAll(ctx context.Context, dir string) error {
	part := Below(dir, unfinished)
	err := os.Mkdir(part, 0o700)
	if err != nil {
		return err
	}
	t.Root = part
	err = t.layout.Export(ctx, t)
	if err == nil {
		err = t.giveBack(ctx)
	}
	if err == nil {
		err = t.readAgain(ctx)
	}
	if err == nil {
		err = syncFolders(part)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		err = holdsOnly(dir, unfinished) // it was empty, a while ago
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return moveUp(part, dir)
}

// moveUp has what lies in part lie in dir, in no place that something has. Where that fails part is
// still there, and says that dir is not whole.
func moveUp(part, dir string) error {
	err := Folder{path: part}.Names(".",
		func(name string) error { return move(Below(part, name), Below(dir, name)) })
	if err == nil {
		err = syncFolder(dir)
	}
	if err == nil {
		err = os.Remove(part)
	}
	if err == nil {
		err = syncFolder(dir)
	}
	return err
}

// move gives a file or a folder a name that nothing has, or fails. A rename replaces a file, which
// a link does not; no folder that has anything in it is ever replaced.
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
	// The file system has no links: a file of our own keeps the name.
	if err := WriteMark(to, nil); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// syncFolders waits until the names in a folder, and in those below it, are on the disk. Their files are.
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
	return errors.Join(f.Sync(), f.Close())
}

// emptyFolder makes dir, or sees that nothing is in it.
func emptyFolder(dir string) error {
	if err := makeFolder(dir); err != nil {
		return err
	}
	return holdsOnly(dir, "")
}

// makeFolder makes dir and the folders above it that are not there, and waits until their names are
// on the disk.
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

// holdsOnly sees that nothing is in dir, but for what is called so.
func holdsOnly(dir, own string) error {
	names, more, err := Folder{path: dir}.namesAfter(".", "", 1)
	switch {
	case err != nil || len(names) == 0 || names[0] == own && !more:
		return err
	case names[0] == unfinished && !more:
		return &db.Error{
			Op: "export", Entity: "folder", ID: dir, Hint: "remove " + Below(dir, unfinished),
			Err: fmt.Errorf("%w: it holds a part of an export that did not end", db.ErrInvalid),
		}
	}
	return &db.Error{
		Op: "export", Entity: "folder", ID: dir, Hint: "export into a new folder",
		Err: fmt.Errorf("%w: it is not empty", db.ErrInvalid),
	}
}

// Create makes the file at path, which must not be there, and its folder. problem says why the
// layout can't have it.
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

// Finish closes a file that Create made, once what was written into it is on the disk, and counts
// it. err is that of writing it.
func (t *Tree) Finish(f *os.File, bytes int64, err error) error {
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	t.Report.Files.Found++
	t.Report.Files.New++
	t.Report.Files.Bytes += bytes
	t.Advance(1, bytes)
	return nil
}

// Write makes the file at path, as Create does, with that text.
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

// WriteMark makes a file beside those of records, which is not counted.
func WriteMark(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
