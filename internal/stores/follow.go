package stores

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
)

// A Place is a reader's position in a stream, such as the records of a run or the events of a
// runtime.
type Place struct {
	Key    int64  `db:"key"`    // number of the row that the stream belongs to; it is never used again
	Seen   int64  `db:"seen"`   // position of the last item that the reader has
	Status string `db:"status"` // the status that it knows
}

// A Stream is a store's part in following one kind of thing. Its functions may be called more than
// once for one answer, and must not change shared state.
type Stream[R comparable, T any] struct {
	Op   string // in errors: "follow runs"
	Name string // in cursors: "run"
	// Born is the initial status, which is not reported.
	Born string
	// Table is the table of the things, and Key its column for Place.Key. FollowAll walks the keys of
	// all scopes, so that one read examines a bounded number of rows. A table that engine.StreamOf does
	// not know is walked after each commit.
	Table, Key string
	// Gone is why a cursor into a removed stream has expired.
	Gone string
	// End is the query for the end of the stream with a key: key, seen and status. It runs for every
	// waiting follower at each commit, so it must be a single seek.
	End string
	// Read returns what follows a place, as much as there is room for. It returns
	// db.ErrCursorExpired if the stream was removed.
	Read func(rx *db.Rx, behind Place, room paging.Room) (Stretch[R, T], error)
}

// A Stretch is a part of a stream, read from one snapshot.
type Stretch[R, T any] struct {
	Of    R
	Items []Placed[T]
	Lost  string // why there are no items between the place and the first of these; "" if none are missing
	Seen  int64  // position of the last item examined
	More  bool   // more items follow
	// Status is the thing's status. It is reported after the last item.
	Status string
}

// A yielder is the loop of a follower.
type yielder[R, T any] = func(db.Followed[R, T], error) bool

// A Placed is an item with its position in the stream. Positions grow.
type Placed[T any] struct {
	Position int64
	Item     T
}

// Cursor returns the text of a place.
func (s *Stream[R, T]) Cursor(rx *db.Rx, at Place) string {
	return rx.Store().Cursor(s.Name, []int64{at.Key, at.Seen}, at.Status)
}

// ReadCursor parses the text of a place. The store must check that the key belongs to the stream
// that the caller asked for.
func (s *Stream[R, T]) ReadCursor(rx *db.Rx, cursor string) (at Place, err error) {
	var numbers [2]int64
	err = rx.Store().ReadCursor(s.Name, cursor, numbers[:], &at.Status)
	at.Key, at.Seen = numbers[0], numbers[1]
	if err == nil && (at.Key <= 0 || at.Seen < 0) {
		err = txn.NotThisCursor(cursor)
	}
	return at, err
}

// EndOf returns the end of the stream with that key; false if the stream was removed.
func (s *Stream[R, T]) EndOf(rx *db.Rx, key int64) (end Place, found bool, err error) {
	found, err = rx.Find(&end, s.End, key)
	return end, found, err
}

// CursorBefore returns the cursor before the present state of a thing, for a stream of states; for 0 changes,
// the one after it. first finds the place before it.
func (s *Stream[R, T]) CursorBefore(rx *db.Rx, changes int64, first func() (Place, error)) (string, error) {
	if changes < 0 {
		return "", txn.Invalid("ask for 0 or more", "%d changes", changes)
	}
	at, err := first()
	if err == nil && changes == 0 {
		at, _, err = s.EndOf(rx, at.Key)
	}
	if err != nil {
		return "", err
	}
	return s.Cursor(rx, at), nil
}

