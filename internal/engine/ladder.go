package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"selvedge/migrations"
)

// A Ladder is the schema versions that a program knows, with the script that creates the views of
// the last one.
type Ladder struct {
	Steps  []migrations.Step
	Views  func() string
	Digest string // of that script; "" without one
	What   string // what has the schema, in messages: "file" or "database"
}

// DigestOf returns the digest of a script; "" for none.
func DigestOf(script string) string {
	if script == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(script))
	return hex.EncodeToString(sum[:])
}

// Last returns the highest version.
func (l Ladder) Last() migrations.Step { return l.Steps[len(l.Steps)-1] }

// Step returns the last step that a database of this schema version has reached.
func (l Ladder) Step(version int64) (at migrations.Step) {
	for _, s := range l.Steps {
		if s.Version <= version {
			at = s
		}
	}
	return at
}

// ViewsDigest returns what a database records of the views that this program creates; "" if the
// version has none.
func (l Ladder) ViewsDigest(version int64) string {
	if version != l.Last().Version {
		return ""
	}
	return l.Digest
}

// Current reports whether a database needs no change for this program, which migrates it to version
// target at most. A database beyond the target needs none: MayWrite has accepted it.
func (l Ladder) Current(have Versions, target int64) bool {
	at := l.Step(target)
	return have.Schema > target ||
		have.Schema == at.Version && have.MinReader == at.MinReader && have.MinWriter == at.MinWriter &&
			(target < l.Last().Version || have.ViewsDigest == l.ViewsDigest(target))
}

// MayWrite returns ErrSchemaTooNew if only newer programs may write the database.
func (l Ladder) MayWrite(have Versions) error { return l.tooNew(have, have.MinWriter, "write") }

// MayRead returns ErrSchemaTooNew if only newer programs may read the database, and ErrInvalid if
// its schema is older than this program's, unless anySchema is set.
func (l Ladder) MayRead(have Versions, anySchema bool) error {
	err := l.tooNew(have, have.MinReader, "read")
	if err == nil && have.Schema < l.Last().Version && !anySchema {
		err = l.TooOld(have)
	}
	return err
}

func (l Ladder) tooNew(have Versions, lowest int64, use string) error {
	if own := l.Last().Version; lowest > own {
		return fmt.Errorf("%w: the %s has schema %d, which programs from schema %d on may %s; this program has %d",
			ErrSchemaTooNew, l.What, have.Schema, lowest, use, own)
	}
	return nil
}

// TooOld returns the error for a database that must not be migrated here.
func (l Ladder) TooOld(have Versions) error {
	return Failf(ErrInvalid, "open it once for writing, or run: migrate up",
		"the %s has schema %d and this program reads and writes %d", l.What, have.Schema,
		l.Last().Version)
}

// A Get reads one row into dest, as Rx.Get does, in a session or in a transaction.
type Get func(dest any, query string, args ...any) error

// Getting returns a Get that reads through a transaction.
func Getting(x Rx) Get {
	return func(dest any, query string, args ...any) error { return x.Get(dest, query, args) }
}

// OneRow returns the error of reading selvedge_file, which has one row.
func OneRow(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: selvedge_file has no row", ErrCorrupt)
	}
	return err
}
