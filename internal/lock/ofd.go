package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// Byte locks or unlocks one byte of file, without waiting. Unlike a POSIX lock it belongs to the
// open file, so that closing another descriptor of it does no harm.
func Byte(file *os.File, kind int16, at int64) error {
	lock := unix.Flock_t{Type: kind, Start: at, Len: 1}
	return unix.FcntlFlock(file.Fd(), ofdSet, &lock)
}

// ByteHeld reports whether another open file has the byte locked.
func ByteHeld(file *os.File, at int64) (bool, error) { return held(file, at, 1) }

// held reports whether another open file has any of some bytes locked.
func held(file *os.File, at, size int64) (bool, error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: size}
	err := unix.FcntlFlock(file.Fd(), ofdGet, &lock)
	return err == nil && lock.Type != unix.F_UNLCK, err
}

// HeldBeside reports whether another open file has a byte locked, in any way, among the size
// bytes from base on, except the one at.
func HeldBeside(file *os.File, base, size, at int64) (bool, error) {
	for _, part := range [2][2]int64{{base, at - base}, {at + 1, base + size - at - 1}} {
		if part[1] == 0 {
			continue // a length of 0 would mean to the end
		}
		if held, err := held(file, part[0], part[1]); held || err != nil {
			return held, err
		}
	}
	return false, nil
}