// PlaceIn returns the place that a cursor points at, which must be in the stream that find finds; ""
// is the beginning. ErrNotFound: there is no such stream, and no cursor.
func (s *Stream[R, T]) PlaceIn(
	rx *db.Rx, cursor string, find func() (key int64, found bool, err error),
) (at Place, err error) {
	if cursor != "" {
		if at, err = s.ReadCursor(rx, cursor); err != nil {
			return at, err
		}
	}
	key, found, err := find()
	switch {
	case err != nil:
		return at, err
	case found && (cursor == "" || at.Key == key):
		at.Key = key
		return at, nil
	case cursor == "":
		return at, db.ErrNotFound
	}
	_, other, err := s.EndOf(rx, at.Key)
	switch {
	case err != nil:
		return at, err
	case other:
		return at, txn.NotThisCursor(cursor)
	}
	return at, txn.CursorExpired(s.Gone)
}

// Follow iterates over what follows a place of one stream: first what exists, then each item as any
// process writes it, in the order of the stream, without repeats. A db.Gap stands for items that
// were removed unread. begin finds the place; its Status is "" if the reader knows none. No
// transaction is open while the caller's loop runs, and a stream without news is not read.
//
// It ends when the caller leaves the loop, or with an error: the context's cause, db.ErrClosed, the
// error of begin, or db.ErrCursorExpired once the thing is removed or replaced.
func Follow[R comparable, T any](ctx context.Context, d *db.DB, s Stream[R, T],
	begin func(*db.Rx) (Place, error),
) iter.Seq2[db.Followed[R, T], error] {
	return func(yield func(db.Followed[R, T], error) bool) {
		if err := s.follow(ctx, d, begin, yield); !errors.Is(err, errLeft) {
			yield(db.Followed[R, T]{}, s.failed(ctx, err))
		}
	}
}

func (s *Stream[R, T]) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return db.About(err, s.Op, "", "", nil)
}

func (s *Stream[R, T]) follow(ctx context.Context, d *db.DB, begin func(*db.Rx) (Place, error),
	yield func(db.Followed[R, T], error) bool,
) error {
	// Join the tail before the first read, so that no commit between the two is missed.
	tail, err := join(ctx, d, tailKey{}, &tail{waiting: map[*waiter]struct{}{}})
	if err != nil {
		return err
	}
	defer tail.leave()
	var lag lag
	defer pollersOf(d).caughtUp(&lag)
	for from := begin; ; {
		pollersOf(d).behind(&lag)
		since := tail.polls()
		at, more, err := s.nextNews(ctx, d, from, yield)
		if err != nil {
			return err
		}
		from = at.itself
		if more {
			continue
		}
		pollersOf(d).caughtUp(&lag)
		err = tail.wait(ctx, since, func(rx *db.Rx) (bool, error) {
			end, found, err := s.EndOf(rx, at.Key)
			return !found || end != at, err
		})
		if err != nil {
			return err
		}
	}
}

// itself returns the place, where a function is wanted that finds one.
func (at Place) itself(*db.Rx) (Place, error) { return at, nil }

// nextNews reads what follows a place once, with no transaction open when it hands that over. It
// returns the next place.
func (s *Stream[R, T]) nextNews(ctx context.Context, d *db.DB, from func(*db.Rx) (Place, error),
	yield func(db.Followed[R, T], error) bool,
) (next Place, more bool, err error) {
	var news []db.Followed[R, T]
	err = d.Read(ctx, s.Op, func(rx *db.Rx) error {
		at, err := from(rx)
		if err == nil {
			news, next, more, err = s.read(rx, at)
		}
		return err
	})
	if err != nil {
		return next, false, err
	}
	for _, f := range news {
		if !yield(f, nil) {
			return next, more, errLeft
		}
	}
	return next, more, nil
}

// Page returns what follows a place of a stream, with Follow's cursors and without status.
func (s *Stream[R, T]) Page(rx *db.Rx, behind Place, at db.At) (page db.Page[db.Followed[R, T]], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	got, err := s.Read(rx, behind, room)
	if err != nil {
		return page, err
	}
	page.Items, behind = s.newsOf(rx, behind, got)
	if got.More {
		page.Next = s.Cursor(rx, behind)
	}
	return page, nil
}

