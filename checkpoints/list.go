package checkpoints

import (
	"context"
	"fmt"
	"iter"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/paging"
	"selvedge/internal/serdejson"
	"selvedge/internal/stores"
	"selvedge/internal/txn"
)

// A State is the state of a checkpoint.
type State string

// The states. A run may have one checkpoint in each state at the same time.
const (
	Paused  State = "paused"  // waits, and can be claimed
	Claimed State = "claimed" // a process resumes the run
)

// A Summary is a checkpoint without its document.
type Summary struct {
	RunID   string
	AgentID string // agent that the run belongs to; "" if none was named
	State   State
	// PausedStageID, Prompt and CreatedAt are from the document: the stage that the run waits at, the
	// question to the person, and when the run paused. Empty if Problem is set.
	PausedStageID string
	Prompt        string
	CreatedAt     time.Time
	SavedAt       time.Time // when the document was saved or imported
	Size          int64     // bytes of the document
	Problem       string    // why the document can't be read; "" if it can
	Claim         *Holder   // the process that resumes the run; nil while it waits
	// Contested describes what the old program did to the run since it was imported. Claims return
	// ErrConflict until an operator decides which version counts. "" if there is nothing to decide.
	Contested string

	createdAtText string // as it was written, if CreatedAt can't hold it (second 60)
}

// MarshalJSON writes the members that lists have: run_id, paused_stage_id, prompt, created_at, and
// agent_id and contested unless they are empty. paused_stage_id, prompt and created_at are null if the
// document can't be read.
func (s Summary) MarshalJSON() ([]byte, error) {
	out := serdejson.AppendQuoted([]byte(`{"run_id":`), s.RunID)
	if s.Problem != "" {
		out = append(out, `,"paused_stage_id":null,"prompt":null,"created_at":null`...)
	} else {
		out = serdejson.AppendQuoted(append(out, `,"paused_stage_id":`...), s.PausedStageID)
		out = serdejson.AppendQuoted(append(out, `,"prompt":`...), s.Prompt)
		out = serdejson.AppendQuoted(append(out, `,"created_at":`...), chrono.Text(s.CreatedAt, s.createdAtText))
	}
	if s.AgentID != "" {
		out = serdejson.AppendQuoted(append(out, `,"agent_id":`...), s.AgentID)
	}
	if s.Contested != "" {
		out = serdejson.AppendQuoted(append(out, `,"contested":`...), s.Contested)
	}
	return append(out, '}'), nil
}

// A Holder is the process that has a claim.
type Holder struct {
	ClaimedAt time.Time `json:"since"`   // when the run was claimed, or the claim imported, RFC 3339, UTC
	Epoch     int64     `json:"epoch"`   // grows with every claim on the run; 0 for a claim that was imported
	Owner     int64     `json:"-"`       // the process, in the table owners; 0: the claim was imported
	Pid       int       `json:"pid"`     // of the process that claimed; 0 for a claim that was imported
	Program   string    `json:"program"` // that the process runs; empty for a claim that was imported
	Alive     bool      `json:"alive"`   // whether that process still runs
	// TTL is how long the claim lasts without a renewal; 0: as long as the process.
	TTL time.Duration `json:"-"`
	// whether the claim's time is over, so that recover takes it from a living process
	Expired bool `json:"expired"`
}

// A Ref names a checkpoint: the run, and which of its two possible checkpoints.
type Ref struct {
	// AgentID is the agent that the run belongs to. "" means Options.Agent.
	AgentID string `db:"agent"`
	RunID   string `db:"run_id"`
	// State selects the checkpoint. "" is the waiting one if there is one, else the claimed one; for
	// Delete, both.
	State State `db:"state"`
}

// A Filter selects the checkpoints of a list. The zero value selects all of them.
type Filter struct {
	State State // "" means both
}

const (
	opList = "list checkpoints"
	opGet  = "get checkpoint"
	opFind = "find checkpoints"
	// listName is that of the list in its cursors.
	listName = "checkpoints"
)

// Page returns a page of the checkpoints that pass the filter, in the order of run ids and
// agents; a run's claimed checkpoint comes before its waiting one.
func (s *Store) Page(ctx context.Context, f Filter, at db.At) (db.Page[Summary], error) {
	return stores.Get(ctx, s.db.Read, opList, stores.Bind2(s.PageTx, f, at))
}

// PageTx is Page inside a transaction.
func (s *Store) PageTx(rx *db.Rx, f Filter, at db.At) (page db.Page[Summary], err error) {
	page, err = s.page(rx, f, at)
	return page, failed(opList, "", err)
}

// All iterates over the checkpoints that pass the filter, in the order of Page: see [paging.All]. A
// claim moves a checkpoint in that order.
func (s *Store) All(ctx context.Context, f Filter) iter.Seq2[Summary, error] {
	return paging.All(func(at db.At) (db.Page[Summary], error) { return s.Page(ctx, f, at) })
}

// Get returns one checkpoint, without its document: see [Store.LoadDocument]. A missing one is
// ErrNotFound.
func (s *Store) Get(ctx context.Context, ref Ref) (Summary, error) {
	return stores.Get(ctx, s.db.Read, opGet, stores.Bind(s.GetTx, ref))
}

// GetTx is Get inside a transaction.
func (s *Store) GetTx(rx *db.Rx, ref Ref) (summary Summary, err error) {
	err = s.findRef(rx, opGet, ref, func(inState string, run []any) (found bool, err error) {
		var row summaryRow
		if found, err = rx.Find(&row, sqlSummary+`WHERE `+ofRun+inState+sqlWaitingFirst, run...); found {
			summary, err = row.summary(rx)
		}
		return found, err
	})
	return summary, err
}

