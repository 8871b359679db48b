package runs

import (
	"context"
	"fmt"
	"iter"

	"selvedge/db"
)

const opTrace = "read trace"

// Trace gives the records of a run one by one, those of later versions too, read in pages: no transaction is open while
// the caller's loop runs, and records that are appended meanwhile are seen. A run that is not there is ErrNotFound, one
// that goes while it is read ErrCursorExpired. After an error there is nothing more.
func (s *Store) Trace(ctx context.Context, run RunRef) iter.Seq2[TraceRecord, error] {
	return func(yield func(TraceRecord, error) bool) {
		for r, err := range db.AllPages(func(at db.At) (db.Page[Followed], error) { return s.TracePage(ctx, run, at) }) {
			if !yield(r.Item, err) {
				return
			}
		}
	}
}

// TracePage gives a page of the records of a run, in the order of the trace, those of later versions too. The limit counts
// the lines that are looked at; imported lines that are no records are among them. The cursors are those of [Store.Follow],
// which goes on behind the last item. A run that is not there is ErrNotFound, and a cursor into one that is gone
// ErrCursorExpired, even when a new one has its name.
func (s *Store) TracePage(ctx context.Context, run RunRef, at db.At) (page db.Page[Followed], err error) {
	err = s.db.Read(ctx, opTrace, func(rx *db.Rx) error {
		page, err = s.TracePageTx(rx, run, at)
		return err
	})
	return page, err
}

// TracePageTx is TracePage inside a transaction.
func (s *Store) TracePageTx(rx *db.Rx, run RunRef, at db.At) (page db.Page[Followed], err error) {
	place, err := s.placeIn(rx, run, at.After)
	if err == nil {
		page, err = stream.Page(rx, place, at)
	}
	if err != nil {
		return page, run.failed(opTrace, err)
	}
	return page, nil
}

const (
	sqlRunOfAgent = `SELECT key FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`
	sqlRecords    = `SELECT id & 16777215, ` + recordColumns + ` FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT ` + boundLimit
)

// boundLimit is a limit to be bound. SQLite looks at the value of a bare "?" there to plan the statement, and so prepares
// it anew each time that it is bound, which takes as long as reading a trace; it does not look into a sum.
const boundLimit = `(? + 0)`

// find gives the key of a run.
func (s *Store) find(rx *db.Rx, run RunRef) (key int64, found bool, err error) {
	scope, ok, err := s.scopeIn(rx)
	if err != nil || !ok {
		return 0, false, err
	}
	found, err = rx.Find(&key, sqlRunOfAgent, scope, run.RunID, run.AgentID)
	return key, found, err
}

// placedRow is a row with its place in the trace.
type placedRow struct {
	sequence int64
	recordRow
}

// eachRow visits at most limit rows of a run behind a sequence, until visit has enough. The row is used again for the next
// one: what it points at may be kept, the row itself not.
func eachRow(rx *db.Rx, key, after int64, limit int, visit func(*placedRow) (on bool, err error)) error {
	var row placedRow
	targets := row.targets(&row.sequence)
	for found, err := range rx.Query(sqlRecords, key<<24|after, (key+1)<<24, limit) {
		if err != nil {
			return err
		}
		if err := found.Scan(targets...); err != nil {
			return err
		}
		on, err := visit(&row)
		if err != nil {
			return fmt.Errorf("line %d: %w", row.sequence, err)
		}
		if !on {
			return nil
		}
	}
	return nil
}
