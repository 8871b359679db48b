package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// ReserveBytes is the size of FILE-reserve in bytes. On a small disk it is a sixth of the disk, and
// below leastReserve there is no reserve. The reserve allows deletions on a full disk: a deletion,
// an end or an open that finds the disk full truncates it, and it is filled again when there is
// room for it and a quarter more. While it is empty every process keeps the free room for
// deletions. A file gets a reserve once it is as large as one.
const ReserveBytes = 4 << 20

const leastReserve = 1 << 20

const (
	// littleFree is the free room below which the disk is checked more often than once a second.
	littleFree = 32 * ReserveBytes
	// nearlyFull is the free room below which each write checks whether another process has emptied
	// the reserve.
	nearlyFull = 4 * ReserveBytes
)

const reserveSuffix = "-reserve"

// A space manages the file's room on the disk: it returns the pages of deleted rows, keeps the WAL
// small on a nearly full disk, and holds the reserve. It works in small steps in the writer's turns
// while the file is written to, and sleeps otherwise.
type space struct {
	engine *Engine

	wake    chan struct{}
	ctx     context.Context // ends with the space: what waits for the writer leaves
	leave   context.CancelFunc
	stopped chan struct{}
	stay    int64 // free pages that are not worth returning; only run uses it
	asleep  atomic.Bool
	written atomic.Bool // since the last look

	free     atomic.Int64 // bytes on the disk, at the last look
	whole    atomic.Int64 // bytes of the reserve; 0: none is made
	walPages atomic.Int64 // in the WAL, at the last look
	cut      atomic.Bool  // the WAL is to be cut off at the next commit
	released atomic.Bool  // the reserve is empty: others wait until there is room again

	mu sync.Mutex // of the reserve
}

const (
	spaceLook  = time.Second           // between two looks while the file is written to
	spaceStep  = 50 * time.Millisecond // between two steps of returning pages
	spaceSteps = 500                   // for the pages of one deletion: half of a minute
	leastStep  = 32                    // pages; a page takes about 10 µs of the writer's time
	mostStep   = 4096
	fewFree    = 64 // free pages that are not worth the work: they are written to again
	mostFree   = 50 // one in this many of the freed pages may stay
)

func startSpace(e *Engine) *space {
	s := &space{engine: e, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	s.ctx, s.leave = context.WithCancel(context.Background())
	s.asleep.Store(true)
	s.lookAtDisk()
	go s.run()
	return s
}

// touched records that something was written.
func (s *space) touched() {
	if !s.written.Load() {
		s.written.Store(true)
	}
	if s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.wake <- struct{}{}
	}
}

func (s *space) close() {
	s.leave()
	<-s.stopped
}

func (s *space) run() {
	defer close(s.stopped)
	clock := time.NewTimer(0)
	defer clock.Stop()
	<-clock.C
	step := int64(0) // pages that each look returns
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-clock.C:
		}
		s.written.Store(false)
		step = s.look(step)
		switch {
		case step > 0:
			clock.Reset(spaceStep)
		case s.written.Load():
			clock.Reset(spaceLook)
		default:
			s.asleep.Store(true)
			if s.written.Load() && s.asleep.CompareAndSwap(true, false) {
				clock.Reset(spaceLook)
			}
		}
	}
}

// look is one step. It returns how many pages the next step, a moment later, should return; 0 for
// none.
func (s *space) look(step int64) (next int64) {
	s.lookAtDisk()
	ctx := s.ctx
	// new reads wait for a gap: try whether there is one, for no longer than they wait
	if s.engine.reads.asked.Load() {
		s.cut.Store(true)
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, GapPatience)
		defer leave()
	}
	if s.released.Load() { // no writer adds anything until there is room
		if err := s.giveAllBack(ctx); err != nil { // the next refused writer starts another look
			s.engine.reads.open()
		}
		return 0
	}
	if step == 0 && !s.cut.Load() {
		ctx, leave := context.WithTimeout(ctx, spaceLook)
		defer leave()
		free, err := s.freePages(ctx)
		if ctx.Err() != nil { // it waited for a gap, perhaps one that this goroutine is to try for
			s.written.Store(true)
		}
		if err != nil || free <= fewFree {
			return 0
		}
		return s.begin(free)
	}
	left, err := s.giveBack(ctx, step)
	switch {
	case errors.Is(err, engine.ErrFull) && s.release():
		s.written.Store(true) // tries again, with the room of the reserve
		return 0
	// the disk is full, say, or another process stopped in its turn: the next write tries again
	case err != nil:
		s.engine.reads.open()
		return 0
	case s.blocked():
		s.written.Store(true)
		return 0
	case step == 0 && left > fewFree:
		return s.begin(left)
	case left <= s.stay:
		s.cut.Store(true) // the file itself becomes smaller when the WAL is in it
		_, _ = s.giveBack(s.ctx, 1)
		return 0
	}
	return step
}

