package db_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/engine"
	"selvedge/test/dbtest"
)

func TestError_NamesItsEntityOnce(t *testing.T) {
	none := func(error) string { return "look again" }
	own := &db.Error{Op: "look", Err: db.ErrNotFound}
	about := db.About(own, "find", "bell", "a", none)
	if e, ok := errors.AsType[*db.Error](about); !ok || e.Entity != "bell" || e.ID != "a" || e.Op != "look" ||
		own.Entity != "" {
		t.Errorf("%+v, and the caller's own is %+v", e, own)
	}
	if again := db.About(about, "find", "door", "b", none); again != about { //nolint:errorlint // the very one
		t.Errorf("%v", again)
	}
	full := &engine.Failure{Err: db.ErrFull, Code: 13, Hint: "make room"}
	for err, want := range map[error]db.Error{
		full:          {Op: "find", Entity: "bell", ID: "a", Code: 13, Hint: "make room"},
		db.ErrInvalid: {Op: "find", Entity: "bell", ID: "a", Hint: "look again"},
	} {
		e, ok := errors.AsType[*db.Error](db.About(err, "find", "bell", "a", none))
		if !ok || e.Op != want.Op || e.ID != want.ID || e.Code != want.Code || e.Hint != want.Hint ||
			!errors.Is(e, err) {
			t.Errorf("%+v", e)
		}
	}
}

func TestError_IsOneShortPrintableLine(t *testing.T) {
	for _, long := range []string{"a", "\x1b[31m", "\n", "\u202e", "\xff", "ü"} {
		text := strings.Repeat(long, 1<<20)
		for _, e := range []*db.Error{
			{Op: text, Err: db.ErrNotFound},
			{Op: "find", Entity: text, ID: "b", Err: db.ErrNotFound},
			{Op: text, Entity: text, ID: text, Err: fmt.Errorf("%w: %s", db.ErrNotFound, text)},
		} {
			if got := e.Error(); len(got) > 4096 || strings.ContainsAny(got, "\n\x1b\u202e") ||
				!strings.Contains(got, "not found") {
				t.Errorf("%d bytes: %.200q", len(got), got)
			}
			if got := e.LogValue().String(); len(got) > 4<<10 || strings.ContainsAny(got, "\n\x1b\u202e") {
				t.Errorf("in a log, %d bytes: %.200q", len(got), got)
			}
		}
	}
	e := &db.Error{Op: "find", Entity: "bell", ID: "a\n", Err: errors.Join(db.ErrNotFound, db.ErrBusy)}
	if got, want := e.Error(), `find: bell "a\n": not found; `+db.ErrBusy.Error(); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// coded is an error of a caller that looks like one of a database.
type coded int

func (c coded) Error() string { return "mine" }

func (c coded) Code() int { return int(c) }

func TestCallersError_CodeIsNotSQLites(t *testing.T) {
	d := dbtest.OpenAt(t, dbtest.Path(t), db.Options{})
	const busy = 5
	for name, err := range map[string]error{
		"read":  d.Read(t.Context(), "look", func(*db.Rx) error { return coded(busy) }),
		"write": d.Write(t.Context(), "change", func(*db.Tx) error { return coded(busy) }),
	} {
		if e, ok := errors.AsType[*db.Error](err); !ok || e.Code != 0 || errors.Is(err, db.ErrBusy) {
			t.Errorf("%s: %#v", name, err)
		}
	}
}
