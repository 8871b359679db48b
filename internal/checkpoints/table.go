package checkpoints

import (
	"context"
	"iter"

	"selvedge/db"
)

// A Table is the documents of one scope as an import and an export need them: by the numbers of their rows.
type Table struct {
	Scope string
}

// A Number names a document of the table together with the state it is in: a claim, or a recovery,
// gives it another.
type Number int64

func numberOf(id int64, state string) Number {
	n := Number(id << 1)
	if state == Claimed {
		n++
	}
	return n
}

func (n Number) parts() (id int64, state string) {
	if n&1 == 1 {
		return int64(n >> 1), Claimed
	}
	return int64(n >> 1), Paused
}

const (
	sqlFindRow  = `SELECT id FROM checkpoints WHERE scope = ? AND run_id = ? AND state = ?`
	sqlDocument = `SELECT d.document FROM checkpoints AS c
		JOIN checkpoint_documents AS d ON d.checkpoint = c.id WHERE c.id = ? AND c.state = ?`
	// the epoch: of a claim before changes were counted
	sqlUntouched = `SELECT changes = 1 AND epoch IS NULL FROM checkpoints WHERE id = ? AND state = ?`
	sqlRemoveRow = `DELETE FROM checkpoints WHERE id = ? AND state = ?`
	sqlRunsAfter = `SELECT run_id, state FROM checkpoints WHERE scope = ? AND (run_id, state) > (?, ?)
		ORDER BY run_id, state LIMIT ?`
)

// Row gives the number of what there is of a run in a state.
func (t Table) Row(rx *db.Rx, state, runID string) (n Number, ok bool, err error) {
	scope, there, err := rx.Scope(t.Scope)
	if err != nil || !there {
		return 0, false, err
	}
	var id int64
	ok, err = rx.Find(&id, sqlFindRow, scope, runID, state)
	return numberOf(id, state), ok, err
}

// Document gives a document; ok is false when it is gone, or in the other state.
func (t Table) Document(rx *db.Rx, n Number) (document []byte, ok bool, err error) {
	id, state := n.parts()
	ok, err = rx.Find(&document, sqlDocument, id, state)
	if ok {
		document = nonNil(document)
	}
	return document, ok, err
}

// Put adds a document in the state it was found in, also one that can't be read. Row must not have
// found any in that state. A claimed one is nobody's until recovery re-arms it.
func (t Table) Put(tx *db.Tx, state, runID string, document []byte) (Number, error) {
	if err := db.CheckID("run", runID); err != nil {
		return 0, err
	}
	scope, err := tx.Scope(t.Scope)
	if err != nil {
		return 0, err
	}
	r := RowOf(runID, document)
	r.State, r.SavedAt = state, db.Nanos(tx.Now())
	id, err := tx.Number("checkpoints")
	if err == nil {
		err = r.add(tx, id, scope, document)
	}
	return numberOf(id, state), err
}

// Foresee names what Row is about to ask.
func (t Table) Foresee(rx *db.Rx, state, runID string, ask func(query string, args ...any)) error {
	scope, ok, err := rx.Scope(t.Scope)
	if err == nil && ok {
		ask(sqlFindRow, scope, runID, state)
	}
	return err
}

// Untouched reports whether a document is there in the state in which it was added, and was never
// saved, claimed or given back since.
func (t Table) Untouched(rx *db.Rx, n Number) (untouched bool, err error) {
	id, state := n.parts()
	_, err = rx.Find(&untouched, sqlUntouched, id, state)
	return untouched, err
}

// Remove takes a document out.
func (t Table) Remove(tx *db.Tx, n Number) error {
	id, state := n.parts()
	_, err := tx.Exec(sqlRemoveRow, id, state)
	return err
}

// A Run is a run with the state of a document of its.
type Run struct {
	RunID string `db:"run_id"`
	State string `db:"state"`
}

const runsAtOnce = 1000

// Runs gives every document's run and state, by run id in byte order, a page at a time.
func (t Table) Runs(ctx context.Context, d *db.DB) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		for after := (Run{}); ; {
			var runs []Run
			err := d.Read(ctx, "list checkpoints", func(rx *db.Rx) error {
				runs = nil
				scope, ok, err := rx.Scope(t.Scope)
				if err != nil || !ok {
					return err
				}
				return rx.Select(&runs, sqlRunsAfter, scope, after.RunID, after.State, runsAtOnce)
			})
			if err != nil {
				yield(Run{}, err)
				return
			}
			for _, one := range runs {
				if !yield(one, nil) {
					return
				}
				after = one
			}
			if len(runs) < runsAtOnce {
				return
			}
		}
	}
}
