package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// Room returns how many bytes a user without privileges may still write to the file system of
// path, and its size in bytes.
func Room(path string) (free, size int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	block := int64(stat.Bsize) //nolint:unconvert // of other types on other systems, as the numbers are
	return int64(stat.Bavail) * block, int64(stat.Blocks) * block, nil
}

// IsFull reports whether the file system of the folder has no room left for the index of a WAL, or
// for one more file.
func IsFull(folder string) bool {
	const index = 32 << 10
	var s unix.Statfs_t
	free, _, err := Room(folder)
	return err == nil && unix.Statfs(folder, &s) == nil && (free < index || s.Files > 0 && s.Ffree == 0)
}

// fill writes bytes, for a file system that can't set them aside.
func fill(file *os.File, bytes int64) error {
	buf := make([]byte, 1<<20)
	for at := int64(0); at < bytes; at += int64(len(buf)) {
		if _, err := file.Write(buf[:min(bytes-at, int64(len(buf)))]); err != nil {
			return err
		}
	}
	return file.Sync()
}
