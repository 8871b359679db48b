package traces

import "selvedge/db"

const sqlNoTurns = `SELECT ` + recordColumns +
	` FROM run_records WHERE id > ? AND id < ? AND kind <> 'turn' ORDER BY id`

// Restate makes a run's row say what its trace says, of which records are lost, and gives the row
// as it was. What only a lost start said stays; a run whose end is lost is open.
func (t Table) Restate(tx *db.Tx, run Ref) (was, is State, err error) {
	const op = "restate run"
	scope, err := tx.Scope(t.Scope)
	if err != nil {
		return was, is, err
	}
	row, found, err := run.FindLocked(tx, scope)
	if err != nil || !found {
		return was, is, err
	}
	is = NewState()
	last, err := lastOf(tx, row.Key)
	if err == nil {
		err = is.addFrame(&tx.Rx, run, row.Key)
	}
	if err != nil {
		return was, is, run.Failed(op, err)
	}
	is.close(last.ID & MaxSequence)
	was = row.State
	if is.StartedAt == nil {
		is.ShownAgentID, is.ShownRunID, is.Intent = was.ShownAgentID, was.ShownRunID, was.Intent
		is.StartedAt, is.StartedAtText = was.StartedAt, was.StartedAtText
	}
	if was.same(is) {
		return was, is, nil
	}
	if is.EndedAt != nil {
		row.OwnerID = nil
	}
	_, columns := is.args(scope, run, row.OwnerID)
	_, err = tx.Exec(sqlChangeRun, append(columns, row.Key)...)
	return was, is, err
}

// addFrame folds in what of a trace is no turn. What can't be read counts as a line that is no record.
func (s *State) addFrame(rx *db.Rx, run Ref, key int64) error {
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
