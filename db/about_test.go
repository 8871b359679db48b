package db_test

import (
	"errors"
	"testing"

	"selvedge/db"
	"selvedge/internal/engine"
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
