package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
)

// A COMMIT whose answer did not come may have happened, and still may. Each transaction writes a
// number of its own into its session's row, in the message that commits it. A caller that lost
// the answer changes that row over another connection. The change waits for the transaction's
// lock while the transaction is under way, also on a server that waits for its standbys, and then
// finds the number or does not. A replaced server can't commit the change, so it settles nothing.
// The server undoes a transaction whose message was cut short, at the latest after it has been
// idle for 30 s. A new primary without the row was elected before the row reached it, and so has
// nothing that was done after it either.

// sqlSettle reads the session's number, and ends the session: while the number is below 0, none
// of its transactions commits. A message that is still on its way then comes too late, even one
// that begins its transaction only when it arrives. The commit of sqlSettle waits for the
// standbys, whatever other settings there are.
const sqlSettle = `SET lock_timeout = '10s'; ` + sqlSettings + `; UPDATE sessions
	SET outcome = least(outcome, -outcome - 1), seen = server_nanos() WHERE id = %d
RETURNING -outcome - 1; SELECT server_nanos()`

const (
	// sqlKeepOutcome writes the transaction's number into its session's row. It fails with a text
	// of ours if the row is missing, or was settled. The text depends on a count, so that the
	// server does not evaluate it while it plans.
	sqlKeepOutcome = `WITH kept AS (` + sqlSetOutcome +
		` RETURNING 1) SELECT CASE count(*) WHEN 1 THEN 1 ELSE ` + sqlSettled + ` END FROM kept`
	sqlSetOutcome = `UPDATE sessions SET outcome = ?, seen = server_nanos() WHERE id = ? AND outcome >= 0`
	// sqlOnlyChange is sqlKeepOutcome after the only change of a transaction, if that changed
	// something. It counts the changed rows.
	sqlOnlyChange = `WITH changed AS (%s RETURNING 1), kept AS (` + sqlSetOutcome + ` AND EXISTS (SELECT 1
	FROM changed) RETURNING 1)
SELECT count(*), CASE WHEN count(*) > 0 AND NOT EXISTS (SELECT 1 FROM kept)
	THEN ` + sqlSettled + ` END FROM changed`
	sqlSettled = `CAST('` + settledText + `' || count(*) AS BIGINT)`
	// settledText is in that error's message, whatever the server's language.
	settledText = "selvedge: the session was settled "
)

// A change is the only one of a transaction: it is sent with the commit.
type change struct {
	query string
	args  []any
}

