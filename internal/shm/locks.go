package shm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// The bytes of the -shm file that are locked while it is used: sqlite.org/walformat.html, section 2.3.
const (
	firstShmLock = 120
	shmLocks     = 8
)

// lockTries is how often a lock call is made that fails, and not because of another lock.
const lockTries = 4

// unlockAgain is how long an unlock that failed waits for its next try.
const unlockAgain = 10 * time.Millisecond

type (
	fcntlCall   func(tls *libc.TLS, fd, command int32, args uintptr) int32
	closeCall   func(tls *libc.TLS, fd int32) int32
	shmMapCall  func(tls *libc.TLS, file uintptr, region, size, extend int32, at uintptr) int32
	shmLockCall func(tls *libc.TLS, file uintptr, at, count, how int32) int32
	syncCall    func(tls *libc.TLS, file uintptr, flags int32) int32
)

// system holds the functions that SQLite calls without us.
var system struct {
	vfs   uintptr
	fcntl fcntlCall
	close closeCall
}

// Install has SQLite make its calls through this package. It is the way that
// sqlite.org/c3ref/vfs.html describes, xSetSystemCall. Only its first call does something.
var Install = sync.OnceValue(func() error {
	tls := libc.NewTLS()
	defer tls.Close()
	system.vfs = sqlite3.Xsqlite3_vfs_find(tls, 0)
	if system.vfs == 0 {
		return errors.New("SQLite has no file system")
	}
	vfs := *(**sqlite3.Tsqlite3_vfs)(unsafe.Pointer(&system.vfs))
	get := function[func(*libc.TLS, uintptr, uintptr) uintptr](vfs.FxGetSystemCall)
	set := function[func(*libc.TLS, uintptr, uintptr, uintptr) int32](vfs.FxSetSystemCall)
	replace := func(name string, was, by unsafe.Pointer) error {
		text, err := libc.CString(name)
		if err != nil {
			return err
		}
		defer libc.Xfree(tls, text)
		old := get(tls, system.vfs, text)
		if old == 0 {
			return errors.New("SQLite does not call " + name)
		}
		*(*uintptr)(was) = old
		if set(tls, system.vfs, text, *(*uintptr)(by)) != sqlite3.SQLITE_OK {
			return errors.New("SQLite keeps its own " + name)
		}
		return nil
	}
	fcntl, closeFile := fcntlCall(mindedFcntl), closeCall(mindedClose)
	return errors.Join(
		replace("fcntl", unsafe.Pointer(&system.fcntl), unsafe.Pointer(&fcntl)),
		replace("close", unsafe.Pointer(&system.close), unsafe.Pointer(&closeFile)))
})

// function is the Go function behind a C pointer to one.
func function[F any](pointer uintptr) F { return *(*F)(unsafe.Pointer(&pointer)) }

func mindedFcntl(tls *libc.TLS, fd, command int32, args uintptr) int32 {
	if command != unix.F_SETLK {
		return system.fcntl(tls, fd, command, args)
	}
	list := args
	at := libc.VaUintptr(&list)
	lock := *(**sqlite3.Tflock)(unsafe.Pointer(&at))
	if unlocks.any.Load() {
		unlocks.forget(fd, shmBits(lock.Fl_start, lock.Fl_len))
	}
	for try := 1; ; try++ {
		result := system.fcntl(tls, fd, command, args)
		if result == 0 {
			return 0
		}
		errno, bits := lastErrno(tls), shmBits(lock.Fl_start, lock.Fl_len)
		switch {
		case errno == syscall.EAGAIN || errno == syscall.EACCES: // it is taken
			return result
		case try < lockTries:
			continue
		case bits != 0 && lock.Fl_type == unix.F_UNLCK:
			unlocks.owe(fd, bits)
			return 0
		case bits != 0:
			failedLocks.Store(tls, errno)
		}
		return result
	}
}

func mindedClose(tls *libc.TLS, fd int32) int32 {
	// the kernel unlocks what is closed, and the number may be another file's next
	unlocks.forget(fd, 1<<shmLocks-1)
	return system.close(tls, fd)
}

func lastErrno(tls *libc.TLS) syscall.Errno {
	vfs := *(**sqlite3.Tsqlite3_vfs)(unsafe.Pointer(&system.vfs))
	return syscall.Errno(function[func(*libc.TLS, uintptr, int32, uintptr) int32](vfs.FxGetLastError)(tls,
		system.vfs, 0, 0))
}

// shmBits returns the locks of a -shm file among some bytes; 0 for the database's own locks,
// which lie far beyond.
func shmBits(start, length int64) (bits uint8) {
	for at := max(start, firstShmLock); at < min(start+length, firstShmLock+shmLocks); at++ {
		bits |= 1 << (at - firstShmLock)
	}
	return bits
}

// unlocks are the unlocks that this process owes the kernel.
var unlocks = debts{of: map[int32]uint8{}}

type debts struct {
	any atomic.Bool // so that taking a lock takes no mutex

	mu sync.Mutex
	of map[int32]uint8 // by descriptor
}

func (d *debts) owe(fd int32, bits uint8) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[fd] |= bits
	if !d.any.Swap(true) {
		time.AfterFunc(unlockAgain, d.pay)
	}
}

