package tree

import (
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

// A Folder is a folder that another program has filled. An import reaches all files of a tree
// through it, so that no file there can block the import or fill its memory: it opens only regular
// files, reads no more of a file than the file held when it was opened, and follows a link that
// leads out of the folder only if [Options] say so.
type Folder struct {
	path   string // absolute, links resolved
	given  string // absolute, as the caller named it
	follow bool
}

const opOpen = "open tree"

// NoTree is what Root of a [Layout] returns for a folder that neither is nor holds a tree of that kind.
func NoTree(dir Folder, kind, hint string) error {
	return &db.Error{Op: opOpen, Entity: kind, ID: dir.path, Err: db.ErrNotFound, Hint: hint}
}

// OpenFolder returns the folder at dir, which may be a link to it. db.ErrNotFound: there is none.
// db.ErrInvalid: something else is there.
func OpenFolder(dir string, o Options) (Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Folder{}, err
	}
	path, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return Folder{}, db.About(db.ErrNotFound, opOpen, "folder", dir, nil)
	}
	if err != nil {
		return Folder{}, err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = db.About(txn.Invalid("", "it is no folder"), opOpen, "folder", dir, nil)
	}
	return Folder{path: path, given: abs, follow: o.FollowLinks}, err
}

// Path is where the folder is: absolute, links resolved.
func (f Folder) Path() string { return f.path }

// Base is the folder's name, links resolved.
func (f Folder) Base() string { return filepath.Base(f.path) }

// Called reports whether the folder, or the link that named it, has that name.
func (f Folder) Called(name string) bool { return f.Base() == name || filepath.Base(f.given) == name }

// Parent is the folder that this one was named in.
func (f Folder) Parent() (Folder, error) {
	return OpenFolder(filepath.Dir(f.given), Options{FollowLinks: f.follow})
}

// Sub is a folder below this one, as a tree of its own. fs.ErrNotExist: there is none.
// db.ErrInvalid: it is a link out of the folder, which is not followed.
func (f Folder) Sub(path string) (Folder, error) {
	info, err := f.Stat(path)
	if out, ok := errors.AsType[*findingError](err); ok {
		err = txn.Invalid("name the folder itself that the link leads to", "it %w", out)
		return Folder{}, db.About(err, opOpen, "folder", Below(f.given, path), nil)
	}
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Folder{}, err
	}
	real, err := filepath.EvalSymlinks(Below(f.path, path))
	return Folder{path: real, given: Below(f.given, path), follow: f.follow}, err
}

// Stat describes what is at a path, links followed.
func (f Folder) Stat(path string) (info fs.FileInfo, err error) {
	err = f.reach(path, func(r *os.Root, path string) (err error) {
		if r == nil {
			info, err = os.Stat(path)
		} else {
			info, err = r.Stat(path)
		}
		return err
	})
	return info, err
}

// Open opens a file for reading. The caller must read no more than size, which the file has now. It
// is an error if it is not a regular file: a pipe would block, and a device may have no end.
func (f Folder) Open(path string) (file *os.File, size int64, err error) {
	info, err := f.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = notAFile(info.Mode())
		if unlisted := f.List(path); info.IsDir() && errors.Is(unlisted, fs.ErrPermission) {
			err = unlisted // more likely a tree's folder that can't be read than one in the place of a file
		}
	}
	if err == nil {
		file, err = f.open(path)
	}
	if err != nil {
		return nil, 0, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() { // it was replaced meanwhile
		err = notAFile(info.Mode())
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// open never blocks, whatever is at the path.
func (f Folder) open(path string) (file *os.File, err error) {
	err = f.reach(path, func(r *os.Root, path string) (err error) {
		if r == nil {
			file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		} else {
			file, err = r.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		}
		return err
	})
	return file, err
}

// Read returns all that a file holds, at most that many bytes; see Open.
func (f Folder) Read(path string, most int64) ([]byte, error) {
	file, size, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, errors.Join(finding("is larger than %d MiB", most>>20), file.Close())
	}
	text := make([]byte, size)
	n, err := io.ReadFull(file, text)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // it became shorter
		err = nil
	}
	return text[:n], errors.Join(err, file.Close())
}

// Has reports whether something is at a path, if only a broken link.
func (f Folder) Has(path string) (bool, error) {
	_, err := os.Lstat(Below(f.path, path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Lacks reports whether nothing is at a path; false if that can't be determined.
func (f Folder) Lacks(path string) bool {
	has, err := f.Has(path)
	return !has && err == nil
}

// IsFolder reports whether a folder is at path, and not a link to one.
func (f Folder) IsFolder(path string) bool {
	info, err := os.Lstat(Below(f.path, path))
	return err == nil && info.IsDir()
}

// reach calls do with a root and a path below it: such a path can't lead out of the folder, even if
// another process changes links meanwhile. If links are followed, there is no root, and do gets the
// whole path.
func (f Folder) reach(path string, do func(r *os.Root, path string) error) error {
	if f.follow {
		return do(nil, Below(f.path, path))
	}
	r, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer r.Close()                                         //nolint:errcheck // opened for reading only
	for err = do(r, path); errors.Is(err, syscall.EINTR); { // unlike the rest of os, os.Root does not retry
		err = do(r, path)
	}
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	if _, ok := errors.AsType[syscall.Errno](at.Err); ok {
		return err
	}
	// The error is os.Root's own: a link leads out, or seems to because it is absolute.
	real, err := filepath.EvalSymlinks(Below(f.path, path))
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(f.path, real)
	if err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return finding("is a link that leads out of the tree, to %s, and is not followed", Shown(real))
	}
	return do(r, inside)
}

// Why explains to people why what is at a path can't be read.
func (f Folder) Why(path string, err error) string {
	if finding, ok := errors.AsType[*findingError](err); ok {
		return finding.text
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return "is a link that leads in a circle"
	case errors.Is(err, fs.ErrNotExist):
		if info, e := os.Lstat(Below(f.path, path)); e == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "is a link that leads nowhere"
		}
		return "is gone"
	case errors.Is(err, fs.ErrPermission):
		return "can't be read: permission denied"
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return "can't be read: " + err.Error()
}

// A findingError explains by itself what is wrong at a path.
type findingError struct{ text string }

func (e *findingError) Error() string { return e.text }

func finding(format string, args ...any) error { return &findingError{fmt.Sprintf(format, args...)} }

func notAFile(mode fs.FileMode) error {
	switch {
	case mode.IsDir():
		return finding("is a folder")
	case mode&fs.ModeNamedPipe != 0:
		return finding("is a pipe")
	case mode&fs.ModeSocket != 0:
		return finding("is a socket")
	}
	return finding("is not a regular file")
}
