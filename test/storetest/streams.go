package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/db"
)

// followed are the things of a scope to which items come, in an order. R names one, and an X is an item.
type followed[R comparable, X any] struct {
	// states: the follower receives a thing's state; append sets it to the last text. Else it
	// receives each item.
	states bool

	add          func(ctx context.Context, n int) (R, error)
	addTx        func(tx *db.Tx, n int) error // one to which nothing comes
	remove       func(ctx context.Context, ref R) error
	end          func(ctx context.Context, ref R) error // nil: things have no status
	began, ended string                                 // its status before and after
	// append writes items that say texts.
	append func(tx *db.Tx, ref R, texts ...string) error
	// spoil appends several items, one of which can't be kept; nil: items come one by one.
	spoil func(tx *db.Tx, ref R) error
	// repeat repeats an append, which may already have been made in the transaction with that
	// number.
	repeat func(tx *db.Tx, ref R, batch int64, texts ...string) error
	// keyed is an append under a key of the caller's; nil: there is none.
	keyed func(tx *db.Tx, ref R, key string, texts ...string) error

	// only is an append of one item, with which all before it go; nil: items go with their thing alone.
	only func(ctx context.Context, ref R, text string) error
	// heavy: an item is as large as its text.
	heavy bool

	follow func(ctx context.Context, ref R, cursor string) iter.Seq2[db.Followed[R, X], error]
	// followAll follows the things with a status; "" is all.
	followAll func(ctx context.Context, status string) iter.Seq2[db.Followed[R, X], error]
	before    func(ctx context.Context, ref R, n int64) (cursor string, err error)
	page      func(ctx context.Context, ref R, at db.At) (db.Page[db.Followed[R, X]], error)
	// says returns the text that append wrote; "" for items that the store adds by itself.
	says     func(ctx context.Context, item X) string
	sequence func(item X) uint64
}

// streams returns the followed things of a scope.
type streams[R comparable, X any] func(t *testing.T, d *db.DB, scope string) followed[R, X]

func (open streams[R, X]) laws() []law {
	both := []law{
		{"a cursor belongs to its stream", open.cursors},
		{"a follower ends with its thing, its context and its handle", open.ends},
		{"the cursor at the end is that of the last that was told", open.atEnd},
		{"who follows all gets what comes from then on", open.all},
		{"a filter takes a thing from when it passes", open.filters},
		{"what takes a removed thing's name has nothing of it", open.replaced},
		{"who follows more than a thousand is told of each once", open.many},
		{"a transaction of another file appends nothing", open.foreign},
	}
	if open(nil, nil, "").states {
		return append(both, law{"a follower is told how a thing stands, the newest last", open.stands})
	}
	return append(both, []law{
		{"a follower gets what is there and what comes", open.follows},
		{"a follower goes on from any cursor", open.resumes},
		{"the pages of a stream are what a follower gets", open.paged},
		{"a page of a stream ends at a MiB", open.weighed},
		{"what went unread is a gap", open.gaps},
		{"sequences are dense, whoever writes", open.dense},
		{"a batch is kept whole or not at all", open.whole},
		{"a repeat does nothing", open.repeats},
	}...)
}

// patience is how long a test waits for what must come. The suite's own tests change it.
var patience = func(*testing.T) time.Duration { return 2 * time.Minute }

func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience(t), errors.New("it never came"))
	t.Cleanup(cancel)
	return ctx
}

func (s *followed[R, X]) write(t *testing.T, d *db.DB, ref R, texts ...string) {
	t.Helper()
	must(t, d.Write(t.Context(), "storetest", func(tx *db.Tx) error { return s.append(tx, ref, texts...) }))
}

// added returns a new thing, and the cursor after the items that the store added by itself.
func (s *followed[R, X]) added(t *testing.T, n int) (ref R, cursor string) {
	t.Helper()
	ref, err := s.add(t.Context(), n)
	must(t, err)
	cursor, err = s.before(t.Context(), ref, 0)
	must(t, err)
	return ref, cursor
}

