package runs

import (
	"context"
	"time"

	"selvedge/db"
)

const opAdopt = "adopt orphans"

// adoptBatch is the number of runs that one transaction of AdoptOrphans ends.
const adoptBatch = 200

// AdoptOrphans ends, as incomplete, the open runs that nobody writes to any more, and gives their number: those whose
// process is dead, those of this process (which is expected to call it when it starts), and imported ones. Runs of another
// process that lives are left alone, as are cancelled ones, ones with a cancellation pending and ones without a started
// record. All get the same time. A second call finds nothing.
//
// It works in short transactions; what it ended before an error stays ended.
func (s *Store) AdoptOrphans(ctx context.Context) (int, error) {
	a := adoption{store: s}
	batch := make([]RunRef, 0, adoptBatch)
	for run, err := range s.All(ctx, Filter{Statuses: []RunStatus{StatusInProgress}}) {
		if err != nil {
			return a.adopted, err
		}
		if batch = append(batch, run.Ref); len(batch) < adoptBatch {
			continue
		}
		if err := a.end(ctx, batch); err != nil {
			return a.adopted, err
		}
		batch = batch[:0]
	}
	err := a.end(ctx, batch)
	return a.adopted, err
}

type adoption struct {
	store   *Store
	at      time.Time // of every end
	adopted int
}

// end ends those of the runs that are still open and that no other living process writes to.
func (a *adoption) end(ctx context.Context, batch []RunRef) error {
	if len(batch) == 0 {
		return nil
	}
	var at time.Time
	var ended int
	err := a.store.db.Write(ctx, opAdopt, func(tx *db.Tx) error {
		at, ended = a.at, 0
		if at.IsZero() {
			at = tx.Now()
		}
		scope, err := tx.Scope(a.store.scope)
		if err != nil {
			return err
		}
		writing := map[int64]bool{}
		for _, ref := range batch {
			var run runRow
			found, err := tx.Find(&run, sqlFindRun, scope, ref.RunID, ref.AgentID)
			if err != nil {
				return err
			}
			if !found || run.Status != string(StatusInProgress) || run.StartedAt == nil {
				continue
			}
			if spared, err := writtenElsewhere(tx, run.OwnerID, writing); err != nil {
				return err
			} else if spared {
				continue
			}
			if err := endOrphan(tx, scope, ref, run.runState, at); err != nil {
				return err
			}
			ended++
		}
		return nil
	})
	if err == nil {
		a.at = at
		a.adopted += ended
	}
	return err
}

// writtenElsewhere reports whether another process that lives owns the run.
func writtenElsewhere(tx *db.Tx, owner *int64, known map[int64]bool) (bool, error) {
	if owner == nil {
		return false, nil
	}
	if writing, ok := known[*owner]; ok {
		return writing, nil
	}
	writing, err := tx.OwnerAlive(*owner)
	if err != nil {
		return false, err
	}
	if writing {
		own, err := tx.Owns(*owner)
		if err != nil {
			return false, err
		}
		writing = !own
	}
	known[*owner] = writing
	return writing, nil
}

// endOrphan writes the end under the ids that the run's started record names, into the run itself.
func endOrphan(tx *db.Tx, scope int64, ref RunRef, state runState, at time.Time) error {
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
	_, err = appendToAny(tx, scope, nil, p)
	return err
}
