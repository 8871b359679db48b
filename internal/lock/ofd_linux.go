package lock

import "golang.org/x/sys/unix"

// Open file description locks: fcntl(2), "Open file description locks (non-POSIX)".
const (
	ofdSet = unix.F_OFD_SETLK
	ofdGet = unix.F_OFD_GETLK
)