// take returns the next n items after a cursor: "a text", "now STATUS" or "gone".
func (s *followed[R, X]) take(t *testing.T, ref R, cursor string, n int) (told []string, cursors []string) {
	t.Helper()
	if n == 0 {
		return nil, nil
	}
	for f, err := range s.follow(patient(t), ref, cursor) {
		must(t, err)
		told, cursors = append(told, s.told(t, f)), append(cursors, f.Cursor)
		if len(told) == n {
			break
		}
	}
	return told, cursors
}

func (s *followed[R, X]) told(t *testing.T, f db.Followed[R, X]) string {
	switch {
	case f.What == db.StatusChanged:
		return "now " + f.Status
	case f.Gone:
		return "gone"
	case f.What == db.Gap:
		return "gap: " + f.Reason
	}
	return s.says(t.Context(), f.Item)
}

func (open streams[R, X]) follows(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, cursor := s.added(t, 0)
	s.write(t, at.d, ref, "a", "b")
	writers := at.both()
	var got []string
	for f, err := range s.follow(patient(t), ref, cursor) {
		must(t, err)
		if f.Of != ref {
			t.Errorf("it was told of %v, not of %v", f.Of, ref)
		}
		if f.What == db.StatusChanged && f.Status != s.ended {
			continue // a thing may come to work by its first items
		}
		got = append(got, s.told(t, f))
		n := len(got)
		if f.What == db.StatusChanged {
			break
		}
		switch d := writers[n%len(writers)]; {
		case n == 2: // all that was there has come
			s.write(t, d, ref, "c")
		case n > 2 && n < 6:
			other := open(t, d, at.scope)
			other.write(t, d, ref, "d", "e")
			if n == 5 {
				must(t, other.end(t.Context(), ref))
			}
			s = other
		}
	}
	want := []string{"a", "b", "c", "d", "e", "d", "e", "d", "e"}
	if got = dropOwn(got); len(got) == 0 || got[len(got)-1] != "now "+s.ended {
		t.Fatalf("it was told %q, and of no end", got)
	}
	same(t, "what it was told", got[:len(got)-1], want)
}

// dropOwn leaves what stores add of themselves out.
func dropOwn(told []string) []string {
	return slices.DeleteFunc(told, func(text string) bool { return text == "" })
}

func (open streams[R, X]) resumes(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, cursor := s.added(t, 0)
	want := []string{"a", "b", "c", "d"}
	s.write(t, at.d, ref, want...)
	_, cursors := s.take(t, ref, cursor, 4)
	for _, d := range at.both() {
		s := open(t, d, at.scope)
		for i, cursor := range append([]string{cursor}, cursors[:3]...) {
			rest, _ := s.take(t, ref, cursor, 4-i)
			same(t, fmt.Sprint("what comes behind item ", i), rest, want[i:])
		}
		for n := range 4 {
			cursor, err := s.before(t.Context(), ref, int64(n))
			must(t, err)
			rest, _ := s.take(t, ref, cursor, n)
			same(t, fmt.Sprint("the last ", n), rest, want[4-n:])
		}
	}
	own, _ := s.take(t, ref, "", 1)
	for n := 2; own[len(own)-1] != "d"; n++ {
		own, _ = s.take(t, ref, "", n)
	}
	same(t, "what is behind the beginning", dropOwn(own), want)
	end, err := s.before(t.Context(), ref, 0)
	must(t, err)
	s.write(t, at.d, ref, "e")
	rest, _ := s.take(t, ref, end, 1)
	same(t, "what came behind the end", rest, []string{"e"})
	far, err := s.before(t.Context(), ref, 1<<30)
	must(t, err)
	fromFar, _ := s.take(t, ref, far, 1)
	fromStart, _ := s.take(t, ref, "", 1)
	same(t, "what is behind the cursor before more than there is", fromFar, fromStart)
}

