package runs

import (
	"context"
	"fmt"

	"selvedge/db"
	"selvedge/internal/stores"
)

const (
	sqlKeys    = `SELECT key FROM runs ORDER BY key`
	sqlNoTurns = `SELECT ` + recordColumns +
		` FROM run_records WHERE id > ? AND id < ? AND kind <> 'turn' ORDER BY id`
)

var sqlRestated = `SELECT scope, agent_id, run_id, key, owner_id, ` + stateColumns +
	` FROM runs WHERE key = ?`

// Restate recomputes the row of every run of the file from its trace, some of whose records are
// lost, for maintenance.Salvage. It returns a note for each run whose end is lost: such a run is
// open.
func Restate(ctx context.Context, d *db.DB) (notes []string, err error) {
	return stores.Restate(ctx, d, "restate runs", sqlKeys, restate)
}

// restate returns a note if the end of the run is lost. What only a lost started record held stays.
func restate(tx *db.Tx, key int64) (note string, err error) {
	var row struct {
		Scope int64 `db:"scope"`
		RunRef
		runRow
	}
	if found, err := tx.Find(&row, sqlRestated, key); err != nil || !found {
		return "", err
	}
	was, is := row.runState, newState()
	last, err := lastOf(tx, key)
	if err == nil {
		err = is.addFrame(&tx.Rx, row.RunRef, key)
	}
	if err != nil {
		return "", row.failed("restate run", err)
	}
	is.close(last.ID & maxSequence)
	if is.StartedAt == nil {
		is.ShownAgentID, is.ShownRunID, is.Intent = was.ShownAgentID, was.ShownRunID, was.Intent
		is.StartedAt, is.StartedAtText = was.StartedAt, was.StartedAtText
	}
	if was.same(is) {
		return "", nil
	}
	if is.EndedAt != nil {
		row.OwnerID = nil
	} else if was.EndedAt != nil {
		note = fmt.Sprintf("run %q of agent %q had ended as %s; that line of its trace is lost, and the run is "+
			"open", row.RunID, row.AgentID, or(was.Outcome, was.Status))
	}
	_, columns := is.args(row.Scope, row.RunRef, row.OwnerID)
	_, err = tx.Exec(sqlChangeRun, append(columns, key)...)
	return note, err
}

// addFrame adds the lines of a trace that are no turns. A line that cannot be read counts as no
// record.
func (s *runState) addFrame(rx *db.Rx, run RunRef, key int64) error {
	for found, err := range rx.Query(sqlNoTurns, key<<24, (key+1)<<24) {
		if err != nil {
			return err
		}
		var row recordRow
		if err := found.Scan(row.targets()...); err != nil {
			return err
		}
		record, err := row.Record()
		if err != nil {
			record = nil
		}
		s.add(run, record)
	}
	return nil
}
