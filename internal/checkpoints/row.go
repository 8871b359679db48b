package checkpoints

import (
	"fmt"
	"hash/crc32"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// The states of a row.
const (
	Paused  = "paused"
	Claimed = "claimed"
)

// A Row is a row of checkpoints, without what only a claim has.
type Row struct {
	ID    int64  `db:"id"`
	State string `db:"state"`
	Pause
	Checksum int64   `db:"checksum"`
	Problem  *string `db:"problem"`
}

// A Pause is what a row, and the history after it, say of a run that paused.
type Pause struct {
	RunID         string  `db:"run_id"`
	PausedStageID *string `db:"paused_stage_id"`
	Prompt        *string `db:"prompt"`
	CreatedAt     *int64  `db:"created_at"`
	CreatedAtText *string `db:"created_at_text"`
	SavedAt       int64   `db:"saved_at"`
	Size          int64   `db:"size"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(document []byte) int64 { return int64(crc32.Checksum(document, castagnoli)) }

// RowOf reads what the columns hold out of a document. State and SavedAt are the caller's to set.
func RowOf(runID string, document []byte) Row {
	r := Row{Pause: Pause{RunID: runID, Size: int64(len(document))}, Checksum: checksum(document)}
	_, reason := readDocument(document, true)
	if reason != "" {
		r.Problem = &reason
		return r
	}
	stage, prompt, created := header(document)
	at, text, _ := chrono.Parse(created) // an accepted document has an accepted time
	nanos := db.Nanos(at)
	if text == "" && !db.Time(nanos).Equal(at) {
		text = chrono.Format(at)
	}
	r.PausedStageID, r.Prompt, r.CreatedAt = &stage, &prompt, &nanos
	if text != "" {
		r.CreatedAtText = &text
	}
	return r
}

// header reads the members of an accepted document that lists show.
func header(document []byte) (stage, prompt, created string) {
	s := serdejson.NewScanner(document)
	if s.Peek() == '[' { // a list in place of the struct
		canonical, _ := readDocument(document, false)
		s = serdejson.NewScanner(canonical.out)
	}
	s.Peek()
	s.Enter()
	for first := true; ; first = false {
		key, more, _ := s.NextKey(first)
		if !more {
			return stage, prompt, created
		}
		var into *string
		switch {
		case serdejson.KeyIs(key, "paused_stage_id"):
			into = &stage
		case serdejson.KeyIs(key, "prompt"):
			into = &prompt
		case serdejson.KeyIs(key, "created_at"):
			into = &created
		default:
			s.Ignore()
			continue
		}
		text, _ := s.Value()
		*into = serdejson.Unquote(text)
	}
}

const (
	sqlPut = `INSERT INTO checkpoints (scope, run_id, paused_stage_id, prompt, created_at, created_at_text,
	saved_at, size, checksum, problem, row_checksum, state, claimed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, run_id, state) DO UPDATE
	SET paused_stage_id = excluded.paused_stage_id, prompt = excluded.prompt,
    created_at = excluded.created_at, created_at_text = excluded.created_at_text,
    saved_at = excluded.saved_at,
    size = excluded.size, checksum = excluded.checksum, problem = excluded.problem,
    row_checksum = excluded.row_checksum,
    changes = checkpoints.changes + 1
RETURNING id`
	sqlAdd = `INSERT INTO checkpoints (scope, run_id, paused_stage_id, prompt, created_at, created_at_text,
	saved_at, size, checksum, problem, row_checksum, state, claimed_at, id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlPutDocument = `INSERT INTO checkpoint_documents (checkpoint, document, checksum) VALUES (?, ?, ?)
ON CONFLICT (checkpoint) DO UPDATE SET document = excluded.document, checksum = excluded.checksum`
)

// Put writes a row and its document, in place of what the run has in that state. One that is
// written as claimed is nobody's.
func (r Row) Put(tx *db.Tx, scope int64, document []byte) (id int64, err error) {
	// Who saves the same run waits before its row is numbered: the epochs of claims grow with the numbers.
	if err := tx.LockName("checkpoints", fmt.Sprintf("%d %q", scope, r.RunID)); err != nil {
		return 0, err
	}
	if err = tx.Get(&id, sqlPut, r.columns(scope)...); err == nil {
		document = nonNil(document)
		_, err = tx.Exec(sqlPutDocument, id, document, db.Checksum(id, document))
	}
	return id, err
}

// add is Put under a number, where the run has nothing in that state.
func (r Row) add(tx *db.Tx, id, scope int64, document []byte) error {
	if err := tx.Queue(sqlAdd, append(r.columns(scope), id)...); err != nil {
		return err
	}
	document = nonNil(document)
	return tx.Queue(sqlPutDocument, id, document, db.Checksum(id, document))
}

func (r *Row) columns(scope int64) []any {
	var claimedAt *int64
	if r.State == Claimed {
		claimedAt = &r.SavedAt
	}
	columns := []any{
		scope, r.RunID, r.PausedStageID, r.Prompt, r.CreatedAt, r.CreatedAtText, r.SavedAt, r.Size, r.Checksum,
		r.Problem,
	}
	return append(columns, db.Checksum(columns...), r.State, claimedAt)
}

// nonNil keeps an empty document from becoming NULL.
func nonNil(document []byte) []byte {
	if document == nil {
		return []byte{}
	}
	return document
}

// SQLStored reads the Stored document of a run, by scope, run and state.
const SQLStored = `SELECT c.id, c.checksum, c.problem, d.document
FROM checkpoints AS c JOIN checkpoint_documents AS d ON d.checkpoint = c.id
WHERE c.scope = ? AND c.run_id = ? AND c.state = ?`

// A Stored document is one with what was known of it when it was written.
type Stored struct {
	ID       int64   `db:"id"`
	Checksum int64   `db:"checksum"`
	Problem  *string `db:"problem"`
	Document []byte  `db:"document"`
}

// Refusal is why the document can't be read; nil if it can. It was read when it was written; only
// one that was edited since is read again.
func (f Stored) Refusal() error {
	reason := ""
	switch {
	case checksum(f.Document) != f.Checksum:
		reason = Problem(f.Document)
	case f.Problem != nil:
		reason = *f.Problem
	}
	if reason == "" {
		return nil
	}
	return &DocumentError{reason}
}

// Created is when the run paused, by its document; the zero time where that can't be read.
func (p *Pause) Created() time.Time {
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
