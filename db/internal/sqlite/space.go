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
	"time"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
	"selvedge/db/internal/machine"
)

// ReserveBytes is the size of FILE-reserve, which is there so that a full disk can be emptied: it goes when a deletion, or who
// opens the file to write, finds the disk full, and comes back when there is room for it twice. A file gets one when it is as large itself.
const ReserveBytes = 4 << 20

// littleFree is when the disk is looked at more often than once a second.
const littleFree = 32 * ReserveBytes

const reserveSuffix = "-reserve"

// A space looks after the room that the file takes: it gives the pages that deletions freed back to the disk, keeps the WAL
// small where the disk is nearly full, and holds the reserve. It works in the writer's turns, in small steps, while
// there was something written, and sleeps else.
type space struct {
	engine *Engine

	wake    chan struct{}
	stop    chan struct{}
	ctx     context.Context // ends with stop: what waits for the writer leaves
	leave   context.CancelFunc
	stopped chan struct{}
	asleep  atomic.Bool
	written atomic.Bool // since the last look

	free     atomic.Int64 // bytes on the disk, at the last look
	walPages atomic.Int64 // in the WAL, at the last look
	cut      atomic.Bool  // the WAL is to be cut off at the next commit
	released atomic.Bool  // the reserve was given to a deletion: others wait until there is room again

	mu sync.Mutex // of the reserve
}

const (
	spaceLook  = time.Second           // between two looks while the file is written to
	spaceStep  = 50 * time.Millisecond // between two steps of giving back
	spaceSteps = 500                   // steps in which what one deletion freed is given back: half of a minute
	leastStep  = 32                    // pages; a page takes about 10 µs of the writer's time
	mostStep   = 4096
	fullStep   = 256 // on a full disk, where the WAL of a step must fit into the reserve
	fewFree    = 64  // free pages that are not worth the work: they are written to again
	mostFree   = 50  // a part of this many of the freed pages may stay
)

func startSpace(e *Engine) *space {
	s := &space{engine: e, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	s.ctx, s.leave = context.WithCancel(context.Background())
	s.asleep.Store(true)
	s.released.Store(e.onReserve)
	s.lookAtDisk()
	go s.run()
	return s
}

// openOnReserve gives the reserve to a handle that is being opened on a full disk, so that somebody can delete. false: there is none.
func (e *Engine) openOnReserve() bool {
	e.onReserve = os.Remove(e.path+reserveSuffix) == nil
	return e.onReserve
}

// touched says that something was written.
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
	close(s.stop)
	<-s.stopped
}

