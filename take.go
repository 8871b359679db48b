package selvedge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
	"selvedge/runs"
	"selvedge/runs/live"
)

// A Start describes a new run. For a run that exists it is ignored.
type Start struct {
	Intent string // what the run is meant to achieve, in words
	Parent Ref    // the run that started this one; zero: none
}

// Submit makes a run that is not held yet; Next finds it. The same id again is the same run. An
// empty id is a new one, "run-" and a UUID.
func (s *Store) Submit(ctx context.Context, id string, start Start) (Ref, error) {
	const op = "submit run"
	if id == "" {
		id = "run-" + uuid.NewString()
	}
	ref := Ref{AgentID: s.o.Agent, RunID: id}
	err := start.check(ref)
	if err == nil {
		start.Parent = s.parent(start.Parent)
		err = stores.On(s.db, txn.Runs).Write(ctx, op, func(tx *db.Tx) error {
			_, err := s.add(tx, ref, start)
			return err
		})
	}
	return ref, named(op, ref, err)
}

func (st *Start) check(ref Ref) error {
	err := check(ref)
	if err == nil {
		err = checkText("intent", st.Intent)
	}
	return err
}

const (
	sqlAgentOf = `SELECT agent_id FROM runs WHERE scope = ? AND run_id = ? ORDER BY agent_id LIMIT 1`
	sqlSubmit  = `UPDATE runs SET owner_id = NULL, ready_at = ? WHERE key = ?`
)

// add returns the row of a run, locked, and makes it if it does not exist.
func (s *Store) add(tx *db.Tx, ref Ref, start Start) (row runRow, err error) {
	scope, err := stores.NewScope(tx, s.db, s.o.Scope)
	if err == nil { // there may be no row to lock, and agents must not make two runs of one id
		err = tx.Store().WillChange(runName, scope, ref.RunID)
	}
	if err != nil {
		return row, err
	}
	found, err := tx.Store().FindToChange(&row, runToAdd, scope, ref.RunID, ref.AgentID)
	if err != nil || found {
		return row, err
	}
	var other string
	if taken, err := tx.Find(&other, sqlAgentOf, scope, ref.RunID); err != nil {
		return row, err
	} else if taken {
		return row, txn.Conflict("use another id, or another scope", "the agent %q has a run of that id", other)
	}
	_, err = s.runs.AppendTx(tx, runs.Batch{
		AgentID: ref.AgentID, RunID: ref.RunID, Parent: start.Parent,
		Records: []runs.Record{runs.Started{RunID: ref.RunID, AgentID: ref.AgentID, Intent: start.Intent}},
	})
	if err == nil {
		row, err = s.get(&tx.Rx, ref)
	}
	var watched live.Reservation
	if err == nil {
		watched, err = s.live.ReserveRunWithIDTx(tx, ref.RunID, ref.AgentID, start.Intent)
	}
	if err == nil && watched.Existing {
		err = txn.Conflict("use another id, or another scope", "session %q has a live run of that id",
			watched.Snapshot.SessionID)
	}
	if err == nil {
		_, err = tx.Exec(sqlSubmit, db.Nanos(tx.Now()), row.Key)
	}
	return row, err
}

// Take begins a run, or continues it where it stopped, and holds it on the terms of Options.Lease.
// The run's context ends when ctx does, and when the lease is lost.
//
// ErrHeld: another holder has it. ErrWaiting, ErrUnknown: it waits for a person. ErrEnded: it was
// completed or cancelled. ErrConflict: another agent has a run of that id.
func (s *Store) Take(ctx context.Context, id string, start Start) (*Run, error) {
	start.Parent = s.parent(start.Parent)
	return s.take(ctx, id, start, s.add)
}

// parent completes the reference of a parent, if there is one.
func (s *Store) parent(r Ref) Ref {
	if r == (Ref{}) {
		return r
	}
	return s.ref(r)
}

// take is Take with a function that returns the row of the run, locked.
func (s *Store) take(ctx context.Context, id string, start Start,
	find func(*db.Tx, Ref, Start) (runRow, error),
) (*Run, error) {
	const op = "take run"
	ref := Ref{AgentID: s.o.Agent, RunID: id}
	if err := start.check(ref); err != nil {
		return nil, named(op, ref, err)
	}
	var over error
	r, err := stores.TakeUp(ctx, stores.On(s.db, txn.Runs).Write, op, func(tx *db.Tx) (r *Run, err error) {
		row, err := find(tx, ref, start)
		if err == nil {
			r, over, err = s.takeTx(tx, op, ref, row)
		}
		return r, err
	})
	if err == nil {
		err = over
	}
	if r != nil {
		r.start(ctx)
	}
	if err != nil {
		if r != nil { // the outcome is unknown: nobody else would release it
			_ = r.Leave()
		}
		return nil, named(op, ref, err)
	}
	return r, nil
}

