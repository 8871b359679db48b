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

// readers is a pool of reading connections, opened as they are needed, each with the goroutine that uses it.
type readers struct {
	db   *DB
	pool *sqlx.DB
	idle chan *reader
	wg   sync.WaitGroup

	mu     sync.Mutex
	opened int
	max    int
	closed chan struct{}
}

type reader struct {
	session *session
	calls   chan *readCall
}

type readCall struct {
	db   *DB
	fn   func(*Rx) error
	done chan outcome // gets one value
	rx   Rx
}

func newReaders(d *DB, pool *sqlx.DB, size int) *readers {
	return &readers{db: d, pool: pool, idle: make(chan *reader, size), max: size, closed: make(chan struct{})}
}

func (p *readers) read(ctx context.Context, why string, fn func(*Rx) error) error {
	if p.db.lanes.inCallback() {
		return nested(why)
	}
	r := &request{why: why, queued: p.db.observedNow()}
	for {
		one, err := p.acquire(ctx, why)
		if err != nil {
			return err
		}
		r.began = p.db.observedNow()
		call := &readCall{db: p.db, fn: fn, done: make(chan outcome, 1)}
		one.calls <- call
		out := <-call.done
		p.idle <- one
		if isBusy(out.err) && ctx.Err() == nil {
			continue // another process is recovering the WAL
		}
		out.err = wrap(why, out.err)
		p.db.observe(r, out)
		return out.leave()
	}
}

// acquire gives a connection that nobody uses: an idle one, a new one while there may be more, else the next that comes
// back.
func (p *readers) acquire(ctx context.Context, why string) (*reader, error) {
	if ctx.Err() != nil {
		return nil, waitEnded(ctx, why, "a reading connection")
	}
	select {
	case <-p.closed:
		return nil, closedError(why)
	default:
	}
	select {
	case one := <-p.idle:
		return one, nil
	default:
	}
	if one, err := p.open(ctx); one != nil || err != nil {
		return one, wrap(why, err)
	}
	select {
	case one := <-p.idle:
		return one, nil
	case <-p.closed:
		return nil, closedError(why)
	case <-ctx.Done():
		return nil, waitEnded(ctx, why, "a reading connection")
	}
}

func (p *readers) open(ctx context.Context) (*reader, error) {
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
	one := &reader{session: s, calls: make(chan *readCall)}
	p.wg.Add(1)
	go one.run(p)
	return one, nil
}

// close waits for the reads under way and closes their connections.
func (p *readers) close() error {
	p.mu.Lock()
	close(p.closed)
	opened := p.opened
	p.mu.Unlock()
	all := make([]*reader, opened)
	for i := range all {
		all[i] = <-p.idle
		close(all[i].calls)
	}
	p.wg.Wait()
	var failed error
	for _, one := range all {
		failed = errors.Join(failed, one.session.Close())
	}
	return errors.Join(failed, p.pool.Close())
}

// run serves calls until there are no more. A callback that leaves by Goexit takes the goroutine with it, and a new one
// takes its place.
func (one *reader) run(p *readers) {
	leave := p.db.lanes.enter()
	ended := false
	defer func() {
		leave()
		if ended {
			p.wg.Done()
			return
		}
		go one.run(p)
	}()
	for call := range one.calls {
		one.serve(call)
	}
	ended = true
}

func (one *reader) serve(call *readCall) {
	call.rx = Rx{db: call.db, session: one.session, now: call.db.now()}
	if _, err := one.session.exec(sqlBegin); err != nil {
		call.done <- outcome{err: err}
		return
	}
	call.db.lanes.invoke(
		func() error { return call.fn(&call.rx) },
		func(out outcome) {
			call.rx.ended = true
			if _, err := one.session.exec(sqlRollback); err != nil && !out.failed() {
				out.err = err
			}
			call.done <- out
		})
}
