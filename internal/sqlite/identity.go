package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// A file is written under one name: SQLite keeps the WAL and its locks beside the name, so two
// names would mean two WALs for one file. Hard links and mounts of a single file are visible on
// the file. A rename while a process has the file open is visible by a byte, far beyond the last
// page, that represents the name: every process keeps its name's byte locked, shared, and when it
// opens a file looks for locked bytes of other names.
const (
	writersNamesAt = 1 << 62
	readersNamesAt = writersNamesAt + namesSpace
	namesSpace     = 1 << 48
)

// A fileName is a name in a folder, which is the same however the folder is mounted.
type fileName struct {
	folder fileKey
	base   string
}

func nameOf(path string) (fileName, error) {
	folder, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fileName{}, err
	}
	return fileName{keyOf(folder), filepath.Base(path)}, nil
}

// byte returns the name's byte, among namesSpace. It leaves out the folder's device, which differs
// between mounts.
func (n fileName) byte() int64 {
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%d %s", n.folder.inode, n.base) //nolint:errcheck // it never fails
	return int64(hash.Sum64() % namesSpace)
}

// claimName makes path the name under which this process has the file open, and refuses a second
// one: to write under it, or to read under it while a process writes under another.
func (f *sharedFile) claimName(path string, o Config) error {
	name, err := nameOf(path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !o.ReadOnly && !o.AllowLinks {
		if err := checkOneName(path); err != nil {
			return err
		}
	}
	if f.name != (fileName{}) && f.name != name && !o.AllowLinks {
		return otherName("this process has it open under another path")
	}
	from, with := int64(readersNamesAt), f.look
	if !o.ReadOnly {
		if f.hold == nil {
			if f.hold, err = os.OpenFile(path, os.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
		}
		from, with = writersNamesAt, f.hold
	}
	if err := lock.Byte(with, unix.F_RDLCK, from+name.byte()); err != nil {
		return fmt.Errorf("lock the byte of its name: %w", err)
	}
	f.name = name
	if o.AllowLinks {
		return nil
	}
	bases := []int64{writersNamesAt, readersNamesAt}
	if o.ReadOnly {
		bases = bases[:1]
	}
	for _, base := range bases {
		held, err := lock.HeldBeside(with, base, namesSpace, base+name.byte())
		if err != nil {
			return err
		}
		if held {
			return otherName("another process has it open under another path")
		}
	}
	return nil
}

// formerlyAt refuses a path while this process has another file open that was there before:
// SQLite would put the WAL of one beside the other. now is the file that is there, nil if there
// is none.
func formerlyAt(path string, now fs.FileInfo) error {
	if len(sharedFiles.byKey) == 0 {
		return nil
	}
	name, err := nameOf(path)
	if err != nil {
		return nil //nolint:nilerr // no folder, so nothing of it is open
	}
	for key, f := range sharedFiles.byKey {
		if f.opened() == name && (now == nil || key != keyOf(now)) {
			return engine.Failf(engine.ErrReplaced,
				"close the handles on the file that lay at this path, and open the path again",
				"this process still has the file open that lay here before it was removed, renamed or replaced")
		}
	}
	return nil
}

// opened is the name under which this process has the file open.
func (f *sharedFile) opened() fileName {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name
}

// checkOneName refuses a file that can be seen to have two names.
func checkOneName(path string) error {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return err
	}
	if stat.Nlink > 1 {
		return otherName(fmt.Sprintf("it has %d hard links", stat.Nlink))
	}
	if machine.MountRoot(path) {
		return engine.Failf(engine.ErrUnsupported, "mount the folder that it is in; Options.AllowLinks "+
			"overrides this where only one path is ever used",
			"the file itself is mounted here, without the WAL and the locks beside it")
	}
	return nil
}

func otherName(why string) error {
	return engine.Failf(engine.ErrUnsupported, "use one path in all programs, and copies instead of "+
		"links; Options.AllowLinks overrides this where only one path is ever used",
		"the file has more than one name: %s, and the WAL lies beside the name", why)
}

// inPlace returns an error, before a group begins, if another file, or none, is at the path: no
// other program would see the commit. It creates deleted lock files again.
func (e *Engine) inPlace() error {
	if e.memory {
		return nil
	}
	var stat unix.Stat_t
	err := unix.Stat(e.path, &stat)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replaced("removed or renamed")
	case err != nil:
		return fmt.Errorf("look whether the file is in its place: %w", err)
	case fileKey{uint64(stat.Dev), stat.Ino} != e.file.key: //nolint:unconvert // Dev is signed on macOS
		return replaced("replaced by another file")
	case stat.Nlink > 1 && !e.config.AllowLinks:
		return otherName(fmt.Sprintf("it has %d hard links", stat.Nlink))
	}
	if had := e.size.Load(); stat.Size < had && !e.endsWhereItSays() {
		return engine.Failf(engine.ErrCorrupt, "close the handle, keep a copy of the file, and bring "+
			"what is left of it into a new one: migrate salvage",
			"the file was cut off while it was open: it had %d bytes, and has %d", had, stat.Size)
	}
	e.size.Store(stat.Size)
	return e.besideInPlace()
}

