package selvedge

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
	"selvedge/runs"
	"selvedge/runs/live"
)

// A Filter selects what waits. The zero value selects all of the scope.
type Filter struct {
	Agent *string  // whose runs; nil is any
	Kind  StepKind // StepQuestion or StepEffect; "" is both
}

// listedStep is a step with the name of its run.
type listedStep struct {
	stepRow
	Scope int64 `db:"scope"`
	runs.RunRef
}

const (
	// CROSS JOIN has SQLite read the steps first: few wait.
	sqlNeeds = `SELECT s.run, s.step_key, s.kind, s.state, s.tool, s.policy, s.prompt, s.request, s.attempt,
	s.epoch, s.turn, s.result, s.decision, s.settled_by, s.error, s.created_at, s.changed_at, r.agent_id,
	r.run_id, r.scope
FROM run_steps AS s CROSS JOIN runs AS r
WHERE r.key = s.run AND s.state = 'waiting' AND r.scope = ?
	AND (r.ended_at IS NULL OR r.status = 'incomplete')`
	sqlNeedsAfter = ` AND (s.created_at < ? OR s.created_at = ? AND (s.run, s.step_key) > (?, ?))`
	sqlNeedsOrder = ` ORDER BY s.created_at DESC, s.run, s.step_key LIMIT ` + paging.BoundLimit

	sqlStepsOf = `SELECT ` + stepColumns + ` FROM run_steps WHERE run = ? AND step_key > ? ORDER BY step_key
	LIMIT ` + paging.BoundLimit
	sqlStepsBetween = `SELECT ` + stepColumns + ` FROM run_steps WHERE run = ? AND turn >= ? AND turn < ?
	ORDER BY created_at, step_key`
	sqlFailed = `SELECT scope, agent_id, run_id, key, ended_at FROM runs
WHERE scope = ? AND (ended_at, key) < (?, ?) AND ended_at >= ? AND started_at IS NOT NULL
	AND (status IN ('incomplete', 'cancelled') OR outcome IN ('failure', 'timeout', 'give_up'))
ORDER BY ended_at DESC, key DESC LIMIT ` + paging.BoundLimit
)

// NeedsMe lists what waits for a person: questions without an answer, and effects of unknown outcome, of
// runs that are open or incomplete, the newest first.
func (s *Store) NeedsMe(ctx context.Context, f Filter, at db.At) (page db.Page[Step], err error) {
	const op = "list needs"
	return list(ctx, s, op, at, func(rx *db.Rx, scope int64, limit int) (iter.Seq2[listedStep, error],
		error,
	) {
		query, args := sqlNeeds, []any{scope}
		if f.Agent != nil {
			query, args = query+` AND r.agent_id = ?`, append(args, *f.Agent)
		}
		if f.Kind != "" {
			query, args = query+` AND s.kind = ?`, append(args, string(f.Kind))
		}
		if at.After != "" {
			place, key := []int64{scope, 0, 0}, "" // time of the last step, and its run
			if err := rx.Store().ReadListCursor(op, at.After, place, &key); err != nil {
				return nil, err
			}
			query, args = query+sqlNeedsAfter, append(args, place[1], place[1], place[2], key)
		}
		return each[listedStep](rx, query+sqlNeedsOrder, append(args, limit)...), nil
	}, func(row *listedStep) int { return row.size() }, func(rx *db.Rx, row *listedStep) string {
		return rx.Store().Cursor(op, []int64{row.Scope, row.CreatedAt, row.Run}, row.Key)
	}, func(row *listedStep) Step { return row.step(row.RunRef) })
}

// Steps lists the steps of a run by their keys. db.ErrNotFound: there is no such run.
func (s *Store) Steps(ctx context.Context, ref Ref, at db.At) (page db.Page[Step], err error) {
	const op = "list steps"
	ref = s.ref(ref)
	return list(ctx, s, op, at, func(rx *db.Rx, _ int64, limit int) (iter.Seq2[stepRow, error], error) {
		run, err := s.get(rx, ref)
		if err != nil {
			return nil, named(op, ref, err)
		}
		key := ""
		if err := rx.Store().ReadListCursor(op, at.After, []int64{run.Key}, &key); err != nil {
			return nil, err
		}
		return each[stepRow](rx, sqlStepsOf, run.Key, key, limit), nil
	}, (*stepRow).size, func(rx *db.Rx, row *stepRow) string {
		return rx.Store().Cursor(op, []int64{row.Run}, row.Key)
	}, func(row *stepRow) Step { return row.step(ref) })
}

