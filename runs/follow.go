package runs

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// A TraceRecord is a record of a trace and its position.
type TraceRecord struct {
	Sequence int64  // from 1; imported lines that are no records are counted but not delivered
	Record   Record // an Unknown for records of later versions
	Line     []byte // as an export writes it, without a line feed
}

// Usage returns the model usage that a turn, or the model_turn of later versions, reports; it is
// zero for other records. To add up a run that has model_turns, leave its turns out: both count the
// same usage.
func (r TraceRecord) Usage() db.Usage {
	if r.Record == nil {
		return db.Usage{}
	}
	if kind := r.Record.RecordKind(); kind != "turn" && kind != "model_turn" {
		return db.Usage{}
	}
	return usage.Of(r.Line)
}

// A Followed is what a follower of runs receives: a record, a new status, or the removal of a run.
// A new status follows the record that caused it.
type Followed = db.Followed[RunRef, TraceRecord]

const opFollow = "follow runs"

// stream describes how runs are followed. Positions are sequences of lines; a trace has no gaps.
var stream = stores.Stream[RunRef, TraceRecord]{
	Op: opFollow, Name: "run", Born: string(StatusInProgress), Table: "runs", Key: "key",
	Gone: whyGone, End: sqlTraceEnd, Read: readStretch,
}

// Follow delivers the records of a run after a cursor, first those that exist and then each new
// one, whichever process appends it, and each new status. Records come in the order of the trace,
// none twice and none left out. The cursor is one of Follow, FollowAll, [Store.TracePage] or
// [Store.CursorBefore]; "" is the beginning. No transaction is open while the caller's loop runs,
// and nothing is read while the run does not change. An end of the run is a record like the others:
// more may follow.
//
// The loop goes on until the caller leaves it. Otherwise it ends with an error: the cause of ctx
// once that ends, db.ErrClosed, ErrNotFound if the run does not exist, or ErrCursorExpired if the
// run was removed or replaced, either before a call with a cursor or during the call.
func (s *Store) Follow(ctx context.Context, run RunRef, cursor string) iter.Seq2[Followed, error] {
	return stores.Follow(ctx, s.db, stream, func(rx *db.Rx) (stores.Place, error) {
		at, err := s.placeIn(rx, run, cursor)
		if err != nil {
			err = run.failed(opFollow, err)
		}
		return at, err
	})
}

// FollowAll delivers what is appended after this call to runs that pass the filter: their records,
// each new status, and a gap if a run was removed. A run is followed from the moment it passes,
// even if it stops passing; new runs from their beginning. The records of a run come in the order
// of the trace, none twice and none left out; runs are interleaved in the order in which FollowAll
// finds their changes. Each item has the cursor of its own run, for [Store.Follow]. The loop may be
// run once; it ends as Follow's loop does.
//
// Runs without a started record are followed too if the filter names neither a status nor a time.
// After a commit it polls the runs that the commit touched, once for all followers with this filter,
// during at most a fifth of the time. After a commit of another program it polls all runs, if that
// takes longer than 5 ms during at most a twentieth of the time. What appears and disappears between
// two polls is not seen.
func (s *Store) FollowAll(ctx context.Context, filter Filter) iter.Seq2[Followed, error] {
	where, err := filter.where()
	if err != nil {
		return func(yield func(Followed, error) bool) { yield(Followed{}, &db.Error{Op: opFollow, Err: err}) }
	}
	heads := fmt.Sprintf(sqlTraceHeads, where.text)
	return stores.FollowScope(ctx, s.db, stream, s.scope, heads, where.args)
}

// CursorBefore returns the cursor before the last lines of a run, at most that many; before 0 lines
// is the end of the trace, for what is yet to come. ErrNotFound: the run does not exist.
// ErrInvalid: lines is negative.
func (s *Store) CursorBefore(ctx context.Context, run RunRef, lines int64) (cursor string, err error) {
	return stores.Get(ctx, s.db.Read, opFollow, stores.Bind2(s.CursorBeforeTx, run, lines))
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
	end, _, err := stream.EndOf(rx, at.Key)
	if lines == 0 {
		at.Status = end.Status // the initial status is not reported
	}
	at.Seen = max(0, end.Seen-lines)
	return stream.Cursor(rx, at), err
}

// placeIn returns the place that a cursor points at, which must be in this run; "" is the
// beginning.
func (s *Store) placeIn(rx *db.Rx, run RunRef, cursor string) (stores.Place, error) {
	return stream.PlaceIn(rx, cursor, func() (int64, bool, error) { return s.find(rx, run) })
}

const (
	sqlRunByKey = `SELECT key FROM runs WHERE key = ?`
	// The row of an ended run holds the length of its trace; that of an open run does not.
	traceLast = `coalesce(turn_count + others,
    (SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24), 0)`
	sqlTraceEnd   = `SELECT key, status, ` + traceLast + ` AS seen FROM runs WHERE key = ?`
	sqlRunOfKey   = `SELECT agent_id, run_id, status FROM runs WHERE key = ?`
	sqlTraceHeads = `SELECT key, agent_id AS "of.agent_id", run_id AS "of.run_id", status, ` +
		traceLast + ` AS seen,
	CASE WHEN 1 = 1%s THEN 0 ELSE 1 END AS out
FROM runs WHERE key > ? AND key <= ? AND +scope = ? ORDER BY key`
)

// readStretch reads what follows a place.
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