// endsWhereItSays reports whether a file that became shorter has all the pages that its first page
// counts, as it has after SQLite cut off free pages. It looks several times: a checkpoint of
// another process, which needs no turn, may be writing the first page before the others.
func (e *Engine) endsWhereItSays() bool {
	const looks = 20 // at a file that nobody writes
	var written time.Time
	for left := looks; left > 0; left-- {
		header := make([]byte, headerSize)
		info, err := e.file.look.Stat()
		if err != nil {
			return false
		}
		if !info.ModTime().Equal(written) {
			written, left = info.ModTime(), looks
		}
		if _, err := e.file.look.ReadAt(header, 0); err != nil {
			return false
		}
		page := int64(binary.BigEndian.Uint16(header[headerPageSize:]))
		if page == 1 {
			page = 1 << 16
		}
		if info.Size() >= page*int64(binary.BigEndian.Uint32(header[headerPages:])) {
			return true
		}
		engine.Pause(background, lock.Retry)
	}
	return false
}

// A folder records the files beside the database while that is open for writing: SQLite removes
// its own two with the last connection, and not before.
type folder struct {
	mu    sync.Mutex
	files map[string]fileKey // the -wal and the -shm
	seen  unix.Timespec      // the folder's time of change when all files were last found in place
}

// settles returns how old a folder's last change must be before its time covers all changes until
// then, for two changes may have one time. Most file systems record it in ticks of a few
// milliseconds. Some store whole seconds (ext3, ext4 with inodes of 128 bytes, HFS+), FAT every
// second one: then the nanoseconds are 0, and seldom elsewhere.
func settles(changed unix.Timespec) time.Duration {
	if changed.Nsec == 0 {
		return 2100 * time.Millisecond
	}
	return 100 * time.Millisecond
}

// remember records the files beside the database, once the WAL and its index are open.
func (b *folder) remember(path string) error {
	b.files = map[string]fileKey{}
	for _, suffix := range []string{"-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			return err
		}
		b.files[suffix] = keyOf(info)
	}
	return nil
}