// begin returns the size of the steps in which so many free pages are returned.
func (s *space) begin(free int64) (step int64) {
	s.stay = max(fewFree, free/mostFree)
	return min(max(free/spaceSteps, leastStep), mostStep)
}

// freePages counts the free pages. It takes no turn, since most looks find nothing to do, and a
// stopped process keeps its turn.
func (s *space) freePages(ctx context.Context) (free int64, err error) {
	out := s.engine.Read(ctx, "look for free pages", func(x engine.Rx) error {
		return x.Get(&free, "PRAGMA freelist_count", nil)
	})
	return free, out.Err
}

// giveBack returns up to so many free pages to the disk, and reports how many are left. The WAL
// first grows by each step: on a nearly full disk a step uses no more than half of the free room,
// and waits until the WAL of the earlier steps could start again.
func (s *space) giveBack(ctx context.Context, pages int64) (left int64, err error) {
	s.lookAtDisk()
	if s.free.Load() < littleFree {
		pages = min(pages, max(s.free.Load()/2/stepBytes, 1))
	}
	blocked := s.blocked()
	if blocked {
		pages = 0
	}
	if blocked || s.free.Load() < s.whole.Load() { // the least WAL is too long for the free room
		s.cut.Store(true)
	}
	out := s.engine.writer.submit(ctx, &request{
		why: "give space back", care: true,
		write: func(x engine.Tx) error {
			session := x.(*tx).session
			if pages > 0 {
				if _, err := session.exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages)); err != nil {
					return err
				}
			}
			return session.Get(&left, "PRAGMA freelist_count")
		},
	})
	return left, failure(out.Err)
}

// stepBytes bounds how much each returned page adds to the WAL: the page that is moved, the one
// that refers to it, and its part of the pointer map.
const stepBytes = 3 * pageBytes

// blocked reports whether reads keep a WAL from starting again that is as long as a nearly full
// disk can hold.
func (s *space) blocked() bool {
	return s.free.Load() < littleFree && s.walPages.Load() > s.walLimit()
}

// lookAtDisk reads how much is free, and the state of the reserve, which other processes use too.
func (s *space) lookAtDisk() {
	free, size, err := machine.Room(filepath.Dir(s.engine.path))
	if err != nil {
		free, size = 1<<62, 1<<62 // unknown
	}
	s.free.Store(free)
	whole := min(size/6, ReserveBytes)
	if whole < leastReserve {
		whole = 0
	}
	s.whole.Store(whole)
	s.reserve()
}

// readEnded unregisters a read. If the WAL had to grow because of the read, it is then truncated.
func (e *Engine) readEnded(x *rx) {
	e.reads.end(x)
	if took := time.Since(x.began); took > GapPatience && e.space != nil &&
		e.space.walPages.Load() > min(WALRestartPages, e.space.walLimit()) {
		e.space.cut.Store(true)
		e.space.touched()
	}
}

// walLimit is the number of pages in the WAL from which a gap is wanted. On a nearly full disk it
// is a fraction of the free room, since the file must be able to take the content of the WAL.
func (s *space) walLimit() int64 {
	return max(s.free.Load()/8, s.whole.Load()/4, leastReserve/4) / pageBytes
}

// reserve examines the reserve, and makes or fills it if the disk has room.
func (s *space) reserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := os.Lstat(s.engine.path + reserveSuffix)
	there := err == nil
	s.released.Store(there && have.Size() == 0)
	if there && have.Size() > 0 || s.whole.Load() == 0 || s.free.Load() < s.enough() {
		return
	}
	if !there {
		size, err := s.engine.bytes()
		if err != nil || size < s.whole.Load() {
			return
		}
	}
	if s.engine.fillReserve(s.whole.Load()) == nil {
		s.released.Store(false)
	}
}

// enough is how much must be free before the reserve is made, or filled again.
func (s *space) enough() int64 { return s.whole.Load() + s.whole.Load()/4 }

// restock fills the reserve again as the file is closed and the WAL has gone.
func (s *space) restock() {
	if s.released.Load() {
		_ = s.engine.fillReserve(s.whole.Load()) // there may be no room
	}
}

// fillReserve sets the room of the reserve aside, or leaves the reserve as it was.
func (e *Engine) fillReserve(bytes int64) error {
	path := e.path + reserveSuffix
	file, err := lock.MakeFile(path)
	undo := func() error { return os.Remove(path) }
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
		undo = func() error { return os.Truncate(path, 0) }
	}
	if err != nil {
		return err
	}
	err = machine.Allocate(file, bytes)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

