package agents

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Change is the state of an agent after its entry was written.
type Change struct {
	Entry  Entry
	Epoch  int64 // of its reservation of the thread; 0: it has none
	Leased bool  // the reservation ends with its lease; see Lease
}

// A Followed is what a follower of agents receives: the state of an agent after its entry was
// written, then its new status if it has one, or the report that the agent left the registry.
type Followed = db.Followed[string, Change]

const opFollow = "follow agents"

// stream is how agents are followed. Positions count the writes of an entry; only the last one is
// kept.
var stream = stores.Stream[string, Change]{
	Op: opFollow, Name: "agent", Born: string(Active), Table: "agents", Key: "id", Gone: whyGone,
	End: sqlEntryEnd, Read: readChange,
}

// Follow reports the state of an agent, and again after each write of its entry, by any process:
// when it was saved or updated, got another status, or reserved or released its thread. It reports
// states, not events: of several writes between two polls, the last one. Heartbeats under a lease
// and logged queries are not writes. The death of an agent is reported once a call abandons it,
// such as Recover. The cursor is one of Follow, FollowAll or [Registry.CursorBefore]; "" is the
// beginning.
//
// It ends when the caller leaves the loop, or with an error: the cause of ctx once that ends,
// db.ErrClosed, db.ErrNotFound for a missing agent, or db.ErrCursorExpired when the agent left the
// registry, removed or put aside. A cursor of another agent is db.ErrInvalid.
func (r *Registry) Follow(ctx context.Context, id, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, r.db, stream, func(rx *db.Rx) (stores.Place, error) {
		at, err := r.placeOf(rx, id, cursor)
		return at, named(opFollow, id, err)
	})
}

// FollowAll is Follow for all agents that pass the filter, from this call on. Once an agent has
// passed, it is followed until it leaves the registry, which is reported as a gap with Gone. Each
// item has the cursor of its own agent, for [Registry.Follow]. The loop may be run once, and ends
// like Follow's loop.
//
// After a commit it polls the agents that the commit touched, or all of the scope where that is not known,
// once for all followers with this filter. An agent that came and went between two polls is not reported.
func (r *Registry) FollowAll(ctx context.Context, f Filter) iter.Seq2[Followed, error] {
	where, args, err := f.where()
	if err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, named(opFollow, "", err)) }
	}
	return stores.FollowScope(ctx, r.db, stream, r.scope, fmt.Sprintf(sqlHeads, where), args)
}

// CursorBefore returns the cursor before an agent's present state; for 0 writes, the one after it.
// A missing agent is db.ErrNotFound; negative writes are db.ErrInvalid.
func (r *Registry) CursorBefore(ctx context.Context, id string, writes int64) (string, error) {
	return stores.Get(ctx, r.db.Read, opFollow, stores.Bind2(r.CursorBeforeTx, id, writes))
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (r *Registry) CursorBeforeTx(rx *db.Rx, id string, writes int64) (cursor string, err error) {
	cursor, err = stream.CursorBefore(rx, writes, func() (stores.Place, error) { return r.placeOf(rx, id, "") })
	return cursor, named(opFollow, id, err)
}

// placeOf returns the place in an agent's stream that a cursor points at; "" is the beginning.
func (r *Registry) placeOf(rx *db.Rx, id, cursor string) (at stores.Place, err error) {
	if err := cmp.Or(checkID(id), rx.Store().Of(r.db.Store())); err != nil {
		return at, err
	}
	return stream.PlaceIn(rx, cursor, func() (key int64, found bool, err error) {
		scope, ok, err := rx.Store().Scope(r.scope)
		if err == nil && ok {
			found, err = rx.Find(&key, sqlKeyOf, scope, id)
		}
		return key, found, err
	})
}

const whyGone = "the agent left the registry"

const (
	sqlKeyOf = `SELECT id FROM agents WHERE scope = ? AND session_id = ? AND put_aside_at IS NULL`
	// The + keeps a server from the indexes of agents that are not put aside: the key finds the row.
	sqlEntryEnd = `SELECT id AS key, changes AS seen, status FROM agents WHERE id = ? AND +put_aside_at IS NULL`
	sqlHeads    = `SELECT a.id AS key, a.session_id AS of, a.changes AS seen, a.status, CASE WHEN 1 = 1%s THEN 0
	ELSE 1 END AS out
FROM agents a WHERE a.id > ? AND a.id <= ? AND +a.scope = ? AND +a.put_aside_at IS NULL ORDER BY a.id`
)

var sqlByKey = sqlRow + `WHERE a.id = ? AND +a.put_aside_at IS NULL`

// readChange reads the state of an agent if it was written after the place.
func readChange(rx *db.Rx, at stores.Place, _ paging.Room) (got stores.Stretch[string, Change], err error) {
	s, err := findEntry(rx, sqlByKey, at.Key)
	if err == nil && s == nil {
		err = txn.CursorExpired(whyGone)
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Status, got.Seen = s.SessionID, string(s.Status), s.Changes
	if s.Changes > at.Seen {
		change := Change{Entry: s.Entry, Leased: s.TTL != nil}
		if s.Epoch != nil {
			change.Epoch = *s.Epoch
		}
		got.Items = []stores.Placed[Change]{{Position: s.Changes, Item: change}}
	}
	return got, nil
}
