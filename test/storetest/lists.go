package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
	"selvedge/maintenance"
)

// A lister is docs/grammar.md's part on lists: things that are found by an R and a filter F,
// described by a G, and listed as a T.
type lister[R, F, G, T any] interface {
	Get(ctx context.Context, ref R) (G, error)
	GetTx(rx *db.Rx, ref R) (G, error)
	Page(ctx context.Context, filter F, at db.At) (db.Page[T], error)
	PageTx(rx *db.Rx, filter F, at db.At) (db.Page[T], error)
	All(ctx context.Context, filter F) iter.Seq2[T, error]
	Find(ctx context.Context, prefix string, limit int) ([]R, error)
	FindTx(rx *db.Rx, prefix string, limit int) ([]R, error)
	Delete(ctx context.Context, ref R) error
	DeleteTx(tx *db.Tx, ref R) error
}

// things are those of one scope.
type things[R, F, G, T any] struct {
	lister[R, F, G, T]

	add   func(ctx context.Context, n int) (R, error) // adds thing n, which has not ended
	addTx func(tx *db.Tx, n int) (R, error)
	name  func(ref R) string // what Find goes by
	of    func(item T) R
	// newest: the list shows the newest first. Else it is in the order of adding, which is that of
	// names where one store has promised it.
	newest bool
	// forgives: a Delete of a missing thing is fine.
	forgives bool
	// began returns when a thing was added, as it is stored; nil if that is not stored.
	began func(described G) time.Time
	unit  time.Duration // of began
	// end ends a thing, and prune prunes; nil if nothing is pruned. Where end alone is nil, things are
	// pruned by their last write. Things that are pruned may be unlisted from their end on.
	end      func(ctx context.Context, ref R) error
	prune    func(ctx context.Context, policy db.Policy) (db.Pruned, error)
	unlisted bool
	pins     pinner[R] // nil: nothing is pinned
	// big adds thing n, whose item in the list holds text; nil: no item is large.
	big func(ctx context.Context, n int, text string) (R, error)
}

// A pinner is docs/grammar.md's part on pins.
type pinner[R any] interface {
	Pin(ctx context.Context, ref R) error
	PinTx(tx *db.Tx, ref R) error
	Unpin(ctx context.Context, ref R) error
	UnpinTx(tx *db.Tx, ref R) error
}

// lists returns the things of a scope.
type lists[R, F, G, T any] func(t *testing.T, d *db.DB, scope string) things[R, F, G, T]

func (open lists[R, F, G, T]) laws() []law {
	return []law{
		{"a thing that is missing is ErrNotFound", open.missing},
		{"a scope where nothing was written has empty lists", open.empty},
		{"limits are 50, and 1 to 1000", open.limits},
		{"pages of any size give the list", open.pages},
		{"a page ends at a MiB", open.weighed},
		{"a page is one snapshot", open.torn},
		{"no transaction is open in the caller's loop", open.looped},
		{"a cursor belongs to its list", open.cursors},
		{"a page goes on where its last thing was removed", open.goesOn},
		{"what begins with a prefix is found", open.finds},
		{"scopes are apart", open.scopes},
		{"a function that fails leaves nothing", open.undone},
		{"a transaction sees what it did", open.within},
		{"a call and its form with Tx agree", open.agree},
		{"a transaction of another file is ErrInvalid", open.foreign},
		{"the end of the context is its cause", open.contexts},
		{"a read is one snapshot", open.snapshot},
		{"a zero time is that of the transaction", open.times},
		{"what has ended is pruned by the policy", open.prunes},
		{"what is pinned no limit removes", open.pinned},
	}
}

func (s *things[R, F, G, T]) fill(t *testing.T, n int) (names []string) {
	t.Helper()
	for i := range n {
		ref, err := s.add(t.Context(), i)
		must(t, err)
		names = append(names, s.name(ref))
	}
	return names
}

// sorted are names that were added one by one, in the order of the list.
func (s *things[R, F, G, T]) sorted(added []string) []string {
	added = slices.Clone(added)
	if s.newest {
		slices.Reverse(added)
	}
	return added
}

func (s *things[R, F, G, T]) namesOf(items []T) (names []string) {
	for _, item := range items {
		names = append(names, s.name(s.of(item)))
	}
	return names
}

