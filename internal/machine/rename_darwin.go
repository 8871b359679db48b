package machine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RenameNew renames a file to a name that nothing has: fs.ErrExist where something does.
func RenameNew(from, to string) error {
	err := unix.RenamexNp(from, to, unix.RENAME_EXCL)
	if !errors.Is(err, unix.ENOTSUP) {
		return renamed(err, from, to)
	}
	return linkNew(from, to)
}

// Exchange swaps the names of two files. Errors.ErrUnsupported: this file system can't.
func Exchange(a, b string) error {
	err := unix.RenamexNp(a, b, unix.RENAME_SWAP)
	if errors.Is(err, unix.ENOTSUP) {
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
