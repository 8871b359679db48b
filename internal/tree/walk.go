package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

// nameWindow bounds the names of a folder that are held in memory: a larger folder is listed several times.
const nameWindow = 1 << 16

// Names calls visit with the names in the folder at a path, in byte order. The order is part of an
// import's outcome: where two files claim one id, the first gets it. Where the folder can't be
// listed the error is a [fs.PathError] with its place.
func (f Folder) Names(path string, visit func(name string) error) error {
	return f.namesIn(path, nameWindow, visit)
}

func (f Folder) namesIn(path string, window int, visit func(name string) error) error {
	for last := ""; ; {
		names, more, err := f.namesAfter(path, last, window)
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		if err != nil {
			return &fs.PathError{Op: "list", Path: Below(f.path, path), Err: err}
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

// List is an error where path does not lead to a folder whose names can be read.
func (f Folder) List(path string) error {
	_, _, err := f.namesAfter(path, "", 1)
	return err
}

// namesAfter gives the first window names behind last, and whether there are others behind those.
func (f Folder) namesAfter(path, last string, window int) (names []string, more bool, err error) {
	info, err := f.Stat(path)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, false, err
	}
	d, err := f.open(path)
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
