package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"selvedge/db"
)

const opTrace = "read trace"

// GetRunTrace gives the trace of the run with this id, whichever agent's it is; where several agents have one, that of
// the first by id. found is false when nobody has. Records of later versions are left out, as the original leaves them
// out; [Store.Trace] has them.
func (s *Store) GetRunTrace(ctx context.Context, runID string) (records []Record, found bool, err error) {
	return s.wholeTrace(ctx, sqlRunOfAny, runID)
}

// GetRunTraceFor is GetRunTrace for the run of one agent.
func (s *Store) GetRunTraceFor(ctx context.Context, agentID, runID string) (records []Record, found bool, err error) {
	return s.wholeTrace(ctx, sqlRunOfAgent, runID, agentID)
}

// AgentForRun gives the agent whose run has this id, the first by id where several have one.
func (s *Store) AgentForRun(ctx context.Context, runID string) (agentID string, found bool, err error) {
	err = s.db.Read(ctx, "find the agent of a run", func(rx *db.Rx) error {
		agentID, found = "", false
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		found, err = rx.Find(&agentID, sqlAgentOfRun, scope, runID)
		return err
	})
	return agentID, found, err
}

// Find gives the runs whose id begins with prefix, by run and then by agent, at most limit of them; also those that no
// list shows.
func (s *Store) Find(ctx context.Context, prefix string, limit int) (found []RunRef, err error) {
	err = s.db.Read(ctx, "find runs", func(rx *db.Rx) error {
		found = nil
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		var rows []struct {
			AgentID string `db:"agent_id"`
			RunID   string `db:"run_id"`
		}
		// No UTF-8 text goes beyond a byte 255.
		err = rx.Select(&rows, sqlRunsByPrefix, scope, prefix, prefix+"\xff", limit)
		for _, r := range rows {
			found = append(found, RunRef(r))
		}
		return err
	})
	return found, err
}

// Trace gives the records of a run one by one, those of later versions too, read in pages: no transaction is open while
// the caller's loop runs, and records that are appended meanwhile are seen. A run that is not there is ErrNotFound, one
// that goes while it is read ErrCursorExpired. After an error there is nothing more.
func (s *Store) Trace(ctx context.Context, agentID, runID string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		page := Page{Limit: tracePageSize}
		for {
			got, err := s.TracePage(ctx, agentID, runID, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range got.Records {
				if !yield(r, nil) {
					return
				}
			}
			if !got.More {
				return
			}
			page.After = got.Next
		}
	}
}

// tracePageSize is in lines: a few hundred KB of typical turns.
const tracePageSize = 128

// A TracePage is a part of a trace.
type TracePage struct {
	Records []Record
	// Next is the place behind the last line that was looked at. It stays good: asked again later, it gives what was
	// appended since.
	Next string
	// More says that there was more when the page was read.
	More bool
}

// TracePage gives the records behind a place, those of later versions too. Limit counts the lines that are looked at;
// imported lines that are no records are among them. A cursor into a run that is gone is ErrCursorExpired, even when a new
// one has its name.
func (s *Store) TracePage(ctx context.Context, agentID, runID string, page Page) (got TracePage, err error) {
	ref := RunRef{AgentID: agentID, RunID: runID}
	limit, err := page.limit()
	if err != nil {
		return got, ref.failed(opTrace, err)
	}
	var after tracePlace
	if page.After != "" {
		if after, err = parseTraceCursor(page.After); err != nil {
			return got, ref.failed(opTrace, err)
		}
	}
	err = s.db.Read(ctx, opTrace, func(rx *db.Rx) error {
		key, err := s.findForCursor(rx, ref, after.key)
		if err != nil {
			return err
		}
		got = TracePage{}
		last := after.sequence
		seen := 0
		err = eachRow(rx, key, last, limit+1, func(row *placedRow) error {
			if seen++; seen > limit {
				got.More = true
				return nil
			}
			last = row.sequence
			record, err := row.record()
			if err == nil && record != nil {
				got.Records = append(got.Records, record)
			}
			return err
		})
		got.Next = tracePlace{key: key, sequence: last}.cursor()
		return err
	})
	return got, err
}