// readAtATime is the number of items that a follower reads at a time.
const readAtATime = 128

// read returns the next news, and the place after it.
func (s *Stream[R, T]) read(
	rx *db.Rx, at Place,
) (news []db.Followed[R, T], next Place, more bool, err error) {
	if at.Status == "" {
		at.Status = s.Born
	}
	got, err := s.Read(rx, at, paging.RoomOf(readAtATime))
	if err != nil {
		return nil, at, false, err
	}
	news, at = s.newsOf(rx, at, got)
	if !got.More && got.Status != at.Status {
		at.Status = got.Status
		news = append(news, db.Followed[R, T]{
			Of: got.Of, What: db.StatusChanged, Status: got.Status,
			Cursor: s.Cursor(rx, at),
		})
	}
	return news, at, got.More, nil
}

// newsOf converts a stretch to news, and returns the place after it.
func (s *Stream[R, T]) newsOf(rx *db.Rx, at Place, got Stretch[R, T]) (news []db.Followed[R, T], next Place) {
	if got.Lost != "" {
		at.Seen = got.Seen
		if len(got.Items) > 0 { // before the first item, so that resuming here does not repeat the gap
			at.Seen = got.Items[0].Position - 1
		}
		news = append(news, db.Followed[R, T]{Of: got.Of, What: db.Gap, Reason: got.Lost, Cursor: s.Cursor(rx, at)})
	}
	for _, item := range got.Items {
		at.Seen = item.Position
		news = append(news, db.Followed[R, T]{Of: got.Of, Item: item.Item, Cursor: s.Cursor(rx, at)})
	}
	at.Seen = got.Seen
	return news, at
}

// A Head is the end of one of many streams.
type Head[R comparable] struct {
	Of R `db:"of"`
	Place
	// Out: the thing does not match the follower's filter. It is followed from when it does.
	Out bool `db:"out"`
}

// FollowAll iterates over the news of many streams from this call on. Followers with equal keys,
// any comparable value, share their polls. A new thing is followed from its beginning; one that
// begins to match the filter is followed from then until it is removed. Each stream keeps its own
// order, without repeats, with a db.Gap for items that were removed unread. Items of different
// streams come in the order in which they were found. The removal of a thing is a db.Gap with Gone
// set. The loop can be run once; it ends as Follow does.
//
// After a commit it polls the heads that the commit touched, at most a fifth of the time. If that is not
// known, it polls all heads, at most a twentieth of the time. Both polls take 1,000 keys in a read. What
// appeared and disappeared between two polls is not reported.
//
// between returns the heads of the keys in (behind, last], by key, including those that don't match the
// filter.
func FollowAll[R comparable, T any](
	ctx context.Context, d *db.DB, s Stream[R, T], key any,
	between func(rx *db.Rx, behind, last int64) ([]Head[R], error),
) iter.Seq2[db.Followed[R, T], error] {
	overview, heads, seen, leave, err := joinOverview(ctx, d, overviewKey{s.Name, key}, s.Table,
		fmt.Sprintf(sqlNextKeys, s.Table, s.Key), between)
	return func(yield func(db.Followed[R, T], error) bool) {
		if err == nil {
			defer leave()
			err = s.followAll(ctx, d, overview, heads, seen, yield)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(db.Followed[R, T]{}, s.failed(ctx, err))
		}
	}
}

// FollowScope is FollowAll for the streams of a scope whose heads a statement returns. It takes args, the
// two keys and the number of the scope.
func FollowScope[R comparable, T any](ctx context.Context, d *db.DB, s Stream[R, T], scope, between string,
	args []any,
) iter.Seq2[db.Followed[R, T], error] {
	// The arguments are texts and integers, which %#v writes each in its own way; %q takes large
	// integers for one rune.
	key := [2]string{scope, fmt.Sprintf("%s %#v", between, args)}
	return FollowAll(ctx, d, s, key, func(rx *db.Rx, behind, last int64) (heads []Head[R], err error) {
		id, ok, err := rx.Store().Scope(scope)
		if err == nil && ok {
			err = rx.Select(&heads, between, append(slices.Clip(args), behind, last, id)...)
		}
		return heads, err
	})
}

