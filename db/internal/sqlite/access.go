package sqlite

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"selvedge/db/internal/engine"
)

// SQLite takes paths of 512 bytes, with what it puts behind the name (pager.c, os_unix.c: MAX_PATHNAME), and file systems
// names of 255.
const (
	maxPath = 512 - len("-journal")
	maxName = 255 - len("-journal")
)

// checkPath refuses a path that would only fail once something lies there. What is made for a moment beside the file has a
// name of its own.
func checkPath(path string) error {
	dir, name := filepath.Split(path)
	switch {
	case len(name) > maxName:
		return tooLong(fmt.Sprintf("its name has %d bytes, and %d are the most", len(name), maxName))
	case len(path) > maxPath:
		return tooLong(fmt.Sprintf("it has %d bytes, and %d are the most", len(path), maxPath))
	case len(dir)+partName > maxPath:
		return tooLong(fmt.Sprintf("its folder has %d bytes, and %d are the most", len(dir), maxPath-partName))
	}
	return nil
}

func tooLong(what string) error {
	return &engine.Failure{
		Kind: engine.ErrInvalid, Hint: "choose a shorter path: SQLite takes no longer ones",
		Err: fmt.Errorf("the path is too long: %s", what),
	}
}

// mayWriteFile refuses a file that may not be written, before SQLite opens it to be read and fails at the first write. A file
// that nobody may write is refused to root too: whoever took the right away meant it.
func mayWriteFile(path string, info fs.FileInfo, o Config) error {
	if o.ReadOnly {
		return nil
	}
	err := unix.Access(path, unix.W_OK)
	if err == nil && info.Mode().Perm()&0o222 == 0 {
		err = unix.EACCES
	}
	if err == nil {
		return nil
	}
	return &engine.Failure{
		Hint: "open it with Options.ReadOnly, or give its user the right to write it",
		Err:  fmt.Errorf("the file may not be written (mode %04o): %w", info.Mode().Perm(), err),
	}
}
