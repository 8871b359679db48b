package machine

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// RenameNew renames a file to a name that nothing has: fs.ErrExist where something does. Some file
// systems know no such rename, and some no hard links: one of the two will do.
func RenameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return renamed(err, from, to)
	}
	return linkNew(from, to)
}

// Exchange swaps the names of two files. Errors.ErrUnsupported: this file system can't.
func Exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
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
