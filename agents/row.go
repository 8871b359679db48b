package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// A entryRow is a record as the file holds it, with what agent_reservations says of it.
type entryRow struct {
	ID                   int64    `db:"id"`
	Scope                int64    `db:"scope"`
	SessionID            string   `db:"session_id"`
	Thread               string   `db:"thread"`
	Status               Status   `db:"status"`
	StartedAt            int64    `db:"started_at"`
	CompletedAt          *int64   `db:"completed_at"`
	PID                  *uint32  `db:"pid"`
	BootID               *string  `db:"boot_id"`
	HeartbeatAt          *int64   `db:"heartbeat_at"`
	LastProgressAt       *int64   `db:"last_progress_at"`
	ClientInstanceID     *string  `db:"client_instance_id"`
	NativeActorKey       *string  `db:"native_actor_key"`
	NativeParentActorKey *string  `db:"native_parent_actor_key"`
	NativeInstanceKey    *string  `db:"native_instance_key"`
	HeddleSessionID      *string  `db:"heddle_session_id"`
	ThreadID             *string  `db:"thread_id"`
	LivenessPath         *string  `db:"liveness_path"`
	AnchorState          *string  `db:"anchor_state"`
	AnchorRoot           *string  `db:"anchor_root"`
	ReservationToken     *string  `db:"reservation_token"`
	Path                 *string  `db:"path"`
	BaseState            string   `db:"base_state"`
	Provider             *string  `db:"provider"`
	Model                *string  `db:"model"`
	Harness              *string  `db:"harness"`
	ThinkingLevel        *string  `db:"thinking_level"`
	InputTokens          *int64   `db:"input_tokens"`
	OutputTokens         *int64   `db:"output_tokens"`
	ReasoningTokens      *int64   `db:"reasoning_tokens"`
	ToolCalls            *uint32  `db:"tool_calls"`
	CostMicrosUSD        *int64   `db:"cost_micros_usd"`
	ReportFlushState     *string  `db:"report_flush_state"`
	AttachPrecedence     *string  `db:"attach_precedence"`
	WinningAttachRule    *string  `db:"winning_attach_rule"`
	ProbeSource          *string  `db:"probe_source"`
	ProbeConfidence      *float64 `db:"probe_confidence"`
	AttachReason         *string  `db:"attach_reason"`
	Exact                *string  `db:"exact"`
	Document             []byte   `db:"document"`
	PIDNS                *int64   `db:"pid_ns"`
	RecordedAt           *int64   `db:"recorded_at"`
	Changes              int64    `db:"changes"`
	Queried              bool     `db:"queried"` // there are context queries

	Epoch         *int64 `db:"epoch"`           // nil: no reservation
	LeaseBeatAt   *int64 `db:"lease_heartbeat"` // see agent_reservations.heartbeat_at
	LeasePIDBorn  *int64 `db:"pid_born_at"`
	ReservedSince *int64 `db:"reserved_at"`
	db.LeaseColumns
}

// sqlRow reads rows, of agents a and their reservations r; what follows it selects and orders them.
// PostgreSQL may answer EXISTS for all agents at once, from all queries that there are; the LIMIT
// has it look for each.
const sqlRow = `SELECT a.id, a.scope, a.session_id, a.thread, a.status, a.started_at, a.completed_at, a.pid,
	a.boot_id, a.heartbeat_at,
	a.last_progress_at, a.client_instance_id, a.native_actor_key, a.native_parent_actor_key,
	a.native_instance_key,
	a.heddle_session_id, a.thread_id, a.liveness_path, a.anchor_state, a.anchor_root, a.reservation_token,
	a.path,
	a.base_state, a.provider, a.model, a.harness, a.thinking_level, a.input_tokens, a.output_tokens,
	a.reasoning_tokens,
	a.tool_calls, a.cost_micros_usd, a.report_flush_state, a.attach_precedence, a.winning_attach_rule,
	a.probe_source,
	a.probe_confidence, a.attach_reason, a.exact, a.document, a.pid_ns, a.recorded_at, a.changes,
	coalesce((SELECT 1 FROM agent_context_queries q WHERE q.agent_id = a.id LIMIT 1), 0) AS queried,
	r.epoch, r.heartbeat_at AS lease_heartbeat, r.pid_born_at, r.reserved_at, ` + sqlLease + `
FROM agents a LEFT JOIN agent_reservations r ON r.agent_id = a.id `