// Find returns the checkpoints of the runs with ids that begin with prefix, in the order of Page;
// at most limit of them, with the rules of a page.
func (s *Store) Find(ctx context.Context, prefix string, limit int) ([]Ref, error) {
	return stores.Get(ctx, s.db.Read, opFind, stores.Bind2(s.FindTx, prefix, limit))
}

// FindTx is Find inside a transaction.
func (s *Store) FindTx(rx *db.Rx, prefix string, limit int) (found []Ref, err error) {
	if err = txn.CheckID("agent", s.agent); err == nil {
		found, err = stores.FindPrefix[Ref](rx, s.db, s.scope, "run", prefix, limit, sqlFindRuns, s.agent)
	}
	return found, failed(opFind, prefix, err)
}

const sqlFindRuns = `SELECT coalesce(agent_id, '') AS agent, run_id, state FROM checkpoints
	WHERE scope = ? AND ` + ofAgent + ` AND run_id >= ? AND run_id < ?
	ORDER BY run_id, coalesce(agent_id, ''), state LIMIT ?`

const (
	sqlSummary = `SELECT c.run_id, c.agent_id, c.state, c.paused_stage_id, c.prompt, c.created_at,
	c.created_at_text, c.saved_at, c.size, c.problem, c.claimed_at, c.epoch, c.owner_id, c.lease_ttl,
	c.lease_until, c.lease_boot_id, c.lease_time_ns, c.lease_wall_until, c.changes, o.pid, o.program,
	` + sqlContested + ` AS contested
FROM checkpoints AS c LEFT JOIN owners AS o ON o.id = c.owner_id
`
	sqlSummaries = sqlSummary + `WHERE c.scope = ? AND ` + ofAgent
	sqlBehind    = ` AND c.run_id >= ? AND (c.run_id, coalesce(c.agent_id, ''), c.state) > (?, ?, ?)`
	sqlPageOrder = ` ORDER BY c.run_id, coalesce(c.agent_id, ''), c.state LIMIT ?`
)

type summaryRow struct {
	row
	ClaimedAt *int64 `db:"claimed_at"`
	Epoch     *int64 `db:"epoch"`
	Changes   int64  `db:"changes"`
	txn.LeaseColumns
	Pid       *int    `db:"pid"`
	Program   *string `db:"program"`
	Contested *string `db:"contested"`
}

// condition writes the state as a literal: a partial index is not used for a parameter.
func (s State) condition() (string, error) {
	switch s {
	case "":
		return "", nil
	case Paused, Claimed:
		return ` AND c.state = '` + string(s) + `'`, nil
	}
	return "", fmt.Errorf("%w: %q is no state of a checkpoint", db.ErrInvalid, s)
}

func (s *Store) page(rx *db.Rx, f Filter, at db.At) (page db.Page[Summary], err error) {
	inState, err := f.State.condition()
	if err != nil {
		return page, err
	}
	room, err := paging.RoomFor(at.Limit)
	if err != nil {
		return page, err
	}
	scope, there, err := stores.Scope(rx, s.db, s.scope)
	if err != nil || !there && at.After == "" {
		return page, err
	}
	query, args := sqlSummaries+inState, []any{scope, s.agent}
	if at.After != "" {
		var runID, agent, state string
		err := rx.Store().ReadListCursor(listName, at.After, []int64{scope}, &runID, &agent, &state)
		if err != nil {
			return page, err
		}
		query += sqlBehind
		args = append(args, runID, runID, agent, state)
	}
	summaries := txn.Each(rx.Store(), func(r *summaryRow) (Summary, error) { return r.summary(rx) },
		query+sqlPageOrder, append(args, room.Items+1)...)
	return stores.FillPage(room, summaries, (*Summary).size,
		func(one *Summary) string {
			return rx.Store().Cursor(listName, []int64{scope}, one.RunID, one.AgentID, string(one.State))
		})
}

// size is how many bytes a summary takes, about.
func (s *Summary) size() int {
	return 200 + len(s.RunID) + len(s.AgentID) + len(s.PausedStageID) + len(s.Prompt) + len(s.Problem) +
		len(s.Contested)
}

func (r *summaryRow) summary(rx *db.Rx) (Summary, error) {
	one := Summary{
		RunID: r.RunID, AgentID: deref(r.AgentID), State: r.State, PausedStageID: deref(r.PausedStageID),
		Prompt: deref(r.Prompt), CreatedAt: r.created(), createdAtText: deref(r.CreatedAtText),
		SavedAt: db.Time(r.SavedAt), Size: r.Size, Problem: deref(r.Problem), Contested: deref(r.Contested),
	}
	if r.ClaimedAt == nil {
		return one, nil
	}
	h := &Holder{ClaimedAt: db.Time(*r.ClaimedAt)}
	one.Claim = h
	if r.Owner == nil {
		return one, nil
	}
	h.Epoch, h.Owner, h.Pid, h.Program, h.TTL = deref(r.Epoch), *r.Owner, deref(r.Pid), deref(r.Program),
		time.Duration(deref(r.TTL))
	state, err := rx.Store().LeaseState(r.LeaseColumns)
	if err == nil {
		h.Expired = state == txn.LeaseExpired
		h.Alive, err = rx.Store().OwnerAlive(*r.Owner)
	}
	return one, err
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
