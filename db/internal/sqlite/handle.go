package sqlite

import (
	"fmt"
	"reflect"
	"syscall"
	"unsafe"

	"github.com/jmoiron/sqlx"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A handle is the sqlite3* of a connection, for what the driver has no call for. Its type is private to the driver; the
// versions of both are pinned, and no connection is opened without it.
type handle struct {
	conn *sqlx.Conn
	db   uintptr
}

func handleOf(conn *sqlx.Conn) (handle, error) {
	h := handle{conn: conn}
	err := conn.Raw(func(driver any) error {
		v := reflect.ValueOf(driver)
		if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
			if field := v.Elem().FieldByName("db"); field.IsValid() && field.Kind() == reflect.Uintptr && field.Uint() != 0 {
				h.db = uintptr(field.Uint())
				tls := libc.NewTLS()
				defer tls.Close()
				if file := fileOf(tls, h.db, sqlite3.SQLITE_FCNTL_FILE_POINTER); file != 0 {
					mindLocks(file)
				}
				return nil
			}
		}
		return fmt.Errorf("the SQLite driver's connection is a %T without a handle", driver)
	})
	return h, err
}

// interrupt ends the statements that are running (sqlite.org/c3ref/interrupt.html). Any goroutine may call it while the
// connection is open.
func (h handle) interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, h.db)
}

// inTransaction reports whether a transaction is open (sqlite.org/c3ref/get_autocommit.html).
func (h handle) inTransaction() bool {
	open := false
	_ = h.conn.Raw(func(any) error { // keeps the driver's own goroutine out, which closes rows whose context ended
		tls := libc.NewTLS()
		defer tls.Close()
		open = sqlite3.Xsqlite3_get_autocommit(tls, h.db) == 0
		return nil
	})
	return open
}

// errno is the system's error behind the last failed I/O (sqlite.org/c3ref/system_errno.html).
func (h handle) errno() syscall.Errno {
	var n int32
	_ = h.conn.Raw(func(any) error {
		tls := libc.NewTLS()
		defer tls.Close()
		n = sqlite3.Xsqlite3_system_errno(tls, h.db)
		return nil
	})
	return syscall.Errno(n)
}

// unread is the system's error behind a page that SQLite calls corrupt because it could not be read; 0 where it was read. It
// is told once.
func (h handle) unread() (errno syscall.Errno) {
	_ = h.conn.Raw(func(any) error {
		tls := libc.NewTLS()
		defer tls.Close()
		for _, which := range []int32{sqlite3.SQLITE_FCNTL_FILE_POINTER, sqlite3.SQLITE_FCNTL_JOURNAL_POINTER} {
			if at := fileOf(tls, h.db, which); at != 0 {
				file := *(**sqlite3.TunixFile)(unsafe.Pointer(&at))
				errno = max(errno, syscall.Errno(file.FlastErrno))
				file.FlastErrno = 0 // reads that go well leave it
			}
		}
		return nil
	})
	return errno
}

// fileOf is a sqlite3_file of a connection, the database's or the WAL's; 0 where it has none, as in memory.
func fileOf(tls *libc.TLS, db uintptr, which int32) uintptr {
	size := int(unsafe.Sizeof(uintptr(0)))
	pointer := tls.Alloc(size)
	defer tls.Free(size)
	if sqlite3.Xsqlite3_file_control(tls, db, 0, which, pointer) != sqlite3.SQLITE_OK {
		return 0
	}
	file := **(**uintptr)(unsafe.Pointer(&pointer))
	if file == 0 || (*(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))).FpMethods == 0 {
		return 0
	}
	return file
}
