package checkpoints

import (
	"context"
	"reflect"
	"slices"

	"selvedge/db"
	"selvedge/internal/stores"
)

const (
	sqlIDs     = `SELECT id FROM checkpoints ORDER BY id`
	sqlRestate = `SELECT c.scope, c.state, c.run_id, c.paused_stage_id, c.prompt, c.created_at,
	c.created_at_text, c.saved_at, c.size, c.checksum, c.problem, c.agent_id, d.document
FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.id = ?`
	sqlSay = `UPDATE checkpoints
	SET paused_stage_id = ?, prompt = ?, created_at = ?, created_at_text = ?, size = ?, checksum = ?,
	problem = ?, row_checksum = ?
WHERE id = ?`
)

// Restate derives the columns of every checkpoint of the file from its document again, for
// maintenance.Salvage.
func Restate(ctx context.Context, d *db.DB) error {
	_, err := stores.Restate(ctx, d, "restate checkpoints", sqlIDs, restate)
	return err
}

func restate(tx *db.Tx, id int64) (note string, err error) {
	var was struct {
		Scope    int64  `db:"scope"`
		Document []byte `db:"document"`
		row
	}
	if found, err := tx.Find(&was, sqlRestate, id); err != nil || !found {
		return "", err
	}
	is := rowOf(was.RunID, was.Document)
	is.State, is.SavedAt, is.AgentID = was.State, was.SavedAt, was.AgentID
	if reflect.DeepEqual(is, was.row) {
		return "", nil
	}
	// scope, run, stage, prompt, created, its text, saved, size, checksum, problem, agent, their checksum
	columns := is.columns(was.Scope)
	_, err = tx.Exec(sqlSay, slices.Concat(columns[2:6], columns[7:10], []any{columns[11], id})...)
	return "", err
}
