package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sys/unix"
	"modernc.org/libc"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/frames"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
	"selvedge/internal/shm"
)

// background is the context of every statement inside a transaction: a context that can end costs a
// goroutine for each statement, and its end in the middle of one would roll the transaction back.
var background = context.Background()

// walCheckpointPages is the size, in pages, at which a commit starts a checkpoint of the WAL: 16 MB at
// 4096-byte pages.
const walCheckpointPages = 4000

// A session is one SQLite connection with its prepared statements. One goroutine at a time uses it.
type session struct {
	handle
	tls        *libc.TLS
	pool       *sqlx.DB // closed with the session; nil if it has other users
	statements map[string]*statement
	spare      room // for the arguments of the next statement
	wal        walFile
	hook       stepHook // SQLite has only its address, so it must stay on the heap
}

type role int

const (
	roleWriter role = iota
	roleReader
	roleMigration // like the writer, with foreign keys off: a rebuilt parent table would cascade
	roleAtRest    // like a reader, of a file beside which nothing can be made
)

// A pragma is a setting of a connection, and the value that it reads back as.
type pragma struct{ name, value, reads string }

var (
	syncFull   = pragma{"synchronous", "FULL", "2"}
	syncNormal = pragma{"synchronous", "NORMAL", "1"}
)

// smallCache is the page cache of a reading connection: 400 pages of 4 KiB. A page uses 8 KiB of
// memory, since the driver's allocator rounds up to a power of two, and a connection whose cache is
// full uses 4.6 MB (5.4 MB with SQLite's 500 pages).
var smallCache = pragma{"cache_size", "-1600", "-1600"}

// pragmas are the settings of a connection.
func pragmas(r role, o Config) []pragma {
	list := []pragma{
		{"trusted_schema", "0", "0"},
		{"cell_size_check", "1", "1"},
	}
	if r == roleReader || r == roleAtRest {
		return append(list, pragma{"foreign_keys", "1", "1"}, smallCache)
	}
	foreignKeys, synchronous := "1", syncFull
	if r == roleMigration {
		foreignKeys = "0"
	}
	if o.Lazy {
		synchronous = syncNormal
	}
	list = append(list,
		pragma{"foreign_keys", foreignKeys, foreignKeys},
		pragma{"journal_mode", "wal", "wal"},
		synchronous,
		pragma{"wal_autocheckpoint", fmt.Sprint(walCheckpointPages), fmt.Sprint(walCheckpointPages)},
	)
	return list
}

// dataSource is the driver's name for a connection to path. Without the "file:" prefix mode=ro
// would be dropped silently.
func dataSource(path string, r role) string {
	if path == memoryPath {
		return "file::memory:"
	}
	mode := "rw"
	switch r {
	case roleReader:
		mode = "ro"
	case roleAtRest:
		mode = "ro&immutable=1"
	case roleWriter, roleMigration:
	}
	source := fmt.Sprintf("file://%s?mode=%s&_dqs=0&_busy_timeout=%d", (&url.URL{Path: path}).EscapedPath(),
		mode, openPatience.Milliseconds())
	if runtime.GOOS == "darwin" { // fsync alone leaves the data in the drive's cache there
		source += "&_pragma=fullfsync(1)&_pragma=checkpoint_fullfsync(1)"
	}
	return source
}

// openPool returns a pool of at most size connections to path. Nothing is opened yet.
func openPool(path string, r role, size int) (*sqlx.DB, error) {
	if err := shm.Install(); err != nil {
		return nil, err
	}
	pool, err := sqlx.Open("sqlite", dataSource(path, r))
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}

