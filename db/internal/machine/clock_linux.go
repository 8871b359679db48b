package machine

import "golang.org/x/sys/unix"

// bootClock counts suspended time too: clock_gettime(2).
const bootClock = unix.CLOCK_BOOTTIME

func readBoot() string {
	if id := BootID(); id != nil {
		return *id
	}
	return ""
}