// A run that was incomplete is ready from now on, should its holder die.
const sqlTaken = `UPDATE runs SET ready_at = CASE WHEN ready_at < ended_at THEN ?1
	ELSE coalesce(ready_at, ?1) END WHERE key = ?2`

// takeTx takes a run. over is not nil for one that was marked as ended: its trace ends in the
// transaction.
func (s *Store) takeTx(tx *db.Tx, op string, ref Ref, row runRow) (r *Run, over, err error) {
	if err := row.ended(); err != nil {
		return nil, nil, err
	}
	var asked stepRow
	if waits, err := tx.Find(&asked, sqlWaitingStep, row.Key); err != nil {
		return nil, nil, err
	} else if waits {
		return nil, nil, need(op, asked.step(ref))
	}
	r = &Run{store: s, ref: ref, key: row.Key}
	if r.trace, err = s.runs.ResumeTx(tx, ref); err != nil {
		if errors.Is(err, db.ErrConflict) {
			err = errors.Join(ErrHeld, err)
		}
		return nil, nil, err
	}
	// The prompt of one that is made here is that of the start event below.
	watched, err := s.live.ReserveRunWithIDTx(tx, ref.RunID, ref.AgentID, "")
	if err != nil {
		return nil, nil, err
	}
	if end := r.marked(watched.Snapshot, tx.Now()); end != nil {
		err := r.trace.AppendTx(tx, end)
		if err == nil {
			err = r.trace.ReleaseTx(tx)
		}
		return nil, fmt.Errorf("%w: it was marked %s", ErrEnded, watched.Snapshot.Status), err
	}
	if r.watched, err = s.live.HoldTx(tx, ref.RunID, r.trace.Lease()); err != nil {
		return nil, nil, err
	}
	summary, err := s.runs.GetTx(&tx.Rx, ref)
	if err != nil {
		return nil, nil, err
	}
	r.turns = summary.TurnCount
	if _, err := tx.Exec(sqlTaken, db.Nanos(tx.Now()), row.Key); err != nil {
		return nil, nil, err
	}
	_, err = r.watched.AppendTx(tx, live.AgentStart(summary.Intent))
	return r, nil, err
}

// marked returns the end of a trace whose live run was marked as ended, with live.Store.MarkFailed or
// MarkCancelled; nil: it was not.
func (r *Run) marked(watched live.RunSnapshot, at time.Time) runs.Record {
	switch watched.Status {
	case live.Cancelled:
		return runs.Cancelled(r.ref, "", at)
	case live.Failed:
		o := runs.AgentOutcome{Status: runs.OutcomeFailure, Summary: or(watched.Error)}
		return runs.Ended{AgentID: r.ref.AgentID, RunID: r.ref.RunID, Termination: runs.Termination{Outcome: &o}}
	}
	return nil
}

// look is how often Next polls for runs whose holder died, which no commit reports.
const look = time.Second

// lookPause is the least time between two polls, since others may commit all the time.
const lookPause = 10 * time.Millisecond