// newSession opens a connection, sets its pragmas and reads each one back: SQLite ignores several
// without an error when they come at the wrong moment. It reads no file that replaced the engine's: SQLite
// would apply the WAL to it, and, as the first to open it, empty the index that both have.
func newSession(ctx context.Context, pool *sqlx.DB, r role, o Config) (*session, error) {
	conn, err := pool.Connx(ctx)
	if err != nil {
		return nil, err
	}
	h, err := handleOf(conn)
	if err != nil {
		return nil, closeAfter(conn, err)
	}
	if o.file != (fileKey{}) && h.key(sqlite3.SQLITE_FCNTL_FILE_POINTER) != o.file {
		return nil, closeAfter(conn, replaced("replaced by another file"))
	}
	unread := false
	for _, p := range pragmas(r, o) {
		err := h.failure(setPragma(ctx, conn, p))
		if r == roleReader && !unread && errors.Is(err, engine.ErrCorrupt) {
			// A view that can't be parsed must not hide the tables. This connection can't write.
			unread = true
			if damage.OpenUnread(ctx, conn) == nil {
				err = h.failure(setPragma(ctx, conn, p))
			}
			if errno := h.unread(); errno != 0 { // it would miss the tables that come after
				err = failure(errno)
			}
		}
		if err != nil {
			return nil, closeAfter(conn, err)
		}
	}
	session := &session{handle: h, tls: libc.NewTLS(), statements: map[string]*statement{}}
	if r == roleWriter || r == roleMigration {
		if session.wal, err = h.joinFrames(); err != nil {
			return nil, closeAfter(conn, err)
		}
	}
	return session, nil
}

// retrySession is newSession for a file that others may be opening, closing or holding: some of
// SQLite's work then ignores busy_timeout, and none of its waits ends with a context.
func retrySession(ctx context.Context, pool *sqlx.DB, r role, o Config) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.LockTimeout,
		fmt.Errorf("the lock timeout of %v has passed", o.LockTimeout))
	defer cancel()
	for {
		s, err := newSession(ctx, pool, r, o)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil || isBusy(err) && !engine.Pause(ctx, lock.Retry) {
			return nil, waitEnded(ctx, "the file")
		}
		if !isBusy(err) {
			return nil, err
		}
	}
}

// openSession opens a connection to the file at path, in a pool of its own.
func openSession(ctx context.Context, path string, r role, o Config) (*session, error) {
	pool, err := openPool(path, r, 1)
	if err != nil {
		return nil, err
	}
	if r == roleAtRest {
		r = roleReader // immutable is the pool's
	}
	s, err := retrySession(ctx, pool, r, o)
	if err != nil {
		return nil, closeAfter(pool, err)
	}
	s.pool = pool
	return s, nil
}

// withSession opens a connection to the file at path for fn alone, and closes it.
func withSession(ctx context.Context, path string, r role, o Config, fn func(*session) error) (err error) {
	s, err := openSession(ctx, path, r, o)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(s, err) }()
	return s.failure(fn(s))
}

// withConn is withSession for a connection that has no pragmas set, to a file that SQLite may not
// be able to read.
func withConn(ctx context.Context, path string, fn func(handle) error) (err error) {
	pool, err := openPool(path, roleWriter, 1)
	if err != nil {
		return err
	}
	return closeAfter(pool, onConn(ctx, pool, fn))
}

// onConn is withConn for a connection of pool.
func onConn(ctx context.Context, pool *sqlx.DB, fn func(handle) error) (err error) {
	conn, err := pool.Connx(ctx)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(conn, err) }()
	h, err := handleOf(conn)
	if err != nil {
		return err
	}
	return h.failure(fn(h))
}

// commitNow sends COMMIT.
func (s *session) commitNow() error {
	commit := func() error {
		_, err := s.exec(sqlCommit)
		return err
	}
	if s.wal.file == 0 {
		return commit()
	}
	return frames.Commit(s.wal.file, commit)
}

// immediately runs fn in a write transaction. The rollback fails, and is ignored, if SQLite ended
// the transaction itself.
func immediately(ctx context.Context, conn *sqlx.Conn, fn func() error) error {
	if _, err := conn.ExecContext(ctx, sqlBeginImmediate); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		_, err = conn.ExecContext(ctx, sqlCommit)
	}
	if err != nil {
		_, _ = conn.ExecContext(background, sqlRollback)
	}
	return err
}

