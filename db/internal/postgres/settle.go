package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

// sqlSettle asks for the session's row. Its own commit waits for the standbys, whatever is said elsewhere.
const sqlSettle = `SET lock_timeout = '10s'; ` + sqlSettings + `; UPDATE sessions SET seen = server_nanos() WHERE id = %d RETURNING outcome`

// commit commits the session's transaction. again is set where it did not happen for a reason that may pass; err is nil only
// where it is known to have happened.
func (e *Engine) commit(s *session) (again, err error) {
	s.outcome++
	w, began := s.wire, time.Now()
	w.warned = nil
	ctx, cancel := patient(background, commitPatience)
	defer cancel()
	tags, err := w.simple(ctx, fmt.Sprintf("UPDATE sessions SET outcome = %d, seen = server_nanos() WHERE id = %d; COMMIT", s.outcome, s.row))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.SeverityUnlocalized == "ERROR" {
		err = fmt.Errorf("commit: %w", err)
		return err, failure(err)
	}
	if err == nil && len(tags) == 2 && tags[1] == "ROLLBACK" {
		return nil, errors.New("commit: the server undid the transaction")
	}
	// A warning says that the wait for the standbys was given up: the server has it, and perhaps nobody else.
	if err == nil && len(tags) == 2 && tags[1] == "COMMIT" && w.warned == nil {
		if tags[0] != "UPDATE 1" {
			_ = s.wire.Close() // its row was taken away after a day; the next one has a row of its own
		}
		s.seen = began
		return nil, nil
	}
	if err == nil {
		err = fmt.Errorf("the server answers COMMIT with %q", tags)
	}
	if w.warned != nil {
		err = fmt.Errorf("the server warns: %s (%s)", w.warned.Message, w.warned.Code)
	}
	_ = w.Close() // what was left of it would come to the next transaction
	happened, failed := e.settle(s)
	switch {
	case failed != nil:
		return nil, unknown(fmt.Errorf("%w (and asking whether it happened: %w)", err, failed))
	case happened:
		return nil, nil
	}
	err = fmt.Errorf("commit: it did not happen: %w (%w)", errConnection, err)
	return err, failure(err)
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