// list is the whole list, in pages of limit.
func (s *things[R, F, G, T]) list(t *testing.T, limit int) (names []string) {
	t.Helper()
	var filter F
	for at := (db.At{Limit: limit}); ; {
		page, err := s.Page(t.Context(), filter, at)
		must(t, err)
		names = append(names, s.namesOf(page.Items)...)
		if at.After = page.Next; at.After == "" {
			return names
		}
		if len(page.Items) != limit {
			t.Fatalf("a page of %d has %d items, and a next one", limit, len(page.Items))
		}
	}
}

func (s *things[R, F, G, T]) listTx(rx *db.Rx) (names []string, err error) {
	var filter F
	page, err := s.PageTx(rx, filter, db.At{Limit: db.MaxLimit})
	return s.namesOf(page.Items), err
}

func (open lists[R, F, G, T]) missing(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	stays, err := s.add(t.Context(), 0)
	must(t, err)
	gone, err := s.add(t.Context(), 1)
	must(t, err)
	must(t, s.Delete(t.Context(), gone))
	answers := map[string]error{"get": second(s.Get(t.Context(), gone))}
	removals := map[string]error{"delete": s.Delete(t.Context(), gone)}
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		answers["get in a transaction"] = second(s.GetTx(&tx.Rx, gone))
		removals["delete in a transaction"] = s.DeleteTx(tx, gone)
		return nil
	}))
	for what, err := range answers {
		wants(t, what, err, db.ErrNotFound)
		named(t, what, err, "get ", "show ", "summarize ")
	}
	for what, err := range removals {
		if s.forgives {
			must(t, err)
		} else {
			wants(t, what, err, db.ErrNotFound)
			named(t, what, err, "delete ")
		}
	}
	must(t, second(s.Get(t.Context(), stays)))
}

// named wants an error to name its operation, by one of these verbs, and to help a person. The
// errors that workers kept from their original name none.
func named(t *testing.T, what string, err error, verbs ...string) {
	t.Helper()
	var e *db.Error
	ours := func(verb string) bool { return strings.HasPrefix(e.Op, verb) }
	if !errors.As(err, &e) || e.Op != "call runtime" && !slices.ContainsFunc(verbs, ours) {
		t.Errorf("%s calls itself otherwise than %q: %v", what, verbs, err)
	}
	if db.Hint(err) == "" {
		t.Errorf("%s has no hint: %v", what, err)
	}
}

func (open lists[R, F, G, T]) empty(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	var filter F
	page, err := s.Page(t.Context(), filter, db.At{})
	must(t, err)
	found, err := s.Find(t.Context(), "", 0)
	must(t, err)
	if len(page.Items) != 0 || page.Next != "" || len(found) != 0 {
		t.Errorf("the page is %+v, and %v are found", page, found)
	}
	for item, err := range s.All(t.Context(), filter) {
		t.Errorf("there is %+v: %v", item, err)
	}
	other := open(t, at.d, at.scope+", another")
	other.fill(t, 2)
	if page, err = other.Page(t.Context(), filter, db.At{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	for what, cursor := range map[string]string{"a word": "x", "the cursor of another scope's list": page.Next} {
		wants(t, what, second(s.Page(t.Context(), filter, db.At{After: cursor})), db.ErrInvalid)
	}
}

func (open lists[R, F, G, T]) limits(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	var filter F
	for _, limit := range []int{-1, db.MaxLimit + 1} {
		answers := map[string]error{
			"list": second(s.Page(t.Context(), filter, db.At{Limit: limit})),
			"find": second(s.Find(t.Context(), "", limit)),
		}
		must(t, at.d.Read(t.Context(), "storetest", func(rx *db.Rx) error {
			answers["list in a transaction"] = second(s.PageTx(rx, filter, db.At{Limit: limit}))
			answers["find in a transaction"] = second(s.FindTx(rx, "", limit))
			return nil
		}))
		for what, err := range answers {
			wants(t, fmt.Sprintf("%s with the limit %d", what, limit), err, db.ErrInvalid)
			named(t, what, err, what[:len("list ")-1]+" ")
		}
	}
	const all = db.MaxLimit + 1
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) (err error) {
		for n := 0; n < all && err == nil; n++ {
			_, err = s.addTx(tx, n)
		}
		return err
	}))
	for limit, want := range map[int]int{
		0: paging.DefaultLimit, 1: 1, paging.DefaultLimit: paging.DefaultLimit, db.MaxLimit: db.MaxLimit,
	} {
		page, err := s.Page(t.Context(), filter, db.At{Limit: limit})
		must(t, err)
		found, err := s.Find(t.Context(), "", limit)
		must(t, err)
		if len(page.Items) != want || len(found) != want || page.Next == "" {
			t.Errorf("the limit %d gives %d items, next %q, and finds %d", limit, len(page.Items), page.Next,
				len(found))
		}
	}
	names := s.list(t, db.MaxLimit)
	if distinct := slices.Compact(slices.Sorted(slices.Values(names))); len(distinct) != all {
		t.Errorf("two pages have %d of %d items", len(distinct), all)
	}
	same(t, "all of many", s.all(t), names)
}

