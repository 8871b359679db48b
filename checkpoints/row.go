package checkpoints

import (
	"hash/crc32"
	"time"

	"selvedge/checkpoints/internal/codec"
	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
	"selvedge/internal/txn"
)

// A row is a row of checkpoints, without the columns of a claim.
type row struct {
	ID    int64 `db:"id"`
	State State `db:"state"`
	pause
	Checksum int64   `db:"checksum"`
	Problem  *string `db:"problem"`
}

// A pause is what a row, and later the history, record of a run that paused.
type pause struct {
	RunID         string  `db:"run_id"`
	AgentID       *string `db:"agent_id"` // NULL: none was named
	PausedStageID *string `db:"paused_stage_id"`
	Prompt        *string `db:"prompt"`
	CreatedAt     *int64  `db:"created_at"`
	CreatedAtText *string `db:"created_at_text"`
	SavedAt       int64   `db:"saved_at"`
	Size          int64   `db:"size"`
}

func checksum(text []byte) int64 {
	return int64(crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))) // the library's own table
}

// rowOf reads the columns from a document. The caller sets State and SavedAt.
func rowOf(runID string, text []byte) row {
	r := row{pause: pause{RunID: runID, Size: int64(len(text))}, Checksum: checksum(text)}
	if reason := codec.Problem(text); reason != "" {
		r.Problem = &reason
		return r
	}
	stage, prompt, created := header(text)
	at, exact, _ := chrono.Parse(created) // an accepted document has an accepted time
	nanos := db.Nanos(at)
	if exact == "" && !db.Time(nanos).Equal(at) {
		exact = chrono.Format(at)
	}
	r.PausedStageID, r.Prompt, r.CreatedAt = &stage, &prompt, &nanos
	if exact != "" {
		r.CreatedAtText = &exact
	}
	return r
}

// header reads the members of an accepted document that lists show.
func header(text []byte) (stage, prompt, created string) {
	var few [16]serdejson.Member
	c := serdejson.ContentOf(text, few[:0])
	if c.Array { // a list for the struct
		canonical, _ := codec.Canonical(text)
		c = serdejson.ContentOf(canonical, few[:0])
	}
	member := func(name string) string {
		value, _ := last(c, name)
		return serdejson.Unquote(value)
	}
	return member("paused_stage_id"), member("prompt"), member("created_at")
}

const (
	putColumns = `scope, run_id, paused_stage_id, prompt, created_at, created_at_text, saved_at, size,
	checksum, problem, agent_id, row_checksum, state, claimed_at`
	// Writes without an agent add nothing to a run that only named agents have.
	sqlPut = `INSERT INTO checkpoints (` + putColumns + `)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE ? <> '' OR NOT EXISTS (SELECT 1 FROM checkpoints WHERE scope = ? AND run_id = ?
	AND agent_id IS NOT NULL) OR EXISTS (SELECT 1 FROM checkpoints WHERE ` + ofRun + `)
ON CONFLICT (scope, run_id, coalesce(agent_id, ''), state) DO UPDATE
	SET paused_stage_id = excluded.paused_stage_id, prompt = excluded.prompt,
	created_at = excluded.created_at, created_at_text = excluded.created_at_text,
	saved_at = excluded.saved_at, size = excluded.size, checksum = excluded.checksum,
	problem = excluded.problem, row_checksum = excluded.row_checksum, changes = checkpoints.changes + 1
RETURNING id`
	sqlAdd = `INSERT INTO checkpoints (` + putColumns + `, id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlPutDocument = `INSERT INTO checkpoint_documents (checkpoint, document, checksum) VALUES (?, ?, ?)
ON CONFLICT (checkpoint) DO UPDATE SET document = excluded.document, checksum = excluded.checksum`
)

var pauseName = txn.Checkpoints.Name("%d %q")

// put writes a row and its document, and replaces the run's checkpoint in that state. A row that is
// written as claimed has no owner. It writes nothing if the row names no agent, and only named ones
// have the run.
func (r row) put(tx *db.Tx, scope int64, text []byte) (put bool, err error) {
	// Serialize saves of a run before the row is numbered: the epochs of claims grow with the numbers.
	if err := tx.Store().WillChange(pauseName, scope, r.RunID); err != nil {
		return false, err
	}
	var id int64
	agent := deref(r.AgentID)
	args := append(r.columns(scope), agent, scope, r.RunID, scope, r.RunID, agent)
	if put, err = tx.Find(&id, sqlPut, args...); put {
		_, err = tx.Exec(sqlPutDocument, documentColumns(id, text)...)
	}
	return put, err
}

// add is put with the number id, for a run that has no checkpoint in that state.
func (r row) add(tx *db.Tx, id, scope int64, text []byte) error {
	if err := tx.Store().Queue(sqlAdd, append(r.columns(scope), id)...); err != nil {
		return err
	}
	return tx.Store().Queue(sqlPutDocument, documentColumns(id, text)...)
}

func documentColumns(id int64, text []byte) []any {
	text = nonNil(text)
	return []any{id, text, txn.Checksum(id, text)}
}

func (r *row) columns(scope int64) []any {
	var claimedAt *int64
	if r.State == Claimed {
		claimedAt = &r.SavedAt
	}
	columns := []any{
		scope, r.RunID, r.PausedStageID, r.Prompt, r.CreatedAt, r.CreatedAtText, r.SavedAt, r.Size, r.Checksum,
		r.Problem, r.AgentID,
	}
	return append(columns, txn.Checksum(columns...), string(r.State), claimedAt)
}

// nonNil keeps an empty document from becoming NULL.
func nonNil(text []byte) []byte {
	if text == nil {
		return []byte{}
	}
	return text
}

// sqlStored reads a stored document, by scope, run and state.
const sqlStored = `SELECT c.id, c.checksum, c.problem, d.document
FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id
WHERE ` + ofRun + ` AND state = ?`

// A stored document has the checksum and the problem that were recorded when it was written.
type stored struct {
	ID       int64   `db:"id"`
	Checksum int64   `db:"checksum"`
	Problem  *string `db:"problem"`
	Document []byte  `db:"document"`
}

// refusal returns why the document can't be read; nil if it can. Documents are checked when they
// are written; only one that was edited since is checked again.
func (f stored) refusal() error {
	switch {
	case checksum(f.Document) != f.Checksum:
		return codec.Check(f.Document)
	case f.Problem != nil:
		return &codec.Error{Reason: *f.Problem}
	}
	return nil
}

// created returns when the run paused, by its document; the zero time if that can't be read.
func (p *pause) created() time.Time {
	if p.CreatedAtText != nil {
		if at, _, err := chrono.Parse(*p.CreatedAtText); err == nil {
			return at
		}
	}
	if p.CreatedAt == nil {
		return time.Time{}
	}
	return db.Time(*p.CreatedAt)
}