// StepsTx returns the steps of a run that began when it had from turns or more, and fewer than to, in
// the order of their beginning. db.ErrNotFound: there is no such run.
func (s *Store) StepsTx(rx *db.Rx, ref Ref, from, to int) (list []Step, err error) {
	const op = "list steps"
	ref = s.ref(ref)
	run, err := s.get(rx, ref)
	if err != nil {
		return nil, named(op, ref, err)
	}
	for row, err := range each[stepRow](rx, sqlStepsBetween, run.Key, from, to) {
		if err != nil {
			return nil, named(op, ref, err)
		}
		list = append(list, row.step(ref))
	}
	return list, nil
}

// Failed lists the runs that ended since a time without achieving their intent, by the time of their
// end, the last first: with the outcome failure, timeout or give_up, incomplete, or cancelled.
func (s *Store) Failed(ctx context.Context, since time.Time, at db.At) (page db.Page[runs.RunSummary],
	err error,
) {
	const op = "list failed runs"
	type row struct {
		runs.RunRef
		Scope   int64 `db:"scope"`
		Key     int64 `db:"key"`
		EndedAt int64 `db:"ended_at"`
		summary runs.RunSummary
	}
	return list(ctx, s, op, at, func(rx *db.Rx, scope int64, limit int) (iter.Seq2[row, error], error) {
		place := []int64{scope, math.MaxInt64, math.MaxInt64}
		if err := rx.Store().ReadListCursor(op, at.After, place); err != nil {
			return nil, err
		}
		var found []row
		err := rx.Select(&found, sqlFailed, scope, place[1], place[2], db.Nanos(since), limit)
		return func(yield func(row, error) bool) {
			for _, r := range found {
				var err error
				r.summary, err = s.runs.GetTx(rx, r.RunRef)
				if !yield(r, err) || err != nil {
					return
				}
			}
		}, err
	}, func(r *row) int { return 300 + len(r.summary.Intent) + len(r.summary.Summary) },
		func(rx *db.Rx, r *row) string { return rx.Store().Cursor(op, []int64{r.Scope, r.EndedAt, r.Key}) },
		func(r *row) runs.RunSummary { return r.summary })
}

// list returns a page of the rows that items reads, at most limit of them, as the caller sees them.
func list[T, S any](ctx context.Context, s *Store, op string, at db.At,
	items func(rx *db.Rx, scope int64, limit int) (iter.Seq2[T, error], error),
	size func(*T) int, cursor func(*db.Rx, *T) string, shown func(*T) S,
) (page db.Page[S], err error) {
	rows, err := stores.Get(ctx, s.db.Read, op, func(rx *db.Rx) (page db.Page[T], err error) {
		room, err := paging.RoomFor(at.Limit)
		if err != nil {
			return page, err
		}
		scope, _, err := rx.Store().Scope(s.o.Scope)
		if err != nil {
			return page, err
		}
		all, err := items(rx, scope, room.Items+1)
		if err != nil {
			return page, err
		}
		return stores.FillPage(room, all, size, func(last *T) string { return cursor(rx, last) })
	})
	for i := range rows.Items {
		page.Items = append(page.Items, shown(&rows.Items[i]))
	}
	page.Next = rows.Next
	return page, db.About(err, op, "", "", nil)
}

// each reads the rows of a query.
func each[T any](rx *db.Rx, query string, args ...any) iter.Seq2[T, error] {
	return txn.Each(rx.Store(), func(row *T) (T, error) { return *row, nil }, query, args...)
}

// size returns roughly how many bytes a step takes.
func (s *stepRow) size() int {
	return 200 + len(s.Key) + len(s.Request) + len(s.Result) + len(or(s.Prompt)) + len(or(s.Tool)) +
		len(or(s.Error)) + len(or(s.Decision))
}

// Happened is what a follower of a run receives: an event, a new status, or a gap.
type Happened = live.Followed