// all returns the whole list, as All returns it.
func (s *things[R, F, G, T]) all(t *testing.T) (names []string) {
	t.Helper()
	var filter F
	for item, err := range s.All(t.Context(), filter) {
		must(t, err)
		names = append(names, s.name(s.of(item)))
	}
	return names
}

// mebibyteTexts returns texts: two of them fit on a page, and one is larger than any page.
func mebibyteTexts() []string {
	text := strings.Repeat("0123456789abcdef", paging.MaxBytes/16)
	return []string{text[:len(text)/8*3], text[:len(text)/8*3], text[:len(text)/8*3], text + text[:len(text)/8]}
}

// pagesOf returns how many items the pages of a list have that is as heavy as the texts.
func pagesOf(texts []string) (counts []string) {
	n, sum := 0, 0
	for _, text := range texts {
		if n > 0 && sum+len(text) > paging.MaxBytes {
			counts, n, sum = append(counts, fmt.Sprint(n)), 0, 0
		}
		n, sum = n+1, sum+len(text)
	}
	return append(counts, fmt.Sprint(n))
}

func (open lists[R, F, G, T]) weighed(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.big == nil {
		return
	}
	texts := mebibyteTexts()
	for n, text := range texts {
		must(t, second(s.big(t.Context(), n, text)))
	}
	var counts []string
	var filter F
	for at := (db.At{}); ; {
		page, err := s.Page(t.Context(), filter, at)
		must(t, err)
		counts = append(counts, fmt.Sprint(len(page.Items)))
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	same(t, "how many items the pages of large items have", counts, pagesOf(s.sorted(texts)))
}

// torn writes and removes four things at a time: a page has all or none of them.
func (open lists[R, F, G, T]) torn(t *testing.T, at place) {
	const together, rounds = 4, 20
	writer, s := open(t, at.d, at.scope), open(t, at.both()[len(at.both())-1], at.scope)
	round := func() error {
		var refs []R
		err := at.d.Write(t.Context(), "storetest", func(tx *db.Tx) (err error) {
			refs = make([]R, together)
			for n := 0; n < together && err == nil; n++ {
				refs[n], err = writer.addTx(tx, n)
			}
			return err
		})
		if err != nil {
			return err
		}
		return at.d.Write(t.Context(), "storetest", func(tx *db.Tx) (err error) {
			for _, ref := range refs {
				err = errors.Join(err, writer.DeleteTx(tx, ref))
			}
			return err
		})
	}
	met, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			if err := round(); err != nil {
				done <- err
				return
			}
			select {
			case <-met:
				done <- nil
				return
			default:
			}
		}
	}()
	var filter F
	for pages := 0; pages < rounds; {
		page, err := s.Page(t.Context(), filter, db.At{})
		must(t, err)
		if len(page.Items) == 0 {
			select {
			case err := <-done:
				t.Fatal(err)
			default:
				continue
			}
		}
		if pages++; len(page.Items) != together {
			t.Errorf("a page has %d of %d things that come and go together", len(page.Items), together)
		}
	}
	close(met)
	must(t, <-done)
}