const (
	insertColumns = `scope, session_id, thread, status, started_at, completed_at, pid, boot_id, heartbeat_at,
	last_progress_at, client_instance_id, native_actor_key, native_parent_actor_key, native_instance_key, heddle_session_id,
	thread_id, liveness_path, anchor_state, anchor_root, reservation_token, path, base_state, provider, model, harness,
	thinking_level, input_tokens, output_tokens, reasoning_tokens, tool_calls, cost_micros_usd, report_flush_state,
	attach_precedence, winning_attach_rule, probe_source, probe_confidence, attach_reason, exact, document, pid_ns, recorded_at, checksum`
	insertMarks = `?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?`
	sqlInsert   = `INSERT INTO agents (` + insertColumns + `) VALUES (` + insertMarks + `)
ON CONFLICT DO NOTHING RETURNING id`
	sqlInsertAs = `INSERT INTO agents (` + insertColumns + `, id) VALUES (` + insertMarks + `, ?)`

	sqlReplace = `UPDATE agents
	SET thread = ?, status = ?, started_at = ?, completed_at = ?, pid = ?, boot_id = ?,
	heartbeat_at = ?, last_progress_at = ?, client_instance_id = ?, native_actor_key = ?,
	native_parent_actor_key = ?,
	native_instance_key = ?, heddle_session_id = ?, thread_id = ?, liveness_path = ?, anchor_state = ?,
	anchor_root = ?,
	reservation_token = ?, path = ?, base_state = ?, provider = ?, model = ?, harness = ?, thinking_level = ?,
	input_tokens = ?, output_tokens = ?, reasoning_tokens = ?, tool_calls = ?, cost_micros_usd = ?,
	report_flush_state = ?,
	attach_precedence = ?, winning_attach_rule = ?, probe_source = ?, probe_confidence = ?, attach_reason = ?,
	exact = ?,
	document = ?, pid_ns = ?, recorded_at = ?, checksum = ?, changes = changes + 1
WHERE id = ?`
)

// sqlLease are the columns of a reservation's lease.
const sqlLease = `r.owner_id, r.lease_ttl, r.lease_until, r.lease_boot_id, r.lease_time_ns, r.lease_wall_until`

// columns are the values of sqlReplace, and after scope and session_id those of sqlInsert. The last
// is the checksum of the others, with scope and session_id before them: see migrations.Checksums.
func (w *entryRow) columns(scope int64) []any {
	var document any // NULL, and not an empty one, where there is none
	if w.Document != nil {
		document = w.Document
	}
	columns := []any{
		w.Thread, string(w.Status), w.StartedAt, w.CompletedAt, w.PID, w.BootID, w.HeartbeatAt, w.LastProgressAt,
		w.ClientInstanceID, w.NativeActorKey, w.NativeParentActorKey, w.NativeInstanceKey, w.HeddleSessionID,
		w.ThreadID,
		w.LivenessPath, w.AnchorState, w.AnchorRoot, w.ReservationToken, w.Path, w.BaseState, w.Provider, w.Model,
		w.Harness,
		w.ThinkingLevel, w.InputTokens, w.OutputTokens, w.ReasoningTokens, w.ToolCalls, w.CostMicrosUSD,
		w.ReportFlushState,
		w.AttachPrecedence, w.WinningAttachRule, w.ProbeSource, w.ProbeConfidence, w.AttachReason, w.Exact,
		document,
		w.PIDNS, w.RecordedAt,
	}
	return append(columns, db.Checksum(append([]any{scope, w.SessionID}, columns...)...))
}

