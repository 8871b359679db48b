package sqlite

import (
	"context"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
)

// A stepHook is called by SQLite now and then in a statement
// (sqlite.org/c3ref/progress_handler.html).
type stepHook func(tls *libc.TLS, arg uintptr) int32

// pageBytes is the size of a page of the files that we make.
const pageBytes = 4096

// hookEvery is the approximate number of virtual machine steps between two calls of the hook, which
// are milliseconds apart.
const hookEvery = 20_000

// used returns how many bytes of the file hold something.
func (s *session) used() (bytes int64, err error) {
	size, pages, free, err := pageCounts(s.Get)
	return (pages - free) * size, err
}

// readPages counts the bytes of the pages that the connection's statements read while work runs
// (SQLITE_DBSTATUS_CACHE_MISS), the only progress that SQLite reports. It counts only if the
// context wants progress.
func (s *session) readPages(ctx context.Context, read *atomic.Int64, work func() error) error {
	if engine.Telling(ctx) == nil {
		return work()
	}
	s.hook = func(tls *libc.TLS, _ uintptr) int32 {
		const size = int(unsafe.Sizeof(int32(0)))
		now := tls.Alloc(2 * size)
		defer tls.Free(2 * size)
		if sqlite3.Xsqlite3_db_status(tls, s.db, sqlite3.SQLITE_DBSTATUS_CACHE_MISS, now, now+uintptr(size),
			0) == sqlite3.SQLITE_OK {
			read.Store(int64(**(**int32)(unsafe.Pointer(&now))) * pageBytes)
		}
		return 0
	}
	set := func(every int32, at uintptr) {
		s.handle.raw(func(tls *libc.TLS) {
			sqlite3.Xsqlite3_progress_handler(tls, s.db, every, at, 0)
		})
	}
	set(hookEvery, *(*uintptr)(unsafe.Pointer(&s.hook)))
	defer set(0, 0)
	return work()
}
