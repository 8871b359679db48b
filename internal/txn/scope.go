package txn

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxID is the longest id, or scope name, in bytes.
const MaxID = 1024

// CheckID returns ErrInvalid, with the reason, for an invalid id. An id is any valid UTF-8 of at
// most MaxID bytes without NUL.
func CheckID(entity, id string) error {
	var why string
	switch {
	case len(id) > MaxID:
		why = fmt.Sprintf("is %d bytes long; at most %d are possible", len(id), MaxID)
	case !utf8.ValidString(id):
		why = "is not valid UTF-8"
	case strings.IndexByte(id, 0) >= 0:
		why = "contains a NUL"
	default:
		return nil
	}
	return Invalid("an id is UTF-8 of at most 1 KiB without NUL", "the %s id %s", entity, why)
}

// defaultScope is the row that the first migration makes for the empty name.
const defaultScope int64 = 1

const (
	sqlFindScope = `SELECT id FROM scopes WHERE name = ?`
	sqlAddScope  = `INSERT INTO scopes (name, checksum) VALUES (?, ?) RETURNING id`
)

// Scope returns the number of a scope, the first column of every key. ok is false if nothing was
// ever written in it.
func (rx *Rx) Scope(name string) (id int64, ok bool, err error) {
	if name == "" {
		return defaultScope, true, nil
	}
	if known, hit := rx.in.scopes.Load(name); hit {
		return known.(int64), true, nil
	}
	if ok, err = rx.Find(&id, sqlFindScope, name); err != nil || !ok {
		return 0, false, err
	}
	if !rx.writes {
		rx.in.scopes.Store(name, id) // rows of scopes are never deleted, and a read sees committed ones only
	}
	return id, true, nil
}

// Scope returns the number of a scope, and adds the scope if it is missing.
func (tx *Tx) Scope(name string) (int64, error) {
	id, ok, err := tx.Rx.Scope(name)
	if err != nil || ok {
		return id, err
	}
	if err := CheckID("scope", name); err != nil {
		return 0, err
	}
	if err := tx.Get(&id, sqlAddScope, name, Checksum(name)); err != nil {
		return 0, errors.Join(fmt.Errorf("add the scope %q", name), err)
	}
	tx.AfterCommit(func() { tx.in.scopes.Store(name, id) })
	return id, nil
}
