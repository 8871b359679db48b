package sqlite

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite takes no notice when the system fails to unlock a byte of the -shm file: the connection goes on holding the lock,
// its own next transaction finds it taken, and so does everybody else's, for ever. It unlocks again when it is asked to, and does
// nothing where the connection holds nothing.

// The locks that a connection holds for a while: sqlite.org/walformat.html, section 2.3.
const (
	walWriteLock      = 0
	walCheckpointLock = 1
)

// unlockWAL gives back what a failed unlock left locked. It is for a connection that is in no transaction and that nobody else
// uses.
func (h handle) unlockWAL() {
	if !h.holdsWAL() {
		return
	}
	_ = h.conn.Raw(func(any) error { // keeps the driver's own goroutine out
		tls := libc.NewTLS()
		defer tls.Close()
		if sqlite3.Xsqlite3_get_autocommit(tls, h.db) == 0 {
			return nil
		}
		for _, at := range []int32{walWriteLock, walCheckpointLock} {
			h.shmLock(tls, at, sqlite3.SQLITE_SHM_UNLOCK|sqlite3.SQLITE_SHM_EXCLUSIVE)
		}
		return nil
	})
}

// holdsWAL looks whether the connection has a byte of the -shm file locked for itself. SQLite has no call that tells.
func (h handle) holdsWAL() bool {
	if h.file == 0 {
		return false
	}
	shm := (*(**sqlite3.TunixFile)(unsafe.Pointer(&h.file))).FpShm
	return shm != 0 && (*(**sqlite3.TunixShm)(unsafe.Pointer(&shm))).FexclMask != 0
}

// mainFile is the sqlite3_file of a connection; 0 in memory.
func mainFile(tls *libc.TLS, db uintptr) uintptr {
	size := int(unsafe.Sizeof(uintptr(0)))
	pointer := tls.Alloc(size)
	defer tls.Free(size)
	if sqlite3.Xsqlite3_file_control(tls, db, 0, sqlite3.SQLITE_FCNTL_FILE_POINTER, pointer) != sqlite3.SQLITE_OK {
		return 0
	}
	file := **(**uintptr)(unsafe.Pointer(&pointer))
	if file == 0 || (*(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))).FpMethods == 0 {
		return 0
	}
	return file
}

// shmLock calls the method of the connection's file that locks and unlocks (sqlite.org/c3ref/io_methods.html).
func (h handle) shmLock(tls *libc.TLS, at, how int32) int32 {
	methods := (*(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&h.file))).FpMethods
	lock := (*(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&methods))).FxShmLock
	return (*(*func(*libc.TLS, uintptr, int32, int32, int32) int32)(unsafe.Pointer(&struct{ uintptr }{lock})))(tls, h.file, at, 1, how)
}
