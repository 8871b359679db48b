package checkpoints

import (
	"cmp"
	"context"
	"iter"
	"time"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// An Ending is how a claim ended.
type Ending string

// The endings that the history has. A claim that was released, recovered or removed is not in it.
const (
	Completed Ending = "completed" // the run was resumed to its next pause or its end
	// the claim was not completed, but the run had paused again; that pause was claimed or waits
	Superseded Ending = "superseded"
)

// A Decision is a person's answer to a waiting run, in the caller's words. The zero value is no
// decision.
type Decision struct {
	Decision string // such as "approved"
	By       string // the person
}

// A Past is a claim that has ended. It stays in the history until [Store.Prune] removes it.
type Past struct {
	ID      int64 // number of the entry; grows
	RunID   string
	AgentID string // agent that the run belongs to; "" if none was named
	Ending  Ending
	Decision
	// PausedStageID, Prompt and PausedAt are from the document; empty if it could not be read.
	PausedStageID string
	Prompt        string
	PausedAt      time.Time
	ClaimedAt     time.Time
	CompletedAt   time.Time
	Epoch         int64  // 0: the claim was imported
	Pid           int    // of the process that claimed; 0: the claim was imported
	Program       string // of that process
}

// A HistoryFilter selects a part of the history. The zero value selects all of it.
type HistoryFilter struct {
	RunID string // "" means every run; otherwise those of the id, of all agents that the store has
}

const (
	opHistory = "read history"
	// historyName is that of the list in its cursors.
	historyName = "checkpoint history"
)

// HistoryPage returns a page of the claims that have ended, the last first.
func (s *Store) HistoryPage(ctx context.Context, f HistoryFilter, at db.At) (db.Page[Past], error) {
	return stores.Get(ctx, s.db.Read, opHistory, stores.Bind2(s.HistoryPageTx, f, at))
}

// History iterates over the claims that have ended, in the order of HistoryPage: see [paging.All].
func (s *Store) History(ctx context.Context, f HistoryFilter) iter.Seq2[Past, error] {
	return paging.All(func(at db.At) (db.Page[Past], error) { return s.HistoryPage(ctx, f, at) })
}

const (
	sqlHistory = `SELECT id, run_id, agent_id, ending, decision, decided_by, paused_stage_id, prompt, created_at,
	created_at_text, claimed_at, completed_at, epoch, owner_pid, owner_program
FROM checkpoint_history WHERE scope = ? AND ` + ofAgent
	sqlHistoryOrder = ` ORDER BY completed_at DESC, id DESC LIMIT ?`
	sqlHistoryOfRun = ` AND run_id = ?`
	sqlHistoryAfter = ` AND (completed_at, id) < (?, ?)`
	sqlRunOrder     = ` ORDER BY id DESC LIMIT ?`
	sqlRunAfter     = ` AND id < ?`
)

// HistoryPageTx is HistoryPage inside a transaction.
func (s *Store) HistoryPageTx(rx *db.Rx, f HistoryFilter, at db.At) (page db.Page[Past], err error) {
	page, err = s.historyPage(rx, f, at)
	return page, failed(opHistory, f.RunID, err)
}

func (s *Store) historyPage(rx *db.Rx, f HistoryFilter, at db.At) (page db.Page[Past], err error) {
	room, err := paging.RoomFor(at.Limit)
	if err = cmp.Or(err, checkID(f.RunID), txn.CheckID("agent", s.agent)); err != nil {
		return page, err
	}
	scope, _, err := stores.Scope(rx, s.db, s.scope)
	if err != nil {
		return page, err
	}
	place, of := []int64{scope, 0, 0}, f.RunID // completed_at, id
	if err := rx.Store().ReadListCursor(historyName, at.After, place, &of); err != nil {
		return page, err
	}
	if of != f.RunID {
		return page, txn.NotThisCursor(at.After)
	}
	query, args, behind := sqlHistory, []any{scope, s.agent}, []any{place[1], place[2]}
	after, order := sqlHistoryAfter, sqlHistoryOrder
	if f.RunID != "" {
		query, args, behind = query+sqlHistoryOfRun, append(args, f.RunID), behind[1:]
		after, order = sqlRunAfter, sqlRunOrder
	}
	if at.After != "" {
		query, args = query+after, append(args, behind...)
	}
	entries := txn.Each(rx.Store(), (*pastRow).past, query+order, append(args, room.Items+1)...)
	return stores.FillPage(room, entries, (*Past).weight, func(one *Past) string {
		return rx.Store().Cursor(historyName, []int64{scope, db.Nanos(one.CompletedAt), one.ID}, f.RunID)
	})
}

func (p *Past) weight() int { return 250 + len(p.RunID) + len(p.Prompt) + len(p.Decision.Decision) }

// pastRow is a row of checkpoint_history.
type pastRow struct {
	ID        int64   `db:"id"`
	Ending    string  `db:"ending"`
	Decision  *string `db:"decision"`
	DecidedBy *string `db:"decided_by"`
	pastClaim
	CompletedAt int64 `db:"completed_at"`
}

// pastClaim holds the columns of a claim that go into the history.
type pastClaim struct {
	Scope int64 `db:"scope"`
	pause
	ClaimedAt    int64   `db:"claimed_at"`
	Epoch        *int64  `db:"epoch"`
	OwnerPid     *int64  `db:"owner_pid"`
	OwnerProgram *string `db:"owner_program"`
}

func (r *pastRow) past() (Past, error) {
	return Past{
		ID: r.ID, RunID: r.RunID, AgentID: deref(r.AgentID), Ending: Ending(r.Ending),
		Decision:      Decision{Decision: deref(r.Decision), By: deref(r.DecidedBy)},
		PausedStageID: deref(r.PausedStageID), Prompt: deref(r.Prompt), PausedAt: r.created(),
		ClaimedAt: db.Time(r.ClaimedAt), CompletedAt: db.Time(r.CompletedAt), Epoch: deref(r.Epoch),
		Pid: int(deref(r.OwnerPid)), Program: deref(r.OwnerProgram),
	}, nil
}

const (
	sqlPastClaim = `SELECT scope, run_id, agent_id, paused_stage_id, prompt, created_at, created_at_text,
	saved_at, size, claimed_at, epoch, (SELECT pid FROM owners AS o WHERE o.id = c.owner_id) AS owner_pid,
	(SELECT program FROM owners AS o WHERE o.id = c.owner_id) AS owner_program
FROM checkpoints AS c WHERE id = ? AND state = 'claimed'`
	sqlKeep = `INSERT INTO checkpoint_history (scope, run_id, ending, decision, decided_by, paused_stage_id,
	prompt, created_at, created_at_text, saved_at, size,
	claimed_at, completed_at, epoch, owner_pid, owner_program, agent_id, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// end removes the row of a claim with the statement remove, and adds the claim to the history. ok
// is false if the statement removed nothing.
func end(tx *db.Tx, id int64, ending Ending, d Decision, remove string, args ...any) (ok bool, err error) {
	var c pastClaim
	if ok, err := tx.Find(&c, sqlPastClaim, id); err != nil || !ok {
		return false, err
	}
	if n, err := tx.Exec(remove, args...); err != nil || n == 0 {
		return false, err
	}
	columns := []any{
		c.Scope, c.RunID, string(ending), said(d.Decision), said(d.By), c.PausedStageID, c.Prompt,
		c.CreatedAt, c.CreatedAtText, c.SavedAt, c.Size, c.ClaimedAt, db.Nanos(tx.Now()), c.Epoch,
		c.OwnerPid, c.OwnerProgram, c.AgentID,
	}
	_, err = tx.Exec(sqlKeep, append(columns, txn.Checksum(columns...))...)
	return true, err
}

// said returns text, or NULL for "".
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
