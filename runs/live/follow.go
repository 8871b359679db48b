package live

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A Followed is what a follower receives, Of a run id: an event, a new status, or a gap. A new
// status follows the event that set it; after a mark it comes alone.
type Followed = db.Followed[string, RunEventRecord]

const opFollow = "follow live runs"

// stream describes how live runs are followed. The position of an event is its place plus 1; 0 is
// before all events.
var stream = stores.Stream[string, RunEventRecord]{
	Op: opFollow, Name: "live run", Born: string(Created),
	Table: "live_runs", Key: "key", Gone: whyGone, End: sqlRunEnd, Read: readStretch,
}

// Follow delivers the events of a run after a cursor, first those that are stored and then new
// ones of any process, and each new status. Events come in order, none twice, and none is left out
// without a gap. The cursor is one of Follow, FollowAll, [Store.EventsPage] or
// [Store.CursorBefore]; "" is the beginning. No transaction is open while the caller's loop runs,
// and nothing is read while the run does not change.
//
// An ended run may continue, so the caller decides when to leave the loop, by [RunStatus.Ended].
// Otherwise the loop ends with an error: the cause of ctx once that ends, db.ErrClosed,
// db.ErrNotFound if there is no such run, or db.ErrCursorExpired if the run was removed or
// replaced. Events that a cap removed before they were read are a gap.
func (s *Store) Follow(ctx context.Context, runID, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, s.db, stream, func(rx *db.Rx) (stores.Place, error) {
		_, at, err := s.placeIn(rx, runID, cursor)
		return at, named(opFollow, runID, err)
	})
}

// FollowAll delivers the events written after this call to runs that pass the filter, each new
// status, and gaps where events or a run were removed. A run is followed from the moment it passes
// until it is removed, even if it stops passing; new runs from their beginning. The events of a run
// come in order, none twice, and none is left out without a gap; the order between runs is
// arbitrary. Each item has the cursor of its own run, for [Store.Follow]. The loop may be run once;
// it ends as Follow's loop does.
//
// After a commit it polls the runs that the commit touched, once for all followers with this filter,
// during at most a fifth of the time. After a commit of another program it polls all runs, if that
// takes longer than 5 ms during at most a twentieth of the time. A run that was added and removed
// between two polls is not seen.
func (s *Store) FollowAll(ctx context.Context, filter Filter) iter.Seq2[Followed, error] {
	where, err := filter.passes()
	if err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, &db.Error{Op: opFollow, Err: err}) }
	}
	heads := fmt.Sprintf(sqlRunHeads, where.text)
	return stores.FollowScope(ctx, s.db, stream, s.scope, heads, where.args)
}

// CursorBefore returns the cursor before the last events of a run, at most that many of those that
// are kept; before 0 events is the end of the stream. db.ErrNotFound: there is no such run.
// db.ErrInvalid: events is negative.
func (s *Store) CursorBefore(ctx context.Context, runID string, events int64) (cursor string, err error) {
	return stores.Get(ctx, s.db.Read, opFollow, stores.Bind2(s.CursorBeforeTx, runID, events))
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (s *Store) CursorBeforeTx(rx *db.Rx, runID string, events int64) (string, error) {
	if events < 0 {
		return "", named(opFollow, runID, txn.Invalid("ask for 0 or more", "%d events", events))
	}
	row, _, err := s.placeIn(rx, runID, "")
	if err != nil {
		return "", named(opFollow, runID, err)
	}
	at := stores.Place{Key: row.Key, Seen: row.nextPlace()}
	if events == 0 {
		at.Status = row.Status
	} else if place, found, err := row.lastPlaces(rx, events); err != nil {
		return "", named(opFollow, runID, err)
	} else if found {
		at.Seen = place
	}
	return stream.Cursor(rx, at), nil
}

// placeIn returns a run, and the place of a cursor, which must be of that run; "" is the beginning.
func (s *Store) placeIn(rx *db.Rx, runID, cursor string) (row *runRow, at stores.Place, err error) {
	at, err = stream.PlaceIn(rx, cursor, func() (key int64, found bool, err error) {
		err = s.lookup(rx, opFollow, runID, func(scope int64) error {
			row, found, err = findRow(rx, scope, runID)
			return err
		})
		switch {
		case err == nil && found:
			key = row.Key
		case err == nil && cursor == "":
			err = notFound(opFollow, runID)
		}
		return key, found, err
	})
	return row, at, err
}

const whyGone = "the run was removed or replaced"

func errGone() error { return txn.CursorExpired(whyGone) }

const sqlRunEnd = `SELECT key, coalesce(places, event_count) AS seen, status FROM live_runs WHERE key = ?`

const sqlRunHeads = `SELECT r.key, r.run_id AS of, r.status, coalesce(r.places, r.event_count) AS seen, CASE
	WHEN 1 = 1%s THEN 0 ELSE 1 END AS out
FROM live_runs AS r WHERE r.key > ? AND r.key <= ? AND +r.scope = ? ORDER BY r.key`

// readStretch reads the events after a place.
func readStretch(
	rx *db.Rx, at stores.Place, room paging.Room,
) (got stores.Stretch[string, RunEventRecord], err error) {
	run, found, err := rowByKey(rx, at.Key)
	if err == nil && !found {
		err = errGone()
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Status, got.Seen = run.RunID, run.Status, at.Seen
	if at.Seen < run.FirstPlace {
		got.Lost = "events that come next were removed by a cap"
	}
	for row, err := range run.eachEvent(rx, at.Seen, int64(room.Items)+1) {
		if err != nil {
			return got, err
		}
		if got.More = !room.Take(row.weight()); got.More {
			return got, nil
		}
		got.Seen = row.place() + 1
		record, err := row.record()
		if err != nil {
			return got, err
		}
		got.Items = append(got.Items, stores.Placed[RunEventRecord]{Position: got.Seen, Item: record})
	}
	got.Seen = max(at.Seen, run.nextPlace()) // restored events may end before it
	return got, nil
}
