package agents

import (
	"slices"
	"time"

	"selvedge/db"
	registry "selvedge/internal/agents"
	"selvedge/internal/chrono"
	"selvedge/internal/usage"
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

var statuses = []Status{Active, Abandoned, Complete, Merged}

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

	kept kept
}

// kept is what an entry remembers beside its fields; see registry.Record.
type kept struct {
	exact      map[string]string
	document   []byte
	documentOf string
	yearOne    bool   // the start was read, and is the zero time
	pid, pidNS *int64 // the process that was read, and the namespace that its pid belongs to
}

// A UsageSummary counts what an agent used; nil where nobody counted.
type UsageSummary struct {
	InputTokens     *uint64
	OutputTokens    *uint64
	ReasoningTokens *uint64
	ToolCalls       *uint32
	CostMicrosUSD   *uint64 // millionths of a US dollar
}

// Usage is UsageSummary with the agent's provider and model, in the words that all stores have. It sums the agent's runs up.
func (e Entry) Usage() db.Usage {
	u := e.UsageSummary
	return usage.OfAgent(e.Provider, e.Model, u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CostMicrosUSD)
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

func nodeOf(e *registry.Record) ActorChainNode {
	return ActorChainNode{
		SessionID: e.SessionID, NativeActorKey: e.NativeActorKey, NativeParentActorKey: e.NativeParentActorKey,
		Thread: e.Thread, Status: Status(e.Status), Provider: e.Provider, Model: e.Model, Harness: e.Harness,
	}
}

// record is the entry as the file keeps it.
func (e *Entry) record() *registry.Record {
	r := &registry.Record{
		SessionID: e.SessionID, ClientInstanceID: e.ClientInstanceID, NativeActorKey: e.NativeActorKey,
		NativeParentActorKey: e.NativeParentActorKey, NativeInstanceKey: e.NativeInstanceKey,
		HeddleSessionID: e.HeddleSessionID, ThreadID: e.ThreadID, Thread: e.Thread, PID: e.PID, BootID: e.BootID,
		LivenessPath: e.LivenessPath, HeartbeatAt: e.HeartbeatAt, AnchorState: e.AnchorState, AnchorRoot: e.AnchorRoot,
		ReservationToken: e.ReservationToken, Path: e.Path, BaseState: e.BaseState, StartedAt: e.StartedAt,
		Provider: e.Provider, Model: e.Model, Harness: e.Harness, ThinkingLevel: e.ThinkingLevel,
		Usage: registry.Usage(e.UsageSummary), LastProgressAt: e.LastProgressAt, ReportFlushState: e.ReportFlushState,
		AttachReason: e.AttachReason, AttachPrecedence: e.AttachPrecedence, WinningAttachRule: e.WinningAttachRule,
		ProbeSource: e.ProbeSource, ProbeConfidence: e.ProbeConfidence, Status: registry.Status(e.Status),
		CompletedAt: e.CompletedAt, Exact: e.kept.exact, Document: e.kept.document, DocumentOf: e.kept.documentOf,
	}
	r.PIDNS = e.pidNS()
	for _, q := range e.ContextQueries {
		r.ContextQueries = append(r.ContextQueries, q.query())
	}
	return r
}

// entryOf is a record as callers have it.
func entryOf(r *registry.Record) Entry {
	e := Entry{
		SessionID: r.SessionID, ClientInstanceID: r.ClientInstanceID, NativeActorKey: r.NativeActorKey,
		NativeParentActorKey: r.NativeParentActorKey, NativeInstanceKey: r.NativeInstanceKey,
		HeddleSessionID: r.HeddleSessionID, ThreadID: r.ThreadID, Thread: r.Thread, PID: r.PID, BootID: r.BootID,
		LivenessPath: r.LivenessPath, HeartbeatAt: r.HeartbeatAt, AnchorState: r.AnchorState, AnchorRoot: r.AnchorRoot,
		ReservationToken: r.ReservationToken, Path: r.Path, BaseState: r.BaseState, StartedAt: r.StartedAt,
		Provider: r.Provider, Model: r.Model, Harness: r.Harness, ThinkingLevel: r.ThinkingLevel,
		UsageSummary: UsageSummary(r.Usage), LastProgressAt: r.LastProgressAt, ReportFlushState: r.ReportFlushState,
		AttachReason: r.AttachReason, AttachPrecedence: slices.Clone(r.AttachPrecedence), WinningAttachRule: r.WinningAttachRule,
		ProbeSource: r.ProbeSource, ProbeConfidence: r.ProbeConfidence, Status: Status(r.Status),
		CompletedAt: r.CompletedAt, kept: kept{exact: r.Exact, document: r.Document, documentOf: r.DocumentOf, yearOne: r.StartedAt.IsZero()},
	}
	if r.PID != nil {
		pid := int64(*r.PID)
		e.kept.pid, e.kept.pidNS = &pid, r.PIDNS
	}
	for _, q := range r.ContextQueries {
		e.ContextQueries = append(e.ContextQueries, ContextQuery{q.Path, q.Scope, q.QueriedAt, q.Exact})
	}
	return e
}

// pidNS is the namespace of the entry's pid: that of the program that gave it.
func (e *Entry) pidNS() *int64 {
	switch {
	case e.PID == nil:
		return nil
	case e.kept.pid != nil && *e.kept.pid == int64(*e.PID):
		return e.kept.pidNS
	}
	return db.PIDNamespace()
}

func (q ContextQuery) query() registry.Query {
	return registry.Query{Path: q.Path, Scope: q.Scope, QueriedAt: q.QueriedAt, Exact: q.exact}
}

// Equal reports whether two entries say the same: all fields, times as instants, and second 60.
func (e Entry) Equal(other Entry) bool { return e.record().Equal(other.record()) }

// MarshalJSON gives the members in the order of the fields; those that nobody gave are left out.
func (e Entry) MarshalJSON() ([]byte, error) { return e.record().MarshalJSON() }

// MarshalJSON gives the members in the order of the fields; those that nobody gave are left out.
func (u UsageSummary) MarshalJSON() ([]byte, error) { return registry.Usage(u).MarshalJSON() }

// MarshalJSON gives the members in the order of the fields; those that nobody gave are left out.
func (q ContextQuery) MarshalJSON() ([]byte, error) { return q.query().MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON writes. Missing and null are the same, unknown members are passed over, and
// session_id, thread, base_state, started_at and status must be there.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var r registry.Record
	err := r.UnmarshalJSON(data)
	*e = entryOf(&r)
	return err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (u *UsageSummary) UnmarshalJSON(data []byte) error {
	return (*registry.Usage)(u).UnmarshalJSON(data)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (q *ContextQuery) UnmarshalJSON(data []byte) error {
	var read registry.Query
	err := read.UnmarshalJSON(data)
	*q = ContextQuery{read.Path, read.Scope, read.QueriedAt, read.Exact}
	if err == nil && q.QueriedAt.IsZero() {
		q.exact = chrono.Format(q.QueriedAt) // was given, and so is not now
	}
	return err
}