// rowOf gives the columns of a record. What they can't hold goes into exact as text.
func rowOf(e *Entry) (entryRow, error) {
	x := exactValues{}
	w := entryRow{
		SessionID: e.SessionID, Thread: e.Thread, Status: e.Status, PID: e.PID, BootID: e.BootID,
		StartedAt: *x.time(e, "started_at", &e.StartedAt), CompletedAt: x.time(e, "completed_at", e.CompletedAt),
		HeartbeatAt:      x.time(e, "heartbeat_at", e.HeartbeatAt),
		LastProgressAt:   x.time(e, "last_progress_at", e.LastProgressAt),
		ClientInstanceID: e.ClientInstanceID, NativeActorKey: e.NativeActorKey,
		NativeParentActorKey: e.NativeParentActorKey,
		NativeInstanceKey:    e.NativeInstanceKey, HeddleSessionID: e.HeddleSessionID, ThreadID: e.ThreadID,
		LivenessPath: e.LivenessPath, AnchorState: e.AnchorState, AnchorRoot: e.AnchorRoot,
		ReservationToken: e.ReservationToken, Path: e.Path, BaseState: e.BaseState, Provider: e.Provider,
		Model:   e.Model,
		Harness: e.Harness, ThinkingLevel: e.ThinkingLevel, ToolCalls: e.UsageSummary.ToolCalls,
		InputTokens:      x.count("input_tokens", e.UsageSummary.InputTokens),
		OutputTokens:     x.count("output_tokens", e.UsageSummary.OutputTokens),
		ReasoningTokens:  x.count("reasoning_tokens", e.UsageSummary.ReasoningTokens),
		CostMicrosUSD:    x.count("cost_micros_usd", e.UsageSummary.CostMicrosUSD),
		ReportFlushState: e.ReportFlushState, WinningAttachRule: e.WinningAttachRule, ProbeSource: e.ProbeSource,
		ProbeConfidence: x.float("probe_confidence", e.ProbeConfidence), AttachReason: e.AttachReason,
	}
	if e.PID != nil {
		w.PIDNS = e.pidNS()
	}
	if e.kept.document != nil {
		w.Document = e.TOML()
	}
	var err error
	if len(e.AttachPrecedence) > 0 {
		w.AttachPrecedence, err = jsonText(e.AttachPrecedence)
	}
	if err == nil && len(x) > 0 {
		w.Exact, err = jsonText(x)
	}
	return w, err
}

func jsonText(v any) (*string, error) {
	text, err := appendJSON(nil, v)
	s := string(text)
	return &s, err
}

