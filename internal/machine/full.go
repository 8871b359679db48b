package machine

import "golang.org/x/sys/unix"

// IsFull reports whether the file system of the folder has no room left for the index of a WAL, or
// for one more file.
func IsFull(folder string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return false
	}
	const index = 32 << 10
	return int64(s.Bavail)*int64(s.Bsize) < index || s.Files > 0 && s.Ffree == 0 //nolint:unconvert // of other types on other systems
}
