package lock

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenFile opens a file for locks, and makes it if it is missing, as MakeFile
// does. It follows no link: a user who may write the folder must not make root open, and change
// the owner of, a file elsewhere.
func OpenFile(path string) (*os.File, error) {
	beside, mode, err := besides(path)
	if err != nil {
		return nil, err
	}
	for {
		file, err := os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0) // an flock needs no right to write
		case err == nil:
			return adopt(file, beside, mode)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		if file, err = MakeFile(path); !errors.Is(err, fs.ErrExist) { // then another process was faster
			return file, err
		}
	}
}

// MakeFile makes a file with the mode, owner and group of the file that it lies beside, so that the
// users of that one may use this. path is that file's, a '-' and a word. Beside a file that is
// still to be made the mode is 0600. fs.ErrExist: there is one.
func MakeFile(path string) (*os.File, error) {
	beside, mode, err := besides(path)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, err
	}
	return adopt(file, beside, mode)
}

// besides returns the file beside which path lies, nil if that is still to be made, and the mode
// for the files beside it.
func besides(path string) (beside fs.FileInfo, mode fs.FileMode, err error) {
	beside, err = os.Stat(path[:strings.LastIndexByte(path, '-')])
	switch {
	case err == nil:
		return beside, beside.Mode().Perm() & 0o666, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0o600, nil
	}
	return nil, 0, err
}

// adopt sets a file's mode, owner and group to those of the file beside it: the umask may have
// removed some of the mode, or the file beside it was made or changed later. A process without
// the right to do that leaves it to one that has it. A file with a second name is left alone: it
// was not made by us.
func adopt(file *os.File, beside fs.FileInfo, mode fs.FileMode) (*os.File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	is := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || is.Nlink > 1 {
		return file, nil
	}
	if beside != nil {
		want := beside.Sys().(*syscall.Stat_t)
		if is.Uid != want.Uid && file.Chown(int(want.Uid), int(want.Gid)) != nil || is.Gid != want.Gid {
			_ = file.Chown(-1, int(want.Gid))
		}
	}
	if info.Mode().Perm() != mode {
		_ = file.Chmod(mode)
	}
	return file, nil
}

// removed reports whether no path leads to the file any more.
func removed(file *os.File) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(file.Fd()), &stat) == nil && stat.Nlink == 0
}

// flock retries calls that a signal interrupted.
func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