// entry gives the entry of a row, without its context queries.
func (w *entryRow) entry() (Entry, error) {
	e := Entry{
		SessionID: w.SessionID, Thread: w.Thread, Status: w.Status, PID: w.PID, BootID: w.BootID,
		StartedAt: db.Time(w.StartedAt), CompletedAt: timeOf(w.CompletedAt), HeartbeatAt: timeOf(w.HeartbeatAt),
		LastProgressAt: timeOf(w.LastProgressAt), ClientInstanceID: w.ClientInstanceID,
		NativeActorKey:       w.NativeActorKey,
		NativeParentActorKey: w.NativeParentActorKey, NativeInstanceKey: w.NativeInstanceKey,
		HeddleSessionID: w.HeddleSessionID, ThreadID: w.ThreadID, LivenessPath: w.LivenessPath,
		AnchorState: w.AnchorState,
		AnchorRoot:  w.AnchorRoot, ReservationToken: w.ReservationToken, Path: w.Path, BaseState: w.BaseState,
		Provider: w.Provider, Model: w.Model, Harness: w.Harness, ThinkingLevel: w.ThinkingLevel,
		UsageSummary: UsageSummary{
			InputTokens: countOf(w.InputTokens), OutputTokens: countOf(w.OutputTokens),
			ReasoningTokens: countOf(w.ReasoningTokens), ToolCalls: w.ToolCalls,
			CostMicrosUSD: countOf(w.CostMicrosUSD),
		},
		ReportFlushState: w.ReportFlushState, WinningAttachRule: w.WinningAttachRule, ProbeSource: w.ProbeSource,
		AttachReason: w.AttachReason, kept: kept{document: w.Document, documentOf: w.SessionID},
	}
	if w.ProbeConfidence != nil {
		f := float32(*w.ProbeConfidence)
		e.ProbeConfidence = &f
	}
	if w.AttachPrecedence != nil {
		if err := json.Unmarshal([]byte(*w.AttachPrecedence), &e.AttachPrecedence); err != nil {
			return e, fmt.Errorf("%w: attach_precedence of agent %s: %w", db.ErrCorrupt, w.SessionID, err)
		}
	}
	if w.Exact != nil {
		if err := e.restore(*w.Exact); err != nil {
			return e, fmt.Errorf("%w: exact of agent %s: %w", db.ErrCorrupt, w.SessionID, err)
		}
	}
	e.wasRead(w.PIDNS)
	if w.LeaseBeatAt != nil {
		beat := db.Time(*w.LeaseBeatAt)
		e.HeartbeatAt, e.LastProgressAt = &beat, &beat
	}
	return e, nil
}

func timeOf(nanos *int64) *time.Time {
	if nanos == nil {
		return nil
	}
	t := db.Time(*nanos)
	return &t
}

func countOf(n *int64) *uint64 {
	if n == nil {
		return nil
	}
	u := uint64(*n)
	return &u
}

// exactValues are the values that their columns can't hold, as text, by column.
type exactValues map[string]string

func (x exactValues) time(e *Entry, name string, t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	if text := exactTime(*t, e.kept.exact[name]); text != nil {
		x[name] = *text
	}
	nanos := db.Nanos(*t)
	return &nanos
}

// exactTime is the text of a time that an INTEGER of nanoseconds can't hold; nil for one that it can.
func exactTime(t time.Time, exact string) *string {
	text := chrono.Text(t, exact)
	if text == exact || !db.Time(db.Nanos(t)).Equal(t) {
		return &text
	}
	return nil
}

func (x exactValues) count(name string, n *uint64) *int64 {
	if n == nil {
		return nil
	}
	if *n > math.MaxInt64 {
		x[name] = strconv.FormatUint(*n, 10)
		clamped := int64(math.MaxInt64)
		return &clamped
	}
	held := int64(*n)
	return &held
}

func (x exactValues) float(name string, f *float32) *float64 {
	if f == nil {
		return nil
	}
	wide := float64(*f)
	if math.IsNaN(wide) || wide == 0 && math.Signbit(wide) { // SQLite keeps NaN as NULL and -0.0 as 0
		x[name] = floatText(*f)
	}
	if math.IsNaN(wide) {
		return nil
	}
	if wide == 0 {
		wide = 0 // without its sign, as it comes back
	}
	return &wide
}

// restore puts the values of the column exact into their fields.
func (e *Entry) restore(text string) error {
	var x exactValues
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return err
	}
	for _, f := range append(e.fields(), e.UsageSummary.fields()...) {
		if value, ok := x[f.name]; ok {
			if err := restoreField(f, value, e.keepExact); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}

func restoreField(f field, text string, keep func(name, text string)) (err error) {
	switch into := f.holds.(type) {
	case *time.Time:
		var exact string
		*into, exact, err = chrono.Parse(text)
		keep(f.name, exact)
	case **time.Time:
		var t time.Time
		*into = &t
		return restoreField(field{f.name, &t}, text, keep)
	case **uint64:
		*into, err = optional(strconv.ParseUint(text, 10, 64))
	case **float32:
		*into, err = optional(parseFloat32(text))
	}
	return err
}
