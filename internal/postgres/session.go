package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"selvedge/internal/engine"
	"selvedge/internal/scan"
)

// A session is one connection. A writing session also has a row in the database,
// by which its commits are settled.
type session struct {
	wire *wire
	used time.Time // when it was last released

	row     int64         // in the table sessions; 0 in a session that only reads
	fresh   int64         // the outcome when it got the row
	seen    time.Duration // just before the moment that the row holds, by the server's clock
	outcome int64         // the last number of a transaction
}

// The settings of every session. A sequential scan of a small table would make a serialisable
// transaction collide with every writer there. A commit is reported only once it is durable.
const (
	sqlSettings = `SELECT set_config('enable_seqscan', 'off', false),
	set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
       THEN 'on' ELSE current_setting('synchronous_commit') END, false)`
	sqlSettingsNormal = `SELECT set_config('enable_seqscan', 'off', false),
		set_config('default_transaction_isolation', 'read committed', false),
		set_config('synchronous_commit', 'off', false)`
	sqlSettingReader = `; SELECT set_config('default_transaction_read_only', 'on', false)`
	sqlAddSession    = `INSERT INTO sessions (seen) VALUES (server_nanos()) RETURNING id`
	// sqlBeginSession goes with the settings. It does not wait for the disk: the session's first commit does.
	sqlBeginSession = `; SELECT set_config('synchronous_commit', 'off', true); ` + sqlAddSession
	sqlDropSession  = `DELETE FROM sessions WHERE id = ?`
	sqlOldSessions  = `DELETE FROM sessions WHERE seen < server_nanos() - 86400000000000`
)

func (e *Engine) newSession(ctx context.Context) (*session, error) {
	s, _, err := e.newSessionWith(ctx, "")
	return s, err
}

