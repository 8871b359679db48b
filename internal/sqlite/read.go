package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
	"selvedge/internal/lock"
	"selvedge/internal/machine"
)

// readers is a pool of reading connections, opened as they are needed.
type readers struct {
	engine *Engine
	pool   *sqlx.DB
	idle   chan *session

	mu     sync.Mutex
	opened int
	max    int
	closed <-chan struct{} // new reads are refused
	// refuseNew has new reads refused.
	refuseNew context.CancelFunc
}

func newReaders(e *Engine, pool *sqlx.DB, size int) *readers {
	open, refuseNew := context.WithCancel(background)
	return &readers{
		engine: e, pool: pool, idle: make(chan *session, size), max: size,
		closed: open.Done(), refuseNew: refuseNew,
	}
}

func (p *readers) read(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	for {
		s, err := p.acquire(ctx)
		if err != nil {
			return callback.Outcome{Err: failure(err)}
		}
		p.engine.reads.leaveGap(ctx)
		var out callback.Outcome
		locked := p.serve(ctx, why, s, fn, &out)
		if !locked || !out.Failed() || out.Gone() {
			return out
		}
		// Another process is recovering the WAL, or switching the file's mode.
		if !engine.Pause(ctx, lock.Retry) {
			out.Err = waitEnded(ctx, "the file")
			return out
		}
	}
}

// serve runs fn in a transaction of this connection and puts the connection back, even when fn
// leaves by Goexit. locked reports that SQLite found the file locked under this connection; a
// callback's own error from another file does not count.
func (p *readers) serve(ctx context.Context, why string, s *session, fn func(engine.Rx) error,
	out *callback.Outcome,
) (locked bool) {
	defer func() { p.idle <- s }()
	if _, err := s.exec(sqlBegin); err != nil {
		out.Err = s.failure(err)
		return isBusy(err)
	}
	x := &rx{engine: p.engine, session: s}
	p.engine.reads.begin(ctx, why, x)
	p.engine.config.Callbacks.Invoke(func() error { return fn(x) }, func(o callback.Outcome) {
		p.engine.readEnded(x)
		if err := x.end(); err != nil && !o.Failed() {
			o.Err = err
		}
		if _, err := s.exec(sqlRollback); err != nil && !o.Failed() {
			o.Err = s.failure(err)
		}
		*out = o
	})
	return x.busy != nil
}

// acquire returns an unused connection: an idle one, a new one while there may be more, else the
// next that is released.
func (p *readers) acquire(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, engine.EndedBefore(ctx)
	}
	select {
	case <-p.closed:
		return nil, engine.ErrClosed
	default:
	}
	select {
	case s := <-p.idle:
		return s, nil
	default:
	}
	if s, err := p.open(ctx); s != nil || err != nil {
		return s, err
	}
	select {
	case s := <-p.idle:
		return s, nil
	case <-p.closed:
		return nil, engine.ErrClosed
	case <-ctx.Done():
		return nil, waitEnded(ctx, "a reading connection")
	}
}

func (p *readers) open(ctx context.Context) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return nil, engine.ErrClosed
	default:
	}
	if p.opened == p.max {
		return nil, nil
	}
	var s *session
	if w := p.engine.writer; w != nil {
		s = w.giveAway()
	}
	if s == nil {
		var err error
		if s, err = retrySession(ctx, p.pool, roleReader, p.engine.config); err != nil {
			return nil, err
		}
	}
	for _, p := range []pragma{patience, queryOnly, smallCache} {
		if err := setPragma(ctx, s.conn, p); err != nil {
			return nil, closeAfter(s, err)
		}
	}
	p.opened++
	return s, nil
}

// close waits for the reads under way and closes their connections.
func (p *readers) close() error {
	p.refuseNew()
	p.mu.Lock()
	opened := p.opened
	p.mu.Unlock()
	var failed error
	for range opened {
		s := <-p.idle
		failed = errors.Join(failed, s.Close())
	}
	return errors.Join(failed, p.pool.Close())
}

// A rest is the state of a file at opening, in a folder in which this process can create nothing.
// SQLite can't make the -shm there, through which readers and writers know of each other, so it
// gets immutable=1, and each read checks before and after itself that the file has not changed.
type rest struct {
	path string
	size int64
	at   time.Time
	key  fileKey
}

