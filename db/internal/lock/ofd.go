package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

func ofdRange(kind int16, at int64) unix.Flock_t {
	return unix.Flock_t{Type: kind, Whence: 0, Start: at, Len: 1}
}

// Byte locks or unlocks one byte of file, without waiting. Unlike a POSIX lock it belongs to the open file, so that
// closing another descriptor of it does no harm.
func Byte(file *os.File, kind int16, at int64) error {
	lock := ofdRange(kind, at)
	return unix.FcntlFlock(file.Fd(), ofdSet, &lock)
}

// ByteHeld reports whether another open file has the byte locked.
func ByteHeld(file *os.File, at int64) (bool, error) {
	lock := ofdRange(unix.F_WRLCK, at)
	if err := unix.FcntlFlock(file.Fd(), ofdGet, &lock); err != nil {
		return false, err
	}
	return lock.Type != unix.F_UNLCK, nil
}
