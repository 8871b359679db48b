package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// A What says which sort of thing a follower is told.
type What int

const (
	// Written: an item was written.
	Written What = iota
	// StatusChanged: the thing that is followed has another status.
	StatusChanged
	// Gap: items went before they could be told, or the thing itself did.
	Gap
)

// A Followed is what a follower is told next. R names the thing that is followed, and T is what is
// written there.
type Followed[R, T any] struct {
	Of     R
	What   What
	Item   T      // Written
	Status string // StatusChanged: the new one
	Reason string // Gap: what went
	Gone   bool   // Gap: the thing itself is gone, and nothing more comes of it
	// Cursor is the place behind this in the stream of Of: what Follow goes on from once it is dealt with.
	Cursor string
}

// A Place is where a reader stands in a stream: in the records of a run, the events of a runtime.
type Place struct {
	Key    int64  `db:"key"`    // number of the row that the stream belongs to; it is never used again
	Seen   int64  `db:"seen"`   // position of the last item that the reader has
	Status string `db:"status"` // the status that it knows
}

// A Stream is how a store tells its followers of one sort of thing. Its functions may be called
// more than once for one answer, and must not change what they share.
type Stream[R comparable, T any] struct {
	Op   string // in errors: "follow runs"
	Name string // in cursors: "run"
	// Born is the status of a thing that nobody has seen yet. One that has it still is not told.
	Born string
	// Table is the table of the things, and Key its column that Place.Key is of. FollowAll goes
	// through the keys of all scopes, so that what one read looks at is bounded.
	Table, Key string
	// End is the place behind everything that a stream has; false: it is not there. Every follower
	// that waits is asked for at each commit, so it must be a seek.
	End func(rx *Rx, key int64) (Place, bool, error)
	// Read gives what stands behind a place, as much as there is room for. ErrCursorExpired: the stream is gone.
	Read func(rx *Rx, behind Place, room Room) (Stretch[R, T], error)
}

// A Stretch is what was read of a stream in one snapshot.
type Stretch[R, T any] struct {
	Of    R
	Items []Placed[T]
	Lost  string // why there are no items between the place and the first of these; "" if none are missing
	Seen  int64  // position of the last one that was looked at
	More  bool   // there are more behind it
	// Status is that of the thing. It is told behind the last item.
	Status string
}

// A Placed is an item and its position in the stream. Positions grow.
type Placed[T any] struct {
	Position int64
	Item     T
}

// Cursor is the text of a place.
func (s *Stream[R, T]) Cursor(rx *Rx, at Place) string {
	return rx.Cursor(s.Name, []int64{at.Key, at.Seen}, at.Status)
}

// ReadCursor reads the text of a place. Whether the key is that of the stream that the caller wants
// is the store's to see.
func (s *Stream[R, T]) ReadCursor(rx *Rx, cursor string) (at Place, err error) {
	var numbers [2]int64
	err = rx.ReadCursor(s.Name, cursor, numbers[:], &at.Status)
	at.Key, at.Seen = numbers[0], numbers[1]
	if err == nil && (at.Key <= 0 || at.Seen < 0) {
		err = NotThisCursor(cursor)
	}
	return at, err
}

// Follow tells what comes behind a place of one stream, first what is there and then each item as
// it comes, by whichever process, in the order of the stream, none twice and none left out without
// a Gap. begin finds the place; its Status is "" where the reader knows none. No transaction is
// open while the caller's loop runs, and nothing is read for a stream to which nothing comes.
//
// It goes on until the caller leaves the loop, or gives an error and ends: the cause once ctx ends,
// ErrClosed, what begin said, or ErrCursorExpired when the thing is removed or replaced.
func Follow[R comparable, T any](ctx context.Context, d *DB, s Stream[R, T],
	begin func(*Rx) (Place, error)) iter.Seq2[Followed[R, T], error] {
	return func(yield func(Followed[R, T], error) bool) {
		if err := s.follow(ctx, d, begin, yield); !errors.Is(err, errLeft) {
			yield(Followed[R, T]{}, s.failed(ctx, err))
		}
	}
}

func (s *Stream[R, T]) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return wrap(s.Op, err)
}

