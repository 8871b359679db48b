package usage

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
)

// The accounts. Each is what one kind of record says about the work of a run, the finest first. An
// agent_end is the sum of its run.
const (
	Reply     = "reply"
	ModelTurn = "model_turn"
	Turn      = "turn"
	TurnEnd   = "turn_end"
	AgentEnd  = "agent_end"
)

// A Record is a record that counts: of a trace, of a live run, or a reply of a step.
type Record struct {
	Scope      int64
	RunID      string
	AgentID    string // of a trace
	SessionID  string // of a live run
	Run        int64  // runs.key; 0: of a live run
	LiveRun    int64  // live_runs.key; 0: of a trace
	Account    string
	Sequence   int64  // 0 for a reply
	StepKey    string // of a reply
	RecordedAt any    // Unix nanoseconds as int64, or nil
}

// Counts are the counts of a record as columns. A number beyond mostCounted is not counted. It is no
// count of tokens, and SQLite's sum of two that an int64 holds fails: one record would end every query
// for cost. A thousand records may have mostCounted each.
type Counts struct {
	Provider      *string `db:"provider"`
	RequestModel  *string `db:"request_model"`
	ResponseModel *string `db:"response_model"`
	Numbers
}

// Numbers are the counts of tokens and the cost in billionths of a dollar. Nil is unknown.
type Numbers struct {
	Input      *int64 `db:"input_tokens"`
	CacheRead  *int64 `db:"cache_read_input_tokens"`
	CacheWrite *int64 `db:"cache_write_input_tokens"`
	Output     *int64 `db:"output_tokens"`
	Reasoning  *int64 `db:"reasoning_output_tokens"`
	CostNanos  *int64 `db:"cost_nanos"`
}

const (
	mostCounted = 1<<53 - 1
	mostDollars = 9_007_199
)

// CountsOf returns the columns of what a record says.
func CountsOf(u db.Usage) Counts {
	c := Counts{u.Provider, u.RequestModel, u.ResponseModel, Numbers{
		Input: column(u.InputTokens), CacheRead: column(u.CacheReadInputTokens),
		CacheWrite: column(u.CacheWriteInputTokens), Output: column(u.OutputTokens),
		Reasoning: column(u.ReasoningOutputTokens),
	}}
	if u.CostUSD != nil && *u.CostUSD >= 0 && *u.CostUSD <= mostDollars {
		c.CostNanos = new(int64(math.Round(*u.CostUSD * 1e9)))
	}
	return c
}

func column(n *uint64) *int64 {
	if n == nil || *n > mostCounted {
		return nil
	}
	return new(int64(*n))
}

// Usage returns the counts as the API gives them.
func (c Counts) Usage() db.Usage {
	u := db.Usage{
		Provider: c.Provider, RequestModel: c.RequestModel, ResponseModel: c.ResponseModel,
		InputTokens: number(c.Input), CacheReadInputTokens: number(c.CacheRead),
		CacheWriteInputTokens: number(c.CacheWrite), OutputTokens: number(c.Output),
		ReasoningOutputTokens: number(c.Reasoning),
	}
	if c.CostNanos != nil {
		u.CostUSD, u.CostSource = new(float64(*c.CostNanos)/1e9), reported
	}
	return u
}

func number(n *int64) *uint64 {
	if n == nil {
		return nil
	}
	return new(uint64(*n))
}

// Read returns the counts of the text of a record, as Of reads it. ok is false if it counts nothing.
func Read(record []byte) (c Counts, ok bool) {
	if !bytes.Contains(record, []byte("usage")) && !bytes.Contains(record, []byte("cost_usd")) &&
		!bytes.Contains(record, []byte(`\u`)) {
		return c, false
	}
	c = CountsOf(Of(record))
	return c, c.Numbers != Numbers{}
}

// RecordedAt returns the time that a model_turn states, in whole seconds, or nil.
func RecordedAt(record []byte) any {
	var said struct {
		At string `json:"recorded_at"`
	}
	if json.Unmarshal(record, &said) != nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339, said.At)
	if seconds := at.Unix(); err == nil && seconds >= -9223372036 && seconds <= 9223372035 {
		return seconds * 1e9
	}
	return nil
}

const (
	sqlPutRun = `INSERT INTO usage_runs (id, scope, run_id, agent_id, session_id, recorded_at, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	// countColumns are those of Counts.
	countColumns = `provider, request_model, response_model, input_tokens, cache_read_input_tokens,
	cache_write_input_tokens, output_tokens, reasoning_output_tokens, cost_nanos`
	sqlPutRecord = `INSERT INTO usage_records (usage_run, account, sequence, step_key, recorded_at,
	` + countColumns + `, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// Of the live run with a name: it is replaced.
	sqlForgetLive  = `DELETE FROM usage_runs WHERE run_id = ? AND scope = ? AND agent_id IS NULL`
	sqlForgetTrace = `DELETE FROM usage_runs WHERE id = ?`
)

// Compared begins a query for the rows u that a verification compares, of w.
const Compared = `SELECT u.account, u.sequence, u.recorded_at, ` + countColumns + `,
	w.scope = r.scope AS in_scope, w.run_id, w.agent_id, w.session_id, w.recorded_at AS first_at`

// Put writes the row of a record that counts, beside the record.
func Put(tx *db.Tx, r Record, c Counts) error {
	id, agent, session := r.usageRun(), any(r.AgentID), any(nil)
	if r.LiveRun != 0 {
		agent, session = nil, r.SessionID
	}
	run := []any{id, r.Scope, r.RunID, agent, session, r.RecordedAt}
	if err := tx.Store().Queue(sqlPutRun, append(run, txn.Checksum(run...))...); err != nil {
		return err
	}
	columns := append([]any{id, r.Account, orNil(r.Sequence), orNil(r.StepKey), r.RecordedAt}, c.columns()...)
	if r.LiveRun != 0 {
		columns[2] = r.Sequence // from 0
	}
	return tx.Store().Queue(sqlPutRecord, append(columns, txn.Checksum(columns...))...)
}

// usageRun returns the number of the trace or live run in usage_runs.
func (r *Record) usageRun() int64 {
	if r.LiveRun != 0 {
		return 2*r.LiveRun + 1
	}
	return 2 * r.Run
}

// columns returns the values from provider to cost_nanos.
func (c *Counts) columns() []any {
	return []any{
		txn.Arg(c.Provider), txn.Arg(c.RequestModel), txn.Arg(c.ResponseModel), txn.Arg(c.Input),
		txn.Arg(c.CacheRead), txn.Arg(c.CacheWrite), txn.Arg(c.Output), txn.Arg(c.Reasoning), txn.Arg(c.CostNanos),
	}
}

func orNil[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

// ForgetLive removes the rows of the live run with a name, which its caller replaces.
func ForgetLive(tx *db.Tx, scope int64, runID string) error {
	return tx.Store().Queue(sqlForgetLive, runID, scope)
}

// ForgetTrace removes the rows of a trace, which its caller removes to import it again.
func ForgetTrace(tx *db.Tx, key int64) error { return tx.Store().Queue(sqlForgetTrace, 2*key) }
