package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/engine"
	"selvedge/internal/frames"
	"selvedge/internal/shm"
)

// The WAL has a working size, at which a commit starts a checkpoint (walCheckpointPages). It starts again
// from its beginning when no reader uses it. Overlapping readers may never leave such a gap: a WAL of 192
// MB beside a file of 4 MB was seen. So from WALRestartPages on the writer asks new readers to wait for a
// gap, and from walWaitPages on, which is 56 MB, it waits for the gap itself. Both give up on a read that
// takes longer than GapPatience: then the WAL grows, and Health names the read.
const (
	WALRestartPages = 2 * walCheckpointPages
	walWaitPages    = 14336
	// walTruncatePages is the size from which the file of a WAL is truncated when it starts
	// again. A smaller one stays allocated: a durable append into an allocated WAL takes half the
	// time.
	walTruncatePages = 4 * walCheckpointPages
	gapAgain         = 30 * time.Second // until the next try after another process's read was longer than that
	gapTry           = 20 * time.Millisecond
	walLookEvery     = 64 // commits, at most
)

// GapPatience is how long a read may take before the WAL may grow over it. A variable so that a
// test can shorten it.
var GapPatience = 5 * time.Second

// walCare is what the writer knows of the WAL between commits. Only the goroutine that has the
// writer uses it.
type walCare struct {
	log      int64     // pages in it, after the last commit
	limit    int64     // pages at which a look comes at once
	lookIn   int64     // commits until the next look
	since    int64     // commits since the last one
	seen     int64     // pages at the last one
	out      int64     // pages whose writing out has begun
	above    int64     // pages from which a gap is wanted
	asked    time.Time // for the gap; zero: no gap is wanted
	cut      bool      // the gap that is asked for is for a cut
	notUntil time.Time
	copied   <-chan struct{} // closed when the checkpoint of another connection has ended; nil: there was none
}

// A walHook is called by SQLite after each commit, with the number of pages in the WAL
// (sqlite.org/c3ref/wal_hook.html).
type walHook func(tls *libc.TLS, arg, db, name uintptr, pages int32) int32

// countCheckpoints replaces SQLite's own wal_autocheckpoint, which holds up the writer for all of a
// checkpoint, and does not report how it ended.
func (w *writer) countCheckpoints() {
	if w.onWAL == nil { // a connection that was given away keeps it
		w.onWAL = w.committedPages
	}
	w.session.handle.raw(func(tls *libc.TLS) {
		sqlite3.Xsqlite3_wal_hook(tls, w.session.db, *(*uintptr)(unsafe.Pointer(&w.onWAL)), 0)
	})
}

// committedPages starts a checkpoint on another connection once the WAL has walCheckpointPages. After that
// has ended, the writer checkpoints what was committed meanwhile, as far as readers let it. The WAL starts
// again once the file has all of it.
func (w *writer) committedPages(tls *libc.TLS, _, db, name uintptr, pages int32) int32 {
	w.wal.log = int64(pages)
	switch {
	case w.copying():
	case pages < walCheckpointPages:
		w.wal.copied = nil
	case w.wal.copied == nil:
		w.copyBeside()
	default:
		w.checkpointed(sqlite3.Xsqlite3_wal_checkpoint_v2(tls, db, name, sqlite3.SQLITE_CHECKPOINT_PASSIVE, 0,
			0) == sqlite3.SQLITE_OK)
	}
	return sqlite3.SQLITE_OK // anything else would be the commit's error
}

// checkpointed counts a checkpoint that a commit found due.
func (w *writer) checkpointed(done bool) {
	if done {
		w.counted.checkpoints.Add(1)
	} else {
		w.counted.checkpointsFailed.Add(1)
	}
}

// copyBeside starts a checkpoint on another connection. The writer goes on.
func (w *writer) copyBeside() {
	copied := make(chan struct{})
	w.wal.copied = copied
	go func() {
		defer close(copied)
		w.checkpointed(withConn(background, w.engine.path, w.engine.copyWAL) == nil)
	}()
}

