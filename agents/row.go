package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/txn"
)

// A stored entry is an entry as the file holds it, with its columns of agent_reservations. The
// columns that need no conversion are fields of Entry; complete sets the others.
type stored struct {
	Entry
	ID         int64    `db:"id"`
	Scope      int64    `db:"scope"`
	Started    int64    `db:"started_at"`
	Completed  *int64   `db:"completed_at"`
	Beat       *int64   `db:"heartbeat_at"`
	Progress   *int64   `db:"last_progress_at"`
	Input      *int64   `db:"input_tokens"`
	Output     *int64   `db:"output_tokens"`
	Reasoning  *int64   `db:"reasoning_tokens"`
	ToolCalls  *uint32  `db:"tool_calls"`
	Cost       *int64   `db:"cost_micros_usd"`
	Precedence *string  `db:"attach_precedence"`
	Confidence *float64 `db:"probe_confidence"`
	Exact      *string  `db:"exact"`
	Document   []byte   `db:"document"`
	PIDNS      *int64   `db:"pid_ns"`
	RecordedAt *int64   `db:"recorded_at"`
	Changes    int64    `db:"changes"`
	Queried    bool     `db:"queried"` // there are context queries

	Epoch         *int64 `db:"epoch"`           // nil: no reservation
	LeaseBeatAt   *int64 `db:"lease_heartbeat"` // see agent_reservations.heartbeat_at
	LeasePIDBorn  *int64 `db:"pid_born_at"`
	ReservedSince *int64 `db:"reserved_at"`
	txn.LeaseColumns
}

// entryColumns are the columns of an entry, in the order of its checksum.
const entryColumns = `thread, status, started_at, completed_at, pid, boot_id, heartbeat_at, ` +
	`last_progress_at, client_instance_id, native_actor_key, native_parent_actor_key, native_instance_key, ` +
	`heddle_session_id, thread_id, liveness_path, anchor_state, anchor_root, reservation_token, path, ` +
	`base_state, provider, model, harness, thinking_level, input_tokens, output_tokens, reasoning_tokens, ` +
	`tool_calls, cost_micros_usd, report_flush_state, attach_precedence, winning_attach_rule, probe_source, ` +
	`probe_confidence, attach_reason, exact, document, pid_ns, recorded_at`

var (
	// sqlRow reads entries a and their reservations r; the SQL after it selects and orders them.
	// PostgreSQL may evaluate EXISTS for all agents at once, from all queries in the table; the LIMIT
	// makes it look them up agent by agent.
	sqlRow = `SELECT a.id, a.scope, a.session_id, a.` + strings.ReplaceAll(entryColumns, ", ", ", a.") + `,
	a.changes,
	coalesce((SELECT 1 FROM agent_context_queries q WHERE q.agent_id = a.id LIMIT 1), 0) AS queried,
	r.epoch, r.heartbeat_at AS lease_heartbeat, r.pid_born_at, r.reserved_at, ` + sqlLease + `
FROM agents a LEFT JOIN agent_reservations r ON r.agent_id = a.id `

	insertMarks = strings.Repeat("?, ", strings.Count(entryColumns, ",")+3) + "?"
	sqlInsert   = `INSERT INTO agents (scope, session_id, ` + entryColumns + `, checksum) VALUES (` +
		insertMarks + `) ON CONFLICT DO NOTHING RETURNING id`
	sqlInsertAs = `INSERT INTO agents (scope, session_id, ` + entryColumns + `, checksum, id) VALUES (` +
		insertMarks + `, ?)`
	sqlReplace = `UPDATE agents SET ` + strings.ReplaceAll(entryColumns, ",", " = ?,") + ` = ?, checksum = ?,
	changes = changes + 1 WHERE id = ?`
)

// sqlLease are the columns of a reservation's lease.
const sqlLease = `r.owner_id, r.lease_ttl, r.lease_until, r.lease_boot_id, r.lease_time_ns,
	r.lease_wall_until`

