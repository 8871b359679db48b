package dbtest

import (
	"errors"
	"iter"
	"testing"

	"selvedge/db"
)

// A Listener pulls a follower's items, spelled as a test compares them.
type Listener[R comparable, T any] struct {
	Cursor string // of the last that was heard

	t       testing.TB
	next    func() (db.Followed[R, T], error, bool)
	spelled func(db.Followed[R, T]) string
}

// Listen returns the listener of a loop, which is left when the test has ended.
func Listen[R comparable, T any](t testing.TB, items iter.Seq2[db.Followed[R, T], error],
	spelled func(db.Followed[R, T]) string,
) *Listener[R, T] {
	t.Helper()
	next, stop := iter.Pull2(items)
	t.Cleanup(stop)
	return &Listener[R, T]{t: t, next: next, spelled: spelled}
}

// Hears fails the test unless these items come next.
func (l *Listener[R, T]) Hears(want ...string) {
	l.t.Helper()
	for _, one := range want {
		f, err, ok := l.next()
		if err != nil || !ok || l.spelled(f) != one {
			l.t.Fatalf("%q is told, and not %q (%v, %v)", l.spelled(f), one, err, ok)
		}
		l.Cursor = f.Cursor
	}
}

// EndsWith fails the test unless the loop ends with this error next.
func (l *Listener[R, T]) EndsWith(want error) {
	l.t.Helper()
	if f, err, _ := l.next(); !errors.Is(err, want) {
		l.t.Fatalf("%q is told, and %v is the error", l.spelled(f), err)
	}
}

// ToldUntil returns a follower's items up to a given one, and the cursor of that.
func ToldUntil[R comparable, T any](
	t testing.TB, items iter.Seq2[db.Followed[R, T], error], spelled func(db.Followed[R, T]) string, last string,
) (list []string, cursor string) {
	t.Helper()
	for item, err := range items {
		if err != nil {
			t.Fatalf("after %v: %v", list, err)
		}
		list, cursor = append(list, spelled(item)), item.Cursor
		if spelled(item) == last {
			break
		}
	}
	return list, cursor
}
