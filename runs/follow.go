package runs

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// A TraceRecord is a record of a trace, and where it stands.
type TraceRecord struct {
	Sequence int64  // its place in the trace, from 1; imported lines that are no records leave theirs out
	Record   Record // those of later versions are Unknown
	Line     []byte // as an export writes it, without a line feed
}

// Usage is what a turn, or the model_turn of later versions, says that a model used; other records
// count nothing. To add up a run that has model_turns, leave its turns out: both count the same.
func (r TraceRecord) Usage() db.Usage {
	if kind := r.Record.RecordKind(); kind != "turn" && kind != "model_turn" {
		return db.Usage{}
	}
	return usage.Of(r.Line)
}

// A Followed is what a follower of runs is told: a record, a new status, or that a run is gone. A
// new status comes behind the record that brought it.
type Followed = db.Followed[RunRef, TraceRecord]

const opFollow = "follow runs"

// stream is how runs are followed. Positions are sequences of lines; a trace has no gaps.
var stream = stores.Stream[RunRef, TraceRecord]{
	Op: opFollow, Name: "run", Born: string(StatusInProgress), Table: "runs", Key: "key", End: traceEnd,
	Read: readStretch,
}

// Follow delivers the records of a run that stand behind a cursor, first those that are there and
// then each as it comes, by whichever process, in the order of the trace, none twice and none left
// out, and each new status. The cursor is one of Follow, FollowAll, [Store.TracePage] or
// [Store.CursorBefore]; "" is the beginning. No transaction is open while the caller's loop runs,
// and nothing is read while nothing comes to the run. An end of the run is a record like the
// others: more may follow.
//
// It goes on until the caller leaves the loop, or gives an error and ends: the cause once ctx ends,
// db.ErrClosed, ErrNotFound for a run that is not there, or ErrCursorExpired when the run was
// removed or replaced, before the call with a cursor or during it.
func (s *Store) Follow(ctx context.Context, run RunRef, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, s.db, stream, func(rx *db.Rx) (stores.Place, error) {
		at, err := s.placeIn(rx, run, cursor)
		if err != nil {
			err = run.failed(opFollow, err)
		}
		return at, err
	})
}

// FollowAll delivers what comes from this call on to the runs that pass the filter, from when they
// pass on, also where they then don't any more: their records, each new status, and a gap where a
// run was removed. New runs come from their beginning. Inside a run the order is that of the trace,
// none twice and none left out; between runs it is that in which they were met. Each item has the
// cursor of its own run, for [Store.Follow]. The loop may be run once; it ends as that of Follow
// does.
//
// Runs without a started record are followed too, where the filter asks neither for a status nor
// for a time. After a commit it looks at the runs of the scope, once for all followers with this
// filter, during at most a fifth of the time. Where that takes longer than 5 ms, as with some
// thousands of runs, it is the new ones and those in progress that have a started record; all of
// them, and so appends to runs that ended, are being cancelled or never were started, and removals,
// are looked at a twentieth of the time. What came and went between two looks is not seen.
func (s *Store) FollowAll(ctx context.Context, filter Filter) iter.Seq2[Followed, error] {
	where, err := filter.where()
	if err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, &db.Error{Op: opFollow, Err: err}) }
	}
	key, query := [2]string{s.scope, where.key()}, fmt.Sprintf(sqlTraceHeads, where.text)
	return stores.FollowAll(ctx, s.db, stream, key,
		stores.Heads[RunRef]{Between: func(rx *db.Rx, behind, last int64) (heads []stores.Head[RunRef], err error) {
			scope, ok, err := rx.Store().Scope(s.scope)
			if err != nil || !ok {
				return nil, err
			}
			err = rx.Select(&heads, query, append(slices.Clip(where.args), behind, last, scope)...)
			return heads, err
		}, Open: func(rx *db.Rx, most int) (keys []int64, err error) {
			scope, ok, err := rx.Store().Scope(s.scope)
			if err == nil && ok {
				err = rx.Select(&keys, sqlOpenTraces, scope, most)
			}
			return keys, err
		}})
}

