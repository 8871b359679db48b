package machine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Allocate makes the disk hold so many bytes for file.
func Allocate(file *os.File, bytes int64) error {
	err := unix.Fallocate(int(file.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fill(file, bytes)
	}
	return err
}