// copyWAL checkpoints the WAL on a connection that has read nothing yet. The file and the WAL may have been
// replaced.
func (e *Engine) copyWAL(h handle) error {
	if h.key(sqlite3.SQLITE_FCNTL_FILE_POINTER) != e.file.key {
		return engine.ErrReplaced
	}
	// SQLite opens the WAL at the first read, and PRAGMA data_version reads no schema.
	if _, err := h.conn.ExecContext(background, sqlDataState); err != nil {
		return err
	}
	if h.key(sqlite3.SQLITE_FCNTL_JOURNAL_POINTER) != e.beside.files["-wal"] {
		return engine.ErrReplaced
	}
	if _, err := h.joinFrames(); err != nil {
		return err
	}
	var size walSize
	err := h.conn.GetContext(background, &size, "PRAGMA wal_checkpoint(PASSIVE)")
	if err == nil && size.Busy != 0 {
		err = engine.ErrBusy // another process copies it
	}
	return err
}

// copying reports whether the other connection's checkpoint is in progress.
func (w *writer) copying() bool {
	select {
	case <-w.wal.copied:
		return false
	default:
		return w.wal.copied != nil
	}
}

// awaitCopy waits for the other connection's checkpoint.
func (w *writer) awaitCopy() {
	if w.wal.copied != nil {
		<-w.wal.copied
	}
}

// boundWAL keeps the WAL in its bounds, after a commit and before the turn ends. It ignores errors:
// the commit is done, and the next look comes.
func (w *writer) boundWAL() {
	if w.engine.memory {
		return
	}
	c := &w.wal
	c.lookIn--
	c.since++
	if c.lookIn > 0 && c.log <= c.limit && !w.engine.space.cut.Load() {
		return
	}
	size, err := w.session.checkpoint("NOOP")
	if err != nil {
		w.openGap()
		return
	}
	w.engine.space.walPages.Store(size.Log)
	w.writeOut(size.Log)
	if w.engine.space.free.Load() < littleFree { // a look a second would come too late
		w.engine.space.lookAtDisk()
	}
	above := min(max(c.above, WALRestartPages), w.engine.space.walLimit())
	if cut := w.engine.space.cut.Swap(false) || c.cut; cut || size.Log > above {
		w.restartWAL(size, cut)
	} else if !c.asked.IsZero() {
		w.openGap()
	}
	// The next look comes halfway to the limit, at the rate of the commits since the last, or
	// when a larger commit passes it.
	c.limit = above
	rate := max(1, (size.Log-c.seen)/max(1, c.since))
	c.lookIn = min(max((above-size.Log)/rate/2, 1), walLookEvery)
	c.since, c.seen = 0, size.Log
}

// writeOut starts writing out the pages added to the WAL, if commits don't wait for the disk:
// otherwise all of that is left to the checkpoint, which the writer's turn waits for.
func (w *writer) writeOut(pages int64) {
	const frame, some = 24 + 4096, 256
	c := &w.wal
	if c.out > pages {
		c.out = 0 // it started again
	}
	if w.engine.config.Lazy && pages-c.out >= some {
		w.session.wal.writeOut(c.out*frame, (pages-c.out)*frame)
		c.out = pages
	}
}

