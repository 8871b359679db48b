package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/callback"
	"selvedge/internal/engine"
)

// state is the SQLSTATE in err's chain, or "" (postgresql.org/docs/15/errcodes-appendix.html).
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// sqlstateTooLong ends the connection of a transaction that took longer than transaction_timeout, which
// it would take again.
const sqlstateTooLong = "25P04"

// isLost reports whether the connection is gone, or the server refuses to continue with it. An
// uncommitted transaction then never commits.
func isLost(err error) bool {
	switch {
	case state(err) == sqlstateTooLong:
		return false
	case errors.Is(err, errConnection):
		return true
	}
	if _, ended := errors.AsType[*interruption](err); ended {
		return false
	}
	if _, gone := errors.AsType[*callback.GoneError](err); gone {
		return false
	}
	switch s := state(err); {
	// shut down, crashed, starting, idle for too long
	case s == "57P01", s == "57P02", s == "57P03", s == "57P05", s == "25P03", strings.HasPrefix(s, "08"):
		return true
	case s == "0A000" && strings.Contains(err.Error(), "standby"): // it became a standby
		return true
	case s != "":
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	return refused || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}

// isRefused reports whether the server answered a question of ours with a refusal, and goes on.
func isRefused(err error) bool {
	_, unreached := errors.AsType[*unreached](err)
	return state(err) != "" && !unreached && !isLost(err)
}

// errConnection stands for an error of pgconn that has no type: the connection was already
// closed.
var errConnection = errors.New("the connection to the server is closed")

// errSilent is the cause of giving up a statement of ours: the server does not answer, though its
// host may.
var errSilent = fmt.Errorf("%w: no answer came in time", errConnection)

// patient returns the context for a statement of ours that waits for no lock.
func patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errSilent)
}

// An interruption is the error of a statement that its context ended. It keeps such an end apart
// from a failure of the network, since context.DeadlineExceeded is a net.Error too.
type interruption struct{ cause error }

// Error returns the cause.
func (i *interruption) Error() string { return "interrupted: " + i.cause.Error() }

// Unwrap returns the cause.
func (i *interruption) Unwrap() error { return i.cause }

// isBeaten reports whether the transaction lost against another one, and may succeed in a retry.
func isBeaten(err error) bool {
	s := state(err)
	return s == "40001" || s == "40P01"
}

// contested names the key of a violated UNIQUE or foreign key; "" for other errors.
func contested(err error) string {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != "23505" && e.Code != "23503" {
		return ""
	}
	return e.ConstraintName + " " + e.Detail
}

// isStale reports whether a prepared statement no longer fits its tables, which have changed
// since.
func isStale(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	// its message is in the server's language
	return errors.Is(err, errStale) || ok && e.Code == "0A000" && e.Routine == "RevalidateCachedQuery"
}

var errStale = errors.New("something that a prepared statement uses was made anew")

// isOutdated reports whether a type, function or operator is missing, as for a statement that was prepared
// before one of its own was dropped and made anew.
func isOutdated(err error) bool {
	s := state(err)
	return s == "42883" || s == "42804" || s == "XX000" && strings.Contains(err.Error(), "cache lookup failed")
}

// failure classifies an error of the server or of the connection. Other errors, and failures, pass
// as they are.
func failure(err error) error {
	if err == nil || err == engine.ErrNotFound { //nolint:errorlint // the engine returns it unwrapped
		return err
	}
	if _, said := errors.AsType[*engine.Failure](err); said {
		return err
	}
	s := state(err)
	hint, kind := kindOf(s)
	lost := isLost(err)
	u, _ := errors.AsType[*unreached](err)
	switch {
	case u != nil && u.withoutTLS():
		kind, hint = engine.ErrIO, "see sslmode, sslrootcert and sslcert of the address, and the server's "+
			"certificate; nothing was changed"
	case errors.Is(err, errStandby):
		kind, hint = engine.ErrIO, "standbys are not asked: name the primary, or all hosts of its cluster; "+
			"nothing was changed"
	case lost:
		kind, hint = engine.ErrIO, "the server does not answer, or is not the primary: see that it runs; "+
			"nothing was changed"
	}
	if s == "" && !lost {
		return err
	}
	code, _ := strconv.ParseInt(s, 36, 32)
	return &engine.Failure{
		Kind: kind, Constraint: constraint(s), Code: int(code), Statement: blame(err),
		Hint: hint, Err: err,
	}
}