// CursorBefore gives the cursor with which the last lines of a run come first, at most that many; 0
// lines is the end of the trace, for what is yet to come. ErrNotFound: there is no such run.
// ErrInvalid: lines is negative.
func (s *Store) CursorBefore(ctx context.Context, run RunRef, lines int64) (cursor string, err error) {
	return stores.Get(ctx, s.db.Read, opFollow,
		func(rx *db.Rx) (string, error) { return s.CursorBeforeTx(rx, run, lines) })
}

// CursorBeforeTx is CursorBefore inside a transaction.
func (s *Store) CursorBeforeTx(rx *db.Rx, run RunRef, lines int64) (string, error) {
	if lines < 0 {
		return "", run.failed(opFollow, txn.Invalid("ask for 0 or more", "%d lines", lines))
	}
	at, err := s.placeIn(rx, run, "")
	if err != nil {
		return "", run.failed(opFollow, err)
	}
	end, _, err := traceEnd(rx, at.Key)
	if lines == 0 {
		at.Status = end.Status // the initial status is not reported
	}
	at.Seen = max(0, end.Seen-lines)
	return stream.Cursor(rx, at), err
}

// placeIn is the place in a run that a cursor points at, which must be of that run; "" is the beginning.
func (s *Store) placeIn(rx *db.Rx, run RunRef, cursor string) (at stores.Place, err error) {
	if cursor != "" {
		if at, err = stream.ReadCursor(rx, cursor); err != nil {
			return at, err
		}
	}
	key, found, err := s.find(rx, run)
	switch {
	case err != nil:
		return at, err
	case found && (cursor == "" || at.Key == key):
		at.Key = key
		return at, nil
	case cursor == "":
		return at, db.ErrNotFound
	}
	other, err := rx.Find(new(int64), sqlRunByKey, at.Key)
	switch {
	case err != nil:
		return at, err
	case other:
		return at, txn.NotThisCursor(cursor)
	}
	return at, errGone()
}

const (
	sqlRunByKey = `SELECT key FROM runs WHERE key = ?`
	// The row of an ended run says how long its trace is, that of an open one doesn't.
	traceLast = `coalesce(turn_count + others,
    (SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24), 0)`
	sqlTraceEnd   = `SELECT key, status, ` + traceLast + ` AS seen FROM runs WHERE key = ?`
	sqlRunOfKey   = `SELECT agent_id, run_id, status FROM runs WHERE key = ?`
	sqlTraceHeads = `SELECT key, agent_id AS "of.agent_id", run_id AS "of.run_id", status, ` +
		traceLast + ` AS seen,
	CASE WHEN 1 = 1%s THEN 0 ELSE 1 END AS out
FROM runs WHERE key > ? AND key <= ? AND +scope = ? ORDER BY key`
	sqlOpenTraces = `SELECT key FROM runs WHERE scope = ? AND status = 'in_progress' AND started_at IS NOT NULL
		LIMIT ?`
)

func traceEnd(rx *db.Rx, key int64) (end stores.Place, found bool, err error) {
	found, err = rx.Find(&end, sqlTraceEnd, key)
	return end, found, err
}

// readStretch reads what stands behind a place.
func readStretch(
	rx *db.Rx, at stores.Place, room paging.Room,
) (got stores.Stretch[RunRef, TraceRecord], err error) {
	var run struct {
		RunRef
		Status string `db:"status"`
	}
	found, err := rx.Find(&run, sqlRunOfKey, at.Key)
	if err == nil && !found {
		err = errGone()
	}
	if err != nil {
		return got, err
	}
	got.Of, got.Status, got.Seen = run.RunRef, run.Status, at.Seen
	err = eachRow(rx, at.Key, at.Seen, room.Items+1, func(row *placedRow) (bool, error) {
		if got.More = !room.Take(row.size()); got.More {
			return false, nil
		}
		got.Seen = row.Sequence
		record, err := row.Record()
		if err != nil || record == nil {
			return true, err
		}
		line, err := row.Line()
		got.Items = append(got.Items, stores.Placed[TraceRecord]{
			Position: row.Sequence, Item: TraceRecord{Sequence: row.Sequence, Record: record, Line: line},
		})
		return true, err
	})
	return got, err
}
