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

// Export writes the scope's things in the old layout into dir, which must be empty or not there. Nothing that is there is
// ever overwritten.
func Export(ctx context.Context, d *db.DB, l Layout, dir string, o Options) (Report, error) {
	t := &Tree{DB: d, Scope: o.Scope, Root: dir, Options: o, layout: l}
	abs, err := filepath.Abs(dir)
	if err == nil {
		t.Root = abs
	}
	t.Report = newPart(l.Name(), o.Scope, t.Root)
	if err == nil {
		err = emptyFolder(t.Root)
	}
	if err == nil {
		err = t.exportAll(ctx)
	}
	return t.Report.Report, interrupted(ctx, "export", err)
}

func (t *Tree) exportAll(ctx context.Context) error {
	err := t.DB.Read(ctx, "begin export", func(rx *db.Rx) (err error) {
		t.Source.kind = t.layout.Name()
		t.Source.Scope, _, err = rx.Scope(t.Scope)
		return err
	})
	if err != nil {
		return err
	}
	return t.layout.Export(ctx, t)
}

// emptyFolder makes dir, or sees that nothing is in it.
func emptyFolder(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	names, _, err := Folder{path: dir}.namesAfter(".", "", 1)
	if err == nil && len(names) > 0 {
		err = &db.Error{Op: "export", Entity: "folder", ID: dir, Hint: "export into a new folder", Err: fmt.Errorf("%w: it is not empty", db.ErrInvalid)}
	}
	return err
}

// Create makes the file at path, which must not be there, and its folder. problem says why the layout can't have it.
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
	case errors.Is(err, fs.ErrExist):
		return nil, "its file name is taken by another", nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return nil, "its file name is too long", nil
	case errors.Is(err, syscall.EILSEQ):
		return nil, "the file system can't hold its file name", nil
	}
	return f, "", err
}

// Write makes the file at path, as Create does, with that text.
func (t *Tree) Write(path string, text []byte) (problem string, err error) {
	f, problem, err := t.Create(path)
	if err != nil || problem != "" {
		return problem, err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("export %s: %w", path, err)
	}
	t.Wrote(int64(len(text)))
	return "", nil
}

// Wrote counts a file that was written.
func (t *Tree) Wrote(bytes int64) {
	t.Report.Files.Found++
	t.Report.Files.New++
	t.Report.Files.Bytes += bytes
	t.Advance(1, bytes)
}
