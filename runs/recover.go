package runs

import (
	"context"
	"errors"
	"time"

	"selvedge/db"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// Recover releases the runs whose lease is over, because its process is dead or its time has
// passed, and returns their number. It ends none: [Store.Resume] takes them up. It may be called at
// any time, by any process and handle, and works in short transactions; what it released before an
// error stays released.
func (s *Store) Recover(ctx context.Context) (int, error) {
	return s.db.RecoverReservations(ctx, db.ReservationFilter{Scope: s.scope, Kind: leaseKind})
}

const (
	// sqlWaits reads the tables of other stores. A workflow that is paused, or being resumed, is a
	// run that continues, and so is one with a step that waits for a person, or whose live run waits
	// for a confirmation.
	sqlWaits = `SELECT 1 FROM run_steps AS s JOIN runs AS r ON r.key = s.run
	WHERE r.scope = ?1 AND r.run_id = ?2 AND s.state = 'waiting'
UNION ALL SELECT 1 FROM checkpoints WHERE scope = ?1 AND run_id = ?2
UNION ALL SELECT 1 FROM live_runs AS r WHERE scope = ?1 AND run_id = ?2
	AND status NOT IN ('completed', 'failed', 'cancelled')
    AND (SELECT type FROM live_events WHERE id >= r.key << 32 AND id < (r.key + 1) << 32 ORDER BY id DESC
    LIMIT 1) = 'confirmation_required'
LIMIT 1`
	// A run keeps the key heldKey once it was held. A program from before heldKey existed left at
	// most a lease. A run that was submitted waits for its first holder.
	sqlEverHeld = `SELECT 1 FROM run_append_keys WHERE run = ?1 AND append_key = '` + heldKey + `'
UNION ALL SELECT 1 FROM runs WHERE key = ?1 AND ready_at IS NOT NULL
UNION ALL SELECT 1 FROM leases WHERE scope = ?2 AND kind = '` + leaseKind + `' AND name = ?3 LIMIT 1`
)

// An ending ends abandoned open runs. It is no stores.Sweep: it may only count them, all ends have
// one time, and a run that can't be ended does not stop it.
type ending struct {
	store *Store
	op    string
	// spares reports whether a run is left alone. It is called again in the transaction that ends
	// it.
	spares func(rx *db.Rx, scope int64, ref RunRef, run *runRow) (bool, error)
	dry    bool // only count them

	at    time.Time // of every end
	ended int
}

// endedAtATime is the number of runs that one transaction ends.
const endedAtATime = 50

func (e *ending) run(ctx context.Context) (int, error) {
	var refused error
	for at := (db.At{Limit: endedAtATime}); ; {
		page, err := e.store.Page(ctx, Filter{Statuses: []RunStatus{StatusInProgress}}, at)
		if err == nil {
			batch := make([]RunRef, len(page.Items))
			for i := range page.Items {
				batch[i] = page.Items[i].Ref
			}
			var stuck error
			stuck, err = e.end(ctx, batch)
			refused = errors.Join(refused, stuck)
		}
		if at.After = page.Next; err != nil || at.After == "" {
			return e.ended, errors.Join(refused, err)
		}
	}
}

// end ends those of the runs that are still open and are not spared. refused is the error about
// runs that cannot be ended; the others are ended all the same.
func (e *ending) end(ctx context.Context, batch []RunRef) (refused, err error) {
	if len(batch) == 0 {
		return nil, nil
	}
	if e.dry {
		ended, err := stores.Get(ctx, e.store.db.Read, e.op, func(rx *db.Rx) (ended int, err error) {
			scope, _, err := rx.Store().Scope(e.store.scope)
			for i := 0; i < len(batch) && err == nil; i++ {
				var ends bool
				if _, ends, err = e.judge(rx, scope, batch[i]); ends {
					ended++
				}
			}
			return ended, err
		})
		e.ended += ended
		return nil, err
	}
	var at time.Time
	var ended int
	err = stores.On(e.store.db, txn.Recoveries).Write(ctx, e.op, func(tx *db.Tx) error {
		at, ended, refused = e.at, 0, nil
		if at.IsZero() {
			at = tx.Now()
		}
		scope, err := tx.Store().Scope(e.store.scope)
		if err != nil {
			return err
		}
		for _, ref := range batch {
			run, ends, err := e.judge(&tx.Rx, scope, ref)
			if err == nil && ends {
				ends, err = tx.Store().Unreserve(run.Epoch)
			}
			if err != nil {
				return err
			}
			if !ends {
				continue
			}
			switch err := e.store.endOrphan(tx, scope, ref, run.runState, at); {
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

// judge reports whether a run is open and not spared.
func (e *ending) judge(rx *db.Rx, scope int64, ref RunRef) (run runRow, ends bool, err error) {
	found, err := rx.Find(&run, sqlFindRun, scope, ref.RunID, ref.AgentID)
	if err != nil || !found || run.Status != string(StatusInProgress) || run.StartedAt == nil {
		return run, false, err
	}
	spared, err := e.spares(rx, scope, ref, &run)
	return run, err == nil && !spared, err
}

// endOrphan appends an end to the run, with the ids that the run's started record names.
func (s *Store) endOrphan(tx *db.Tx, scope int64, ref RunRef, state runState, at time.Time) error {
	end := Ended{
		RunID: or(state.ShownRunID, ref.RunID), AgentID: or(state.ShownAgentID, ref.AgentID), EndedAt: at,
	}
	p, err := prepare(Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: []Record{end}})
	if err != nil {
		return err
	}
	_, _, err = p.appendToAny(tx, s, scope, nil)
	return err
}
