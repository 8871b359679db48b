package engine

import (
	"fmt"
	"net/url"
	"strings"
)

// IsAddress reports whether a path is the address of a PostgreSQL server: postgres://… or
// postgresql://…, in any case. Such a path is never a file name.
func IsAddress(path string) bool {
	scheme, _, found := strings.Cut(path, "://")
	return found && (strings.EqualFold(scheme, "postgres") || strings.EqualFold(scheme, "postgresql"))
}

// unread replaces what follows the scheme of an address that can't be parsed.
const unread = "://…"

// Readable rejects an address that can't be parsed with certainty: part of a password might be
// taken for a host or a database name, which errors show.
func Readable(address string) error {
	if safe, _ := WithoutSecrets(address); strings.HasSuffix(safe, unread) {
		return fmt.Errorf("%w: the address of the server: write @ / ? # and %% in a name or a password as %%40 "+
			"%%2F %%3F %%23 and %%25", ErrInvalid)
	}
	return nil
}

// WithoutSecrets returns the address of a server without its passwords, and reports whether it had
// any: before the @, or as the settings password and sslpassword. If the address can't be parsed, a
// password may be the reason; then it reports one and returns only the scheme. A path that is no
// address is returned unchanged.
func WithoutSecrets(address string) (safe string, secret bool) {
	if !IsAddress(address) {
		return address, false
	}
	scheme, rest, _ := strings.Cut(address, "://")
	unreadable := scheme + unread
	// the server, with the user before it; if it has two @, parsers disagree on which one ends the
	// user
	place := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		place = rest[:end]
	}
	u, err := url.Parse(address)
	// a password may contain #, / or ?
	if err != nil || strings.Count(place, "@") > 1 || u.Fragment != "" ||
		strings.Contains(u.EscapedPath(), "@") {
		return unreadable, true
	}
	if _, secret = u.User.Password(); secret {
		u.User = url.User(u.User.Username())
	}
	var kept []string
	for setting := range strings.SplitSeq(u.RawQuery, "&") {
		key, _, _ := strings.Cut(setting, "=")
		name, err := url.QueryUnescape(key)
		switch {
		case err != nil || strings.Contains(key, "@"):
			return unreadable, true
		case strings.EqualFold(name, "password"), strings.EqualFold(name, "sslpassword"):
			secret = true
		default:
			kept = append(kept, setting)
		}
	}
	if !secret {
		return address, false
	}
	u.RawQuery = strings.Join(kept, "&")
	return u.String(), true
}
