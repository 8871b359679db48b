package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// Room is what a user without privileges may still write to the file system that path is on, and
// how large that is, in bytes.
func Room(path string) (free, size int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	block := int64(stat.Bsize) //nolint:unconvert // of other types on other systems, as the numbers are
	return int64(stat.Bavail) * block, int64(stat.Blocks) * block, nil
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