func (open lists[R, F, G, T]) looped(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	s.fill(t, 3)
	var filter F
	for item, err := range s.All(t.Context(), filter) {
		must(t, err)
		if err := s.Delete(t.Context(), s.of(item)); err != nil {
			t.Fatalf("a delete in the caller's loop: %v", err)
		}
	}
	same(t, "what the loop left", s.list(t, 10), nil)
}

func (open lists[R, F, G, T]) pages(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	want := s.sorted(s.fill(t, 5))
	for limit := 1; limit <= 6; limit++ {
		same(t, fmt.Sprint("the list in pages of ", limit), s.list(t, limit), want)
	}
	same(t, "all of the list", s.all(t), want)
}

func (open lists[R, F, G, T]) cursors(t *testing.T, at place) {
	s, other := open(t, at.d, at.scope), open(t, at.d, at.scope+", another")
	s.fill(t, 2)
	other.fill(t, 2)
	var filter F
	page, err := s.Page(t.Context(), filter, db.At{Limit: 1})
	must(t, err)
	for what, cursor := range map[string]string{
		"a word": "x", "half of a cursor": page.Next[:len(page.Next)/2],
		"a cursor and a half":        page.Next + page.Next[len(page.Next)/2:],
		"the cursor of another list": foreignCursor(t, at.d),
	} {
		wants(t, what, second(s.Page(t.Context(), filter, db.At{After: cursor})), db.ErrInvalid)
	}
	wants(t, "the cursor of another scope's list",
		second(other.Page(t.Context(), filter, db.At{After: page.Next})), db.ErrInvalid)
	if !plainText.MatchString(page.Next) {
		t.Errorf("the cursor is no plain text: %q", page.Next)
	}
	for _, d := range at.both() { // any handle takes it
		s := open(t, d, at.scope)
		if next, err := s.Page(t.Context(), filter, db.At{After: page.Next}); err != nil || len(next.Items) != 1 ||
			next.Next != "" {
			t.Errorf("the second page is %+v: %v", next, err)
		}
	}
}

// plainText passes through files, addresses and shells as it is.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// foreignCursor is a cursor of another list of the same file.
func foreignCursor(t *testing.T, d *db.DB) string {
	t.Helper()
	const scope = "another list"
	for _, name := range []string{"a", "b"} {
		if _, err := d.Reserve(t.Context(), "port", name, db.ReserveOptions{Scope: scope}); err != nil &&
			!errors.Is(err, db.ErrConflict) {
			t.Fatal(err)
		}
	}
	page, err := d.Reservations(t.Context(), db.ReservationFilter{Scope: scope}, db.At{Limit: 1})
	must(t, err)
	return page.Next
}

func (open lists[R, F, G, T]) goesOn(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	want := s.sorted(s.fill(t, 5))
	var filter F
	page, err := s.Page(t.Context(), filter, db.At{Limit: 2})
	must(t, err)
	must(t, s.Delete(t.Context(), s.of(page.Items[1])))
	rest, err := s.Page(t.Context(), filter, db.At{After: page.Next})
	must(t, err)
	same(t, "what comes behind the removed one", s.namesOf(rest.Items), want[2:])
	same(t, "what is left", s.list(t, db.MaxLimit), slices.Delete(slices.Clone(want), 1, 2))
	added, err := s.add(t.Context(), 5)
	must(t, err)
	rest, err = s.Page(t.Context(), filter, db.At{After: page.Next})
	must(t, err)
	same(t, "what comes behind beside a new one", slices.DeleteFunc(s.namesOf(rest.Items),
		func(name string) bool { return name == s.name(added) }), want[2:])
}

