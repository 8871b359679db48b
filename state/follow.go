package state

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Followed is what a follower of values receives: a value after it was written, or the report that
// it is gone.
type Followed = db.Followed[Ref, Item]

const (
	opFollow = "follow values"
	whyGone  = "the value was removed"
)

const (
	sqlKeyOf = `SELECT id FROM state_values WHERE scope = ? AND owner = ? AND state_key = ?`
	sqlEnd   = `SELECT id AS key, changes AS seen, '' AS status FROM state_values WHERE id = ?`
	sqlByID  = `SELECT ` + columns + ` FROM state_values WHERE id = ?`
	sqlHeads = `SELECT id AS key, owner AS "of.owner", state_key AS "of.state_key", changes AS seen,
	'' AS status, CASE WHEN %s THEN 0 ELSE 1 END AS out FROM state_values
WHERE id > ? AND id <= ? AND +scope = ? ORDER BY id`
)

// stream is how values are followed. Positions count the writes of a value; only the last one is
// kept.
var stream = stores.Stream[Ref, Item]{
	Op: opFollow, Name: "value", Table: "state_values", Key: "id", Gone: whyGone, End: sqlEnd, Read: readItem,
}

// Follow reports a value, and again whenever it was written, by any process. It reports states, not
// events: of several writes between two polls, the last one. The cursor is one of Follow, FollowAll
// or [Store.CursorBefore]; "" is the beginning.
//
// It ends when the caller leaves the loop, or with an error: the cause of ctx once that ends,
// db.ErrClosed, db.ErrNotFound for a missing value, or db.ErrCursorExpired when it was removed, also
// if it was set again. A cursor of another value is db.ErrInvalid.
func (s *Store) Follow(ctx context.Context, ref Ref, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, s.db, stream, func(rx *db.Rx) (stores.Place, error) {
		at, err := s.placeOf(rx, ref, cursor)
		return at, failed(opFollow, ref.Key, err)
	})
}

// FollowAll is Follow for all values that pass the filter, from this call on. A removal is reported
// as a gap with Gone. Each item has the cursor of its own value, for [Store.Follow]. The loop may be
// run once, and ends like that of Follow.
//
// After a commit it polls the values that the commit touched, at most a fifth of the time, and once for
// all followers with this filter. A value that came and went between two polls is not reported.
func (s *Store) FollowAll(ctx context.Context, f Filter) iter.Seq2[Followed, error] {
	where, args := `1 = 1`, []any(nil)
	if f.Owner != nil {
		where, args = `owner = ?`, []any{*f.Owner}
	}
	return stores.FollowScope(ctx, s.db, stream, s.scope, fmt.Sprintf(sqlHeads, where), args)
}

// CursorBefore returns the cursor before a value's present state; for 0 writes, the one after it. A
// missing value is db.ErrNotFound; negative writes are db.ErrInvalid.
func (s *Store) CursorBefore(ctx context.Context, ref Ref, writes int64) (string, error) {
	return stores.Get(ctx, s.db.Read, opFollow, stores.Bind2(s.CursorBeforeTx, ref, writes))
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (s *Store) CursorBeforeTx(rx *db.Rx, ref Ref, writes int64) (cursor string, err error) {
	cursor, err = stream.CursorBefore(rx, writes, func() (stores.Place, error) { return s.placeOf(rx, ref, "") })
	return cursor, failed(opFollow, ref.Key, err)
}

// placeOf returns the place in a value's stream that a cursor points at; "" is the beginning.
func (s *Store) placeOf(rx *db.Rx, ref Ref, cursor string) (stores.Place, error) {
	scope, there, err := s.look(rx, ref)
	if err != nil {
		return stores.Place{}, err
	}
	return stream.PlaceIn(rx, cursor, func() (id int64, found bool, err error) {
		if there {
			found, err = rx.Find(&id, sqlKeyOf, scope, ref.Owner, ref.Key)
		}
		return id, found, err
	})
}

// readItem reads a value if it was written after the place.
func readItem(rx *db.Rx, at stores.Place, _ paging.Room) (got stores.Stretch[Ref, Item], err error) {
	var r row
	found, err := rx.Find(&r, sqlByID, at.Key)
	if err == nil && !found {
		err = txn.CursorExpired(whyGone)
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Seen = r.Ref, r.Changes
	if r.Changes > at.Seen {
		got.Items = []stores.Placed[Item]{{Position: r.Changes, Item: r.item()}}
	}
	return got, nil
}
