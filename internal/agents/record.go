// Package agents holds what the registry keeps and how old programs wrote it: the record of an agent, its TOML file and
// its JSON, its row, and the table of a scope as an import reads and fills it.
package agents

import (
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/chrono"
)

// A Status is where an agent stands.
type Status string

// Active is the only status of an agent that has not ended.
const Active Status = "active"

func (s Status) known() bool {
	switch s {
	case Active, "abandoned", "complete", "merged":
		return true
	}
	return false
}

// A Record is one agent session; the public package's Entry says what the fields mean. Nil pointers are values that nobody
// gave.
type Record struct {
	SessionID            string
	ClientInstanceID     *string
	NativeActorKey       *string
	NativeParentActorKey *string
	NativeInstanceKey    *string
	HeddleSessionID      *string
	ThreadID             *string
	Thread               string
	PID                  *uint32
	BootID               *string
	LivenessPath         *string
	HeartbeatAt          *time.Time
	AnchorState          *string
	AnchorRoot           *string
	ReservationToken     *string
	Path                 *string
	BaseState            string
	StartedAt            time.Time
	Provider             *string
	Model                *string
	Harness              *string
	ThinkingLevel        *string
	Usage                Usage
	LastProgressAt       *time.Time
	ReportFlushState     *string
	AttachReason         *string
	AttachPrecedence     []string
	WinningAttachRule    *string
	ProbeSource          *string
	ProbeConfidence      *float32
	Status               Status
	CompletedAt          *time.Time
	ContextQueries       []Query

	// PIDNS is the namespace that PID belongs to, as the writer had it; nil: not known. No document has it.
	PIDNS *int64
	// Exact is the text of each time whose second is 60, by the field's name; see chrono.Parse.
	Exact map[string]string
	// Document is the TOML document that the record came from, where encoding the fields gives another.
	Document []byte
	// DocumentOf is the SessionID that the document belongs to. The document itself may say another; see Under.
	DocumentOf string
}

// A Usage counts what an agent used; nil where nobody counted.
type Usage struct {
	InputTokens     *uint64
	OutputTokens    *uint64
	ReasoningTokens *uint64
	ToolCalls       *uint32
	CostMicrosUSD   *uint64 // millionths of a US dollar
}

// A Query is one look of an agent at a piece of context.
type Query struct {
	Path      string
	Scope     *string // part of the file, such as "symbol:main"; nil is the whole
	QueriedAt time.Time

	Exact string // text of QueriedAt where its second is 60
}

// A field is one key of an entry: its name in documents and where its value is. What holds is one of *string, **string,
// **uint32, **uint64, *time.Time, **time.Time, *[]string, **float32, *Status, *Usage and *[]Query.
type field struct {
	name  string
	holds any
}

// fields are the keys of an entry in the order of the original's struct, which is that of its JSON. Everything that reads
// or writes whole entries goes by this table.
func (e *Record) fields() []field {
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
		{"usage_summary", &e.Usage},
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

func (u *Usage) fields() []field {
	return []field{
		{"input_tokens", &u.InputTokens},
		{"output_tokens", &u.OutputTokens},
		{"reasoning_tokens", &u.ReasoningTokens},
		{"tool_calls", &u.ToolCalls},
		{"cost_micros_usd", &u.CostMicrosUSD},
	}
}

func (q *Query) fields() []field {
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
func (e *Record) timeText(name string, t time.Time) string { return chrono.Text(t, e.Exact[name]) }

func (q *Query) timeText(_ string, t time.Time) string { return chrono.Text(t, q.Exact) }

func (e *Record) keepExact(name, text string) {
	if text == "" {
		return
	}
	e.Exact = maps.Clone(e.Exact) // shared with the entries that this one was copied from
	if e.Exact == nil {
		e.Exact = map[string]string{}
	}
	e.Exact[name] = text
}

// Equal reports whether two records say the same: all fields, times as instants, and second 60.
func (e *Record) Equal(other *Record) bool { return string(e.encode()) == string(other.encode()) }

// Under gives the record the id of the file that it stands in, where the document says another. The document stays as it
// is for as long as nothing else of the record changes.
func (e Record) Under(id string) Record {
	if e.Document == nil {
		e.Document = e.encode()
	}
	e.SessionID, e.DocumentOf = id, id
	return e
}

// A ConfigError speaks as the registry's old program does of a wrong argument, and is one of the db package's sentinels.
type ConfigError struct {
	Text string
	Hint string // what a person can do about it
	Is   error
}

func (e *ConfigError) Error() string { return "configuration error: " + e.Text }

// Unwrap gives the sentinel.
func (e *ConfigError) Unwrap() error { return e.Is }

// Invalid is a ConfigError that is a db.ErrInvalid.
func Invalid(hint, format string, args ...any) error {
	return &ConfigError{Text: fmt.Sprintf(format, args...), Hint: hint, Is: db.ErrInvalid}
}

// CheckID refuses what can't be an agent's id.
func CheckID(id string) error {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if id == "" || strings.ContainsFunc(id, bad) {
		return Invalid("use a to z, 0 to 9 and -, such as agents.GenerateID makes", "invalid session ID '%s': only lowercase alphanumeric and hyphens allowed", id)
	}
	return nil
}

// Check refuses a record that can't be stored, or that an old program could not read again.
func (e *Record) Check() error {
	if err := CheckID(e.SessionID); err != nil {
		return err
	}
	if err := db.CheckID("agent", e.SessionID); err != nil {
		return err
	}
	if err := e.Status.Check(e.SessionID); err != nil {
		return err
	}
	fields := e.fields()
	for i := range e.ContextQueries {
		fields = append(fields, e.ContextQueries[i].fields()...)
	}
	for _, f := range fields {
		if !f.writable() {
			return Invalid("give text in UTF-8 and times of the years that RFC 3339 knows", "agent %s: %s is not valid UTF-8, or a year beyond 262142", e.SessionID, f.name)
		}
	}
	return nil
}

// Check refuses what is none of the four states.
func (s Status) Check(id string) error {
	if !s.known() {
		return Invalid("give active, abandoned, complete or merged", "agent %s: status %q is none of active, abandoned, complete, merged", id, s)
	}
	return nil
}

func (f field) writable() bool {
	switch v := f.holds.(type) {
	case *string:
		return utf8.ValidString(*v)
	case **string:
		return *v == nil || utf8.ValidString(**v)
	case *[]string:
		return utf8.ValidString(strings.Join(*v, ""))
	}
	if t := f.time(); t != nil {
		return chrono.InRange(*t)
	}
	return true
}
