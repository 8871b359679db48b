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
)

// A Folder is one that somebody else has filled. All that is opened, read or listed of a tree is
// reached through it, so that nothing that may lie there keeps an import waiting or fills its
// memory: only regular files are opened, no more is read of one than it held when it was opened,
// and a link that leads out of the folder is followed only where [Options] say so.
type Folder struct {
	path   string // absolute, links resolved
	given  string // absolute, as the caller named it
	follow bool
}

// OpenFolder gives the folder at dir, which may be a link to one. db.ErrNotFound says that there is
// none, db.ErrInvalid that something else is there.
func OpenFolder(dir string, o Options) (Folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Folder{}, err
	}
	path, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return Folder{}, &db.Error{Op: "open tree", Entity: "folder", ID: dir, Err: db.ErrNotFound}
	}
	if err != nil {
		return Folder{}, err
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = &db.Error{
			Op: "open tree", Entity: "folder", ID: dir,
			Err: fmt.Errorf("%w: it is no folder", db.ErrInvalid),
		}
	}
	return Folder{path: path, given: abs, follow: o.FollowLinks}, err
}

// Path is where the folder is: absolute, links resolved.
func (f Folder) Path() string { return f.path }

// Base is what the folder is called, links resolved.
func (f Folder) Base() string { return filepath.Base(f.path) }

// Called reports whether the folder, or the link that named it, is called so.
func (f Folder) Called(name string) bool { return f.Base() == name || filepath.Base(f.given) == name }

// Parent is the folder that this one was named in.
func (f Folder) Parent() (Folder, error) {
	return OpenFolder(filepath.Dir(f.given), Options{FollowLinks: f.follow})
}

// Sub is a folder below this one, as a tree of its own. fs.ErrNotExist says that there is none;
// db.ErrInvalid that it is a link out of the folder, which is not followed.
func (f Folder) Sub(path string) (Folder, error) {
	info, err := f.Stat(path)
	if out, ok := errors.AsType[*leavesError](err); ok {
		return Folder{}, &db.Error{
			Op: "open tree", Entity: "folder", ID: Below(f.given, path),
			Hint: "name the folder itself that the link leads to",
			Err:  fmt.Errorf("%w: it %w", db.ErrInvalid, out),
		}
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

// Stat says what is at a path, links followed.
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

// Open opens a file for reading, and gives the size that it has now: no more of it is to be read.
// What is no regular file is an error: a pipe would keep us waiting for its other end, and a device
// may have none.
func (f Folder) Open(path string) (file *os.File, size int64, err error) {
	info, err := f.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &notAFileError{info.Mode()}
	}
	if err == nil {
		file, err = f.open(path)
	}
	if err != nil {
		return nil, 0, err
	}
	if info, err = file.Stat(); err == nil && !info.Mode().IsRegular() { // it was replaced meanwhile
		err = &notAFileError{info.Mode()}
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// open never waits, whatever lies at the path.
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

// Read gives all that a file holds, as Open opens it, if that is not more than so many bytes.
func (f Folder) Read(path string, most int64) ([]byte, error) {
	file, size, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, errors.Join(&tooLargeError{most}, file.Close())
	}
	text := make([]byte, size)
	n, err := io.ReadFull(file, text)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // it became shorter
		err = nil
	}
	return text[:n], errors.Join(err, file.Close())
}

// Lacks reports whether nothing is at a path, not even a link that leads nowhere.
func (f Folder) Lacks(path string) bool {
	_, err := os.Lstat(Below(f.path, path))
	return errors.Is(err, fs.ErrNotExist)
}

// IsFolder reports whether a folder is at path, no link to one.
func (f Folder) IsFolder(path string) bool {
	info, err := os.Lstat(Below(f.path, path))
	return err == nil && info.IsDir()
}

// Leaves reports whether err says that a link leads out of the folder.
func Leaves(err error) bool {
	_, ok := errors.AsType[*leavesError](err)
	return ok
}

// reach calls do with what is at a path: with a root and a path below it, which can't lead out of
// the folder whoever changes links meanwhile, or where links are followed with no root and the path
// itself.
func (f Folder) reach(path string, do func(r *os.Root, path string) error) error {
	if f.follow {
		return do(nil, Below(f.path, path))
	}
	r, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer r.Close()                                         //nolint:errcheck // only read
	for err = do(r, path); errors.Is(err, syscall.EINTR); { // os.Root doesn't try again as the rest of os does
		err = do(r, path)
	}
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	if _, ok := errors.AsType[syscall.Errno](at.Err); ok {
		return err
	}
	// Not what the system says: a link leads out, or only seems to since it is absolute.
	real, err := filepath.EvalSymlinks(Below(f.path, path))
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(f.path, real)
	if err != nil || inside == ".." || strings.HasPrefix(inside, "../") {
		return &leavesError{real}
	}
	return do(r, inside)
}

// Why says in a person's words why what is at a path can't be read.
func (f Folder) Why(path string, err error) string {
	if finding, ok := errors.AsType[findingError](err); ok {
		return finding.Error()
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

// A findingError says by itself what is wrong with what lies at a path.
type findingError interface {
	error
	finding()
}

// leavesError is about a link that leads out of its folder.
type leavesError struct{ to string }

func (*leavesError) finding() {}

func (e *leavesError) Error() string {
	return "is a link that leads out of the tree, to " + Shown(e.to) + ", and is not followed"
}

type tooLargeError struct{ most int64 }

func (*tooLargeError) finding() {}

func (e *tooLargeError) Error() string { return fmt.Sprintf("is larger than %d MiB", e.most>>20) }

type notAFileError struct{ mode fs.FileMode }

func (*notAFileError) finding() {}

func (e *notAFileError) Error() string {
	switch {
	case e.mode.IsDir():
		return "is a folder"
	case e.mode&fs.ModeNamedPipe != 0:
		return "is a pipe"
	case e.mode&fs.ModeSocket != 0:
		return "is a socket"
	}
	return "is not a regular file"
}