// kindOf is the sentinel that a SQLSTATE belongs to, or nil.
func kindOf(s string) (hint string, kind error) {
	switch {
	case s == "40001", s == "40P01", s == "55P03":
		return "other transactions change the same rows: try again", engine.ErrBusy
	case s == "57014":
		return "the server ended the statement: somebody cancelled it, or it took longer than the " +
			"statement_timeout of the role or the database, which the address may set otherwise " +
			"(?statement_timeout=0)", engine.ErrBusy
	case s == sqlstateTooLong:
		return "the transaction took longer than the transaction_timeout of the role or the database, which " +
			"the address may set otherwise (?transaction_timeout=0); nothing was changed", engine.ErrBusy
	case s == "53300":
		return "the server has no connection left: raise max_connections, or have fewer handles open",
			engine.ErrBusy
	case s == "53100":
		return "nothing was changed; free space on the server's disk, and repeat the call", engine.ErrFull
	case strings.HasPrefix(s, "XX"):
		return "look at the server's log; pg_amcheck tells what is damaged", engine.ErrCorrupt
	case s == "58030":
		return "the server's disk or file system fails: look at its log", engine.ErrIO
	case s == "25006":
		return "use Write: a function that reads changes nothing", engine.ErrInvalid
	case s == "22021", s == "22P05":
		return "text is UTF-8 without NUL", engine.ErrInvalid
	case s == sqlstateShut:
		return "open it again: the error says where it is then", engine.ErrMoved
	case s == sqlstateTooOld:
		return "use a newer release of the program; nothing was changed", engine.ErrSchemaTooNew
	case s == "3D000":
		return "make the database first: createdb NAME", engine.ErrNotFound
	// a prepared statement of another client, or on another connection
	case s == "42P05", s == "26000":
		return hintPooler, engine.ErrUnsupported
	case s == "42501":
		return "the user lacks a right: have the owner GRANT it, or do this as the owner; docs/tenants.md has " +
			"the rights that programs need", nil
	case strings.HasPrefix(s, "28"):
		return "the server refuses this user or password: see its pg_hba.conf, and $PGPASSFILE", nil
	}
	return "", nil
}

const hintPooler = "each transaction goes over another connection: have the pooler in between give one for " +
	"as long as a client is connected (PgBouncer: pool_mode = session, server_reset_query = DISCARD ALL)"

func constraint(s string) engine.Constraint {
	switch {
	case s == "23505", s == "23P01":
		return engine.Unique
	case strings.HasPrefix(s, "23"), s == "P0001": // and what a trigger raises
		return engine.OtherConstraint
	}
	return engine.NoConstraint
}

// waitEnded returns the error of a caller whose context ended while it waited for what.
func waitEnded(ctx context.Context, what string) error {
	return engine.Failf(engine.ErrBusy,
		"other callers hold "+what+"; try again, or give the call more time", "waiting for %s: %w",
		what, context.Cause(ctx))
}

// unknown is the error of a commit whose outcome can't be settled.
func unknown(err error) error {
	return engine.Failf(engine.ErrOutcomeUnknown, "no primary answered since the commit was cut: when "+
		"one does, look for the change, or repeat the call with the batch of this error", "commit: %w",
		err)
}

// Unsupported returns the error for a call that only files support.
func Unsupported(what, hint string) error {
	return engine.Failf(engine.ErrUnsupported, hint, "a PostgreSQL server has no %s of ours", what)
}
