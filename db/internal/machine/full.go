package machine

import "golang.org/x/sys/unix"

// IsFull reports whether the file system of the folder has no room left for bytes, or for one more file.
func IsFull(folder string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return false
	}
	return s.Bavail == 0 || s.Files > 0 && s.Ffree == 0
}
