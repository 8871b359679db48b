package agents

import (
	"time"

	"selvedge/db"
	"selvedge/internal/txn"
	"selvedge/internal/usage"
)

// A Status is the state of an agent.
type Status string

// The states of an agent. Every change between them is allowed.
const (
	Active    Status = "active"
	Abandoned Status = "abandoned"
	Complete  Status = "complete"
	Merged    Status = "merged"
)

var statuses = []Status{Active, Abandoned, Complete, Merged}

// An Entry is one agent session in the registry. Nil pointers are values that are not known.
//
// An entry that was read also keeps what its fields can't hold: keys that a later program added,
// the comments and order of the document it was imported from, and second 60. A copy of the value
// keeps them too, and Save writes them back.
type Entry struct {
	SessionID            string         `db:"session_id"`              // [a-z0-9-]+, the entry's key
	ClientInstanceID     *string        `db:"client_instance_id"`      // client of the session
	NativeActorKey       *string        `db:"native_actor_key"`        // actor's name in the harness
	NativeParentActorKey *string        `db:"native_parent_actor_key"` // native key of the actor that started it
	NativeInstanceKey    *string        `db:"native_instance_key"`
	HeddleSessionID      *string        `db:"heddle_session_id"`
	ThreadID             *string        `db:"thread_id"`
	Thread               string         `db:"thread"`        // line of work that the agent writes to
	PID                  *uint32        `db:"pid"`           // its end is the session's; nil: unknown
	BootID               *string        `db:"boot_id"`       // see CurrentBootID; nil: the current one
	LivenessPath         *string        `db:"liveness_path"` // a note; the file is never read
	HeartbeatAt          *time.Time     `json:"heartbeat_at"`
	AnchorState          *string        `db:"anchor_state"`
	AnchorRoot           *string        `db:"anchor_root"`
	ReservationToken     *string        `db:"reservation_token"` // a note; never compared
	Path                 *string        `db:"path"`              // worktree
	BaseState            string         `db:"base_state"`
	StartedAt            time.Time      `json:"started_at"`
	Provider             *string        `db:"provider"`
	Model                *string        `db:"model"`
	Harness              *string        `db:"harness"`
	ThinkingLevel        *string        `db:"thinking_level"`
	UsageSummary         UsageSummary   `json:"usage_summary"`
	LastProgressAt       *time.Time     `json:"last_progress_at"`
	ReportFlushState     *string        `db:"report_flush_state"`
	AttachReason         *string        `db:"attach_reason"`
	AttachPrecedence     []string       `json:"attach_precedence"`
	WinningAttachRule    *string        `db:"winning_attach_rule"`
	ProbeSource          *string        `db:"probe_source"`
	ProbeConfidence      *float32       `json:"probe_confidence"`
	Status               Status         `db:"status"`
	CompletedAt          *time.Time     `json:"completed_at"`
	ContextQueries       []ContextQuery `json:"context_queries"`

	kept kept
}

// kept is what an entry holds beside its fields.
type kept struct {
	exact map[string]string // text of times with second 60, by field name; see chrono.Parse
	// TOML document that the entry came from, if encoding the fields yields another
	document []byte
	// SessionID that the document belongs to; the document may have another, see under
	documentOf string
	yearOne    bool    // the start was read, and is the zero time
	pid        *uint32 // process that was read
	pidNS      *int64  // namespace of that pid; nil: not known
}

// A UsageSummary counts what an agent used; nil is not counted.
type UsageSummary struct {
	InputTokens     *uint64 `json:"input_tokens,omitempty"`
	OutputTokens    *uint64 `json:"output_tokens,omitempty"`
	ReasoningTokens *uint64 `json:"reasoning_tokens,omitempty"`
	ToolCalls       *uint32 `json:"tool_calls,omitempty"`
	CostMicrosUSD   *uint64 `json:"cost_micros_usd,omitempty"` // millionths of a US dollar
}

// Usage is UsageSummary with the agent's provider and model, as all stores report usage. It is the
// sum over the agent's runs.
func (e Entry) Usage() db.Usage {
	u := e.UsageSummary
	return usage.OfAgent(e.Provider, e.Model, u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CostMicrosUSD)
}

// A ContextQuery is one read of a piece of context by an agent.
type ContextQuery struct {
	Path      string    `json:"path"`
	Scope     *string   `json:"scope"` // part of the file, such as "symbol:main"; nil is the whole
	QueriedAt time.Time `json:"queried_at"`

	exact string // text of QueriedAt if its second is 60
}

// An ActorChainNode is one agent of a chain; see ActorChainForSession.
type ActorChainNode struct {
	SessionID            string  `json:"session_id"`
	NativeActorKey       *string `json:"native_actor_key,omitempty"`
	NativeParentActorKey *string `json:"native_parent_actor_key,omitempty"`
	Thread               string  `json:"thread"`
	Status               Status  `json:"status"`
	Provider             *string `json:"provider,omitempty"`
	Model                *string `json:"model,omitempty"`
	Harness              *string `json:"harness,omitempty"`
}

// wasRead marks the entry as read: its pid belongs to the namespace ns, and a zero start is a
// value.
func (e *Entry) wasRead(ns *int64) {
	e.kept.pid, e.kept.pidNS, e.kept.yearOne = nil, nil, e.StartedAt.IsZero()
	if e.PID != nil {
		pid := *e.PID
		e.kept.pid, e.kept.pidNS = &pid, ns
	}
}

// pidNS is the namespace of the entry's pid: that of the program that set it.
func (e *Entry) pidNS() *int64 {
	switch {
	case e.PID == nil:
		return nil
	case e.kept.pid != nil && *e.kept.pid == *e.PID:
		return e.kept.pidNS
	}
	return txn.PIDNamespace()
}
