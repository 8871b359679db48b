package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
)

// unreached is the error of a host to which no connection could be made. pgconn's own error has a
// line for every way that it tried.
type unreached struct {
	host string
	err  error
}

// Error names the host and lists each reason once, in one line.
func (u *unreached) Error() string {
	if e, ok := errors.AsType[*pgconn.PgError](u.err); ok {
		return "the server at " + u.host + " says: " + e.Error()
	}
	what := "no server answers at "
	if u.withoutTLS() {
		what = "no TLS with the server at "
	}
	return what + u.host + ": " + strings.Join(slices.Compact(reasons(u.err)), "; ")
}

// withoutTLS reports whether the server is there, and one end refused the other's TLS.
func (u *unreached) withoutTLS() bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](u.err)
	_, alert := errors.AsType[tls.AlertError](u.err)
	// as pgconn has it
	return certificate || alert || slices.Contains(reasons(u.err), "server refused TLS connection")
}

// Unwrap returns pgconn's error.
func (u *unreached) Unwrap() error { return u.err }

// reasons are the innermost errors of err.
func reasons(err error) []string {
	switch e := err.(type) { //nolint:errorlint // the loop unwraps it
	case interface{ Unwrap() []error }:
		var all []string
		for _, one := range e.Unwrap() {
			all = append(all, reasons(one)...)
		}
		return all
	case *net.DNSError:
		return []string{e.Error()}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return reasons(inner)
		}
	}
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // the outermost error
		return []string{"it is silent"}
	}
	return []string{err.Error()}
}

// unreachedErrors are the errors of all hosts.
type unreachedErrors []error

// Error lists the errors in one line.
func (u unreachedErrors) Error() string {
	var all []string
	for _, err := range u {
		all = append(all, err.Error())
	}
	slices.Sort(all) // they come in any order
	return strings.Join(all, "; ")
}

// Unwrap returns the errors.
func (u unreachedErrors) Unwrap() []error { return u }

// notReached is the error of a connection to a host that failed.
func notReached(ctx context.Context, host string, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errSilent) {
		return engine.Failf(engine.ErrBusy, "see that the server runs, or give it more time",
			"waiting for the server at %s: %w", host, cause)
	}
	return &unreached{host, err}
}
