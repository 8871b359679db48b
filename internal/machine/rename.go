package machine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RenameNew renames a file to a name that must be free: fs.ErrExist if it is not. Some file
// systems don't support such a rename, and some no hard links: RenameNew needs one of the two.
func RenameNew(from, to string) error {
	err := renameNew(from, to)
	if lacksRename(err) {
		return linkNew(from, to)
	}
	return renamed(err, from, to)
}

// Exchange swaps the names of two files. It is errors.ErrUnsupported on a file system that can't.
func Exchange(a, b string) error {
	err := exchange(a, b)
	if lacksRename(err) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, renamed(err, a, b))
	}
	return renamed(err, a, b)
}

func renamed(err error, from, to string) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}

// linkNew is RenameNew with a hard link, which never replaces a file, unlike a plain rename. If
// there are no hard links, an empty file first takes the name.
func linkNew(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
		return renameOverOwn(from, to)
	}
	if err != nil {
		return err
	}
	if err := os.Remove(from); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

func renameOverOwn(from, to string) error {
	place, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = place.Close()
	if err == nil {
		err = os.Rename(from, to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}
