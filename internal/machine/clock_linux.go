package machine

import (
	"golang.org/x/sys/unix"
)

// bootClock counts suspended time too: clock_gettime(2).
const bootClock = unix.CLOCK_BOOTTIME

func readBoot() string {
	if id := BootID(); id != nil {
		return *id
	}
	return ""
}

// namespace is the inode that identifies one of this process's namespaces: namespaces(7).
func namespace(kind string) int64 {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+kind, &stat); err != nil {
		return 0
	}
	return int64(stat.Ino)
}