func (open lists[R, F, G, T]) finds(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	added := s.fill(t, 12)
	byName := slices.Sorted(slices.Values(added))
	for _, prefix := range []string{
		"", added[0][:1], added[0][:len(added[0])-1], added[11], added[11] + "x",
		"\U0010ffff",
	} {
		var want []string
		for _, name := range byName {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		for _, limit := range []int{0, 2} {
			found, err := s.Find(t.Context(), prefix, limit)
			must(t, err)
			var names []string
			for _, ref := range found {
				names = append(names, s.name(ref))
			}
			if limit > 0 {
				want = want[:min(limit, len(want))]
			}
			same(t, fmt.Sprintf("what %q finds, at most %d", prefix, limit), names, want)
		}
	}
	for _, prefix := range []string{"\xff", "a\x00b", strings.Repeat("a", txn.MaxID+1)} {
		wants(t, fmt.Sprintf("the prefix %.10q", prefix), second(s.Find(t.Context(), prefix, 0)), db.ErrInvalid)
	}
}

func (open lists[R, F, G, T]) scopes(t *testing.T, at place) {
	s, other := open(t, at.d, at.scope), open(t, at.d, at.scope+", another")
	here, there := s.fill(t, 2), other.fill(t, 3)
	for ref := range s.refs(t) {
		must(t, s.Delete(t.Context(), ref))
	}
	same(t, "what is left of "+fmt.Sprint(here), s.list(t, 10), nil)
	same(t, "what the other scope has", other.list(t, 10), other.sorted(there))
}

// refs are those of all things, as they are at the call.
func (s *things[R, F, G, T]) refs(t *testing.T) iter.Seq[R] {
	t.Helper()
	var filter F
	page, err := s.Page(t.Context(), filter, db.At{Limit: db.MaxLimit})
	must(t, err)
	return func(yield func(R) bool) {
		for _, item := range page.Items {
			if !yield(s.of(item)) {
				return
			}
		}
	}
}

func (open lists[R, F, G, T]) undone(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	want := s.sorted(s.fill(t, 2))
	refs := slices.Collect(s.refs(t))
	failure := errors.New("the function fails")
	for how, leave := range map[string]func() error{
		"an error": func() error { return failure },
		"a panic":  func() error { panic(failure) },
	} {
		err := caught(func() error {
			return at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
				for _, ref := range refs {
					if err := s.DeleteTx(tx, ref); err != nil {
						return err
					}
				}
				if _, err := s.addTx(tx, 7); err != nil {
					return err
				}
				return leave()
			})
		})
		wants(t, how, err, failure)
		same(t, "what is there after "+how, s.list(t, 10), want)
	}
}

// caught is the error of a call that may panic with one.
func caught(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err, _ = p.(error)
		}
	}()
	return call()
}

func (open lists[R, F, G, T]) within(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	added := s.fill(t, 2)
	refs := slices.Collect(s.refs(t))
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		if err := s.DeleteTx(tx, refs[0]); err != nil {
			return err
		}
		wants(t, "to get what the transaction removed", second(s.GetTx(&tx.Rx, refs[0])), db.ErrNotFound)
		ref, err := s.addTx(tx, 7)
		if err != nil {
			return err
		}
		must(t, second(s.GetTx(&tx.Rx, ref)))
		want := []string{s.name(refs[1]), s.name(ref)}
		got, err := s.listTx(&tx.Rx)
		slices.Sort(got)
		slices.Sort(want)
		same(t, "what the transaction lists, of "+fmt.Sprint(added), got, want)
		return err
	}))
}

func (open lists[R, F, G, T]) agree(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	s.fill(t, 3)
	var filter F
	for ref := range s.refs(t) {
		got, err := s.Get(t.Context(), ref)
		must(t, err)
		for _, d := range at.both() {
			s := open(t, d, at.scope)
			must(t, d.Read(t.Context(), "storetest", func(rx *db.Rx) error {
				inside, err := s.GetTx(rx, ref)
				equal(t, "get", inside, got)
				return err
			}))
		}
	}
	page, err := s.Page(t.Context(), filter, db.At{Limit: 2})
	must(t, err)
	found, err := s.Find(t.Context(), "", 2)
	must(t, err)
	must(t, at.d.Read(t.Context(), "storetest", func(rx *db.Rx) error {
		inside, err := s.PageTx(rx, filter, db.At{Limit: 2})
		equal(t, "page", inside, page)
		if err == nil {
			var refs []R
			refs, err = s.FindTx(rx, "", 2)
			equal(t, "find", refs, found)
		}
		return err
	}))
}

