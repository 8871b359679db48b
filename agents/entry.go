package agents

import (
	"maps"
	"slices"
	"time"

	"selvedge/internal/chrono"
)

// A Status is where an agent stands.
type Status string

// The states of an agent. Every change between them is allowed.
const (
	Active    Status = "active"
	Abandoned Status = "abandoned"
	Complete  Status = "complete"
	Merged    Status = "merged"
)

func (s Status) known() bool {
	switch s {
	case Active, Abandoned, Complete, Merged:
		return true
	}
	return false
}

// An Entry is one agent session in the registry. Nil pointers are values that nobody gave.
//
// An entry that was read remembers what its fields can't say: keys that a later program added, comments and order of the
// document it was imported from, second 60. Copying the value keeps that memory, and Save writes it back.
type Entry struct {
	SessionID            string  // [a-z0-9-]+, the entry's key
	ClientInstanceID     *string // of the client program that runs the session
	NativeActorKey       *string // the harness's own name for this actor
	NativeParentActorKey *string // and for the actor that started it; see ActorChainForSession
	NativeInstanceKey    *string
	HeddleSessionID      *string
	ThreadID             *string
	Thread               string  // the line of work that this agent writes to
	PID                  *uint32 // process whose death ends the session; nil: nobody can tell
	BootID               *string // see CurrentBootID; nil counts as the current start of the machine
	LivenessPath         *string // a note; nothing looks at the file
	HeartbeatAt          *time.Time
	AnchorState          *string
	AnchorRoot           *string
	ReservationToken     *string // a note; never compared
	Path                 *string // worktree
	BaseState            string
	StartedAt            time.Time
	Provider             *string
	Model                *string
	Harness              *string
	ThinkingLevel        *string
	UsageSummary         UsageSummary
	LastProgressAt       *time.Time
	ReportFlushState     *string
	AttachReason         *string
	AttachPrecedence     []string
	WinningAttachRule    *string
	ProbeSource          *string
	ProbeConfidence      *float32
	Status               Status
	CompletedAt          *time.Time
	ContextQueries       []ContextQuery

	exact    map[string]string // path of a time whose second is 60 -> its text; see chrono.Parse
	document []byte            // the TOML document it came from, where encoding the fields gives another
	// documentOf is the SessionID that the document belongs to. The document itself may say another; see Under.
	documentOf string
}

// A UsageSummary counts what an agent used; nil where nobody counted.
type UsageSummary struct {
	InputTokens     *uint64
	OutputTokens    *uint64
	ReasoningTokens *uint64
	ToolCalls       *uint32
	CostMicrosUSD   *uint64 // millionths of a US dollar
}

// A ContextQuery is one look of an agent at a piece of context.
type ContextQuery struct {
	Path      string
	Scope     *string // part of the file, such as "symbol:main"; nil is the whole
	QueriedAt time.Time

	exact string // text of QueriedAt where its second is 60
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

func nodeOf(e *Entry) ActorChainNode {
	return ActorChainNode{
		SessionID: e.SessionID, NativeActorKey: e.NativeActorKey, NativeParentActorKey: e.NativeParentActorKey,
		Thread: e.Thread, Status: e.Status, Provider: e.Provider, Model: e.Model, Harness: e.Harness,
	}
}

// A field is one key of an entry: its name in documents and where its value is. What holds is one of *string, **string,
// **uint32, **uint64, *time.Time, **time.Time, *[]string, **float32, *Status, *UsageSummary and *[]ContextQuery.
type field struct {
	name  string
	holds any
}

// fields are the keys of an entry in the order of the original's struct, which is that of its JSON. Everything that reads
// or writes whole entries goes by this table.
func (e *Entry) fields() []field {
	return []field{
		{"session_id", &e.SessionID},
		{"client_instance_id", &e.ClientInstanceID},
		{"native_actor_key", &e.NativeActorKey},
		{"native_parent_actor_key", &e.NativeParentActorKey},
		{"native_instance_key", &e.NativeInstanceKey},
		{"heddle_session_id", &e.HeddleSessionID},
		{"thread_id", &e.ThreadID},
		{"thread", &e.Thread},
		{"pid", &e.PID},
		{"boot_id", &e.BootID},
		{"liveness_path", &e.LivenessPath},
		{"heartbeat_at", &e.HeartbeatAt},
		{"anchor_state", &e.AnchorState},
		{"anchor_root", &e.AnchorRoot},
		{"reservation_token", &e.ReservationToken},
		{"path", &e.Path},
		{"base_state", &e.BaseState},
		{"started_at", &e.StartedAt},
		{"provider", &e.Provider},
		{"model", &e.Model},
		{"harness", &e.Harness},
		{"thinking_level", &e.ThinkingLevel},
		{"usage_summary", &e.UsageSummary},
		{"last_progress_at", &e.LastProgressAt},
		{"report_flush_state", &e.ReportFlushState},
		{"attach_reason", &e.AttachReason},
		{"attach_precedence", &e.AttachPrecedence},
		{"winning_attach_rule", &e.WinningAttachRule},
		{"probe_source", &e.ProbeSource},
		{"probe_confidence", &e.ProbeConfidence},
		{"status", &e.Status},
		{"completed_at", &e.CompletedAt},
		{"context_queries", &e.ContextQueries},
	}
}

func (u *UsageSummary) fields() []field {
	return []field{
		{"input_tokens", &u.InputTokens},
		{"output_tokens", &u.OutputTokens},
		{"reasoning_tokens", &u.ReasoningTokens},
		{"tool_calls", &u.ToolCalls},
		{"cost_micros_usd", &u.CostMicrosUSD},
	}
}

func (q *ContextQuery) fields() []field {
	return []field{{"path", &q.Path}, {"scope", &q.Scope}, {"queried_at", &q.QueriedAt}}
}

// time is the time that the field holds; nil for other fields, and for a time that nobody gave.
func (f field) time() *time.Time {
	switch v := f.holds.(type) {
	case *time.Time:
		return v
	case **time.Time:
		return *v
	}
	return nil
}

// The keys without which an entry, or a context query, can't be read.
var (
	requiredOfEntry = []string{"session_id", "thread", "base_state", "started_at", "status"}
	requiredOfQuery = []string{"path", "queried_at"}
)

// timeText is how the original writes the time called name.
func (e *Entry) timeText(name string, t time.Time) string { return chrono.Text(t, e.exact[name]) }

func (q *ContextQuery) timeText(_ string, t time.Time) string { return chrono.Text(t, q.exact) }

func (e *Entry) keepExact(name, text string) {
	if text == "" {
		return
	}
	e.exact = maps.Clone(e.exact) // shared with the entries that this one was copied from
	if e.exact == nil {
		e.exact = map[string]string{}
	}
	e.exact[name] = text
}

// clone gives callers' functions an entry whose slices are its own.
func (e Entry) clone() Entry {
	e.AttachPrecedence = slices.Clone(e.AttachPrecedence)
	e.ContextQueries = slices.Clone(e.ContextQueries)
	return e
}

// Equal reports whether two entries say the same: all fields, times as instants, and second 60.
func (e Entry) Equal(other Entry) bool { return string(e.encode()) == string(other.encode()) }
