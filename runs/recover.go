package runs

import (
	"context"
	"errors"
	"time"

	"selvedge/db"
	traces "selvedge/internal/runs"
)

// Recover ends, as incomplete, the open runs whose process is dead, and gives their number. It may be called at any time, by
// any process and handle: runs of a process that lives are spared, this one's too, and so are runs that wait at a checkpoint,
// ones that are held by a lease, imported and released ones, ones without a started record, and ones that were cancelled or are about to be. All get the same time.
//
// It works in short transactions; what it ended before an error stays ended.
func (s *Store) Recover(ctx context.Context) (int, error) {
	e := ending{store: s, op: "recover runs", spares: func(tx *db.Tx, scope int64, ref RunRef, owner *int64) (bool, error) {
		if owner == nil {
			return true, nil
		}
		if alive, err := tx.OwnerAlive(*owner); alive || err != nil {
			return true, err
		}
		return tx.Find(new(int64), sqlWaits, scope, ref.RunID)
	}}
	return e.run(ctx)
}

// sqlWaits looks at another store's table: a workflow that is paused, or being resumed, is a run that goes on.
const sqlWaits = `SELECT 1 FROM checkpoints WHERE scope = ? AND run_id = ? LIMIT 1`

// An ending ends open runs that nobody will.
type ending struct {
	store *Store
	op    string
	// spares says whose runs are left alone.
	spares func(tx *db.Tx, scope int64, ref RunRef, owner *int64) (bool, error)

	at    time.Time // of every end
	ended int
}

// endedAtATime is the number of runs that one transaction ends.
const endedAtATime = 50

func (e *ending) run(ctx context.Context) (int, error) {
	batch := make([]RunRef, 0, endedAtATime)
	var refused error
	for run, err := range e.store.All(ctx, Filter{Statuses: []RunStatus{StatusInProgress}}) {
		if err != nil {
			return e.ended, errors.Join(refused, err)
		}
		if batch = append(batch, run.Ref); len(batch) < endedAtATime {
			continue
		}
		stuck, err := e.end(ctx, batch)
		if refused = errors.Join(refused, stuck); err != nil {
			return e.ended, errors.Join(refused, err)
		}
		batch = batch[:0]
	}
	stuck, err := e.end(ctx, batch)
	return e.ended, errors.Join(refused, stuck, err)
}

// end ends those of the runs that are still open and are not spared. refused is about runs that can't be ended, which keep
// nobody from ending the others.
func (e *ending) end(ctx context.Context, batch []RunRef) (refused, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	var at time.Time
	var ended int
	err = e.store.db.Write(ctx, e.op, func(tx *db.Tx) error {
		at, ended, refused = e.at, 0, nil
		if at.IsZero() {
			at = tx.Now()
		}
		scope, err := tx.Scope(e.store.scope)
		if err != nil {
			return err
		}
		for _, ref := range batch {
			var run traces.RunRow
			found, err := tx.Find(&run, traces.SQLFindRun, scope, ref.RunID, ref.AgentID)
			if err != nil {
				return err
			}
			if !found || run.Status != string(StatusInProgress) || run.StartedAt == nil {
				continue
			}
			free, err := free(tx, scope, run.Key)
			spared := !free
			if err == nil && free {
				spared, err = e.spares(tx, scope, ref, run.OwnerID)
			}
			if err != nil {
				return err
			}
			if spared {
				continue
			}
			switch err := endOrphan(tx, scope, ref, run.State, at); {
			case errors.Is(err, db.ErrInvalid):
				refused = errors.Join(refused, err)
			case err != nil:
				return err
			default:
				ended++
			}
		}
		return nil
	})
	if err == nil {
		e.at = at
		e.ended += ended
	}
	return refused, err
}

// endOrphan writes the end under the ids that the run's started record names, into the run itself.
func endOrphan(tx *db.Tx, scope int64, ref RunRef, state traces.State, at time.Time) error {
	end := Ended{RunID: ref.RunID, AgentID: ref.AgentID, EndedAt: at}
	if state.ShownRunID != nil {
		end.RunID = *state.ShownRunID
	}
	if state.ShownAgentID != nil {
		end.AgentID = *state.ShownAgentID
	}
	p, err := prepare(Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: []Record{end}})
	if err != nil {
		return err
	}
	_, err = p.AppendToAny(tx, scope, nil)
	return err
}