// forget drops debts whose locks are taken or released again.
func (d *debts) forget(fd int32, bits uint8) {
	if bits == 0 || !d.any.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[fd] &^= bits; d.of[fd] == 0 {
		delete(d.of, fd)
	}
}

func (d *debts) pay() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for fd, bits := range d.of {
		for n := range int64(shmLocks) {
			unlock := unix.Flock_t{Type: unix.F_UNLCK, Start: firstShmLock + n, Len: 1}
			if bits&(1<<n) != 0 && unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unlock) == nil {
				d.of[fd] &^= 1 << n
			}
		}
		if d.of[fd] == 0 {
			delete(d.of, fd)
		}
	}
	if len(d.of) == 0 {
		d.any.Store(false)
		return
	}
	time.AfterFunc(unlockAgain, d.pay)
}

// failedLocks are lock calls that failed a moment ago, by the thread of the connection.
var failedLocks sync.Map // of *libc.TLS to syscall.Errno

// A lockTable is SQLite's table of what can be done with a file (sqlite.org/c3ref/io_methods.html),
// with our ways to lock the -shm and to sync. It lies in SQLite's memory: what SQLite points to must
// not be Go's.
type lockTable struct {
	sqlite3.Tsqlite3_io_methods
	lock, sync uintptr // SQLite's ways
}

// lockTables are made once for each of SQLite's own, and stay.
var lockTables = struct {
	sync.Mutex
	of map[uintptr]uintptr
}{of: map[uintptr]uintptr{}}

// Mind makes the locks of a connection, given by its sqlite3_file, report failures, and a checkpoint copy
// the whole WAL after a failed sync. Nothing else may use the connection during the call.
func Mind(tls *libc.TLS, file uintptr) error {
	lockTables.Lock()
	defer lockTables.Unlock()
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))
	methods := *(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&f.FpMethods))
	lock, sync := shmLockCall(mindedShmLock), syncCall(mindedSync)
	ours := *(*uintptr)(unsafe.Pointer(&lock))
	if methods.FxShmLock == 0 || methods.FxShmLock == ours { // it was in its pool
		return nil
	}
	table, made := lockTables.of[f.FpMethods]
	if !made {
		table = libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lockTable{})))
		if table == 0 {
			return errors.New("SQLite has no memory left")
		}
		t := *(**lockTable)(unsafe.Pointer(&table))
		*t = lockTable{Tsqlite3_io_methods: *methods, lock: methods.FxShmLock, sync: methods.FxSync}
		t.FxShmLock, t.FxSync = ours, *(*uintptr)(unsafe.Pointer(&sync))
		lockTables.of[f.FpMethods] = table
	}
	f.FpMethods = table
	return nil
}

// mindedShmLock returns an I/O error for a lock call that failed, as opposed to a lock that is
// taken.
func mindedShmLock(tls *libc.TLS, file uintptr, at, count, how int32) int32 {
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))
	table := *(**lockTable)(unsafe.Pointer(&f.FpMethods))
	result := function[shmLockCall](table.lock)(tls, file, at, count, how)
	if result != sqlite3.SQLITE_BUSY {
		return result
	}
	if _, failed := failedLocks.LoadAndDelete(tls); failed {
		return sqlite3.SQLITE_IOERR_SHMLOCK
	}
	return result
}

// mindedSync has the next checkpoint copy the whole WAL if the sync of the database fails. SQLite counts the
// pages that earlier checkpoints copied, although only the last one syncs them, and Linux keeps none of them
// after an error. The caller has the lock of checkpoints, or, as it writes, a WAL without a commit.
func mindedSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	f := *(**sqlite3.TunixFile)(unsafe.Pointer(&file))
	table := *(**lockTable)(unsafe.Pointer(&f.FpMethod))
	result := function[syncCall](table.sync)(tls, file, flags)
	if result == sqlite3.SQLITE_OK || f.FpShm == 0 {
		return result
	}
	if index, err := Index(tls, file); err == nil {
		atomic.StoreUint32(Backfilled(index), 0)
	}
	return result
}

// Committed is the number of frames of the WAL that belong to commits: mxFrame of
// sqlite.org/walformat.html, section 2.1.
func Committed(index uintptr) *uint32 { return word(index + 16) }

// Backfilled is the number of frames of the WAL that checkpoints have copied: nBackfill.
func Backfilled(index uintptr) *uint32 { return word(index + 96) }

func word(at uintptr) *uint32 { return *(**uint32)(unsafe.Pointer(&at)) }

// Index returns the beginning of the index of a connection's WAL, which has been read. It is mapped
// until the connection is closed.
func Index(tls *libc.TLS, file uintptr) (uintptr, error) {
	const region = 32 << 10 // bytes, which SQLite maps at once
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))
	methods := *(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&f.FpMethods))
	size := int(unsafe.Sizeof(uintptr(0)))
	pointer := tls.Alloc(size)
	defer tls.Free(size)
	code := function[shmMapCall](methods.FxShmMap)(tls, file, 0, region, 0, pointer)
	if index := **(**uintptr)(unsafe.Pointer(&pointer)); code == sqlite3.SQLITE_OK && index != 0 {
		return index, nil
	}
	return 0, fmt.Errorf("the index of the WAL is not mapped (%d)", code)
}
