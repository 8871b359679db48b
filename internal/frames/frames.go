package frames

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/shm"
)

const (
	logHeader   = 32 // bytes, of the WAL; the frames follow
	frameHeader = 24
	page        = 4096 // of the files that we make; frames of other pages are written as SQLite does
	frame       = frameHeader + page
	atOnce      = 8  // frames
	commitAt    = 4  // of a frame's header: not 0 in the last frame of a commit
	pageSizeAt  = 8  // of the WAL's header
	numberAt    = 60 // of the database's header: its user_version
)

type (
	ioCall    func(tls *libc.TLS, file, data uintptr, n int32, at sqlite3.Tsqlite3_int64) int32
	syncCall  func(tls *libc.TLS, file uintptr, flags int32) int32
	closeCall func(tls *libc.TLS, file uintptr) int32
)

// A table holds the methods of one WAL (sqlite.org/c3ref/io_methods.html), with ours in front of
// SQLite's. It lies in SQLite's memory: SQLite must not point to Go's memory.
type table struct {
	sqlite3.Tsqlite3_io_methods
	sqlites uintptr // SQLite's own table
	read    int64   // where the last read began
	from    int64   // the offset of the bytes that wait
	waits   int64   // how many wait: frames, and then perhaps a header for its page
	commits bool    // the frames of a commit wait for its last
	bytes   [atOnce * frame]byte

	database uintptr // its sqlite3_file
	number   [4]byte // what both get when the WAL starts again
	numbered bool    // there is one
	begins   bool    // it started again, and has no frame yet
}

// Join makes SQLite write the frames of a connection's WAL whole. Both files are given by their
// sqlite3_file. Nothing else may use the connection during the call.
func Join(tls *libc.TLS, wal, database uintptr) error {
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&wal))
	methods := *(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&f.FpMethods))
	var (
		write     = ioCall(write)
		read      = ioCall(read)
		sync      = syncCall(sync)
		closeFile = closeCall(closeFile)
	)
	ours := pointer(write)
	if methods.FxWrite == ours {
		return nil
	}
	at := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(table{})))
	if at == 0 {
		return errors.New("SQLite has no memory left")
	}
	t := *(**table)(unsafe.Pointer(&at))
	*t = table{Tsqlite3_io_methods: *methods, sqlites: f.FpMethods, database: database}
	t.FxWrite, t.FxRead, t.FxSync, t.FxClose = ours, pointer(read), pointer(sync), pointer(closeFile)
	f.FpMethods = at
	return nil
}

// Number ties the WAL, if it starts again with a commit of this connection, to the database by a
// number: the database gets it as its user_version, on the disk, before the WAL has a frame. The
// commit itself must set it, too. Join must have been called, and nothing else may use the
// connection during the call.
func Number(wal uintptr, number uint32) {
	t, _ := of(wal)
	binary.BigEndian.PutUint32(t.number[:], number)
	t.numbered = true
}

// Commit runs commit, which makes SQLite commit. The frames are written together, 8 at most, when the last
// one comes. Frames of a commit that failed before are dropped: nothing refers to them, and another process
// may write in their place. Outside of a commit no frame waits, because SQLite does not say which frame is
// the last that a full cache writes. Join must have been called, and nothing else may use the connection
// during the call.
func Commit(wal uintptr, commit func() error) error {
	t, _ := of(wal)
	t.commits = true
	err := commit()
	t.commits, t.waits = false, 0
	return err
}

// pointer is the C pointer to a Go function.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function is the Go function behind a C pointer to one.
func function[F any](pointer uintptr) F { return *(*F)(unsafe.Pointer(&pointer)) }

// of returns the table of a file, and SQLite's.
func of(file uintptr) (*table, *sqlite3.Tsqlite3_io_methods) {
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))
	t := *(**table)(unsafe.Pointer(&f.FpMethods))
	return t, *(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&t.sqlites))
}

// write keeps the header of a frame until its page comes, and the frames of a commit until the last one.
// When SQLite recomputes the checksums of a transaction's frames, it reads each and writes its header
// alone.
func write(tls *libc.TLS, file, data uintptr, n int32, at sqlite3.Tsqlite3_int64) int32 {
	t, sqlites := of(file)
	next := int32(frameHeader)
	if t.waits%frame != 0 {
		next = page
	}
	if t.waits != 0 && at == t.from+t.waits && n == next {
		return t.wait(tls, file, data, n)
	}
	if code := t.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	if n == logHeader && at == 0 {
		return t.begin(tls, file, data)
	}
	if code := t.stamp(tls); code != sqlite3.SQLITE_OK {
		return code
	}
	if n == frameHeader && at != t.read && (at-logHeader)%frame == 0 {
		t.from = at
		return t.wait(tls, file, data, n)
	}
	return function[ioCall](sqlites.FxWrite)(tls, file, data, n, at)
}

