package agents

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// A configError speaks as the original's configuration errors do, and is one of the db package's sentinels.
type configError struct {
	text string
	is   error
}

func (e *configError) Error() string { return "configuration error: " + e.text }

func (e *configError) Unwrap() error { return e.is }

func invalid(format string, args ...any) error {
	return &configError{text: fmt.Sprintf(format, args...), is: db.ErrInvalid}
}

// GenerateID makes an id that nobody else has: "agent-" and twenty characters of a to z and 2 to 7, 96 random bits.
func GenerateID() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand
	encoded := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return "agent-" + strings.ToLower(encoded)
}

// checkID refuses what can't be an agent's id.
func checkID(id string) error {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if id == "" || strings.ContainsFunc(id, bad) {
		return invalid("invalid session ID '%s': only lowercase alphanumeric and hyphens allowed", id)
	}
	return nil
}

// check refuses an entry that can't be stored, or that the original could not read again.
func (e *Entry) check() error {
	if err := checkID(e.SessionID); err != nil {
		return err
	}
	if err := db.CheckID("agent", e.SessionID); err != nil {
		return err
	}
	if err := e.Status.check(e.SessionID); err != nil {
		return err
	}
	fields := e.fields()
	for i := range e.ContextQueries {
		fields = append(fields, e.ContextQueries[i].fields()...)
	}
	for _, f := range fields {
		if !f.writable() {
			return invalid("agent %s: %s is not valid UTF-8, or a year beyond 262142", e.SessionID, f.name)
		}
	}
	return nil
}

func (s Status) check(id string) error {
	if !s.known() {
		return invalid("agent %s: status %q is none of active, abandoned, complete, merged", id, s)
	}
	return nil
}

func (f field) writable() bool {
	switch v := f.holds.(type) {
	case *string:
		return utf8.ValidString(*v)
	case **string:
		return *v == nil || utf8.ValidString(**v)
	case *[]string:
		return utf8.ValidString(strings.Join(*v, ""))
	}
	if t := f.time(); t != nil {
		return chrono.InRange(*t)
	}
	return true
}
