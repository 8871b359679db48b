package machine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// few is how many descriptors SQLite may have wanted at once, and closed again when it could not
// get the last of them.
const few = 4

// NoDescriptors returns the system's error for a process that may open few more files, or none, and
// else 0.
func NoDescriptors() unix.Errno {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	open, err := os.ReadDir("/dev/fd")
	if LacksDescriptors(err) || err == nil && uint64(len(open)+few) > limit.Cur {
		return unix.EMFILE
	}
	return 0
}

// LacksDescriptors reports whether a file could not be opened because too many are open.
func LacksDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
