package sqlite

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"selvedge/db/internal/callback"
	"selvedge/db/internal/engine"
	"selvedge/db/internal/lock"
)

// readers is a pool of reading connections, opened as they are needed.
type readers struct {
	engine *Engine
	pool   *sqlx.DB
	idle   chan *session

	mu     sync.Mutex
	opened int
	max    int
	closed chan struct{} // new reads are refused
	refuse sync.Once
}

func newReaders(e *Engine, pool *sqlx.DB, size int) *readers {
	return &readers{engine: e, pool: pool, idle: make(chan *session, size), max: size, closed: make(chan struct{})}
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
		if !pause(ctx, lock.Retry) {
			out.Err = waitEnded(ctx, "the file")
			return out
		}
	}
}

// serve runs fn in a transaction of this connection and gives the connection back, also when fn leaves by Goexit. locked
// tells that SQLite found the file locked under this connection; a callback's own error of another file does not.
func (p *readers) serve(ctx context.Context, why string, s *session, fn func(engine.Rx) error, out *callback.Outcome) (locked bool) {
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

// pause waits, and reports whether ctx let it.
func pause(ctx context.Context, d time.Duration) bool {
	clock := time.NewTimer(d)
	defer clock.Stop()
	select {
	case <-clock.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// acquire gives a connection that nobody uses: an idle one, a new one while there may be more, else the next that comes
// back.
func (p *readers) acquire(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, endedBefore(ctx)
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
	s, err := retrySession(ctx, p.pool, roleReader, p.engine.config)
	if err != nil {
		return nil, err
	}
	for _, p := range []pragma{patience, queryOnly} {
		if err := setPragma(ctx, s.conn, p); err != nil {
			return nil, closeAfter(s, err)
		}
	}
	p.opened++
	return s, nil
}

// refuseNew has new reads refused.
func (p *readers) refuseNew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse.Do(func() { close(p.closed) })
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