// commit commits the session's transaction, in one message with the queued statements and with
// the only change, if there is one. again is set if the commit did not happen for a reason that
// may pass; err is nil only if it is known to have happened. changed is how many rows the only
// change changed: if it is 0, nothing was committed.
func (e *Engine) commit(s *session, only *change) (changed int64, again, err error) {
	s.outcome++
	w, began := s.wire, e.clock.now()
	ctx, over := e.committing(s)
	defer over()
	query, args := sqlKeepOutcome, []any(nil)
	if only != nil {
		query, args = fmt.Sprintf(sqlOnlyChange, only.query), only.args
	}
	if err := w.put(ctx, query, append(slices.Clip(args), s.outcome, s.row)); err != nil {
		return 0, err, failure(err) // nothing was sent to commit it
	}
	w.warned = nil
	kept := len(w.ahead) - 1 // the index of the statement that writes the number
	all, done := slices.Concat(w.ahead, w.ending("COMMIT")), "COMMIT"
	at := kept + 1 // the index of the statement whose tag says that it is done
	if only != nil && w.unbegun() && !slices.ContainsFunc(w.ahead[1:], bound.isControl) {
		// one message is one transaction, READ COMMITTED, without BEGIN and COMMIT
		all, done, kept, at = w.ahead[1:], "SELECT 1", kept-1, kept-1
	}
	w.ahead = nil
	answers, err := w.exchange(ctx, all)
	committed := done == "COMMIT" && len(answers) > at // what failed came after it
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && !committed &&
		refused.SeverityUnlocalized == "ERROR" {
		switch {
		// or its row was taken away after a day; the next one has a row of its own
		case strings.Contains(refused.Message, settledText):
			_ = w.Close()
			err = fmt.Errorf("%w: the session's row is gone (%w)", errConnection, err)
		case isStale(err):
			_ = w.Close() // see after
		}
		err = fmt.Errorf("commit: %w", err)
		return 0, err, failure(err)
	}
	if err == nil && len(answers) == len(all) {
		// A warning means that the wait for the standbys was given up: the server has the commit,
		// and perhaps no standby has it.
		switch tag := answers[at].tag; {
		case tag == "ROLLBACK":
			return 0, nil, errors.New("commit: the server undid the transaction")
		case tag == done && w.warned == nil:
			if only != nil {
				changed = int64(binary.BigEndian.Uint64(answers[kept].row[0]))
			}
			if only == nil || changed > 0 {
				s.seen = began
			}
			return changed, nil, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("the server answers COMMIT with %v", answers)
	}
	if w.warned != nil {
		err = fmt.Errorf("the server warns: %s (%s)", w.warned.Message, w.warned.Code)
	}
	_ = w.Close() // the next transaction must not get the rest of the answer
	happened, failed := e.settle(s)
	switch {
	case failed != nil:
		return 0, nil, unknown(fmt.Errorf("%w (and asking whether it happened: %w)", err, failed))
	case happened:
		return 1, nil, nil // an only change writes its number if it changed something
	}
	err = fmt.Errorf("commit: it did not happen: %w (%w)", errConnection, err)
	return 0, err, failure(err)
}

// afterwards calls look when a commit message has had no answer for a while. Tests delay it.
var afterwards = time.AfterFunc

// committing returns the context of a commit message. It ends when no answer comes and the server
// does not work on the message: one that waits for a lock, or has much to do, is not cut off.
func (e *Engine) committing(s *session) (ctx context.Context, over func()) {
	ctx, end := context.WithCancelCause(background)
	var look func()
	look = func() {
		if ctx.Err() == nil && e.works(ctx, s) {
			afterwards(commitPatience, look)
			return
		}
		end(errSilent)
	}
	clock := afterwards(commitPatience, look)
	return ctx, func() {
		clock.Stop()
		end(nil)
	}
}

// sqlWorks finds a server's process that is running a statement, and neither waits for more of
// the message, nor to send the answer, nor for standbys. One that waits for standbys has
// committed the transaction, and sqlSettle decides whether that is enough.
const sqlWorks = `SELECT 1 FROM pg_stat_activity WHERE pid = %d AND state = 'active'
	AND wait_event_type IS DISTINCT FROM 'Client' AND wait_event IS DISTINCT FROM 'SyncRep'`

// works reports whether the server is at the session's message still.
func (e *Engine) works(ctx context.Context, s *session) bool {
	ctx, cancel := patient(ctx, commitPatience)
	defer cancel()
	w, err := e.scout.connect(ctx)
	if err != nil {
		return false
	}
	defer w.Close() //nolint:errcheck // the answer is read
	results, err := w.conn.Exec(ctx, fmt.Sprintf(sqlWorks, s.wire.conn.PID())).ReadAll()
	return err == nil && len(results[0].Rows) == 1
}

// settle reports whether the last transaction of a session was committed. Once patience has ended
// it asks once more: this process may have been stopped while it waited.
func (e *Engine) settle(s *session) (happened bool, err error) {
	began := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		last := time.Since(began) >= e.patience
		if happened, err = e.trySettle(s); err == nil || last || errors.Is(err, errRowGone) {
			return happened, err
		}
		engine.Pause(background, wait)
	}
}

var errRowGone = errors.New("the row of the session is gone")

func (e *Engine) trySettle(s *session) (happened bool, err error) {
	ctx, cancel := context.WithTimeout(background, commitPatience)
	defer cancel()
	w, err := e.scout.connect(ctx)
	if err != nil {
		return false, err
	}
	defer w.Close() //nolint:errcheck // the answer is read
	results, err := w.conn.Exec(ctx, fmt.Sprintf(sqlSettle, s.row)).ReadAll()
	switch {
	case err != nil:
		return false, err
	case w.warned != nil:
		return false, fmt.Errorf("the server warns: %s (%s)", w.warned.Message, w.warned.Code)
	}
	number := func(r *pgconn.Result) (n int64, found bool) {
		if len(r.Rows) == 1 {
			n, err = strconv.ParseInt(string(r.Rows[0][0]), 10, 64)
		}
		return n, len(r.Rows) == 1
	}
	now, _ := number(results[3])
	outcome, found := number(results[2])
	switch {
	case err != nil:
		return false, err
	case !found && time.Duration(now)-s.seen >= sessionKept: // others may have taken it away
		return false, errRowGone
	}
	return found && outcome == s.outcome, nil
}