// besideInPlace looks for the files beside the database whenever the folder has changed since the
// last look. The next program would not find commits to a deleted WAL.
func (e *Engine) besideInPlace() error {
	b := &e.beside
	b.mu.Lock()
	defer b.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Dir(e.path), &stat); err != nil {
		return fmt.Errorf("look whether the folder has changed: %w", err)
	}
	if stat.Mtim == b.seen {
		return nil
	}
	for suffix, key := range b.files {
		info, err := os.Stat(e.path + suffix)
		if errors.Is(err, fs.ErrNotExist) || err == nil && keyOf(info) != key {
			return engine.Failf(engine.ErrReplaced, "close the handle, which writes what was committed "+
				"into the file, and open it again; never remove what lies beside an open file",
				"%s was removed or replaced while the file was open", e.path+suffix)
		}
		if err != nil {
			return fmt.Errorf("look whether what lies beside the file is in its place: %w", err)
		}
	}
	if e.hold.Removed() {
		if err := e.retake(); err != nil {
			return err
		}
	}
	if time.Since(time.Unix(stat.Mtim.Unix())) > settles(stat.Mtim) {
		b.seen = stat.Mtim
	}
	return nil
}

// BusyLooks is how many checks within a second make the writer watch the place of the file instead.
// A watch is cheaper (0.3 µs instead of 3 µs for each commit), but the system has few (128 for each
// user, in /proc/sys/fs/inotify/max_user_instances). A variable so that a test need not write as
// often.
var BusyLooks = 512

// A placeWatch saves a busy writer the stat calls: while the system's watch reports no change since
// a complete check, no file has moved. Only the goroutine that has the writer uses it.
type placeWatch struct {
	place *machine.Place // nil if nothing is watched
	looks int
	since time.Time // of the first of them
}

// errOldQueue: the turn belongs to a deleted lock file.
var errOldQueue = errors.New("the file of the queue was deleted")

// inPlace is Engine.inPlace for the goroutine that has the turn.
func (w *writer) inPlace() (err error) {
	l := &w.placeWatch
	if l.place != nil && !l.place.Changed() && !w.engine.shorter() {
		return nil
	}
	if err := w.session.nameWAL(); err != nil {
		return err
	}
	if err := l.watch(w.engine); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.end())
		}
	}()
	if err := w.engine.inPlace(); err != nil {
		return err
	}
	if w.turns != nil && w.turns.Removed() {
		return errOldQueue
	}
	return nil
}

// shorter reports whether the file has become shorter since the last look: the watch reports a
// truncation like any other write.
func (e *Engine) shorter() bool {
	var stat unix.Stat_t
	if err := unix.Fstat(int(e.file.look.Fd()), &stat); err != nil || stat.Size < e.size.Load() {
		return true
	}
	e.size.Store(stat.Size)
	return false
}

// watch ends a watch that reported a change, and begins one after many checks within a second. It
// makes the next check a complete one.
func (l *placeWatch) watch(e *Engine) error {
	if err := l.end(); err != nil {
		return err
	}
	if l.looks++; l.looks < BusyLooks || e.memory {
		return nil
	}
	now := time.Now()
	busy := now.Sub(l.since) < time.Second
	l.looks, l.since = 0, now
	if !busy {
		return nil
	}
	place, err := machine.WatchPlace(e.path)
	if err != nil {
		return nil //nolint:nilerr // without a watch, polls notice it
	}
	l.place = place
	e.beside.forget()
	return nil
}

func (l *placeWatch) end() error {
	if l.place == nil {
		return nil
	}
	err := l.place.Close()
	l.place = nil
	return err
}

// forget makes the next check examine all files beside the database.
func (b *folder) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = unix.Timespec{}
}

// retake takes the handle's hold again after FILE-lock was deleted. Another process may have had
// the file to itself since. It reads on another connection: the writer's may be in use, or not open.
func (e *Engine) retake() error {
	if err := e.hold.Retake(e.path + lockSuffix); err != nil {
		return fmt.Errorf("%s was deleted, and can't be had again: %w", e.path+lockSuffix, err)
	}
	return withSession(background, e.path, roleReader, e.config, func(s *session) error {
		have, err := readVersions(s.Get)
		if err == nil {
			err = e.config.Ladder.MayWrite(have)
		}
		return err
	})
}

func replaced(how string) error {
	return engine.Failf(engine.ErrReplaced,
		"close the handle and open the path again; the file as it was may lie under another name",
		"the file was %s while it was open", how)
}
