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

	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
	"selvedge/internal/machine"
)

// ApplicationID is in the header of every file of ours (PRAGMA application_id): "SELV" in ASCII.
const ApplicationID = 0x53454C56

// The names beside the file; see the package comment.
const (
	lockSuffix  = "-lock"
	queueSuffix = "-queue"
)

// A fileKey identifies a file whatever name it was opened under.
type fileKey struct{ device, inode uint64 }

func keyOf(info fs.FileInfo) fileKey {
	stat := info.Sys().(*syscall.Stat_t)
	return fileKey{uint64(stat.Dev), stat.Ino} //nolint:unconvert // Dev is signed on macOS
}

// A sharedFile is a file as this process has it open, in any number of handles. Its own descriptors
// are for open file description locks, far beyond the last page that SQLite can have. They are
// opened before SQLite's first descriptor and closed after its last: closing any descriptor of the
// file drops the locks that SQLite holds in this process.
type sharedFile struct {
	key     fileKey
	handles int // guarded by sharedFiles

	look  *os.File   // for reading: the header, and questions about locks
	spare []*os.File // opened by mistake; closed with look

	mu     sync.Mutex
	hold   *os.File           // for writing; nil until a handle writes
	name   fileName           // under which the process has it open
	places map[int64]int64    // a cache: owner -> its byte
	owners map[int64]struct{} // of this process's handles
}

// sharedFiles are the files that this process has open.
var sharedFiles = struct {
	sync.Mutex
	byKey map[fileKey]*sharedFile
}{byKey: map[fileKey]*sharedFile{}}

// resolve makes path absolute and follows links, dangling ones too, so that every program puts the
// locks beside the same file.
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

// claimFile examines the file at path without SQLite, so that it changes or makes nothing beside a
// file that isn't ours, and counts a handle on it. wal reports that the file is already a database
// in WAL mode; errNotCreated that it must be created first.
func claimFile(path string, o Config) (f *sharedFile, wal bool, err error) {
	sharedFiles.Lock()
	defer sharedFiles.Unlock()
	info, err := os.Stat(path)
	if former := formerlyAt(path, info); former != nil {
		return nil, false, former
	}
	if errors.Is(err, fs.ErrNotExist) {
		if o.MustExist || o.ReadOnly {
			return nil, false, fmt.Errorf("%w: there is no such file", engine.ErrNotFound)
		}
		return nil, false, errNotCreated
	}
	if err != nil {
		return nil, false, err
	}
	if err := checkRegular(info); err != nil {
		return nil, false, err
	}
	if err := mayWriteFile(path, info, o); err != nil {
		return nil, false, err
	}
	f = sharedFiles.byKey[keyOf(info)]
	wal = true
	if f == nil {
		f, wal, err = shareFile(path)
		if errors.Is(err, errNotCreated) && o.ReadOnly {
			err = engine.Failf(engine.ErrNotADatabase, "open it once for writing, or run: migrate up",
				"the file is empty: it has no schema yet")
		}
		if err != nil {
			return nil, false, err
		}
	}
	f.handles++
	if err := f.claimName(path, o); err != nil {
		return nil, false, errors.Join(err, f.drop())
	}
	return f, wal, nil
}

// shareFile opens a file that this process doesn't have open.
func shareFile(path string) (f *sharedFile, wal bool, err error) {
	look, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	info, err := look.Stat()
	if err == nil {
		wal, err = checkHeader(look)
	}
	if err != nil {
		return nil, false, errors.Join(err, look.Close())
	}
	if f = sharedFiles.byKey[keyOf(info)]; f != nil { // it came to this path a moment ago
		f.spare = append(f.spare, look)
		return f, wal, nil
	}
	f = &sharedFile{key: keyOf(info), look: look, places: map[int64]int64{}, owners: map[int64]struct{}{}}
	sharedFiles.byKey[f.key] = f
	return f, wal, nil
}

// release removes one handle. The last one closes the descriptors.
func (f *sharedFile) release() error {
	sharedFiles.Lock()
	defer sharedFiles.Unlock()
	return f.drop()
}

func (f *sharedFile) drop() error {
	f.handles--
	if f.handles > 0 {
		return nil
	}
	delete(sharedFiles.byKey, f.key)
	err := f.look.Close()
	for _, file := range f.spare {
		err = errors.Join(err, file.Close())
	}
	if f.hold != nil {
		err = errors.Join(err, f.hold.Close())
	}
	return err
}

// checkRegular refuses all but regular files: opening a pipe would wait for its other end.
func checkRegular(info fs.FileInfo) error {
	kind := "special file (" + info.Mode().Type().String() + ")"
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		kind = "folder"
	}
	return fmt.Errorf("%w: it is a %s, not a file", engine.ErrInvalid, kind)
}

// The database header: sqlite.org/fileformat.html, section 1.3.
const (
	headerSize          = 100
	headerMagic         = "SQLite format 3\x00"
	headerPageSize      = 16 // 1: 65536
	headerWriteVersion  = 18 // 1: rollback journal, 2: WAL
	headerPages         = 28 // of the file
	headerApplicationID = 68
)

// checkHeader refuses a file that isn't a database, or isn't ours, and reports whether it is in WAL
// mode. errNotCreated: it is empty, or SQLite would make it so.
func checkHeader(file *os.File) (wal bool, err error) {
	header := make([]byte, headerSize)
	n, err := io.ReadFull(io.NewSectionReader(file, 0, headerSize), header)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return false, errNotCreated
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return false, err
	case n < headerSize || !bytes.HasPrefix(header, []byte(headerMagic)):
		if tornCreation(file.Name()) {
			return false, errNotCreated
		}
		return false, fmt.Errorf("%w: it has no SQLite header", engine.ErrNotADatabase)
	}
	id := binary.BigEndian.Uint32(header[headerApplicationID:])
	if id != ApplicationID {
		return false, fmt.Errorf("%w: it is an SQLite database of another program (application_id %#x, "+
			"ours is %#x)",
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
		return fmt.Errorf("%w: %s is on %s, a network file system, and WAL needs shared memory on one host",
			engine.ErrUnsupported, dir, kind)
	}
	return nil
}

// SQLite takes paths of 512 bytes, with the suffix that it adds to the name (pager.c, os_unix.c:
// MAX_PATHNAME), and file systems names of 255.
const (
	maxPath = 512 - len("-journal")
	maxName = 255 - len("-journal")
)

// checkPath refuses a path that is too long for the files that will lie beside it. Temporary files
// there have names of their own.
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
	return engine.Failf(engine.ErrInvalid, "choose a shorter path: SQLite takes no longer ones",
		"the path is too long: %s", what)
}

// mayWriteFile refuses a file that may not be written, before SQLite opens it read-only and fails
// at the first write. A file whose mode lets nobody write is refused to root too: it was set on
// purpose.
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
		Hint: "give its user the right to write it; Options.ReadOnly opens it without",
		Err:  fmt.Errorf("the file may not be written (mode %04o): %w", info.Mode().Perm(), err),
	}
}