// newReader is newSession for a session that only reads. The fence of a newer schema does not
// refuse reads, so a session of a read-only handle checks whether its program may still read.
func (e *Engine) newReader(ctx context.Context) (*session, error) {
	s, _, err := e.newSessionWith(ctx, sqlSettingReader)
	if err != nil || !e.config.ReadOnly {
		return s, err
	}
	ctx, cancel := patient(ctx, commitPatience)
	defer cancel()
	defer s.within(ctx)()
	have, err := readVersions(s.get)
	if err == nil {
		err = e.mayRead(s, have)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// newSessionWith sends more after the settings, and returns the last value.
func (e *Engine) newSessionWith(ctx context.Context, more string) (s *session, last string, err error) {
	w, err := e.connect(ctx)
	if err != nil {
		return nil, "", err
	}
	s = &session{wire: w}
	settings := sqlSettings
	if e.config.Lazy {
		settings = sqlSettingsNormal
	}
	if e.config.Mover {
		settings += sqlSettingMover
	}
	ctx, cancel := patient(ctx, commitPatience)
	defer cancel()
	if last, err = e.clock.begin(ctx, w, settings+e.register()+more); err != nil {
		return nil, "", errors.Join(err, s.close())
	}
	return s, last, nil
}

// connect returns a connection to the primary. If the server has none left, it waits for one, for
// as long as for a primary, and closes the idle ones of this handle: it may have all that there
// are.
func (e *Engine) connect(ctx context.Context) (*wire, error) {
	began := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		w, err := e.scout.connect(ctx)
		if state(err) != "53300" || time.Since(began) > e.patience {
			return w, err
		}
		for _, pool := range []*sessions{e.readers, e.writers} {
			if pool != nil {
				pool.renew()
			}
		}
		if !engine.Pause(ctx, wait) {
			return nil, err
		}
	}
}

// within makes the session's statements end with ctx, until the returned function is called.
func (s *session) within(ctx context.Context) (without func()) {
	s.wire.ctx = ctx
	return func() { s.wire.ctx = background }
}

// newWriter is newSession for a session that writes: it has a row in sessions. The first of a handle
// deletes the rows that were unused for a day.
func (e *Engine) newWriter(ctx context.Context) (*session, error) {
	s, number, err := e.newSessionWith(ctx, sqlBeginSession)
	if err != nil {
		return nil, err
	}
	s.seen = e.clock.now() - commitPatience // which the message took at most
	if s.row, err = strconv.ParseInt(number, 10, 64); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if !e.swept.CompareAndSwap(false, true) {
		return s, nil
	}
	ctx, cancel := patient(ctx, commitPatience)
	defer cancel()
	defer s.within(ctx)()
	if _, err = s.exec(sqlOldSessions); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// mostOutcomes is how many transactions write into one row. Each leaves a dead version of it, and beside
// a reader that stays every change of the row goes through all of them.
const mostOutcomes = 500

// renewRow gives the session another row after mostOutcomes transactions. The outcome of its last
// transaction must be known.
func (s *session) renewRow(ctx context.Context) error {
	if s.outcome-s.fresh < mostOutcomes {
		return nil
	}
	defer s.within(ctx)()
	old := s.row
	err := s.get(&s.row, sqlAddSession)
	if err == nil {
		s.fresh = s.outcome
		_, err = s.exec(sqlDropSession, old)
	}
	return err
}

// resign deletes the session's row and closes the session.
func (s *session) resign() error {
	if s.row != 0 && !s.broken() {
		ctx, cancel := patient(background, closePatience)
		defer cancel()
		defer s.within(ctx)()
		_, _ = s.exec(sqlDropSession, s.row) // a row that stays is deleted after a day
	}
	return s.close()
}

func (s *session) close() error { return s.wire.Close() }

// broken reports whether the connection can't be used any more.
func (s *session) broken() bool {
	return s.wire.conn.IsClosed() || s.wire.line.ended.Load() || s.wire.left == nil &&
		s.wire.conn.TxStatus() != 'I'
}

// A spare is a session of its own for work in the background: opened when it is needed, and again
// after it was lost.
type spare struct{ *session }

// get returns the session. It calls open unless there is one that works.
func (p *spare) get(ctx context.Context, open func(context.Context) (*session, error)) (*session, error) {
	if p.session != nil && !p.broken() {
		return p.session, nil
	}
	p.close()
	s, err := open(ctx)
	if err == nil {
		p.session = s
	}
	return s, err
}

func (p *spare) close() {
	if p.session != nil {
		_ = p.session.close()
		p.session = nil
	}
}

// during runs fn as a call with a session of its own, whose statements end with the context. A read's
// context ends with Interrupt, too.
func (e *Engine) during(ctx context.Context, why string, write bool,
	fn func(context.Context, *session) error,
) (err error) {
	one, within, err := e.calls.begin(ctx, why, write)
	if err != nil {
		return err
	}
	defer e.calls.over(one)
	s, err := e.newSession(within)
	if err != nil {
		return failure(err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	s.wire.ctx = within
	s.wire.mayDial(true)
	return failure(fn(within, s))
}

// exec runs a statement of ours.
func (s *session) exec(query string, args ...any) (int64, error) {
	return s.wire.exec(query, args)
}

func (s *session) get(dest any, query string, args ...any) error {
	found, err := s.found(query, args)
	if err != nil {
		return err
	}
	return scan.One(&found, dest)
}

func (s *session) all(dest any, query string, args ...any) error {
	found, err := s.found(query, args)
	if err != nil {
		return err
	}
	return scan.All(&found, dest)
}

// sessionKept is how long an idle session keeps its row: well under the day after which others
// delete it.
const sessionKept = 12 * time.Hour

// sessions is a pool of sessions, opened as they are needed.
type sessions struct {
	open   func(context.Context) (*session, error)
	places chan struct{} // one for each that may be open

	mu   sync.Mutex
	idle []*session
}

func newSessions(size int, open func(context.Context) (*session, error)) *sessions {
	p := &sessions{open: open, places: make(chan struct{}, size)}
	for range size {
		p.places <- struct{}{}
	}
	return p
}

// acquire returns an unused session.
func (p *sessions) acquire(ctx context.Context) (*session, error) {
	select {
	case <-p.places:
	default:
		select {
		case <-p.places:
		case <-ctx.Done():
			return nil, waitEnded(ctx, "all connections of this handle")
		}
	}
	for {
		s := p.take()
		if s == nil {
			break
		}
		if s.wire.collect(ctx) == nil && !s.broken() && time.Since(s.used) < sessionKept {
			return s, nil
		}
		_ = s.close() // it was lost while idle
		if ctx.Err() != nil {
			break // another would have no time to answer either
		}
	}
	s, err := p.open(ctx)
	if err != nil {
		p.places <- struct{}{}
		return nil, err
	}
	return s, nil
}

// take returns the session that was used last.
func (p *sessions) take() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	s := p.idle[last]
	p.idle = p.idle[:last]
	return s
}

// release puts a session back, or closes a broken one. A call whose context ended does not wait for that.
func (p *sessions) release(s *session) {
	s.wire.answers = answers{} // of a transaction that is over
	s.wire.old, s.wire.usedOld = s.wire.made, false
	if s.broken() {
		go func() {
			_ = s.close()
			p.places <- struct{}{}
		}()
		return
	}
	defer func() { p.places <- struct{}{} }()
	s.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, s)
}

// renew closes the idle sessions: after one was lost the others most likely are too.
func (p *sessions) renew() {
	for s := p.take(); s != nil; s = p.take() {
		_ = s.close()
	}
}

// close waits for the sessions in use, and closes all.
func (p *sessions) close() error {
	for range cap(p.places) {
		<-p.places
	}
	var goodbyes []func() error
	for s := p.take(); s != nil; s = p.take() {
		goodbyes = append(goodbyes, s.resign)
	}
	return together(goodbyes)
}

var errLeftOpen = fmt.Errorf("%w: rows were still being read when the function returned", engine.ErrInvalid)