// emptyReserve returns the reserve to the disk, and reports how many bytes it had.
func (e *Engine) emptyReserve() (bytes int64) {
	file, err := os.OpenFile(e.path+reserveSuffix, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil || file.Truncate(0) != nil {
		return 0
	}
	return info.Size()
}

// release is emptyReserve for a handle that is open.
func (s *space) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	emptied := s.engine.emptyReserve() > 0
	if emptied {
		s.released.Store(true)
	}
	return emptied
}

// refuses returns ErrFull for a write that only adds while the last free room is for deletions.
// Pages that deletions freed may not be returned yet, because of a long read say: that is tried
// again.
func (s *space) refuses() error {
	if !s.released.Load() && s.free.Load() >= nearlyFull {
		return nil
	}
	if s.lookAtDisk(); !s.released.Load() {
		return nil
	}
	s.touched()
	return engine.Failf(engine.ErrFull,
		"delete what is not needed, once it has ended, or make room on the disk",
		"until %d KiB are free, only ends and deletions are let through", s.enough()>>10)
}

// Reclaim is Write for functions that remove data. On a full disk it may use the reserve, and the
// pages that it freed are returned to the disk before it returns.
func (e *Engine) Reclaim(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	if e.space == nil {
		return e.Write(ctx, why, fn)
	}
	return e.space.makeRoom(ctx, why, fn)
}

// WriteEnd is Write for what ends something, so that it can be removed: it may use the first half
// of the reserve.
func (e *Engine) WriteEnd(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	if e.space == nil {
		return e.Write(ctx, why, fn)
	}
	return e.space.makeRoom(ctx, why, func(x engine.Tx) error {
		if !e.space.released.Load() {
			return fn(x)
		}
		return e.space.sparingly(x, fn)
	})
}

// makeRoom runs a call that makes room, or leads to that, and lets it use the reserve.
func (s *space) makeRoom(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	for tries := 0; ; tries++ {
		out := s.engine.writer.submit(ctx, &request{why: why, write: fn})
		full := errors.Is(out.Err, engine.ErrFull) && !out.Gone()
		if full && tries < 2 {
			s.release()
		}
		if s.released.Load() && (full || out.Err == nil) {
			_ = s.giveAllBack(ctx) // an error would mean that nothing was deleted
		}
		if !full || tries == 2 {
			return out
		}
	}
}

// endPages is how much an end may add to the file while the reserve is in use: the content of the
// WAL must fit into the file.
const endPages = 64

// sparingly runs a call that ends something while the reserve is in use.
func (s *space) sparingly(x engine.Tx, fn func(engine.Tx) error) error {
	var before, after int64
	pages := func(n *int64) error { return x.(*tx).session.Get(n, "PRAGMA page_count") }
	if err := pages(&before); err != nil {
		return err
	}
	if s.free.Load() < s.whole.Load()/2 {
		return engine.Failf(engine.ErrFull, "delete what has ended first, or make room on the disk",
			"the last of the disk is for deletions")
	}
	if err := fn(x); err != nil {
		return err
	}
	if err := pages(&after); err != nil || after-before <= endPages {
		return err
	}
	return engine.Failf(engine.ErrFull,
		"end it with less to say, delete what has ended, or make room on the disk",
		"the end takes more than the %d KiB that are left for it", endPages*pageBytes>>10)
}

// giveAllBack returns all free pages, on a full disk: the next deletion needs the room of this one.
func (s *space) giveAllBack(ctx context.Context) error {
	s.cut.Store(true)
	left, err := s.giveBack(ctx, 0)
	for before := int64(0); err == nil && left > 0 && left != before; {
		s.cut.Store(true)
		before = left
		left, err = s.giveBack(ctx, mostStep)
	}
	if err != nil {
		return err
	}
	s.lookAtDisk()
	return nil
}

// Health reports the state of the file.
func (e *Engine) Health(ctx context.Context) (engine.Health, error) {
	var h engine.Health
	h.LongestRead, h.LongestReadFor = e.reads.longest()
	if e.writer != nil {
		h.Waiting = e.Waiting()
		h.Writing = e.writer.writing()
		if h.Waiting > 0 && !e.writer.serving() {
			h.HeldBy = e.writerHolders()
		}
	}
	if e.memory {
		return h, nil
	}
	h.Readers = lock.Readers(e.path + "-shm")
	var err error
	if h.FileBytes, h.WALBytes, err = e.sizes(); err != nil {
		return h, err
	}
	if h.DiskFree, _, err = machine.Room(filepath.Dir(e.path)); err != nil {
		return h, err
	}
	if e.space != nil {
		h.Full = e.space.released.Load()
	}
	err = e.Read(ctx, "health", func(x engine.Rx) (err error) {
		h.PageSize, h.Pages, h.FreePages, err = pageCounts(engine.Getting(x))
		return err
	}).Err
	return h, err
}
