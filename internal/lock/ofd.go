package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

func ofdRange(kind int16, at int64) unix.Flock_t {
	return unix.Flock_t{Type: kind, Whence: 0, Start: at, Len: 1}
}

// Byte locks or unlocks one byte of file, without waiting. Unlike a POSIX lock it belongs to the
// open file, so that closing another descriptor of it does no harm.
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

// HeldBeside reports whether another open file has a byte locked, in any way, of the size bytes
// from base on but for the one at.
func HeldBeside(file *os.File, base, size, at int64) (bool, error) {
	for _, part := range [2][2]int64{{base, at - base}, {at + 1, base + size - at - 1}} {
		if part[1] == 0 {
			continue // a length of 0 would mean to the end
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: part[0], Len: part[1]}
		if err := unix.FcntlFlock(file.Fd(), ofdGet, &lock); err != nil {
			return false, err
		}
		if lock.Type != unix.F_UNLCK {
			return true, nil
		}
	}
	return false, nil
}