func (open streams[R, X]) paged(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, _ := s.added(t, 0)
	s.write(t, at.d, ref, "a", "b", "c", "d", "e")
	var told, cursors []string
	for at := (db.At{Limit: db.MaxLimit}); ; {
		page, err := s.page(t.Context(), ref, at)
		must(t, err)
		for _, f := range page.Items {
			told, cursors = append(told, s.told(t, f)), append(cursors, f.Cursor)
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	same(t, "what the page has", dropOwn(slices.Clone(told)), []string{"a", "b", "c", "d", "e"})
	for limit := 1; limit <= len(told)+1; limit++ {
		var again []string
		for at := (db.At{Limit: limit}); ; {
			page, err := s.page(t.Context(), ref, at)
			must(t, err)
			for _, f := range page.Items {
				again = append(again, s.told(t, f))
			}
			if at.After = page.Next; at.After == "" {
				break
			}
			if len(page.Items) != limit {
				t.Fatalf("a page of %d has %d items, and a next one", limit, len(page.Items))
			}
		}
		same(t, fmt.Sprint("the pages of ", limit), again, told)
	}
	for i := range told[:len(told)-1] { // the cursors of pages are those of followers
		next, _ := s.take(t, ref, cursors[i], 1)
		same(t, fmt.Sprint("what a follower gets behind item ", i), next, told[i+1:i+2])
	}
	for _, limit := range []int{-1, db.MaxLimit + 1} {
		wants(t, fmt.Sprint("a page of ", limit), second(s.page(t.Context(), ref, db.At{Limit: limit})),
			db.ErrInvalid)
	}
}

// failure is the error that a follower gets at once.
func (s *followed[R, X]) failure(t *testing.T, ref R, cursor string) (failed error) {
	t.Helper()
	for f, err := range s.follow(patient(t), ref, cursor) {
		if failed != nil {
			t.Errorf("after the error came %+v, %v", f, err)
		}
		if failed = err; err == nil {
			return errors.New("no error: " + s.told(t, f))
		}
	}
	return failed
}

func (open streams[R, X]) cursors(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, _ := s.added(t, 0)
	other, _ := s.added(t, 1)
	s.write(t, at.d, ref, "a")
	s.write(t, at.d, other, "a")
	end, err := s.before(t.Context(), ref, 1)
	must(t, err)
	for what, cursor := range map[string]string{
		"a word": "x", "half of a cursor": end[:len(end)/2], "the cursor of a list": foreignCursor(t, at.d),
	} {
		wants(t, what, s.failure(t, ref, cursor), db.ErrInvalid)
	}
	wants(t, "another thing's cursor", s.failure(t, other, end), db.ErrInvalid)
	if s.page != nil {
		wants(t, "another thing's cursor, for a page", second(s.page(t.Context(), other, db.At{After: end})),
			db.ErrInvalid)
	}
	must(t, s.remove(t.Context(), ref))
	wants(t, "the cursor of a thing that is gone", s.failure(t, ref, end), db.ErrCursorExpired)
	wants(t, "to follow a thing that is gone", s.failure(t, ref, ""), db.ErrNotFound)
	wants(t, "the cursor before the end of a thing that is gone", second(s.before(t.Context(), ref, 0)),
		db.ErrNotFound)
	if s.page != nil {
		wants(t, "the page of a thing that is gone", second(s.page(t.Context(), ref, db.At{})), db.ErrNotFound)
	}
	s.added(t, 0)
	wants(t, "the cursor of a thing that was replaced", s.failure(t, ref, end), db.ErrCursorExpired)
}

// replaced assigns a new thing the name of one that was removed.
func (open streams[R, X]) replaced(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, _ := s.added(t, 0)
	s.write(t, at.d, ref, "a")
	must(t, s.remove(t.Context(), ref))
	ref, _ = s.added(t, 0)
	s.write(t, at.d, ref, "b")
	for f, err := range s.follow(patient(t), ref, "") {
		must(t, err)
		switch text := s.told(t, f); text {
		case "a":
			t.Error("it has what the removed one had")
		case "b":
			return
		}
	}
}

func (open streams[R, X]) filters(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.end == nil {
		return
	}
	for n, status := range []string{s.began, s.ended} {
		ctx, cancel := context.WithCancel(patient(t))
		defer cancel()
		followed := s.followAll(ctx, status)
		ref, _ := s.added(t, 2*n)
		other, _ := s.added(t, 2*n+1)
		s.write(t, at.d, other, "another")
		s.write(t, at.d, ref, "a")
		if status == s.ended {
			must(t, s.end(t.Context(), ref))
		}
		ended, removed := status == s.ended, false
		var last *R // comes after all news of the others
		for f, err := range followed {
			if err != nil {
				t.Fatalf("where what is %s is followed, and the thing ended: %v, removed: %v: %v", status, ended,
					removed, err)
			}
			if last != nil && f.Of == *last {
				break
			}
			switch now := f.What == db.StatusChanged && f.Status == s.ended; {
			case f.Of != ref && status == s.ended:
				t.Errorf("where what is %s is followed, %q of another was told", status, s.told(t, f))
			case f.Of != ref:
			case !ended:
				must(t, s.end(t.Context(), ref))
				ended = true
			case !removed && (now || status == s.ended):
				must(t, s.remove(t.Context(), ref))
				removed = true
			}
			if f.Of != ref || !f.Gone {
				continue
			}
			if status == s.began {
				break
			}
			next, _ := s.added(t, 4)
			last = &next
			s.write(t, at.d, next, "last")
			must(t, s.end(t.Context(), next))
		}
	}
}

// gaps appends an item that makes the follower skip earlier ones.
func (open streams[R, X]) gaps(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.only == nil {
		return
	}
	ref, cursor := s.added(t, 0)
	s.write(t, at.d, ref, "a", "b")
	must(t, s.only(t.Context(), ref, "c"))
	told, cursors := s.take(t, ref, cursor, 2)
	if !strings.HasPrefix(told[0], "gap: ") || told[1] != "c" {
		t.Errorf("behind what went it was told %q", told)
	}
	rest, _ := s.take(t, ref, cursors[0], 1)
	same(t, "what is behind the gap", rest, []string{"c"})
	page, err := s.page(t.Context(), ref, db.At{After: cursor})
	must(t, err)
	if len(page.Items) != 2 || page.Items[0].What != db.Gap || page.Items[0].Gone {
		t.Errorf("the page behind what went is %+v", page.Items)
	}
}

func (open streams[R, X]) weighed(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if !s.heavy {
		return
	}
	ref, cursor := s.added(t, 0)
	texts := mebibyteTexts()
	s.write(t, at.d, ref, texts...)
	var counts []string
	for at := (db.At{After: cursor}); ; {
		page, err := s.page(t.Context(), ref, at)
		must(t, err)
		counts = append(counts, fmt.Sprint(len(page.Items)))
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	same(t, "how many items the pages of large items have", counts, pagesOf(texts))
}

func (open streams[R, X]) ends(t *testing.T, at place) {
	why := errors.New("the caller left")
	for what, c := range map[string]struct {
		end  func(d *db.DB, s followed[R, X], ref R, cancel context.CancelCauseFunc)
		want error
	}{
		"the thing is removed": {func(_ *db.DB, s followed[R, X], ref R, _ context.CancelCauseFunc) {
			must(t, s.remove(t.Context(), ref))
		}, db.ErrCursorExpired},
		"the context ends": {func(_ *db.DB, _ followed[R, X], _ R,
			cancel context.CancelCauseFunc,
		) {
			cancel(why)
		}, why},
		"the handle is closed": {func(d *db.DB, _ followed[R, X], _ R,
			_ context.CancelCauseFunc,
		) {
			must(t, d.Close())
		}, db.ErrClosed},
	} {
		d := at.d
		if c.want == db.ErrClosed { //nolint:errorlint // the very same value
			d = at.open(t)
		}
		s := open(t, d, at.scope+", "+what)
		ref, cursor := s.added(t, 0)
		s.write(t, d, ref, "a")
		ctx, cancel := context.WithCancelCause(patient(t))
		defer cancel(nil)
		var ended error
		for f, err := range s.follow(ctx, ref, cursor) {
			if ended != nil {
				t.Errorf("%s: after the error came %+v, %v", what, f, err)
			}
			if ended = err; err == nil && f.What == db.Written {
				c.end(d, s, ref, cancel)
			}
		}
		wants(t, what, ended, c.want)
	}
	for what, c := range map[string]struct {
		end  func(d *db.DB, cancel context.CancelCauseFunc)
		want error
	}{
		"the context ends":     {func(_ *db.DB, cancel context.CancelCauseFunc) { cancel(why) }, why},
		"the handle is closed": {func(d *db.DB, _ context.CancelCauseFunc) { must(t, d.Close()) }, db.ErrClosed},
	} {
		d := at.open(t)
		s := open(t, d, at.scope)
		ctx, cancel := context.WithCancelCause(patient(t))
		defer cancel(nil)
		followed := s.followAll(ctx, "")
		ref, _ := s.added(t, 0)
		s.write(t, d, ref, "a")
		var ended error
		for f, err := range followed {
			if ended != nil {
				t.Errorf("where all are followed, %s: after the error came %+v, %v", what, f, err)
			}
			if ended = err; err == nil && f.What == db.Written {
				c.end(d, cancel)
			}
		}
		wants(t, "where all are followed, "+what, ended, c.want)
	}
}

func (open streams[R, X]) atEnd(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, _ := s.added(t, 0)
	s.write(t, at.d, ref, "a")
	if s.end != nil {
		must(t, s.end(t.Context(), ref))
	}
	end, err := s.before(t.Context(), ref, 0)
	must(t, err)
	for f, err := range s.follow(patient(t), ref, "") {
		must(t, err)
		if s.end == nil || f.What == db.StatusChanged && f.Status == s.ended {
			equal(t, "the cursor at the end", end, f.Cursor)
			return
		}
	}
}

// A look at all reads a thousand at a time.
func (open streams[R, X]) many(t *testing.T, at place) {
	if at.again == nil {
		return // for how many there are it is all one whose they are
	}
	d := at.open(t)
	s := open(t, d, at.scope)
	var watched []R
	add := func(n int) {
		ref, _ := s.added(t, n)
		s.write(t, d, ref, "before")
		watched = append(watched, ref)
	}
	add(0)
	must(t, d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		for n := 1; n < 999; n++ {
			if err := s.addTx(tx, n); err != nil {
				return err
			}
		}
		return nil
	}))
	for n := 999; n < 1002; n++ {
		add(n)
	}
	followed := s.followAll(patient(t), "")
	for _, ref := range watched {
		s.write(t, d, ref, "a")
	}
	got, done := map[R][]string{}, 0
	for f, err := range followed {
		must(t, err)
		text := s.told(t, f)
		if text == "" || f.What == db.StatusChanged {
			continue
		}
		switch got[f.Of] = append(got[f.Of], text); text {
		case "a":
			s.write(t, d, f.Of, "b")
		case "b":
			done++
		}
		if done == len(watched) {
			break
		}
	}
	for _, ref := range watched {
		same(t, fmt.Sprint("what was told of ", ref), got[ref], []string{"a", "b"})
	}
	equal(t, "of how many it was told", len(got), len(watched))
}

func (open streams[R, X]) all(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	old, _ := s.added(t, 0)
	doomed, _ := s.added(t, 1)
	elsewhere := open(t, at.d, at.scope+", another")
	s.write(t, at.d, old, "before")
	ctx, cancel := context.WithCancelCause(patient(t))
	defer cancel(nil)
	why := errors.New("enough")
	followed := s.followAll(ctx, "")
	stranger, _ := elsewhere.added(t, 0)
	elsewhere.write(t, at.d, stranger, "not told")
	s.write(t, at.d, old, "a", "b")
	fresh, _ := s.added(t, 2)
	s.write(t, at.d, fresh, "c")
	must(t, s.remove(t.Context(), doomed))
	want := map[R][]string{old: {"a", "b"}, fresh: {"c"}, doomed: {"gone"}}
	if s.end != nil {
		must(t, s.end(t.Context(), old))
		want[old] = append(want[old], "now "+s.ended)
	}
	if s.states {
		want[old] = want[old][1:] // of the changes between two looks only the last is reported
	}
	got, last := map[R][]string{}, map[R]string{}
	var end error
	for f, err := range followed {
		if end = err; err != nil {
			break
		}
		text := s.told(t, f)
		if text == "" || f.What == db.StatusChanged && f.Status != s.ended {
			continue
		}
		if f.Gone || f.What == db.Written {
			last[f.Of] = f.Cursor
		}
		if told := got[f.Of]; !s.states || text != "a" && (len(told) == 0 || told[len(told)-1] != text) {
			got[f.Of] = append(got[f.Of], text)
		}
		if len(got[old]) >= len(want[old]) && len(got[fresh]) >= 1 && len(got[doomed]) >= 1 {
			cancel(why)
		}
	}
	wants(t, "the end of the loop", end, why)
	for ref, texts := range want {
		same(t, fmt.Sprint("what was told of ", ref), got[ref], texts)
	}
	if len(got) != len(want) {
		t.Errorf("it was told %v", got)
	}
	s.write(t, at.d, fresh, "d") // each item has the cursor of its own thing
	next, _ := s.take(t, fresh, last[fresh], 1)
	same(t, "what comes behind it", next, []string{"d"})
	wants(t, "what comes behind the end of a thing", s.failure(t, doomed, last[doomed]), db.ErrCursorExpired)
}

func (open streams[R, X]) dense(t *testing.T, at place) {
	const writers, each = 6, 5
	s := open(t, at.d, at.scope)
	ref, cursor := s.added(t, 0)
	failure := errors.New("the function fails")
	var wait sync.WaitGroup
	for w := range writers {
		d := at.both()[w%len(at.both())]
		s := open(t, d, at.scope)
		wait.Go(func() {
			for i := range each {
				err := d.Write(t.Context(), "storetest",
					func(tx *db.Tx) error { return s.append(tx, ref, fmt.Sprint(w, " ", i)) })
				if err != nil {
					t.Error(err)
				}
				err = d.Write(t.Context(), "storetest", func(tx *db.Tx) error { // rolled back: no hole
					return errors.Join(s.append(tx, ref, "undone"), failure)
				})
				if !errors.Is(err, failure) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	var got []string
	var before uint64
	for f, err := range s.follow(patient(t), ref, cursor) {
		must(t, err)
		if f.What != db.Written {
			continue
		}
		sequence := s.sequence(f.Item)
		if len(got) > 0 && sequence != before+1 {
			t.Errorf("behind %d comes %d", before, sequence)
		}
		before = sequence
		if got = append(got, s.told(t, f)); len(got) == writers*each {
			break
		}
	}
	for w := range writers {
		var own, want []string
		for i := range each {
			want = append(want, fmt.Sprint(w, " ", i))
		}
		for _, text := range got {
			if slices.Contains(want, text) {
				own = append(own, text)
			}
		}
		same(t, fmt.Sprint("what writer ", w, " wrote"), own, want)
	}
}

func (open streams[R, X]) whole(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.spoil == nil {
		return
	}
	ref, cursor := s.added(t, 0)
	s.write(t, at.d, ref, "a")
	for how, write := range map[string]func(*db.Tx) error{
		"alone": func(tx *db.Tx) error { return s.spoil(tx, ref) },
		"behind a append": func(tx *db.Tx) error {
			return errors.Join(s.append(tx, ref, "undone"),
				s.spoil(tx, ref))
		},
	} {
		wants(t, "a batch that can't be kept, "+how, at.d.Write(t.Context(), "storetest", write), db.ErrInvalid)
	}
	s.write(t, at.d, ref, "b")
	got, _ := s.take(t, ref, cursor, 2)
	same(t, "what is there", got, []string{"a", "b"})
}

func (open streams[R, X]) repeats(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, cursor := s.added(t, 0)
	var batch int64
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		batch = tx.Batch()
		return s.append(tx, ref, "a")
	}))
	s.write(t, at.d, ref, "b")
	for _, d := range at.both() {
		s := open(t, d, at.scope)
		must(t, d.Write(t.Context(), "storetest", func(tx *db.Tx) error { return s.repeat(tx, ref, batch, "a") }))
	}
	// was not kept
	must(t, at.d.Write(t.Context(), "storetest",
		func(tx *db.Tx) error { return s.repeat(tx, ref, batch+1<<40, "c") }))
	want := []string{"a", "b", "c"}
	if s.keyed != nil {
		for _, d := range at.both() {
			s := open(t, d, at.scope)
			for range 2 {
				must(t, d.Write(t.Context(), "storetest",
					func(tx *db.Tx) error { return s.keyed(tx, ref, "key", "d", "e") }))
			}
			err := d.Write(t.Context(), "storetest",
				func(tx *db.Tx) error { return s.keyed(tx, ref, "key", "others") })
			wants(t, "other items under the same key", err, db.ErrConflict)
		}
		want = append(want, "d", "e")
	}
	s.write(t, at.d, ref, "end")
	got, _ := s.take(t, ref, cursor, len(want)+1)
	same(t, "what is there", got, append(want, "end"))
}

func (open streams[R, X]) foreign(t *testing.T, at place) {
	d := at.other
	s, there := open(t, at.d, at.scope), open(t, d, at.scope)
	ref, cursor := s.added(t, 0)
	there.added(t, 0)
	must(t, d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		wants(t, "append", s.append(tx, ref, "not kept"), db.ErrInvalid)
		if s.repeat != nil {
			wants(t, "repeat", s.repeat(tx, ref, 1, "not kept"), db.ErrInvalid)
		}
		if s.keyed != nil {
			wants(t, "append with a key", s.keyed(tx, ref, "key", "not kept"), db.ErrInvalid)
		}
		return nil
	}))
	s.write(t, at.d, ref, "a")
	got, _ := s.take(t, ref, cursor, 1)
	same(t, "what is there", got, []string{"a"})
}

func (open streams[R, X]) stands(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	ref, cursor := s.added(t, 0)
	steps := []string{"a", "b", "c", "d"}
	s.write(t, at.d, ref, steps[0])
	told := 0
	for f, err := range s.follow(patient(t), ref, cursor) {
		must(t, err)
		if f.What != db.Written {
			if text := s.told(t, f); text != "now "+s.ended || told != len(steps) {
				t.Errorf("it was told %q behind %d states", text, told)
			}
			break
		}
		text := s.told(t, f)
		if told == len(steps) && text == steps[told-1] { // it was rewritten as it ended
			continue
		}
		if text != steps[told] {
			t.Fatalf("it was told %q behind %q", text, steps[:told])
		}
		d := at.both()[told%len(at.both())]
		if told++; told < len(steps) {
			s := open(t, d, at.scope)
			s.write(t, d, ref, steps[told])
		} else if s.end == nil {
			break
		} else {
			must(t, s.end(t.Context(), ref))
		}
	}
	for _, d := range at.both() { // a later follower receives the state alone
		s := open(t, d, at.scope)
		now, _ := s.take(t, ref, "", 1)
		same(t, "what who comes later is told", now, steps[len(steps)-1:])
	}
}
