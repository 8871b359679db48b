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

// nameWindow bounds the names of a folder that are in memory: a larger folder is listed several times.
const nameWindow = 1 << 16

// Names calls visit with the names in the folder at a path, in byte order. The order is part of an
// import's result: if two files claim one id, the first gets it. If the folder can't be listed, the
// error is an [fs.PathError] with its path.
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

// List returns an error if path does not lead to a folder whose names can be read.
func (f Folder) List(path string) error {
	_, _, err := f.namesAfter(path, "", 1)
	return err
}

// namesAfter returns the first window names after last. more reports whether there are others.
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
	defer d.Close() //nolint:errcheck // opened for reading only
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

// Shown is a name as text: a byte that is not UTF-8, or a NUL, becomes \xFF in hex.
func Shown(name string) string {
	var b strings.Builder
	for i, r := range name {
		if n := utf8.RuneLen(r); r == 0 || r == utf8.RuneError && !strings.HasPrefix(name[i:], "\uFFFD") {
			fmt.Fprintf(&b, `\x%02X`, name[i])
		} else {
			b.WriteString(name[i : i+n])
		}
	}
	return b.String()
}

// Below joins root and a path below it. It cleans nothing: names stay as the file system has them.
func Below(root, path string) string { return root + "/" + path }

// MaxName is the longest file name, in bytes, of the file systems that the old programs use.
const MaxName = 255
