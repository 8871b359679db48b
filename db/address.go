package db

import (
	"fmt"
	"net/url"
	"strings"
)

// IsAddress reports whether a path is the address of a PostgreSQL server, postgres://… or
// postgresql://… in letters of any case. Such a path is never taken for a file's name.
func IsAddress(path string) bool {
	scheme, _, found := strings.Cut(path, "://")
	return found && (strings.EqualFold(scheme, "postgres") || strings.EqualFold(scheme, "postgresql"))
}

// unread is what stands behind the scheme of an address that can't be read.
const unread = "://…"

// readable refuses an address that can't be read for certain: part of a password might be taken for
// the name of a host or a database, which others are told.
func readable(address string) error {
	if safe, _ := WithoutSecrets(address); strings.HasSuffix(safe, unread) {
		return fmt.Errorf("%w: the address of the server: write @ / ? # and %% in a name or a password as %%40 "+
			"%%2F %%3F %%23 and %%25", ErrInvalid)
	}
	return nil
}

// WithoutSecrets gives the address of a server without the passwords in it, and reports whether it
// has any: before the @, or as the settings password and sslpassword. Where an address can't be
// read a password may be what makes it so: then it has one, and nothing is left of it but its
// scheme. A path that is no address is given back.
func WithoutSecrets(address string) (safe string, secret bool) {
	if !IsAddress(address) {
		return address, false
	}
	scheme, rest, _ := strings.Cut(address, "://")
	unreadable := scheme + unread
	// of the server, with the user before it. Where that has two @, some take the first for its end
	// and some the last
	place := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		place = rest[:end]
	}
	u, err := url.Parse(address)
	// of a password with a #, a / or a ? in it
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
