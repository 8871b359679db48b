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

// MountRoot reports whether path itself is mounted, as a container does with a single file. It
// returns false if the system, before Linux 5.8, does not report it: statx(2),
// STATX_ATTR_MOUNT_ROOT.
func MountRoot(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_TYPE, &stat)
	return err == nil && stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 &&
		stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// WriteOut makes the disk begin with n bytes of a file, and waits for nothing: sync_file_range(2). A
// sync that follows finds them written, or fails as it would have.
func WriteOut(fd int, from, n int64) {
	_ = unix.SyncFileRange(fd, from, n, unix.SYNC_FILE_RANGE_WRITE) // no more than a hint
}

func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// lacksRename reports whether the file system, or the kernel, does not support that rename.
func lacksRename(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}
