package runs

import (
	"context"
	"fmt"
	"iter"
	"time"

	"selvedge/db"
)

// FollowAll delivers what is appended from this call on to the runs of the scope, or to those of one agent where agent is
// not nil. New runs come from their beginning. Inside a run the order is that of the trace, none twice and none left out;
// between runs it is that in which they were met. The loop may be run once; it ends as that of [Store.Follow] does.
//
// There is no cursor for all runs together: no order across runs is kept, so each cursor belongs to its run, for
// [Store.Follow].
//
// What was removed before it was read is not delivered. Where that shows, because records were still to come or the run was
// open when it was looked at last, it is ErrCursorExpired. That a run goes which had ended is no error: what was appended to
// it at the last moment, and a run that came and went between two looks, are not seen.
//
// After a commit it looks at the rows of all runs of the file, about 1 ms for 1,000 of them, and it looks no more than a fifth
// of the time.
func (s *Store) FollowAll(ctx context.Context, agent *string) (iter.Seq2[FollowedRecord, error], error) {
	ctx, cancel := context.WithCancel(ctx)
	changes, err := s.db.Changes(ctx)
	var ends []traceEnd
	if err == nil {
		ends, err = s.traceEnds(ctx, agent)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return func(yield func(FollowedRecord, error) bool) {
		defer cancel() // ends the watch
		if err := s.followAll(ctx, agent, ends, changes, yield); err != nil {
			yield(FollowedRecord{}, err)
		}
	}, nil
}

// restFactor is how much longer than a look the rest after it takes.
const restFactor = 4

// followAll returns nil when the loop was left.
func (s *Store) followAll(
	ctx context.Context, agent *string, ends []traceEnd, changes <-chan struct{}, yield func(FollowedRecord, error) bool,
) error {
	for {
		if err := changed(ctx, changes); err != nil {
			return err
		}
		began := time.Now()
		now, err := s.traceEnds(ctx, agent)
		if err != nil {
			return err
		}
		took := time.Since(began)
		grown, err := growth(ends, now)
		if err != nil {
			return err
		}
		for _, g := range grown {
			if left, err := s.deliver(ctx, g, yield); left || err != nil {
				return err
			}
		}
		ends = now
		select {
		case <-time.After(restFactor * took):
		case <-ctx.Done():
		}
	}
}

// A traceEnd is how far the trace of a run went when it was looked at.
type traceEnd struct {
	Key  int64 `db:"key"`
	Last int64 `db:"last"` // sequence of its last line; 0: it has none
	Open bool  `db:"open"`
}

// The row of an ended run says how long its trace is, that of an open one doesn't.
const sqlTraceEnds = `SELECT key, turn_count IS NULL AS open, coalesce(turn_count + others,
    (SELECT max(id) & 16777215 FROM run_records WHERE id > key << 24 AND id < (key + 1) << 24), 0) AS last
FROM runs WHERE +scope = ? AND agent_id = coalesce(?, agent_id) ORDER BY key`

// traceEnds looks at all runs, in the order of their keys.
func (s *Store) traceEnds(ctx context.Context, agent *string) (ends []traceEnd, err error) {
	err = s.db.Read(ctx, opFollow, func(rx *db.Rx) error {
		ends = ends[:0]
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		return rx.Select(&ends, sqlTraceEnds, scope, text(agent))
	})
	return ends, err
}

// A traceGrowth is the lines of a run behind after and up to last.
type traceGrowth struct{ key, after, last int64 }

// growth is what came to the traces between two looks.
func growth(before, now []traceEnd) (grown []traceGrowth, err error) {
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && before[0].Key < now[0].Key:
			// Only ended runs go, so the end of this one was never delivered.
			if before[0].Open {
				return nil, removedUnread(fmt.Errorf("%w: an open run ended, or was replaced, and was removed", db.ErrCursorExpired))
			}
			before = before[1:]
		case len(before) == 0 || now[0].Key < before[0].Key:
			grown = append(grown, traceGrowth{now[0].Key, 0, now[0].Last})
			now = now[1:]
		default:
			if now[0].Last > before[0].Last {
				grown = append(grown, traceGrowth{now[0].Key, before[0].Last, now[0].Last})
			}
			before, now = before[1:], now[1:]
		}
	}
	return grown, nil
}

func removedUnread(err error) error {
	return &db.Error{Op: opFollow, Entity: "run", Hint: "start over; what was not delivered is gone", Err: err}
}

const sqlRefOfKey = `SELECT agent_id, run_id FROM runs WHERE key = ?`

// deliver gives the lines of a growth to yield; left is true when it has enough.
func (s *Store) deliver(ctx context.Context, g traceGrowth, yield func(FollowedRecord, error) bool) (left bool, err error) {
	for g.after < g.last {
		var found []FollowedRecord
		limit := min(tracePageSize, int(g.last-g.after))
		err := s.db.Read(ctx, opFollow, func(rx *db.Rx) error {
			var row struct {
				AgentID string `db:"agent_id"`
				RunID   string `db:"run_id"`
			}
			ok, err := rx.Find(&row, sqlRefOfKey, g.key)
			if err != nil {
				return err
			}
			if !ok {
				return removedUnread(fmt.Errorf("%w: a run was removed before its records were read", db.ErrCursorExpired))
			}
			found, _, err = readFollowed(rx, RunRef(row), tracePlace{key: g.key, sequence: g.after}, limit)
			return err
		})
		if err != nil {
			return false, err
		}
		for _, r := range found {
			if !yield(r, nil) {
				return true, nil
			}
		}
		g.after += int64(limit)
	}
	return false, nil
}