// atRest is nil for a file that SQLite can read as usual. A file with content in its WAL is never
// read without it.
func atRest(path string, wal bool) (*rest, error) {
	if !wal || unix.Access(filepath.Dir(path), unix.W_OK) == nil {
		return nil, nil
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if there, err := exists(path + suffix); there || err != nil {
			return nil, err // in use
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &rest{path, info.Size(), info.ModTime(), keyOf(info)}, nil
}

// unchanged returns an error if the file was written to since it was opened.
func (r *rest) unchanged() error {
	now, err := atRest(r.path, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if now != nil && *now == *r {
		return nil
	}
	return engine.Failf(engine.ErrBusy, "open it again", "the file, which was opened where it can only "+
		"be read as it lies there, is being written or was replaced")
}

// readAtRest is a read that fails if the file is written during it.
func (e *Engine) readAtRest(ctx context.Context, why string, fn func(engine.Rx) error) callback.Outcome {
	if err := e.rest.unchanged(); err != nil {
		return callback.Outcome{Err: err}
	}
	out := e.readers.read(ctx, why, fn)
	if err := e.rest.unchanged(); err != nil && !out.Gone() {
		out.Err = err
	}
	return out
}

func (e *Engine) readRole() role {
	if e.rest != nil {
		return roleAtRest
	}
	return roleReader
}

// needsWriter returns the hint for a file that SQLite can't read without writing something first:
// the -shm, or what its last writer left when it was killed.
func needsWriter(err error) error {
	if machine.LacksDescriptors(err) {
		return err
	}
	switch primary(err) {
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return &engine.Failure{
			Code: code(err), Hint: "open it once for writing (migrate up does), as a user who may write the file " +
				"and its folder",
			Err: fmt.Errorf("its last writer did not close it, and a reader may not finish what it left: %w: %w",
				fs.ErrPermission, err),
		}
	}
	return err
}

// interruptAgain is the pause between two interrupts of a read that is to end. A statement that is
// about to begin misses an interrupt, so they are repeated.
const interruptAgain = time.Millisecond

// reads are the reads under way through a handle. While the writer asks for a gap between them, new
// ones wait.
type reads struct {
	gate  *lock.Gate // among the processes; nil if there is none
	asked atomic.Bool

	mu      sync.Mutex
	list    []*rx // the oldest first
	closing bool  // they are interrupted, and so are new ones
}

// An activeRead is what only a read has.
type activeRead struct {
	why   string
	began time.Time
	leave func() bool // ends the watch of its context
}

// begin registers a read, and has its statements interrupted when ctx ends, until end is called. It
// starts no goroutine before that.
func (r *reads) begin(ctx context.Context, why string, x *rx) {
	x.ctx, x.why, x.began = ctx, why, time.Now()
	r.mu.Lock()
	r.list = append(r.list, x)
	if r.closing {
		x.ended.Store(true)
	}
	r.mu.Unlock()
	if ctx.Done() != nil {
		x.leave = context.AfterFunc(ctx, func() {
			x.ended.Store(true)
			r.interruptUntilEnded(x)
		})
	}
}

// end takes a read out. Its connection is not interrupted afterwards, and may be another read's.
func (r *reads) end(x *rx) {
	r.mu.Lock()
	at := slices.Index(r.list, x)
	r.list = slices.Delete(r.list, at, at+1)
	r.mu.Unlock()
	if x.leave != nil {
		x.leave()
	}
}

// interruptUntilEnded interrupts a read again and again; nil stands for all of them.
func (r *reads) interruptUntilEnded(one *rx) {
	for more := true; more; time.Sleep(interruptAgain) {
		more = false
		r.mu.Lock()
		for _, x := range r.list {
			if one == nil || x == one {
				x.session.interrupt()
				more = true
			}
		}
		r.mu.Unlock()
	}
}

// interrupt ends the reads under way and all later ones, and names those under way. It does not
// wait for their functions.
func (r *reads) interrupt() (whys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.list {
		whys = append(whys, x.why)
		x.ended.Store(true)
	}
	if !r.closing {
		r.closing = true
		go r.interruptUntilEnded(nil)
	}
	return whys
}

// longest returns the name of the oldest read and how long it has been running; "" if there is
// none.
func (r *reads) longest() (why string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return "", 0
	}
	return r.list[0].why, time.Since(r.list[0].began)
}

func (r *reads) wanted() bool { return r.asked.Load() || r.gate != nil && r.gate.IsShut() }

// gapLook is the pause between two looks of a read that waits for a gap.
const gapLook = time.Millisecond

// leaveGap waits while the writer wants a gap, no longer than GapPatience.
func (r *reads) leaveGap(ctx context.Context) {
	if !r.wanted() {
		return
	}
	end := time.Now().Add(GapPatience)
	for r.wanted() && time.Now().Before(end) && engine.Pause(ctx, gapLook) {
	}
}

func (r *reads) shut() {
	r.asked.Store(true)
	if r.gate != nil {
		r.gate.Shut()
	}
}

func (r *reads) open() {
	r.asked.Store(false)
	if r.gate != nil {
		r.gate.Open()
	}
}

func (r *reads) close() error {
	if r.gate == nil {
		return nil
	}
	return r.gate.Close()
}
