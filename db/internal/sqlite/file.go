package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"selvedge/db/internal/engine"
	"selvedge/db/internal/machine"
)

// ApplicationID stands in the header of every file of ours (PRAGMA application_id): "SELV" in ASCII.
const ApplicationID = 0x53454C56

// The names beside the file; see the package comment.
const (
	lockSuffix   = "-lock"
	queueSuffix  = "-queue"
	ownersSuffix = "-owners"
)

// A fileKey identifies a file whatever name it was opened under.
type fileKey struct{ device, inode uint64 }

func keyOf(info fs.FileInfo) fileKey {
	stat := info.Sys().(*syscall.Stat_t)
	return fileKey{uint64(stat.Dev), stat.Ino} //nolint:unconvert // Dev is signed on macOS
}

// opened counts the handles of this process on each file. A file that is open must not be opened a second time by
// ourselves: closing that descriptor would drop SQLite's locks.
var opened = struct {
	sync.Mutex
	handles map[fileKey]int
}{handles: map[fileKey]int{}}

// resolve makes path absolute and follows links, also those that lead to what is still to be made, so that every program
// puts the locks beside the same file.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err == nil {
		return real, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if to, err := os.Readlink(abs); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(abs), to)
		}
		return resolve(to)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil // the folder will be made
	}
	return filepath.Join(dir, filepath.Base(abs)), err
}

// claimFile looks at what lies at path without SQLite, so that nothing is changed or made beside a file that isn't ours, and
// counts a handle on it. wal tells that the file is a database in WAL mode already; errUnborn that it is still to be made.
func claimFile(path string, o Config) (key fileKey, wal bool, err error) {
	opened.Lock()
	defer opened.Unlock()
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if o.MustExist || o.ReadOnly {
			return key, false, fmt.Errorf("%w: there is no such file", engine.ErrNotFound)
		}
		return key, false, errUnborn
	}
	if err != nil {
		return key, false, err
	}
	if !info.Mode().IsRegular() {
		return key, false, fmt.Errorf("%w: it is a %s, not a file", engine.ErrInvalid, kindOf(info))
	}
	if err := mayWriteFile(path, info, o); err != nil {
		return key, false, err
	}
	key = keyOf(info)
	wal = true
	if opened.handles[key] == 0 {
		wal, err = checkHeader(path)
		if errors.Is(err, errUnborn) && o.ReadOnly {
			err = unbornToRead()
		}
		if err != nil {
			return key, false, err
		}
	}
	opened.handles[key]++
	return key, wal, nil
}

func dropFile(key fileKey) {
	opened.Lock()
	defer opened.Unlock()
	opened.handles[key]--
	if opened.handles[key] == 0 {
		delete(opened.handles, key)
	}
}

func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return "folder"
	}
	return "special file (" + info.Mode().Type().String() + ")"
}

// The database header: sqlite.org/fileformat.html, section 1.3.
const (
	headerSize          = 100
	headerMagic         = "SQLite format 3\x00"
	headerWriteVersion  = 18 // 1: rollback journal, 2: WAL
	headerApplicationID = 68
)

// checkHeader refuses a file that isn't a database, or isn't ours, and tells whether it is in WAL mode. errUnborn: it is
// empty, or SQLite would make it so.
func checkHeader(path string) (wal bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	header := make([]byte, headerSize)
	n, err := io.ReadFull(file, header)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return false, errUnborn
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return false, err
	case n < headerSize || !bytes.HasPrefix(header, []byte(headerMagic)):
		if tornBirth(path) {
			return false, errUnborn
		}
		return false, fmt.Errorf("%w: it has no SQLite header", engine.ErrNotADatabase)
	}
	id := binary.BigEndian.Uint32(header[headerApplicationID:])
	if id != ApplicationID {
		return false, fmt.Errorf("%w: it is an SQLite database of another program (application_id %#x, ours is %#x)",
			engine.ErrNotADatabase, id, ApplicationID)
	}
	return header[headerWriteVersion] == 2, nil
}

// checkFilesystem refuses a file system on which WAL can't work, because its hosts share no memory.
func checkFilesystem(path string, o Config) error {
	if o.AllowNetworkFS {
		return nil
	}
	dir := filepath.Dir(path)
	for { // the folder may not be made yet
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	kind, err := machine.NetworkFilesystem(dir)
	if err != nil {
		return err
	}
	if kind != "" {
		return fmt.Errorf("%w: %s is on %s, a network file system, and WAL needs shared memory on one host", engine.ErrUnsupported, dir, kind)
	}
	return nil
}