func (s *Stream[R, T]) follow(ctx context.Context, d *DB, begin func(*Rx) (Place, error),
	yield func(Followed[R, T], error) bool) error {
	// The tail comes before the first look: what is committed between them is told.
	tail, err := joinTail(ctx, d)
	if err != nil {
		return err
	}
	defer tail.leave()
	var at Place
	var lag lag
	defer d.lookouts.caughtUp(&lag)
	for known := false; ; known = true {
		d.lookouts.behind(&lag)
		since := tail.looks()
		var told []Followed[R, T]
		var next Place
		var more bool
		err := d.Read(ctx, s.Op, func(rx *Rx) (err error) {
			from := at
			if !known {
				if from, err = begin(rx); err != nil {
					return err
				}
			}
			told, next, more, err = s.read(rx, from)
			return err
		})
		if err != nil {
			return err
		}
		at = next
		for _, f := range told {
			if !yield(f, nil) {
				return errLeft
			}
		}
		if more {
			continue
		}
		waiting := at
		d.lookouts.caughtUp(&lag)
		err = tail.wait(ctx, since, func(rx *Rx) (bool, error) {
			end, found, err := s.End(rx, waiting.Key)
			return !found || end != waiting, err
		})
		if err != nil {
			return err
		}
	}
}

// Page gives what is there behind a place of a stream, with the cursors of Follow, and no status.
func (s *Stream[R, T]) Page(rx *Rx, behind Place, at At) (page Page[Followed[R, T]], err error) {
	room, err := at.Room()
	if err != nil {
		return page, err
	}
	got, err := s.Read(rx, behind, room)
	if err != nil {
		return page, err
	}
	page.Items, behind = s.tell(rx, behind, got)
	if got.More {
		page.Next = s.Cursor(rx, behind)
	}
	return page, nil
}

// readAtATime is the number of items that a follower reads at a time.
const readAtATime = 128

// read gives what is told next, and the place behind it.
func (s *Stream[R, T]) read(rx *Rx, at Place) (told []Followed[R, T], next Place, more bool, err error) {
	if at.Status == "" {
		at.Status = s.Born
	}
	got, err := s.Read(rx, at, Room{Items: readAtATime, bytes: MaxPageBytes})
	if err != nil {
		return nil, at, false, err
	}
	told, at = s.tell(rx, at, got)
	if !got.More && got.Status != at.Status {
		at.Status = got.Status
		told = append(told, Followed[R, T]{Of: got.Of, What: StatusChanged, Status: got.Status,
			Cursor: s.Cursor(rx, at)})
	}
	return told, at, got.More, nil
}

// tell makes what is told of a stretch, and the place behind it.
func (s *Stream[R, T]) tell(rx *Rx, at Place, got Stretch[R, T]) (told []Followed[R, T], next Place) {
	if got.Lost != "" {
		at.Seen = got.Seen
		if len(got.Items) > 0 { // before the first, so that who goes on from there is not told of the gap again
			at.Seen = got.Items[0].Position - 1
		}
		told = append(told, Followed[R, T]{Of: got.Of, What: Gap, Reason: got.Lost, Cursor: s.Cursor(rx, at)})
	}
	for _, item := range got.Items {
		at.Seen = item.Position
		told = append(told, Followed[R, T]{Of: got.Of, Item: item.Item, Cursor: s.Cursor(rx, at)})
	}
	at.Seen = got.Seen
	return told, at
}

// A Head is where the stream of one of many things ends.
type Head[R comparable] struct {
	Of R `db:"of"`
	Place
	// Out: the thing does not pass the follower's filter. It is followed from when it passes on.
	Out bool `db:"out"`
}

// Heads are how FollowAll looks at its streams.
type Heads[R comparable] struct {
	// Between gives those with keys behind one and up to another, those that don't pass the filter
	// too, in the order of keys.
	Between func(rx *Rx, behind, last int64) ([]Head[R], error)
	// Open gives the keys of those to which something may well come, at most so many. Where a look at
	// all takes long it comes but a twentieth of the time, and in between it is these that are looked
	// at. nil: all are, always.
	Open func(rx *Rx, most int) (keys []int64, err error)
}

// FollowAll tells what comes to many streams from this call on. Followers whose key is equal, any
// comparable value, look together. New things are followed from their beginning, and a thing that
// has begun to pass from then on, until it is removed. Inside a stream the order is its own, none
// twice and none left out without a Gap; between streams it is that in which they were met. The
// removal of a thing is a Gap that says Gone. The loop may be run once; it ends as that of Follow
// does.
//
// It looks at the heads after a commit, 1,000 keys in a read, and no more than a fifth of the time.
// What came and went between two looks is not told.
func FollowAll[R comparable, T any](
	ctx context.Context, d *DB, s Stream[R, T], key any, heads Heads[R],
) iter.Seq2[Followed[R, T], error] {
	overview, now, leave, err := joinOverview(ctx, d, overviewKey{s.Name, key},
		someHeads[R]{s.some(heads.Between), heads})
	return func(yield func(Followed[R, T], error) bool) {
		if err == nil {
			defer leave()
			err = s.followAll(ctx, d, overview, now, yield)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(Followed[R, T]{}, s.failed(ctx, err))
		}
	}
}

