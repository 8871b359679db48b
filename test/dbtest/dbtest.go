// Package dbtest creates files for tests, and checks each after its test: SQLite's integrity
// check, the foreign keys and our own invariants.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/engine"
)

// onServer holds what differs in tests that OnPostgres runs; nil without the build tag postgres.
var onServer interface {
	runs(t testing.TB) bool
	path(t testing.TB) string
	rough(t testing.TB, path string) string
	killed(t testing.TB, pid int)
	again(t testing.TB, d *db.DB, call func())
}

// Path returns a path for a file that will be checked when the test has ended and its handles are
// closed. Where OnPostgres runs the test it is the address of a database.
func Path(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "selvedge.db")
	if onServer != nil && onServer.runs(t) {
		path = onServer.path(t)
	}
	t.Cleanup(func() { Check(t, path) })
	return path
}

// Rough returns the way of a process to a file whose calls must come through whatever happens to
// it: of a server, one on which every connection is cut before long.
func Rough(t testing.TB, path string) string {
	t.Helper()
	if onServer != nil && onServer.runs(t) {
		return onServer.rough(t, path)
	}
	return path
}

// Open returns an open file, which is closed and checked when the test has ended.
func Open(t testing.TB, options db.Options) *db.DB {
	t.Helper()
	return OpenAt(t, Path(t), options)
}

// OpenAt opens the file at path and closes it when the test has ended.
func OpenAt(t testing.TB, path string, options db.Options) *db.DB {
	t.Helper()
	d, err := db.Open(context.Background(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

// Exists reports whether something lies at path. A database of a server does.
func Exists(path string) (bool, error) {
	if engine.IsAddress(path) {
		return true, nil
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Check fails the test if the file at path is damaged. A missing file is fine.
func Check(t testing.TB, path string) {
	t.Helper()
	there, err := Exists(path)
	if err != nil {
		t.Fatal(err)
	}
	if !there {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := db.Open(ctx, path, db.Options{})
	if errors.Is(err, db.ErrMoved) {
		d, err = db.Open(ctx, path, db.Options{ReadOnly: true})
	}
	if err != nil {
		t.Errorf("open %s to check it: %v", path, err)
		return
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	problems, err := d.Check(ctx)
	if err != nil {
		t.Errorf("check %s: %v", path, err)
	}
	for _, p := range problems {
		t.Errorf("%s is damaged: %s: %s", path, p.Check, p.Detail)
	}
}

// A Clock is a clock that stands still until it is moved. Its Now is for db.Options.Now.
type Clock struct{ at atomicTime }

// NewClock returns a clock that stands at t.
func NewClock(t time.Time) *Clock {
	c := &Clock{}
	c.at.store(t)
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return c.at.load() }

// Set moves the clock to t.
func (c *Clock) Set(t time.Time) { c.at.store(t) }

// Advance moves the clock by d.
func (c *Clock) Advance(d time.Duration) { c.at.store(c.at.load().Add(d)) }

// Unseen returns the seeds of a test that draws its input: few of them, or those that
// SELVEDGE_UNSEEN names, as in 1000+500.
func Unseen(t testing.TB, few int) (seeds []uint64) {
	t.Helper()
	first, count := uint64(1), few
	if asked := os.Getenv("SELVEDGE_UNSEEN"); asked != "" {
		if _, err := fmt.Sscanf(asked, "%d+%d", &first, &count); err != nil {
			t.Fatalf("SELVEDGE_UNSEEN=%s: %v", asked, err)
		}
	}
	for i := range uint64(count) {
		seeds = append(seeds, first+i)
	}
	return seeds
}