// Follow delivers the events of a run after a cursor, first those that are recorded and then new ones,
// and each new status, as live.Store.Follow does. The cursor "" is the beginning.
func (s *Store) Follow(ctx context.Context, ref Ref, cursor string) iter.Seq2[Happened, error] {
	return s.live.Follow(ctx, ref.RunID, cursor)
}

// Fork makes a run of the store's agent that continues another one, its parent, after the parent's
// first turns. It copies the parent's trace and recorded steps up to there, so that no effect is
// repeated; their usage is counted for the parent alone. The new run is not held; Next finds it.
//
// db.ErrInvalid: the run has fewer turns. db.ErrConflict: the id is taken.
func (s *Store) Fork(ctx context.Context, from Ref, turns int, id string) (Ref, error) {
	const op = "fork run"
	from = s.ref(from)
	ref := Ref{AgentID: s.o.Agent, RunID: id}
	err := check(from)
	if err == nil {
		err = check(ref)
	}
	if err == nil {
		err = stores.On(s.db, txn.Forks).Write(ctx, op,
			func(tx *db.Tx) error { return s.forkTx(tx, from, turns, ref) })
	}
	return ref, named(op, ref, err)
}

const (
	sqlStepsBefore = `SELECT ` + stepColumns + ` FROM run_steps WHERE run = ? AND turn < ?
	AND state IN ('done', 'given_up')`
)

func (s *Store) forkTx(tx *db.Tx, from Ref, turns int, ref Ref) error {
	parent, err := s.runs.GetTx(&tx.Rx, from)
	if err != nil {
		return err
	}
	if turns < 0 || turns > parent.TurnCount {
		return txn.Invalid("name a turn that it has", "the run %q has %d turns", from.RunID, parent.TurnCount)
	}
	if _, found, err := s.find(&tx.Rx, ref); err != nil || found {
		if err == nil {
			err = txn.Conflict("use another id", "there is such a run")
		}
		return err
	}
	row, err := s.add(tx, ref, Start{Intent: parent.Intent, Parent: from})
	if err != nil {
		return err
	}
	if err := s.copyTurns(tx, from, turns, ref); err != nil {
		return err
	}
	if _, err := tx.Exec(sqlSubmit, db.Nanos(tx.Now()), row.Key); err != nil {
		return err
	}
	source, err := s.get(&tx.Rx, from)
	if err != nil {
		return err
	}
	var steps []stepRow
	err = tx.Select(&steps, sqlStepsBefore, source.Key, turns)
	for i := 0; err == nil && i < len(steps); i++ {
		step := &steps[i]
		step.Run = row.Key
		if step.Kind == string(StepReply) {
			step.Epoch = 0 // it counts nothing here
			step.Result, err = withoutUsage(step.Result)
		}
		if err == nil {
			err = step.put(tx)
		}
	}
	return err
}

// copyTurns appends the first turns of a run to another one.
func (s *Store) copyTurns(tx *db.Tx, from Ref, turns int, to Ref) error {
	for at := (db.At{Limit: db.MaxLimit}); turns > 0; {
		page, err := s.runs.TracePageTx(&tx.Rx, from, at)
		if err != nil {
			return err
		}
		var batch []runs.Record
		for _, item := range page.Items {
			if turn, ok := item.Item.Record.(runs.Turn); ok && turns > 0 {
				if turn, err = uncounted(turn, item.Item.Line); err != nil {
					return err
				}
				batch = append(batch, turn)
				turns--
			}
		}
		_, err = s.runs.AppendTx(tx, runs.Batch{AgentID: to.AgentID, RunID: to.RunID, Records: batch})
		if at.After = page.Next; err != nil || at.After == "" {
			return err
		}
	}
	return nil
}

// uncounted returns a turn without the members that v_usage counts.
func uncounted(turn runs.Turn, line []byte) (runs.Turn, error) {
	if _, counts := usage.Read(line); !counts {
		return turn, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return turn, err
	}
	for _, name := range []string{"usage", "token_usage", "usageMetadata", "cost_usd"} {
		delete(members, name)
	}
	line, err := json.Marshal(members)
	if err == nil {
		err = turn.UnmarshalJSON(line)
	}
	return turn, err
}

func withoutUsage(reply []byte) ([]byte, error) {
	var r Reply
	if err := json.Unmarshal(reply, &r); err != nil {
		return nil, err
	}
	r.Usage = Usage{}
	return json.Marshal(r)
}