func setPragma(ctx context.Context, conn *sqlx.Conn, p pragma) error {
	if _, err := conn.ExecContext(ctx, "PRAGMA "+p.name+"="+p.value); err != nil {
		return fmt.Errorf("set %s to %s: %w", p.name, p.value, err)
	}
	var got string
	if err := conn.GetContext(ctx, &got, "PRAGMA "+p.name); err != nil {
		return fmt.Errorf("read %s: %w", p.name, err)
	}
	memory := p.name == "journal_mode" && got == "memory" // an in-memory database has no WAL
	if !strings.EqualFold(got, p.reads) && !memory {
		return fmt.Errorf("%s is %s after setting it to %s", p.name, got, p.value)
	}
	return nil
}

// openPatience and patience are how long SQLite itself waits for a lock: while a file is opened
// or migrated, and in service, a reader for a WAL that another process is recovering, the writer
// for readers before it starts the WAL again. SQLite does not wait for the writer's turn: the
// writer waits for it outside SQLite, so that callers can leave.
const openPatience = 20 * time.Millisecond

var (
	patience   = pragma{"busy_timeout", "250", "250"}
	noPatience = pragma{"busy_timeout", "0", "0"}
)

// prepareWriter sets what only the connection in service as the writer has. The pages that a savepoint would
// undo are kept in memory: SQLite would map 64 KiB of it for each savepoint, and write them to a file once a
// savepoint has more.
func (s *session) prepareWriter(ctx context.Context) error {
	err := setPragma(ctx, s.conn, noPatience)
	if err == nil {
		err = setPragma(ctx, s.conn, pragma{"temp_store", "MEMORY", "2"})
	}
	return err
}

// queryOnly refuses temporary tables too, which mode=ro lets through.
var queryOnly = pragma{"query_only", "1", "1"}

// closeAfter closes c after err, which may be nil, ended its use.
func closeAfter(c interface{ Close() error }, err error) error { return errors.Join(err, c.Close()) }

func (s *session) Close() error {
	err := errors.Join(s.forget(), s.conn.Close())
	s.freeRoom(s.spare)
	s.tls.Close()
	if s.pool != nil {
		err = closeAfter(s.pool, err)
	}
	return err
}

// A handle is the sqlite3* of a connection, for calls that the driver lacks.
type handle struct {
	conn *sqlx.Conn
	db   uintptr
}

func handleOf(conn *sqlx.Conn) (handle, error) {
	h := handle{conn: conn}
	err := conn.Raw(func(driver any) error {
		var err error
		if h.db, err = pointerIn(driver, "db"); err != nil {
			return err
		}
		tls := libc.NewTLS()
		defer tls.Close()
		h.dropMutex(tls)
		if file := fileOf(tls, h.db, sqlite3.SQLITE_FCNTL_FILE_POINTER); file != 0 {
			return shm.Mind(tls, file)
		}
		return nil
	})
	return h, err
}

// dropMutex does what SQLITE_OPEN_NOMUTEX would, which the driver cannot be asked for: SQLite takes a
// mutex in each call, four times for each column of a row, and one goroutine at a time uses a connection
// (sqlite.org/threadsafe.html).
func (h handle) dropMutex(tls *libc.TLS) {
	db := *(**sqlite3.Tsqlite3)(unsafe.Pointer(&h.db))
	sqlite3.Xsqlite3_mutex_free(tls, db.Fmutex)
	db.Fmutex = 0
}

// A walFile is the WAL of a connection that writes, and the index of it (sqlite.org/walformat.html,
// section 2), which is mapped as long as the connection is open. It is the zero value in memory.
type walFile struct {
	file, index uintptr
	folder      string
	named       bool // the WAL's name is on the disk
}