// findForCursor finds the run, which must be the one that the cursor points into; 0 is no cursor.
func (s *Store) findForCursor(rx *db.Rx, ref RunRef, cursorKey int64) (key int64, err error) {
	scope, ok, err := rx.Scope(s.scope)
	if err != nil {
		return 0, err
	}
	if ok {
		if ok, err = rx.Find(&key, sqlRunOfAgent, scope, ref.RunID, ref.AgentID); err != nil {
			return 0, err
		}
	}
	if ok && (cursorKey == 0 || cursorKey == key) {
		return key, nil
	}
	if cursorKey == 0 {
		return 0, ref.failed(opTrace, db.ErrNotFound)
	}
	other, err := rx.Find(new(int64), sqlRunByKey, cursorKey)
	if err != nil {
		return 0, err
	}
	if other {
		return 0, ref.failed(opTrace, fmt.Errorf("%w: the cursor belongs to another run", db.ErrInvalid))
	}
	return 0, &db.Error{
		Op: opTrace, Entity: "run", ID: ref.RunID, Hint: "the run was removed, by retention or an import; start over without the cursor",
		Err: db.ErrCursorExpired,
	}
}

const (
	sqlRunOfAgent   = `SELECT key FROM runs WHERE scope = ? AND run_id = ? AND agent_id = ?`
	sqlRunOfAny     = `SELECT key FROM runs WHERE scope = ? AND run_id = ? ORDER BY agent_id LIMIT 1`
	sqlAgentOfRun   = `SELECT agent_id FROM runs WHERE scope = ? AND run_id = ? ORDER BY agent_id LIMIT 1`
	sqlRunByKey     = `SELECT key FROM runs WHERE key = ?`
	sqlRunsByPrefix = `SELECT agent_id, run_id FROM runs WHERE scope = ? AND run_id >= ? AND run_id < ? ORDER BY run_id, agent_id LIMIT ` + boundLimit
	sqlRecords      = `SELECT id & 16777215, ` + recordColumns + ` FROM run_records WHERE id > ? AND id < ? ORDER BY id LIMIT ` + boundLimit
)

// boundLimit is a limit to be bound. SQLite looks at the value of a bare "?" there to plan the statement, and so prepares
// it anew each time that it is bound, which takes as long as reading a trace; it does not look into a sum.
const boundLimit = `(? + 0)`

func (s *Store) wholeTrace(ctx context.Context, find string, names ...any) (records []Record, found bool, err error) {
	err = s.db.Read(ctx, opTrace, func(rx *db.Rx) error {
		records, found = nil, false
		scope, ok, err := rx.Scope(s.scope)
		if err != nil || !ok {
			return err
		}
		var key int64
		if found, err = rx.Find(&key, find, append([]any{scope}, names...)...); err != nil || !found {
			return err
		}
		records, err = readRecords(rx, key)
		return err
	})
	return records, found, err
}

// readRecords reads a whole trace without records of later versions.
func readRecords(rx *db.Rx, key int64) ([]Record, error) {
	records := []Record{}
	err := eachRow(rx, key, 0, -1, func(row *placedRow) error {
		if row.kind == kindUnknown {
			return nil
		}
		record, err := row.record()
		if err == nil && record != nil {
			records = append(records, record)
		}
		return err
	})
	return records, err
}

// placedRow is a row with its place in the trace.
type placedRow struct {
	sequence int64
	recordRow
}

// eachRow visits the rows of a run behind a sequence; a negative limit is none. The row is used again for the next one:
// what it points at may be kept, the row itself not.
func eachRow(rx *db.Rx, key, after int64, limit int, visit func(*placedRow) error) (err error) {
	rows, err := rx.Query(sqlRecords, key<<24|after, (key+1)<<24, limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var row placedRow
	targets := row.targets(&row.sequence)
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := visit(&row); err != nil {
			return fmt.Errorf("line %d: %w", row.sequence, err)
		}
	}
	return rows.Err()
}