// Next waits until a run of the agent is ready, and takes it. A run is ready once it was submitted,
// answered or left, or its holder is dead. Runs come in the order in which they became ready. It
// ends with the cause of ctx.
func (s *Store) Next(ctx context.Context) (*Run, error) {
	const op = "take next run"
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var changes <-chan struct{}
	for {
		r, pause, err := s.takeReady(ctx)
		if err == nil && r == nil && changes == nil {
			changes, err = s.db.Changes(waiting)
			pause = 0 // look once more: a commit may have come before
		}
		if r != nil || err != nil {
			return r, db.About(err, op, "", "", nil)
		}
		if !wait(ctx, nil, min(pause, lookPause)) || !wait(ctx, changes, pause-lookPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// wait waits for a time, or for a change. It returns false once ctx has ended.
func wait(ctx context.Context, changes <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changes:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// TryNext is Next without the wait: ok is false if no run is ready now.
func (s *Store) TryNext(ctx context.Context) (r *Run, ok bool, err error) {
	r, _, err = s.takeReady(ctx)
	return r, r != nil, db.About(err, "take next run", "", "", nil)
}

// readyRow is a run that may be ready, with the lease under which it is written.
type readyRow struct {
	RunID   string `db:"run_id"`
	Key     int64  `db:"key"`
	ReadyAt int64  `db:"ready_at"`
	Lease   *int64 `db:"lease"`
	txn.LeaseColumns
}

const sqlReady = `SELECT r.run_id, r.key, r.ready_at, l.epoch AS lease, l.owner_id, l.lease_ttl,
	l.lease_until, l.lease_boot_id, l.lease_time_ns, l.lease_wall_until
FROM runs AS r LEFT JOIN leases AS l ON l.epoch = r.epoch
WHERE r.scope = ? AND r.agent_id = ? AND r.ready_at IS NOT NULL
	AND (r.ended_at IS NULL OR r.status = 'incomplete' AND r.ready_at >= r.ended_at)
	AND (r.ready_at, r.key) > (?, ?) ORDER BY r.ready_at, r.key LIMIT 100`

// takeReady takes a ready run, if there is one; otherwise it returns how long to wait for one that
// becomes ready by time. A run that can't be taken, since it is damaged or full, keeps no other waiting;
// its error is returned if there is none.
func (s *Store) takeReady(ctx context.Context) (r *Run, pause time.Duration, err error) {
	existing := func(tx *db.Tx, ref Ref, _ Start) (runRow, error) { return s.getLocked(tx, ref) }
	pause = look
	var after readyRow
	var stuck error
	for more := true; more; {
		var ready []string
		from := after
		err := s.db.Read(ctx, "find ready run", func(rx *db.Rx) error {
			ready, more, after = nil, false, from
			rx.Store().BootTime()
			scope, ok, err := rx.Store().Scope(s.o.Scope)
			if err != nil || !ok {
				return err
			}
			var rows []readyRow
			if err := rx.Select(&rows, sqlReady, scope, s.o.Agent, after.ReadyAt, after.Key); err != nil {
				return err
			}
			more = len(rows) == 100
			for _, row := range rows {
				after = row
				wait := db.Time(row.ReadyAt).Sub(rx.Now())
				if wait > 0 && wait <= leavePause { // later still: the clock was set back
					pause = min(pause, wait)
					continue
				}
				free := row.Lease == nil
				if !free {
					state, err := rx.Store().LeaseState(row.LeaseColumns)
					if err != nil {
						return err
					}
					free = state.Over()
				}
				if free {
					ready = append(ready, row.RunID)
				}
			}
			return nil
		})
		for i := 0; err == nil && i < len(ready); i++ {
			r, err = s.take(ctx, ready[i], Start{}, existing)
			if r != nil {
				return r, 0, err
			}
			switch {
			case errors.Is(err, db.ErrConflict), errors.Is(err, db.ErrNotFound):
				err = nil // another worker was faster, or it ended, or was removed
			case errors.Is(err, db.ErrCorrupt), errors.Is(err, db.ErrInvalid):
				stuck, err = err, nil
			}
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return nil, pause, stuck
}

// Cancel ends a run from any process: its holder's context ends, and it can't be taken up again.
// Cancelling it again is no error. The runs below it can go on. ErrEnded: it was completed.
func (s *Store) Cancel(ctx context.Context, ref Ref, why string) error {
	const op = "cancel run"
	ref = s.ref(ref)
	err := check(ref)
	if err == nil {
		err = checkText("reason", why)
	}
	if err == nil {
		err = stores.On(s.db, txn.Runs).End(ctx, op, func(tx *db.Tx) error { return s.cancelTx(tx, ref, why) })
	}
	return named(op, ref, err)
}

const (
	sqlTakeLease = `DELETE FROM leases WHERE epoch = ?`
	sqlFreeRun   = `UPDATE runs SET epoch = NULL WHERE key = ?`
)

func (s *Store) cancelTx(tx *db.Tx, ref Ref, why string) error {
	row, err := s.getLocked(tx, ref)
	if err != nil || row.Status == string(runs.StatusCancelled) {
		return err
	}
	if err := row.ended(); err != nil {
		return err
	}
	if row.Epoch != nil {
		if _, err := tx.Exec(sqlFreeRun, row.Key); err != nil {
			return err
		}
		if _, err := tx.Exec(sqlTakeLease, *row.Epoch); err != nil {
			return err
		}
	}
	end := runs.Cancelled(ref, why, tx.Now())
	_, err = s.runs.AppendTx(tx, runs.Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: []runs.Record{end}})
	if err == nil {
		_, _, err = s.live.MarkCancelledTx(tx, ref.RunID)
	}
	return err
}
