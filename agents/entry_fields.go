package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/chrono"
	"selvedge/internal/txn"
)

// A field is one key of an entry: its name in documents and where its value is. What holds is one
// of *string, **string, **uint32, **uint64, *time.Time, **time.Time, *[]string, **float32, *Status,
// *UsageSummary and *[]ContextQuery.
type field struct {
	name  string
	holds any
}

// fields are the keys of an entry in the order of the original's struct, which is that of its JSON.
// Everything that reads or writes whole entries goes by this table.
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

// time is the time that the field holds; nil for other fields, and for a time that is not set.
func (f field) time() *time.Time {
	switch v := f.holds.(type) {
	case *time.Time:
		return v
	case **time.Time:
		return *v
	}
	return nil
}

// A timeWriter spells a time as it was read.
type timeWriter func(name string, t time.Time) string

// value is what the field holds, for writing: a string, uint64, float32, []string, UsageSummary or
// []ContextQuery; nil if it is left out.
func (f field) value(text timeWriter) any {
	switch v := f.holds.(type) {
	case *string:
		return *v
	case **string:
		return valueOf(*v)
	case *Status:
		return string(*v)
	case **uint32:
		if *v != nil {
			return uint64(**v)
		}
	case **uint64:
		return valueOf(*v)
	case **float32:
		return valueOf(*v)
	case *[]string:
		return append([]string{}, *v...)
	case *UsageSummary:
		return *v
	case *[]ContextQuery:
		if *v == nil {
			return []ContextQuery{}
		}
		return *v
	default:
		if t := f.time(); t != nil {
			return text(f.name, *t)
		}
	}
	return nil
}

func valueOf[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// The keys without which an entry, or a context query, can't be read.
var (
	requiredOfEntry = []string{"session_id", "thread", "base_state", "started_at", "status"}
	requiredOfQuery = []string{"path", "queried_at"}
)

// timeText is how the original writes the time called name.
func (e *Entry) timeText(name string, t time.Time) string { return chrono.Text(t, e.kept.exact[name]) }

func (q *ContextQuery) timeText(_ string, t time.Time) string { return chrono.Text(t, q.exact) }

func (e *Entry) keepExact(name, text string) {
	if text == "" {
		return
	}
	e.kept.exact = maps.Clone(e.kept.exact) // shared with the entries that this one was copied from
	if e.kept.exact == nil {
		e.kept.exact = map[string]string{}
	}
	e.kept.exact[name] = text
}

// Equal reports whether two entries say the same: all fields, times as instants, and second 60.
func (e Entry) Equal(other Entry) bool { return string(e.encode()) == string(other.encode()) }

// under gives the entry the id of the file that it stands in, where the document says another. The
// document stays as it is for as long as nothing else of the record changes.
func (e Entry) under(id string) Entry {
	if e.kept.document == nil {
		e.kept.document = e.encode()
	}
	e.SessionID, e.kept.documentOf = id, id
	return e
}

// A configError speaks as the registry's old program does of a wrong argument, and is one of the db
// package's sentinels.
type configError struct {
	Text string
	Hint string // what a person can do about it
	Is   error
}

func (e *configError) Error() string { return "configuration error: " + e.Text }

// Unwrap gives the sentinel.
func (e *configError) Unwrap() error { return e.Is }

// invalid is a configError that is a db.ErrInvalid.
func invalid(hint, format string, args ...any) error {
	return &configError{Text: fmt.Sprintf(format, args...), Hint: hint, Is: db.ErrInvalid}
}

// checkID refuses what can't be an agent's id.
func checkID(id string) error {
	bad := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if id == "" || strings.ContainsFunc(id, bad) {
		return invalid("use a to z, 0 to 9 and -, such as agents.GenerateID makes",
			"invalid session ID '%s': only lowercase alphanumeric and hyphens allowed", id)
	}
	return nil
}

// check refuses an entry that can't be stored, or that an old program could not read again.
func (e *Entry) check() error {
	if err := checkID(e.SessionID); err != nil {
		return err
	}
	if err := txn.CheckID("agent", e.SessionID); err != nil {
		return err
	}
	if err := e.Status.check(e.SessionID); err != nil {
		return err
	}
	fields := e.fields()
	for i := range e.ContextQueries {
		fields = append(fields, e.ContextQueries[i].fields()...)
	}
	for _, f := range fields {
		if !f.writable() {
			return invalid("give text in UTF-8 and times of the years that RFC 3339 knows",
				"agent %s: %s is not valid UTF-8, or a year beyond 262142", e.SessionID, f.name)
		}
	}
	return nil
}

// check refuses what is none of the four states.
func (s Status) check(id string) error {
	if !slices.Contains(statuses, s) {
		return invalid("give active, abandoned, complete or merged",
			"agent %s: status %q is none of active, abandoned, complete, merged", id, s)
	}
	return nil
}

func (f field) writable() bool {
	if t := f.time(); t != nil {
		return chrono.InRange(*t)
	}
	switch v := f.value(nil).(type) {
	case string:
		return utf8.ValidString(v)
	case []string:
		return utf8.ValidString(strings.Join(v, ""))
	}
	return true
}
