package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

// nameWindow bounds the names of a folder that are held in memory: a larger folder is listed several times.
const nameWindow = 1 << 16

// EachName calls visit with the names in dir, in byte order. The order is part of an import's outcome: where two files
// claim one id, the first gets it.
func EachName(dir string, visit func(name string) error) error {
	return eachNameIn(dir, nameWindow, visit)
}

func eachNameIn(dir string, window int, visit func(name string) error) error {
	for last := ""; ; {
		names, more, err := namesAfter(dir, last, window)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
		last = names[len(names)-1]
	}
}

// namesAfter gives the first window names behind last, and whether there are others behind those.
func namesAfter(dir, last string, window int) (names []string, more bool, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer d.Close() //nolint:errcheck // only read
	keep := func() {
		slices.Sort(names)
		if len(names) > window {
			clear(names[window:])
			names, more = names[:window], true
		}
	}
	for {
		some, err := d.Readdirnames(1024)
		for _, name := range some {
			if name > last {
				names = append(names, name)
			}
		}
		if len(names) >= 2*window {
			keep()
		}
		if errors.Is(err, io.EOF) {
			keep()
			return names, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// OpenFile opens a file for reading, links followed. A folder, a pipe or a device is an error: opening a pipe would
// wait for its other end.
func OpenFile(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &notAFileError{info.Mode()}
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := os.Open(path) // a folder too: where it can't be read, that is what is wrong
	if err != nil {
		return nil, 0, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = &notAFileError{info.Mode()}
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// ReadFile gives all that a file holds, as OpenFile opens it, if that is not more than so many bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, size, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && (size > most || int64(len(text)) > most) {
		err = &tooLargeError{most}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return text, nil
}

type tooLargeError struct{ most int64 }

func (e *tooLargeError) Error() string { return fmt.Sprintf("is larger than %d MiB", e.most>>20) }

type notAFileError struct{ mode fs.FileMode }

func (e *notAFileError) Error() string {
	switch {
	case e.mode.IsDir():
		return "is a folder"
	case e.mode&fs.ModeNamedPipe != 0:
		return "is a pipe"
	case e.mode&fs.ModeSocket != 0:
		return "is a socket"
	}
	return "is not a regular file"
}

// Why says in a person's words why path can't be read.
func Why(path string, err error) string {
	if shape, ok := errors.AsType[*notAFileError](err); ok {
		return shape.Error()
	}
	if large, ok := errors.AsType[*tooLargeError](err); ok {
		return large.Error()
	}
	switch {
	case errors.Is(err, syscall.ELOOP):
		return "is a link that leads in a circle"
	case errors.Is(err, fs.ErrNotExist):
		if info, e := os.Lstat(path); e == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "is a link that leads nowhere"
		}
		return "is gone"
	case errors.Is(err, fs.ErrPermission):
		return "can't be read: permission denied"
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return "can't be read: " + err.Error()
}

// Shown is a name as people and ids can have it: bytes that are not UTF-8, and NULs, become \xFF.
func Shown(name string) string {
	if utf8.ValidString(name) && strings.IndexByte(name, 0) < 0 {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if r == utf8.RuneError && n == 1 || r == 0 {
			fmt.Fprintf(&b, `\x%02X`, name[i])
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

// Below is where path, a path below root, is. Nothing is cleaned: a name is what the file system says.
func Below(root, path string) string { return root + "/" + path }

// MaxName is the longest file name, in bytes, of the file systems that the old programs run on.
const MaxName = 255

// IsFolder reports whether a folder is at path, no link to one.
func IsFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// IsListed reports whether path leads to a folder whose names can be read.
func IsListed(path string) bool {
	_, _, err := namesAfter(path, "", 1)
	return err == nil
}
