package checkpoints

import (
	"context"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Followed is what a follower of checkpoints receives, by the id of the run: a checkpoint after it
// was saved, claimed or released, then its new state if that changed, or the report that it is gone.
type Followed = db.Followed[string, Summary]

const opFollow = "follow checkpoints"

// stream is how checkpoints are followed. Positions count the changes of a row; only the last one
// is kept.
var stream = stores.Stream[string, Summary]{
	Op: opFollow, Name: "checkpoint", Born: string(Paused), Table: "checkpoints", Key: "id", Gone: whyGone,
	End: sqlRowEnd, Read: readChange,
}

// Follow reports a checkpoint, and again whenever it was saved, claimed or released, by any
// process. It reports states, not events: of several changes between two polls, the last one. The
// cursor is one of Follow, FollowAll or [Store.CursorBefore], and selects the checkpoint of the
// run, regardless of the state in ref; "" is the beginning.
//
// It ends when the caller leaves the loop, or with an error: the cause of ctx once that ends,
// db.ErrClosed, db.ErrNotFound for a missing checkpoint, or db.ErrCursorExpired when it is gone:
// completed, removed, or dropped because the next pause of the run was claimed. That pause has
// another checkpoint. A cursor of another run is db.ErrInvalid.
func (s *Store) Follow(ctx context.Context, ref Ref, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, s.db, stream, func(rx *db.Rx) (stores.Place, error) {
		return s.placeOf(rx, ref, cursor)
	})
}

// FollowAll is Follow for all checkpoints that pass the filter, from this call on. Once a
// checkpoint has passed, it is followed until it is completed or removed, which is reported as a
// gap with Gone. Each item has the cursor of its own checkpoint, for [Store.Follow]. The loop may
// be run once, and ends like Follow's loop.
//
// After a commit it polls the checkpoints that the commit touched, or all of the scope where that is not
// known, once for all followers with this filter. A checkpoint that came and went between two polls is not
// reported.
func (s *Store) FollowAll(ctx context.Context, f Filter) iter.Seq2[Followed, error] {
	if _, err := f.State.condition(); err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, failed(opFollow, "", err)) }
	}
	return stores.FollowScope(ctx, s.db, stream, s.scope, sqlHeads, []any{string(f.State), s.agent})
}

// CursorBefore returns the cursor before a checkpoint's present state; for 0 changes, the one after
// it. A missing checkpoint is db.ErrNotFound; negative changes are db.ErrInvalid.
func (s *Store) CursorBefore(ctx context.Context, ref Ref, changes int64) (string, error) {
	return stores.Get(ctx, s.db.Read, opFollow, stores.Bind2(s.CursorBeforeTx, ref, changes))
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (s *Store) CursorBeforeTx(rx *db.Rx, ref Ref, changes int64) (cursor string, err error) {
	first := func() (stores.Place, error) { return s.placeOf(rx, ref, "") }
	cursor, err = stream.CursorBefore(rx, changes, first)
	return cursor, failed(opFollow, ref.RunID, err)
}

// placeOf returns the place in a checkpoint's stream that a cursor points at; "" is the beginning.
func (s *Store) placeOf(rx *db.Rx, ref Ref, cursor string) (stores.Place, error) {
	s = s.as(ref.AgentID)
	at, err := stream.PlaceIn(rx, cursor, func() (key int64, found bool, err error) {
		err = s.look(rx, opFollow, ref.RunID, func(scope int64) (err error) {
			key, found, err = s.followed(rx, scope, ref, cursor)
			return err
		})
		return key, found, err
	})
	return at, failed(opFollow, ref.RunID, err)
}

// followed finds the row of a run that a cursor points at; without a cursor, the one that ref names.
func (s *Store) followed(rx *db.Rx, scope int64, ref Ref, cursor string) (key int64, found bool, err error) {
	inState, err := ref.State.condition()
	if err != nil {
		return 0, false, err
	}
	run := s.key(scope, ref.RunID)
	if cursor != "" {
		at, err := stream.ReadCursor(rx, cursor)
		if err == nil {
			found, err = rx.Find(&key, sqlIsOf, append(run, at.Key)...)
		}
		return key, found, err
	}
	found, err = rx.Find(&key, sqlKeyOf+inState+sqlWaitingFirst, run...)
	if err == nil && !found {
		err = s.otherAgent(rx, scope, ref.RunID)
	}
	return key, found, err
}

const whyGone = "the checkpoint was completed or removed"

const (
	sqlKeyOf        = `SELECT c.id FROM checkpoints AS c WHERE ` + ofRun
	sqlWaitingFirst = ` ORDER BY c.state DESC LIMIT 1`
	sqlIsOf         = `SELECT id FROM checkpoints WHERE ` + ofRun + ` AND id = ?`
	sqlRowEnd       = `SELECT id AS key, changes AS seen, state AS status FROM checkpoints WHERE id = ?`
	sqlByKey        = sqlSummary + `WHERE c.id = ?`
	sqlHeads        = `SELECT id AS key, run_id AS of, changes AS seen, state AS status,
		CASE WHEN ? IN ('', state) AND ` + ofAgent + ` THEN 0 ELSE 1 END AS out FROM checkpoints
		WHERE id > ? AND id <= ? AND +scope = ? ORDER BY id`
)

// readChange reads a checkpoint if it changed after the place.
func readChange(rx *db.Rx, at stores.Place, _ paging.Room) (got stores.Stretch[string, Summary], err error) {
	var row summaryRow
	found, err := rx.Find(&row, sqlByKey, at.Key)
	if err == nil && !found {
		err = txn.CursorExpired(whyGone)
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Status, got.Seen = row.RunID, string(row.State), row.Changes
	if row.Changes > at.Seen {
		one, err := row.summary(rx)
		if err != nil {
			return got, err
		}
		got.Items = []stores.Placed[Summary]{{Position: row.Changes, Item: one}}
	}
	return got, nil
}