// wait keeps a header or its page, and writes what waits when nothing more of the commit will come, or
// would find room.
func (t *table) wait(tls *libc.TLS, file, data uintptr, n int32) int32 {
	copy(t.bytes[t.waits:], unsafe.Slice(*(**byte)(unsafe.Pointer(&data)), n))
	t.waits += int64(n)
	if t.waits%frame != 0 {
		return sqlite3.SQLITE_OK
	}
	last := t.bytes[t.waits-frame+commitAt : t.waits]
	if t.commits && t.waits < int64(len(t.bytes)) && binary.BigEndian.Uint32(last) == 0 {
		return sqlite3.SQLITE_OK
	}
	return t.flush(tls, file)
}

// begin writes the header of a WAL that starts again, and zeros over the header of its first
// frame: the WAL's earlier commits lie in the database, and its failed ones must not be read
// again, though the salts may be the same. SQLite then waits for the disk.
func (t *table) begin(tls *libc.TLS, file, header uintptr) int32 {
	_, sqlites := of(file)
	clear(t.bytes[:logHeader+frameHeader])
	*(*[logHeader]byte)(t.bytes[:]) = **(**[logHeader]byte)(unsafe.Pointer(&header))
	t.begins = true
	return function[ioCall](sqlites.FxWrite)(tls, file, uintptr(unsafe.Pointer(&t.bytes)), logHeader+frameHeader,
		0)
}

// stamp writes the number into the database, if the WAL has started again. Until then the WAL
// holds nothing that can be read.
func (t *table) stamp(tls *libc.TLS) int32 {
	if !t.begins || !t.numbered {
		t.begins = false
		return sqlite3.SQLITE_OK
	}
	t.begins = false
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&t.database))
	methods := *(**sqlite3.Tsqlite3_io_methods)(unsafe.Pointer(&f.FpMethods))
	code := function[ioCall](methods.FxWrite)(tls, t.database, uintptr(unsafe.Pointer(&t.number)),
		int32(len(t.number)), numberAt)
	if code != sqlite3.SQLITE_OK {
		return code
	}
	return function[syncCall](methods.FxSync)(tls, t.database,
		sqlite3.SQLITE_SYNC_FULL|sqlite3.SQLITE_SYNC_DATAONLY)
}

// flush writes what waits.
func (t *table) flush(tls *libc.TLS, file uintptr) int32 {
	if t.waits == 0 {
		return sqlite3.SQLITE_OK
	}
	_, sqlites := of(file)
	n := int32(t.waits)
	t.waits = 0
	return function[ioCall](sqlites.FxWrite)(tls, file, uintptr(unsafe.Pointer(&t.bytes)), n, t.from)
}

func read(tls *libc.TLS, file, data uintptr, n int32, at sqlite3.Tsqlite3_int64) int32 {
	t, sqlites := of(file)
	if code := t.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	t.read = at
	return function[ioCall](sqlites.FxRead)(tls, file, data, n, at)
}

func sync(tls *libc.TLS, file uintptr, flags int32) int32 {
	t, sqlites := of(file)
	if code := t.flush(tls, file); code != sqlite3.SQLITE_OK {
		return code
	}
	code := function[syncCall](sqlites.FxSync)(tls, file, flags)
	if code != sqlite3.SQLITE_OK {
		t.rewrite(tls, file)
	}
	return code
}

// rewrite writes the commits of the WAL again. Linux keeps none of the pages that a failed sync covered: the
// next sync would succeed without them, and a checkpoint after it has nothing to recover from. The caller
// has the lock of the writer or that of checkpoints, and neither lets the WAL start again.
func (t *table) rewrite(tls *libc.TLS, file uintptr) {
	index, err := shm.Index(tls, t.database)
	if err != nil {
		return
	}
	_, sqlites := of(file)
	again := func(n, at int64) bool {
		bytes := uintptr(unsafe.Pointer(&t.bytes))
		return function[ioCall](sqlites.FxRead)(tls, file, bytes, int32(n), at) == sqlite3.SQLITE_OK &&
			function[ioCall](sqlites.FxWrite)(tls, file, bytes, int32(n), at) == sqlite3.SQLITE_OK
	}
	if !again(logHeader, 0) {
		return
	}
	size := frameHeader + int64(binary.BigEndian.Uint32(t.bytes[pageSizeAt:]))
	end := logHeader + size*int64(atomic.LoadUint32(shm.Committed(index)))
	for at, n := int64(logHeader), int64(0); at < end; at += n {
		if n = min(end-at, int64(len(t.bytes))); !again(n, at) {
			return
		}
	}
}

func closeFile(tls *libc.TLS, file uintptr) int32 {
	t, sqlites := of(file)
	f := *(**sqlite3.Tsqlite3_file)(unsafe.Pointer(&file))
	table := f.FpMethods
	f.FpMethods = t.sqlites
	code := function[closeCall](sqlites.FxClose)(tls, file)
	libc.Xfree(tls, table)
	return code
}
