package machine

import "golang.org/x/sys/unix"

// MountRoot reports whether path itself is mounted, as a container does with a single file. False
// where the system, before Linux 5.8, doesn't say: statx(2), STATX_ATTR_MOUNT_ROOT.
func MountRoot(path string) bool {
	var stat unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_TYPE, &stat)
	return err == nil && stat.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 &&
		stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