// raw runs fn while database/sql keeps all others from the connection.
func (h handle) raw(fn func(*libc.TLS)) {
	_ = h.conn.Raw(func(any) error {
		tls := libc.NewTLS()
		defer tls.Close()
		fn(tls)
		return nil
	})
}

// joinFrames makes SQLite write the frames of the WAL in fewer calls, and returns the WAL. A
// database in memory has none.
func (h handle) joinFrames() (wal walFile, err error) {
	h.raw(func(tls *libc.TLS) {
		database := fileOf(tls, h.db, sqlite3.SQLITE_FCNTL_FILE_POINTER)
		if wal.file = fileOf(tls, h.db, sqlite3.SQLITE_FCNTL_JOURNAL_POINTER); wal.file == 0 {
			return
		}
		if err = frames.Join(tls, wal.file, database); err == nil {
			wal.folder = filepath.Dir(libc.GoString(sqlite3.Xsqlite3_db_filename(tls, h.db, 0)))
			wal.index, err = shm.Index(tls, database)
		}
	})
	return wal, err
}

// walIndex is the index of the WAL of a connection that has read; 0 if there is none.
func (h handle) walIndex() (index uintptr) {
	h.raw(func(tls *libc.TLS) {
		if file := fileOf(tls, h.db, sqlite3.SQLITE_FCNTL_FILE_POINTER); file != 0 {
			index, _ = shm.Index(tls, file)
		}
	})
	return index
}

// key identifies a file that a connection has open, the database or its WAL.
func (h handle) key(which int32) (key fileKey) {
	h.raw(func(tls *libc.TLS) {
		var stat unix.Stat_t
		if file := fileOf(tls, h.db, which); file != 0 && unix.Fstat(descriptor(file), &stat) == nil {
			key = fileKey{uint64(stat.Dev), stat.Ino} //nolint:unconvert // Dev is signed on macOS
		}
	})
	return key
}

// descriptor returns the file descriptor of a sqlite3_file.
func descriptor(file uintptr) int { return int((*(**sqlite3.TunixFile)(unsafe.Pointer(&file))).Fh) }

// writeOut is machine.WriteOut for bytes of the WAL.
func (w walFile) writeOut(from, n int64) {
	if w.file != 0 {
		machine.WriteOut(descriptor(w.file), from, n)
	}
}

// interrupt ends the statements that are running (sqlite.org/c3ref/interrupt.html). Any goroutine
// may call it while the connection is open.
func (h handle) interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	sqlite3.Xsqlite3_interrupt(tls, h.db)
}

// inTransaction reports whether a transaction is open (sqlite.org/c3ref/get_autocommit.html).
func (h handle) inTransaction() (open bool) {
	h.raw(func(tls *libc.TLS) {
		open = sqlite3.Xsqlite3_get_autocommit(tls, h.db) == 0
	})
	return open
}

// errno returns the system's error behind the last failed I/O
// (sqlite.org/c3ref/system_errno.html).
func (h handle) errno() (errno syscall.Errno) {
	h.raw(func(tls *libc.TLS) {
		errno = syscall.Errno(sqlite3.Xsqlite3_system_errno(tls, h.db))
	})
	return errno
}

// unread returns the system's error behind a page that SQLite calls corrupt because it could not
// be read; 0 if the page was read. Each error is reported once.
func (h handle) unread() (errno syscall.Errno) {
	h.raw(func(tls *libc.TLS) {
		for _, which := range []int32{sqlite3.SQLITE_FCNTL_FILE_POINTER, sqlite3.SQLITE_FCNTL_JOURNAL_POINTER} {
			at := fileOf(tls, h.db, which)
			if at == 0 { // a database in memory has a journal, which is no file either
				break
			}
			file := *(**sqlite3.TunixFile)(unsafe.Pointer(&at))
			errno = max(errno, syscall.Errno(file.FlastErrno))
			file.FlastErrno = 0 // a read that succeeds leaves it
		}
	})
	return errno
}

// fileOf is a sqlite3_file of a connection, the database's or the WAL's; 0 for one in memory.
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