// columns are the values of sqlReplace, and after scope and session_id those of sqlInsert. A value
// that its column can't hold goes into exact as text. The last value is the checksum of the others,
// with scope and session_id before them: see migrations.Checksums.
func (e *Entry) columns(scope int64, recordedAt *int64) ([]any, error) {
	x, u := exactValues{}, &e.UsageSummary
	var precedence, exact *string
	var err error
	if len(e.AttachPrecedence) > 0 {
		precedence, err = jsonText(e.AttachPrecedence)
	}
	columns := []any{
		e.Thread, string(e.Status), x.time(e, "started_at", &e.StartedAt),
		x.time(e, "completed_at", e.CompletedAt), e.PID, e.BootID, x.time(e, "heartbeat_at", e.HeartbeatAt),
		x.time(e, "last_progress_at", e.LastProgressAt), e.ClientInstanceID, e.NativeActorKey,
		e.NativeParentActorKey, e.NativeInstanceKey, e.HeddleSessionID, e.ThreadID, e.LivenessPath,
		e.AnchorState, e.AnchorRoot, e.ReservationToken, e.Path, e.BaseState, e.Provider, e.Model, e.Harness,
		e.ThinkingLevel, x.count("input_tokens", u.InputTokens), x.count("output_tokens", u.OutputTokens),
		x.count("reasoning_tokens", u.ReasoningTokens), u.ToolCalls, x.count("cost_micros_usd", u.CostMicrosUSD),
		e.ReportFlushState, precedence, e.WinningAttachRule, e.ProbeSource,
		x.float("probe_confidence", e.ProbeConfidence), e.AttachReason,
	}
	if err == nil && len(x) > 0 {
		exact, err = jsonText(x)
	}
	var document any // NULL, and not an empty one, if there is none
	if e.kept.document != nil {
		document = e.TOML()
	}
	columns = append(columns, exact, document, e.pidNS(), recordedAt)
	return append(columns, txn.Checksum(append([]any{scope, e.SessionID}, columns...)...)), err
}

func jsonText(v any) (*string, error) {
	text, err := appendJSON(nil, v)
	s := string(text)
	return &s, err
}

// convert sets the fields of the entry that are stored in another form.
func (s *stored) convert() error {
	e := &s.Entry
	e.StartedAt, e.CompletedAt = db.Time(s.Started), timeOf(s.Completed)
	e.HeartbeatAt, e.LastProgressAt = timeOf(s.Beat), timeOf(s.Progress)
	e.UsageSummary = UsageSummary{
		InputTokens: countOf(s.Input), OutputTokens: countOf(s.Output), ReasoningTokens: countOf(s.Reasoning),
		ToolCalls: s.ToolCalls, CostMicrosUSD: countOf(s.Cost),
	}
	e.kept = kept{document: s.Document, documentOf: e.SessionID}
	e.ProbeConfidence = converted(s.Confidence, func(f float64) float32 { return float32(f) })
	if s.Precedence != nil {
		if err := json.Unmarshal([]byte(*s.Precedence), &e.AttachPrecedence); err != nil {
			return fmt.Errorf("%w: attach_precedence of agent %s: %w", db.ErrCorrupt, e.SessionID, err)
		}
	}
	if s.Exact != nil {
		if err := e.restore(*s.Exact); err != nil {
			return fmt.Errorf("%w: exact of agent %s: %w", db.ErrCorrupt, e.SessionID, err)
		}
	}
	e.wasRead(s.PIDNS)
	if s.LeaseBeatAt != nil {
		e.HeartbeatAt, e.LastProgressAt = timeOf(s.LeaseBeatAt), timeOf(s.LeaseBeatAt)
	}
	return nil
}

func timeOf(nanos *int64) *time.Time { return converted(nanos, db.Time) }

func countOf(n *int64) *uint64 { return converted(n, func(n int64) uint64 { return uint64(n) }) }

func converted[T, U any](p *T, convert func(T) U) *U {
	if p == nil {
		return nil
	}
	v := convert(*p)
	return &v
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
	return converted(t, db.Nanos)
}

// exactTime is the text of a time that an INTEGER of nanoseconds can't hold; nil for one that it
// can.
func exactTime(t time.Time, exact string) *string {
	text := chrono.Text(t, exact)
	if text == exact || !db.Time(db.Nanos(t)).Equal(t) {
		return &text
	}
	return nil
}

func (x exactValues) count(name string, n *uint64) *int64 {
	if n != nil && *n > math.MaxInt64 {
		x[name] = strconv.FormatUint(*n, 10)
	}
	return converted(n, func(n uint64) int64 { return int64(min(n, math.MaxInt64)) })
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
	for _, f := range append(fieldsOf(e), fieldsOf(&e.UsageSummary)...) {
		if value, ok := x[f.name]; ok {
			if err := restoreField(f, value, e.keepExact); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}

// restoreField sets a field from the text of a value that its column can't hold.
func restoreField(f field, text string, keep func(name, text string)) error {
	v := &tomlValue{kind: unstable.String, text: text}
	switch f.holds.(type) {
	case **uint64:
		v.kind = unstable.Integer
	case **float32:
		v.kind = unstable.Float
	}
	return v.into(f, keep)
}