func (open lists[R, F, G, T]) foreign(t *testing.T, at place) {
	d := at.other
	s, there := open(t, at.d, at.scope), open(t, d, at.scope)
	want := s.sorted(s.fill(t, 2))
	there.fill(t, 2)
	var filter F
	refs := slices.Collect(s.refs(t))
	answers := map[string]error{}
	must(t, d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		answers["get"] = second(s.GetTx(&tx.Rx, refs[0]))
		answers["page"] = second(s.PageTx(&tx.Rx, filter, db.At{}))
		answers["find"] = second(s.FindTx(&tx.Rx, "", 0))
		answers["delete"] = s.DeleteTx(tx, refs[0])
		answers["add"] = second(s.addTx(tx, 7))
		if s.pins != nil {
			answers["pin"], answers["unpin"] = s.pins.PinTx(tx, refs[0]), s.pins.UnpinTx(tx, refs[0])
		}
		return nil
	}))
	for what, err := range answers {
		wants(t, what, err, db.ErrInvalid)
	}
	same(t, "what is there after it", s.list(t, 10), want)
	if left := there.list(t, 10); len(left) != 2 {
		t.Errorf("the other file has %v after it", left)
	}
}

func (open lists[R, F, G, T]) contexts(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	want := s.sorted(s.fill(t, 2))
	why := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	var filter F
	for ref := range s.refs(t) {
		wants(t, "get", second(s.Get(ctx, ref)), why)
		wants(t, "delete", s.Delete(ctx, ref), why)
	}
	wants(t, "page", second(s.Page(ctx, filter, db.At{})), why)
	wants(t, "find", second(s.Find(ctx, "", 0)), why)
	wants(t, "add", second(s.add(ctx, 7)), why)
	n := 0
	for _, err := range s.All(ctx, filter) {
		wants(t, "all", err, why)
		n++
	}
	if n != 1 {
		t.Errorf("the loop ran %d times, not once with the error", n)
	}
	same(t, "what is there after it", s.list(t, 10), want)
}

func (open lists[R, F, G, T]) snapshot(t *testing.T, at place) {
	if at.again == nil {
		return
	}
	s, writer := open(t, at.d, at.scope), open(t, at.again, at.scope)
	s.fill(t, 3)
	var before []string
	must(t, at.d.Read(t.Context(), "storetest", func(rx *db.Rx) (err error) {
		if before, err = s.listTx(rx); err != nil {
			return err
		}
		for ref := range writer.refs(t) {
			if err := writer.Delete(t.Context(), ref); err != nil {
				return err
			}
			must(t, second(s.GetTx(rx, ref)))
		}
		after, err := s.listTx(rx)
		same(t, "the list while another handle removes what it has", after, before)
		return err
	}))
	same(t, "the list afterwards", s.list(t, 10), nil)
}

func (open lists[R, F, G, T]) times(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.began == nil {
		return
	}
	var ref R
	var now time.Time
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) (err error) {
		now = tx.Now()
		ref, err = s.addTx(tx, 0)
		return err
	}))
	described, err := s.Get(t.Context(), ref)
	must(t, err)
	if began := s.began(described); !began.Equal(now.Truncate(s.unit)) {
		t.Errorf("it began at %v in a transaction of %v", began, now)
	}
}

// ended ends a thing, where things end.
func (s *things[R, F, G, T]) ended(ctx context.Context, ref R) error {
	if s.end == nil {
		return nil
	}
	return s.end(ctx, ref)
}