// A stand is a follower's position in one of many streams. Out is set until the stream first
// matches.
type stand[R comparable] struct {
	Head[R]
	// gone: the removal was reported. A poll that began earlier, or reused an older snapshot, may
	// still show the stream.
	gone bool
}

func (s *Stream[R, T]) followAll(
	ctx context.Context, d *db.DB, overview *overview[R], heads map[int64]Head[R], seen int,
	yield func(db.Followed[R, T], error) bool,
) error {
	followed := make(map[int64]stand[R], len(heads))
	for key, head := range heads {
		followed[key] = stand[R]{Head: head}
	}
	var lag lag
	defer pollersOf(d).caughtUp(&lag)
	for {
		pollersOf(d).caughtUp(&lag)
		news, now, all, err := overview.wait(ctx, seen)
		if err != nil {
			return err
		}
		pollersOf(d).behind(&lag)
		seen = now
		if all {
			news = append(news, missing(followed, news)...)
		}
		for _, head := range news {
			at, before := followed[head.Key]
			if head.removed {
				delete(followed, head.Key)
				if before {
					err = s.removalOf(ctx, d, at, yield)
				}
			} else {
				if before {
					at.Of, at.Out = head.Of, at.Out && head.Out
				} else {
					at = stand[R]{Head: Head[R]{Of: head.Of, Place: Place{Key: head.Key, Status: s.Born}, Out: head.Out}}
				}
				if at.Out {
					at.Place = head.Place
				}
				if at.behind(head.Place) {
					err = s.restOf(ctx, d, &at, yield)
				}
				followed[head.Key] = at
			}
			if err != nil {
				return err
			}
		}
	}
}

// missing returns the streams that are followed and not in the list, as removed.
func missing[R comparable](followed map[int64]stand[R], list []sight[R]) (removed []sight[R]) {
	there := make(map[int64]struct{}, len(list))
	for _, head := range list {
		there[head.Key] = struct{}{}
	}
	for key := range followed {
		if _, still := there[key]; !still {
			removed = append(removed, removal[R](key))
		}
	}
	return removed
}

// behind reports whether the stream has something to read for this follower. One that has read past
// the poll has seen all that the poll saw.
func (at *stand[R]) behind(end Place) bool {
	return !at.gone && (at.Seen < end.Seen || at.Seen == end.Seen && at.Status != end.Status)
}

// errLeft ends a follower whose caller left the loop; it is not reported.
var errLeft = errors.New("the loop was left")

// restOf reads one stream to its end, or reports that it was removed.
func (s *Stream[R, T]) restOf(ctx context.Context, d *db.DB, at *stand[R], yield yielder[R, T]) error {
	for more := true; more; {
		next, some, err := s.nextNews(ctx, d, at.itself, yield)
		if errors.Is(err, db.ErrCursorExpired) {
			err = s.removalOf(ctx, d, *at, yield)
			at.gone = true
			return err
		}
		if err != nil {
			return err
		}
		at.Place, more = next, some
	}
	return nil
}

func (s *Stream[R, T]) removalOf(ctx context.Context, d *db.DB, was stand[R], yield yielder[R, T]) error {
	if was.Out || was.gone {
		return nil
	}
	f := db.Followed[R, T]{Of: was.Of, What: db.Gap, Gone: true, Reason: "it was removed"}
	err := d.Read(ctx, s.Op, func(rx *db.Rx) error {
		f.Cursor = s.Cursor(rx, was.Place)
		return nil
	})
	if err == nil && !yield(f, nil) {
		err = errLeft
	}
	return err
}