func (s *space) run() {
	defer close(s.stopped)
	clock := time.NewTimer(0)
	defer clock.Stop()
	<-clock.C
	step := int64(0) // pages that each look gives back
	for {
		select {
		case <-s.stop:
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

// look is one step. It tells how many pages the next one, in a moment, is to give back; 0 for none.
func (s *space) look(step int64) (next int64) {
	s.lookAtDisk()
	ctx := s.ctx
	if s.engine.reads.asked.Load() { // new reads wait for a gap: try whether there is one, for no longer than they wait
		s.cut.Store(true)
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, GapPatience)
		defer leave()
	}
	if s.released.Load() { // nobody adds anything until there is room
		if err := s.giveAllBack(ctx); err != nil { // who is refused next comes by again
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
		return min(max(free/spaceSteps, leastStep), mostStep)
	}
	left, err := s.giveBack(ctx, step)
	switch {
	case err != nil: // the disk is full, say, or another process stopped in its turn: the next write comes by again
		s.engine.reads.open()
		return 0
	case step == 0 && left > fewFree:
		return min(max(left/spaceSteps, leastStep), mostStep)
	case left <= max(fewFree, step*spaceSteps/mostFree):
		s.cut.Store(true) // the file itself becomes smaller when the WAL is in it
		_, _ = s.giveBack(s.ctx, 1)
		return 0
	}
	return step
}

// freePages reads how many there are. It takes no turn, since most looks find nothing to do, and a process that is stopped
// keeps the turn it has.
func (s *space) freePages(ctx context.Context) (free int64, err error) {
	out := s.engine.Read(ctx, "look for free pages", func(x engine.Rx) error {
		return x.Get(&free, "PRAGMA freelist_count", nil)
	})
	return free, out.Err
}

// giveBack returns up to so many free pages to the disk, and tells how many are left.
func (s *space) giveBack(ctx context.Context, pages int64) (left int64, err error) {
	out := s.engine.writer.submit(ctx, &request{why: "give space back", care: true, write: func(x engine.Tx) error {
		session := x.(*tx).session
		if pages > 0 {
			if _, err := session.exec(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", pages)); err != nil {
				return err
			}
		}
		return session.Get(&left, "PRAGMA freelist_count")
	}})
	return left, failure(out.Err)
}

func (s *space) lookAtDisk() {
	free, err := machine.FreeBytes(filepath.Dir(s.engine.path))
	if err != nil {
		free = 1 << 62 // nobody can tell
	}
	s.free.Store(free)
	if s.released.Load() || !s.reserved() {
		s.reserve()
	}
}

// readEnded takes a read out. After one that the WAL had to grow over, the WAL is cut off.
func (e *Engine) readEnded(x *rx) {
	e.reads.end(x)
	if took := time.Since(x.began); took > GapPatience && e.space != nil && e.space.walPages.Load() > WALRestartPages {
		e.space.cut.Store(true)
		e.space.touched()
	}
}

// walLimit is the number of pages in the WAL from which a gap is wanted: a part of what the disk has left, where that is
// little, since the file must be able to take what is in the WAL.
func (s *space) walLimit() int64 {
	const leastPages = 256
	return max(s.free.Load()/8/4096, leastPages)
}

func (s *space) reservePath() string { return s.engine.path + reserveSuffix }

func (s *space) reserved() bool {
	_, err := os.Lstat(s.reservePath())
	return err == nil
}

// reserve makes the reserve where the file is as large and the disk has room for it twice.
func (s *space) reserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free.Load() < 2*ReserveBytes {
		return
	}
	size, err := sizeOf(s.engine.path)
	wal, walErr := sizeOf(s.engine.path + "-wal")
	if err != nil || walErr != nil || size+wal < ReserveBytes && !s.released.Load() {
		return
	}
	if err := s.engine.fillReserve(); err == nil || errors.Is(err, fs.ErrExist) {
		s.released.Store(false)
	}
}

// restock puts back, as the file is closed and the WAL has gone, what a handle took of a full disk and needed no more.
func (s *space) restock() {
	if s.released.Load() {
		_ = s.engine.fillReserve() // there may be no room
	}
}

func (e *Engine) fillReserve() error {
	path := e.path + reserveSuffix
	file, err := lock.MakeFile(path)
	if err != nil {
		return err
	}
	err = machine.Allocate(file, ReserveBytes)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// release gives the reserve to a deletion; false: there is none.
func (s *space) release() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Remove(s.reservePath()); err != nil {
		return false
	}
	s.released.Store(true)
	return true
}

// refuses tells who only adds that the last of the disk is for deletions. What those freed may not have been given back yet,
// over a read say: that is tried again.
func (s *space) refuses() error {
	if !s.released.Load() {
		return nil
	}
	if s.lookAtDisk(); !s.released.Load() {
		return nil
	}
	s.touched()
	return &engine.Failure{
		Kind: engine.ErrFull, Hint: "delete what is not needed, or make room on the disk",
		Err: fmt.Errorf("until %d MiB are free, only deletions are let through", 2*ReserveBytes>>20),
	}
}

// Reclaim is Write for what removes data. On a full disk it may use the reserve, and what it freed is given back to the
// disk before it returns.
func (e *Engine) Reclaim(ctx context.Context, why string, fn func(engine.Tx) error) callback.Outcome {
	if e.space == nil {
		return e.Write(ctx, why, fn)
	}
	out := e.writer.submit(ctx, &request{why: why, write: fn})
	if !errors.Is(out.Err, engine.ErrFull) || out.Gone() {
		if e.space.released.Load() && out.Err == nil {
			_ = e.space.giveAllBack(ctx) // an error would say that nothing was deleted
		}
		return out
	}
	if e.space.release() {
		out = e.writer.submit(ctx, &request{why: why, write: fn})
	}
	if out.Err == nil {
		_ = e.space.giveAllBack(ctx)
	}
	return out
}

// giveAllBack is for a full disk: the next deletion needs what this one freed.
func (s *space) giveAllBack(ctx context.Context) error {
	for left, before := int64(1), int64(0); left > 0 && left != before; {
		s.cut.Store(true)
		before = left
		var err error
		if left, err = s.giveBack(ctx, fullStep); err != nil {
			return err
		}
	}
	s.lookAtDisk()
	return nil
}

// Health says how the file is doing.
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
	if h.FileBytes, err = sizeOf(e.path); err != nil {
		return h, err
	}
	if h.WALBytes, err = sizeOf(e.path + "-wal"); err != nil {
		return h, err
	}
	if h.DiskFree, err = machine.FreeBytes(filepath.Dir(e.path)); err != nil {
		return h, err
	}
	if e.space != nil {
		h.Full = e.space.released.Load()
	}
	out := e.Read(ctx, "health", func(x engine.Rx) error {
		for dest, query := range map[*int64]string{
			&h.PageSize: "PRAGMA page_size", &h.Pages: "PRAGMA page_count", &h.FreePages: "PRAGMA freelist_count",
		} {
			if err := x.Get(dest, query, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return h, out.Err
}
