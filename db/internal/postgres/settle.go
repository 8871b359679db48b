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

	"selvedge/db/internal/engine"
)

// A COMMIT whose answer did not come may have happened, and may still. Each transaction writes a number of its own into its
// session's row, in the message that commits it. Who lost the answer changes that row over another connection: the change waits
// for the lock that the transaction has for as long as it is under way, on a server that waits for its standbys too, and then
// finds the number or does not. A server that was replaced by another one can't commit the change, so it settles nothing. What
// was never sent to the end is undone by the server, at the latest when it has been idle for 30 s. A new primary that does not have
// the row was replaced before it came there, and so has nothing either of what was done after that.

// sqlSettle asks for the session's number, and ends the session: below 0 no transaction of it is committed any more. A message that is
// still on its way then comes too late, also one that begins its transaction only where it arrives. Its own commit waits for the
// standbys, whatever is said elsewhere.
const sqlSettle = `SET lock_timeout = '10s'; ` + sqlSettings + `; UPDATE sessions SET outcome = least(outcome, -outcome - 1), seen = server_nanos() WHERE id = %d
RETURNING -outcome - 1`

const (
	// sqlKeepOutcome writes the transaction's number into its session's row, and fails with a text of ours where that is not there, or
	// was settled. The text hangs on a count, so that the server does not try while it plans.
	sqlKeepOutcome = `WITH kept AS (` + sqlSetOutcome + ` RETURNING 1) SELECT CASE count(*) WHEN 1 THEN 1 ELSE ` + sqlSettled + ` END FROM kept`
	sqlSetOutcome  = `UPDATE sessions SET outcome = ?, seen = server_nanos() WHERE id = ? AND outcome >= 0`
	// sqlOnlyChange is that behind the one change of a transaction, where it changed something, and counts what it changed.
	sqlOnlyChange = `WITH changed AS (%s RETURNING 1), kept AS (` + sqlSetOutcome + ` AND EXISTS (SELECT 1 FROM changed) RETURNING 1)
SELECT count(*), CASE WHEN count(*) > 0 AND NOT EXISTS (SELECT 1 FROM kept) THEN ` + sqlSettled + ` END FROM changed`
	sqlSettled = `CAST('` + settledText + `' || count(*) AS BIGINT)`
	// settledText is in that error's message, whatever the server's language.
	settledText = "selvedge: the session was settled "
)

// A change is the only one of a transaction: it is sent with the commit.
type change struct {
	query string
	args  []any
}

// commit commits the session's transaction, in one message with what was to go ahead and with the only change, where there is one.
// again is set where it did not happen for a reason that may pass; err is nil only where it is known to have happened. changed is how
// many rows the only change changed: where it is 0, nothing was.
func (e *Engine) commit(s *session, only *change) (changed int64, again, err error) {
	s.outcome++
	w, began := s.wire, time.Now()
	ctx, cancel := patient(background, commitPatience)
	defer cancel()
	query, args := sqlKeepOutcome, []any(nil)
	if only != nil {
		query, args = fmt.Sprintf(sqlOnlyChange, only.query), only.args
	}
	if err := w.put(ctx, query, append(slices.Clip(args), s.outcome, s.row)); err != nil {
		return 0, err, failure(err) // nothing was sent to commit it
	}
	w.warned = nil
	kept := len(w.ahead) - 1 // where the statement is that keeps the number
	all, done := slices.Concat(w.ahead, []bound{control("COMMIT")}), "COMMIT"
	if only != nil && w.unbegun() && !slices.ContainsFunc(w.ahead[1:], bound.isControl) {
		all, done, kept = w.ahead[1:], "SELECT 1", kept-1 // what is sent together is one transaction, READ COMMITTED, without BEGIN and COMMIT
	}
	w.ahead = nil
	answers, err := w.exchange(ctx, all)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.SeverityUnlocalized == "ERROR" {
		if strings.Contains(refused.Message, settledText) { // or its row was taken away after a day; the next one has a row of its own
			_ = w.Close()
			err = fmt.Errorf("%w: the session's row is gone (%w)", errConnection, err)
		}
		err = fmt.Errorf("commit: %w", err)
		return 0, err, failure(err)
	}
	if err == nil && len(answers) == len(all) {
		// A warning says that the wait for the standbys was given up: the server has it, and perhaps nobody else.
		switch tag := answers[len(all)-1].tag; {
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
	_ = w.Close() // what was left of it would come to the next transaction
	happened, failed := e.settle(s)
	switch {
	case failed != nil:
		return 0, nil, unknown(fmt.Errorf("%w (and asking whether it happened: %w)", err, failed))
	case happened:
		return 1, nil, nil // an only change writes its number where it changed something
	}
	err = fmt.Errorf("commit: it did not happen: %w (%w)", errConnection, err)
	return 0, err, failure(err)
}

// settle says whether the last transaction of a session was committed.
func (e *Engine) settle(s *session) (happened bool, err error) {
	ctx, cancel := context.WithTimeout(background, e.patience)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		var found bool
		if happened, found, err = e.trySettle(ctx, s.row, s.outcome); err == nil {
			if !found && time.Since(s.seen) >= sessionKept { // others may have taken it away
				return false, errors.New("the row of the session is gone")
			}
			return happened, nil
		}
		if !engine.Pause(ctx, wait) {
			return false, err
		}
	}
}

func (e *Engine) trySettle(ctx context.Context, row, outcome int64) (happened, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	w, err := e.scout.connect(ctx)
	if err != nil {
		return false, false, err
	}
	defer w.Close() //nolint:errcheck // what it said is told
	results, err := w.conn.Exec(ctx, fmt.Sprintf(sqlSettle, row)).ReadAll()
	switch {
	case err != nil:
		return false, false, err
	case w.warned != nil:
		return false, false, fmt.Errorf("the server warns: %s (%s)", w.warned.Message, w.warned.Code)
	case len(results) != 3 || len(results[2].Rows) == 0:
		return false, false, nil
	}
	got, err := strconv.ParseInt(string(results[2].Rows[0][0]), 10, 64)
	return got == outcome, true, err
}