// headsAtATime is how many keys one read looks at.
const headsAtATime = 1000

// sqlNextKeys gives the greatest and the number of the next keys of a table behind one.
const sqlNextKeys = `SELECT coalesce(max(%[2]s), 0) AS last, count(*) AS keys
	FROM (SELECT %[2]s FROM %[1]s WHERE %[2]s > ? ORDER BY %[2]s LIMIT ?) AS next`

// some gives the heads of the next keys, and the last of these.
func (s *Stream[R, T]) some(between func(rx *Rx, behind, last int64) ([]Head[R], error)) pageOfHeads[R] {
	keys := fmt.Sprintf(sqlNextKeys, s.Table, s.Key)
	return func(rx *Rx, behind int64) (list []Head[R], last int64, more bool, err error) {
		var next struct {
			Last int64 `db:"last"`
			Keys int64 `db:"keys"`
		}
		if err := rx.Get(&next, keys, behind, headsAtATime); err != nil || next.Keys == 0 {
			return nil, behind, false, err
		}
		list, err = between(rx, behind, next.Last)
		return list, next.Last, next.Keys == headsAtATime, err
	}
}

// A stand is where a follower stands in one of many streams; Out until that first passes.
type stand[R comparable] struct {
	Head[R]
	// gone: its removal was told. A look that began before the removal, or that kept what an earlier
	// one saw, may show it still.
	gone bool
}

func (s *Stream[R, T]) followAll(
	ctx context.Context, d *DB, overview *overview[R], now sight[R], yield func(Followed[R, T], error) bool,
) error {
	followed := make([]stand[R], 0, len(now.heads))
	for _, head := range now.heads {
		followed = append(followed, stand[R]{Head: head})
	}
	var lag lag
	defer d.lookouts.caughtUp(&lag)
	for {
		var err error
		d.lookouts.caughtUp(&lag)
		if now, err = overview.wait(ctx, now); err != nil {
			return err
		}
		d.lookouts.behind(&lag)
		before := followed
		followed = make([]stand[R], 0, len(now.heads))
		for _, head := range now.heads {
			for len(before) > 0 && before[0].Key < head.Key {
				if err := s.tellGone(ctx, d, before[0], yield); err != nil {
					return err
				}
				before = before[1:]
			}
			at := stand[R]{Head: Head[R]{Of: head.Of, Place: Place{Key: head.Key, Status: s.Born}, Out: head.Out}}
			if len(before) > 0 && before[0].Key == head.Key {
				at.Place, at.Out, at.gone = before[0].Place, before[0].Out && head.Out, before[0].gone
				before = before[1:]
			}
			if at.Out {
				at.Place = head.Place
			}
			if at.behind(head.Place) {
				if err := s.tellRest(ctx, d, &at, yield); err != nil {
					return err
				}
			}
			followed = append(followed, at)
		}
		for _, was := range before {
			if err := s.tellGone(ctx, d, was, yield); err != nil {
				return err
			}
		}
	}
}

// behind reports whether there is something to read for a reader who stands there. One who has read
// on beyond the look has seen all that the look saw.
func (at *stand[R]) behind(end Place) bool {
	return !at.gone && (at.Seen < end.Seen || at.Seen == end.Seen && at.Status != end.Status)
}

// errLeft ends a follower whose caller left the loop; nobody is told.
var errLeft = errors.New("the loop was left")

// tellRest reads one stream to its end, or tells that it was removed meanwhile.
func (s *Stream[R, T]) tellRest(ctx context.Context, d *DB, at *stand[R],
	yield func(Followed[R, T], error) bool) error {
	for more := true; more; {
		var told []Followed[R, T]
		var next Place
		err := d.Read(ctx, s.Op, func(rx *Rx) (err error) {
			told, next, more, err = s.read(rx, at.Place)
			return err
		})
		if errors.Is(err, ErrCursorExpired) {
			err = s.tellGone(ctx, d, *at, yield)
			at.gone = true
			return err
		}
		if err != nil {
			return err
		}
		at.Place = next
		for _, f := range told {
			if !yield(f, nil) {
				return errLeft
			}
		}
	}
	return nil
}

func (s *Stream[R, T]) tellGone(ctx context.Context, d *DB, was stand[R],
	yield func(Followed[R, T], error) bool) error {
	if was.Out || was.gone {
		return nil
	}
	f := Followed[R, T]{Of: was.Of, What: Gap, Gone: true, Reason: "it was removed"}
	err := d.Read(ctx, s.Op, func(rx *Rx) error {
		f.Cursor = s.Cursor(rx, was.Place)
		return nil
	})
	if err == nil && !yield(f, nil) {
		err = errLeft
	}
	return err
}
