package machine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// linkNew is RenameNew with a hard link, which never replaces, unlike a plain rename. Where there
// are none, an empty file takes the name first.
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