// restartWAL makes the WAL start again from its beginning; with cut it also truncates it.
func (w *writer) restartWAL(size walSize, cut bool) {
	c := &w.wal
	now := time.Now()
	if _, longest := w.engine.reads.longest(); now.Before(c.notUntil) || longest > GapPatience {
		w.openGap()
		c.above = size.Log + walCheckpointPages
		return
	}
	w.awaitCopy() // before new reads wait too
	if c.asked.IsZero() {
		c.asked = now
		w.engine.reads.shut()
	}
	patience := gapTry
	if size.Log > walWaitPages {
		patience = max(gapTry, GapPatience-now.Sub(c.asked))
	}
	mode := "RESTART"
	if cut || size.Log > walTruncatePages {
		mode = "TRUNCATE"
	}
	got, err := w.session.checkpointPatiently(mode, patience)
	if err != nil || got.Busy != 0 {
		w.counted.failed.Add(1)
	}
	switch {
	case err == nil && got.Busy == 0:
		w.counted.restarts.Add(1)
		c.above = 0
		w.openGap()
		w.engine.space.walPages.Store(0)
	case err != nil: // a full disk, say: no gap would help
		c.above = size.Log + walCheckpointPages
		w.openGap()
	case time.Since(c.asked) >= GapPatience:
		c.above = size.Log + walCheckpointPages
		if _, longest := w.engine.reads.longest(); longest < GapPatience { // the end of our own reads is noticed
			c.notUntil = now.Add(gapAgain)
		}
		w.openGap()
	default: // there may be no further write: space tries until there was a gap or patience is over
		c.cut = cut
		w.engine.space.touched()
	}
}

func (w *writer) openGap() {
	if !w.wal.asked.IsZero() {
		w.wal.asked, w.wal.cut = time.Time{}, false
		w.engine.reads.open()
	}
}

// walSize is the result of PRAGMA wal_checkpoint: the pages in the WAL and how many of them are
// in the file too.
type walSize struct {
	Busy         int64 `db:"busy"`
	Log          int64 `db:"log"`
	Checkpointed int64 `db:"checkpointed"`
}

func (s *session) checkpoint(mode string) (walSize, error) {
	var size walSize
	err := s.Get(&size, "PRAGMA wal_checkpoint("+mode+")")
	return size, err
}

// checkpointPatiently waits for readers, as the writing connection does only here.
func (s *session) checkpointPatiently(mode string, patience time.Duration) (size walSize, err error) {
	milliseconds := fmt.Sprint(patience.Milliseconds() + 1) // the wait is not to end just before patience does
	if err := setPragma(background, s.conn, pragma{"busy_timeout", milliseconds, milliseconds}); err != nil {
		return size, err
	}
	size, err = s.checkpoint(mode)
	if undo := setPragma(background, s.conn, noPatience); err == nil {
		err = undo
	}
	return size, err
}

// begin begins a write transaction, and numbers it if it may be the first in the WAL.
func (s *session) begin() error {
	if _, err := s.exec(sqlBeginImmediate); err != nil {
		return err
	}
	if !s.wal.mayRestart() {
		return nil
	}
	err := s.nameWAL()
	if err == nil {
		err = s.number()
	}
	if err != nil {
		_, _ = s.exec(sqlRollback) // if SQLite has not done so itself
	}
	return err
}

// nameWAL syncs the WAL's name, before the first commit and before a number: a power cut must not
// bring back a WAL that was removed. SQLite syncs the folder once too, and ignores the result.
func (s *session) nameWAL() error {
	if s.wal.named || s.wal.file == 0 {
		return nil
	}
	err := syncFile(s.wal.folder)
	if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The folder is synced, or can't be: it can't be read, its file system does not sync folders, or it is
	// gone, which the next check of the file finds.
	s.wal.named = true
	return nil
}

// mayRestart reports whether the file has the whole content of the WAL: then a commit starts the
// WAL again, unless a reader still uses it. The caller is in a write transaction, so nothing is
// added before its own changes.
func (w walFile) mayRestart() bool {
	return w.index != 0 &&
		atomic.LoadUint32(shm.Committed(w.index)) == atomic.LoadUint32(shm.Backfilled(w.index))
}

// number assigns the file another number. A WAL that starts again with this transaction belongs to
// the file by that number. Decision 0022.
func (s *session) number() error {
	n := newNumber()
	if s.wal.file != 0 {
		frames.Number(s.wal.file, n)
	}
	_, err := s.conn.ExecContext(background, sqlNumber(n))
	return err
}

func newNumber() uint32 { return rand.Uint32() } //nolint:gosec // not a secret

func sqlNumber(n uint32) string {
	return fmt.Sprintf("PRAGMA user_version = %d", int32(n)) //nolint:gosec // its two's complement
}
