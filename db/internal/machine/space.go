package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// FreeBytes is what a user without privileges may still write to the file system that path is on.
func FreeBytes(path string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // of other types on other systems
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