func (open lists[R, F, G, T]) prunes(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.prune == nil {
		return
	}
	var refs []R
	for i := range 4 {
		ref, err := s.add(t.Context(), i)
		must(t, err)
		refs = append(refs, ref)
	}
	oldest, runs, lives := s.name(refs[0]), s.name(refs[3]), 1
	for _, ref := range refs[:3] {
		must(t, s.ended(t.Context(), ref))
	}
	if s.end == nil {
		must(t, s.Delete(t.Context(), refs[3]))
		lives = 0
	}
	for _, step := range []struct {
		name   string
		policy db.Policy
		pruned db.Pruned // but for its bytes
		left   int
	}{
		{"no policy", db.Policy{}, db.Pruned{Remaining: 3}, 4},
		{
			"a long time, many and much",
			db.Policy{Age: 1000 * time.Hour, Count: 3, Bytes: 1 << 40},
			db.Pruned{Remaining: 3},
			4,
		},
		{"one, only counted", db.Policy{Count: 1, DryRun: true}, db.Pruned{Removed: 2, Remaining: 1}, 4},
		{"two", db.Policy{Count: 2, Pinned: []string{s.name(refs[1])}}, db.Pruned{Removed: 1, Remaining: 2}, 3},
		{
			"no time, with a pin",
			db.Policy{Age: time.Nanosecond, Pinned: []string{s.name(refs[1]), runs}},
			db.Pruned{Removed: 1, Remaining: 1},
			2,
		},
		{"no time", db.Policy{Age: time.Nanosecond, Pinned: []string{runs}}, db.Pruned{Removed: 1}, 1},
	} {
		counted := at.d.Work().PrunedBytes
		done, err := s.prune(t.Context(), step.policy)
		must(t, err)
		if counted = at.d.Work().PrunedBytes - counted; counted != done.Bytes && !step.policy.DryRun ||
			counted != 0 && step.policy.DryRun {
			t.Errorf("%s: %d bytes went, and %d are counted", step.name, done.Bytes, counted)
		}
		if done.Bytes = 0; done != step.pruned {
			t.Errorf("%s: %+v, not %+v", step.name, done, step.pruned)
		}
		left := s.list(t, 10)
		if s.unlisted {
			step.left = 1
		}
		if len(left) != step.left-1+lives || slices.Contains(left, runs) != (lives > 0) {
			t.Errorf("%s: %v are left of %v, and %v is to stay", step.name, left, oldest, runs)
		}
	}
}

// pinned also tests pins of missing items, which are refused by their own name.
func (open lists[R, F, G, T]) pinned(t *testing.T, at place) {
	s := open(t, at.d, at.scope)
	if s.pins == nil {
		return
	}
	var refs []R
	for i := range 3 {
		ref, err := s.add(t.Context(), i)
		must(t, err)
		refs = append(refs, ref)
	}
	gone := refs[2]
	must(t, s.Delete(t.Context(), gone))
	answers := map[string]error{"a pin": s.pins.Pin(t.Context(), gone)}
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error {
		answers["a pin in a transaction"] = s.pins.PinTx(tx, gone)
		return s.pins.UnpinTx(tx, gone)
	}))
	for what, err := range answers {
		wants(t, what+" of what is missing", err, db.ErrNotFound)
		named(t, what, err, "pin ")
	}
	if err := s.pins.Unpin(t.Context(), gone); err != nil {
		t.Errorf("to unpin what is missing: %v", err)
	}
	kept := refs[0]
	must(t, s.pins.Pin(t.Context(), kept))
	must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error { return s.pins.PinTx(tx, kept) }))
	page, err := maintenance.Pins(t.Context(), at.d, at.scope, db.At{})
	must(t, err)
	if len(page.Items) != 1 || page.Items[0].ID != s.name(kept) {
		t.Errorf("pinned is %+v", page.Items)
	}
	if s.prune == nil {
		return
	}
	for _, ref := range refs[:2] {
		must(t, s.ended(t.Context(), ref))
	}
	for i, limit := range []db.Policy{
		{Age: db.KeepNone}, {Count: db.KeepNone}, {Bytes: db.KeepNone}, {Age: time.Nanosecond, Count: 1, Bytes: 1},
	} {
		done, err := s.prune(t.Context(), limit)
		must(t, err)
		if want := max(0, 1-i); done.Removed != want { // the other one goes at once
			t.Errorf("beside a pin %+v removed %d, not %d", limit, done.Removed, want)
		}
	}
	must(t, s.Delete(t.Context(), kept))
	again, err := s.add(t.Context(), 0)
	must(t, err)
	must(t, s.ended(t.Context(), again))
	if s.name(again) == s.name(kept) { // else a name is never used again
		done, err := s.prune(t.Context(), db.Policy{Age: db.KeepNone})
		must(t, err)
		if done.Removed != 0 {
			t.Error("what took a pinned name was removed")
		}
		must(t, at.d.Write(t.Context(), "storetest", func(tx *db.Tx) error { return s.pins.UnpinTx(tx, kept) }))
	}
	done, err := s.prune(t.Context(), db.Policy{Age: db.KeepNone})
	must(t, err)
	if done.Removed != 1 {
		t.Errorf("without its pin %d were removed", done.Removed)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s gave %v, not %v", what, err, want)
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, not %q", what, got, want)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %+v, not %+v", what, got, want)
	}
}
