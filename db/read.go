package db

import (
	"context"
	"errors"
	"sync"

	"github.com/jmoiron/sqlx"
)

// Read runs fn in a read transaction: one snapshot, on a connection that can't write. It never waits for the writer, and
// the writer never waits for it. fn must not call Read or Write (an error at once), and should be short: while it runs the
// WAL can't start again from its beginning, so page through what is large.
//
// When ctx ends while all reading connections are in use, Read returns ErrBusy and the context's cause; fn itself is not
// interrupted.
func (d *DB) Read(ctx context.Context, why string, fn func(*Rx) error) error {
	if d.readers == nil {
		return d.writer.submit(ctx, &request{why: why, read: fn})
	}
	return d.readers.read(ctx, why, fn)
}

// readers is a pool of reading connections, opened as they are needed.
type readers struct {
	db   *DB
	pool *sqlx.DB
	idle chan *session

	mu     sync.Mutex
	opened int
	max    int
	closed chan struct{}
}

func newReaders(d *DB, pool *sqlx.DB, size int) *readers {
	return &readers{db: d, pool: pool, idle: make(chan *session, size), max: size, closed: make(chan struct{})}
}

func (p *readers) read(ctx context.Context, why string, fn func(*Rx) error) error {
	if p.db.callbacks.inside() {
		return nested(why)
	}
	r := &request{why: why, queued: p.db.observedNow()}
	for {
		s, err := p.acquire(ctx, why)
		if err != nil {
			return err
		}
		r.began = p.db.observedNow()
		p.serve(s, fn, &r.result)
		if isBusy(r.result.err) && ctx.Err() == nil {
			continue // another process is recovering the WAL
		}
		r.result.err = wrap(why, r.result.err)
		p.db.observe(r, r.result)
		return r.result.leave()
	}
}

// serve runs fn in a transaction of this connection and gives the connection back, also when fn leaves by Goexit.
func (p *readers) serve(s *session, fn func(*Rx) error, out *outcome) {
	defer func() { p.idle <- s }()
	*out = outcome{}
	if _, out.err = s.exec(sqlBegin); out.err != nil {
		return
	}
	rx := &Rx{db: p.db, session: s, now: p.db.now()}
	p.db.callbacks.invoke(func() error { return fn(rx) }, func(o outcome) {
		rx.ended = true
		if _, err := s.exec(sqlRollback); err != nil && !o.failed() {
			o.err = err
		}
		*out = o
	})
}

// acquire gives a connection that nobody uses: an idle one, a new one while there may be more, else the next that comes
// back.
func (p *readers) acquire(ctx context.Context, why string) (*session, error) {
	if ctx.Err() != nil {
		return nil, waitEnded(ctx, why, "a reading connection")
	}
	select {
	case <-p.closed:
		return nil, closedError(why)
	default:
	}
	select {
	case s := <-p.idle:
		return s, nil
	default:
	}
	if s, err := p.open(ctx); s != nil || err != nil {
		return s, wrap(why, err)
	}
	select {
	case s := <-p.idle:
		return s, nil
	case <-p.closed:
		return nil, closedError(why)
	case <-ctx.Done():
		return nil, waitEnded(ctx, why, "a reading connection")
	}
}

func (p *readers) open(ctx context.Context) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return nil, ErrClosed
	default:
	}
	if p.opened == p.max {
		return nil, nil
	}
	s, err := retrySession(ctx, p.pool, roleReader, p.db.options)
	if err != nil {
		return nil, err
	}
	if err := setPragma(ctx, s.conn, patience); err != nil {
		return nil, closeAfter(s, err)
	}
	p.opened++
	return s, nil
}

// close waits for the reads under way and closes their connections.
func (p *readers) close() error {
	p.mu.Lock()
	close(p.closed)
	opened := p.opened
	p.mu.Unlock()
	var failed error
	for range opened {
		s := <-p.idle
		failed = errors.Join(failed, s.Close())
	}
	return errors.Join(failed, p.pool.Close())
}
