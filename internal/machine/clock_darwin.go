package machine

import "golang.org/x/sys/unix"

// bootClock counts the time asleep too on macOS: clock_gettime(3).
const bootClock = unix.CLOCK_MONOTONIC

// readBoot returns the id of the boot session; kern.boottime won't do, it moves with the wall
// clock.
func readBoot() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// namespace: there are none on macOS.
func namespace(string) int64 { return 0 }
