package original

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// An Entry is an agent in the original's registry. Nil is a member that is not written.
type Entry struct {
	SessionID, Thread, BaseState, Status string
	StartedAt                            time.Time

	ClientInstanceID, NativeActorKey, NativeParentActorKey, NativeInstanceKey, HeddleSessionID, ThreadID *string
	BootID, LivenessPath, AnchorState, AnchorRoot, ReservationToken, Path                                *string
	Provider, Model, Harness, ThinkingLevel, ReportFlushState, AttachReason                              *string
	WinningAttachRule, ProbeSource                                                                       *string

	PID                                      *uint32
	HeartbeatAt, LastProgressAt, CompletedAt *time.Time
	ProbeConfidence                          *float32
	AttachPrecedence                         []string
	Usage                                    Usage
	ContextQueries                           []ContextQuery
}

// Usage counts what an agent used.
type Usage struct{ InputTokens, OutputTokens, ReasoningTokens, ToolCalls, CostMicrosUSD *uint64 }

// A ContextQuery is what an agent asked about its surroundings.
type ContextQuery struct {
	Path      string
	Scope     *string
	QueriedAt time.Time
}

// DecodeEntry reads an entry in one pass, and all of it: as much TOML as the original writes.
func DecodeEntry(document []byte) (e Entry, err error) {
	if !utf8.Valid(document) {
		return e, fmt.Errorf("the document is not UTF-8")
	}
	s := entryScanner{rest: string(document), into: entryTable}
	for {
		name, err := s.next(&e)
		if err != nil || name == "" {
			return e, err
		}
		if err := s.member(&e, name); err != nil {
			return e, fmt.Errorf("%s: %w", name, err)
		}
	}
}

type entryScanner struct {
	rest string // the text that is left
	into int    // which table its members belong to
}

const (
	entryTable = iota
	usageTable
	queryTable
	unknownTable
)

// next skips blank lines, comments and the heads of tables, and returns the name of the next
// member; "" at the end.
func (s *entryScanner) next(e *Entry) (name string, err error) {
	for {
		s.blank()
		switch {
		case s.rest == "":
			return "", nil
		case strings.HasPrefix(s.rest, "[[context_queries]]"):
			s.rest = s.rest[len("[[context_queries]]"):]
			e.ContextQueries = append(e.ContextQueries, ContextQuery{})
			s.into = queryTable
		case strings.HasPrefix(s.rest, "[usage_summary]"):
			s.rest = s.rest[len("[usage_summary]"):]
			s.into = usageTable
		case s.rest[0] == '[':
			end := strings.IndexByte(s.rest, '\n')
			if end < 0 {
				end = len(s.rest)
			}
			s.rest, s.into = s.rest[end:], unknownTable
		default:
			equals := strings.IndexByte(s.rest, '=')
			if equals < 0 {
				return "", fmt.Errorf("a line has no value")
			}
			name = strings.TrimRight(s.rest[:equals], " \t")
			s.rest = strings.TrimLeft(s.rest[equals+1:], " \t")
			return name, nil
		}
	}
}

// blank goes over white space and comments.
func (s *entryScanner) blank() {
	for len(s.rest) > 0 {
		switch s.rest[0] {
		case ' ', '\t', '\r', '\n':
			s.rest = s.rest[1:]
		case '#':
			end := strings.IndexByte(s.rest, '\n')
			if end < 0 {
				end = len(s.rest) - 1
			}
			s.rest = s.rest[end+1:]
		default:
			return
		}
	}
}

func (s *entryScanner) member(e *Entry, name string) error {
	switch s.into {
	case usageTable:
		return s.usage(&e.Usage, name)
	case queryTable:
		return s.query(&e.ContextQueries[len(e.ContextQueries)-1], name)
	case unknownTable:
		return s.skip()
	}
	switch name {
	case "session_id":
		return s.text(&e.SessionID)
	case "thread":
		return s.text(&e.Thread)
	case "base_state":
		return s.text(&e.BaseState)
	case "status":
		return s.text(&e.Status)
	case "started_at":
		return s.time(&e.StartedAt)
	case "heartbeat_at":
		return s.optionalTime(&e.HeartbeatAt)
	case "last_progress_at":
		return s.optionalTime(&e.LastProgressAt)
	case "completed_at":
		return s.optionalTime(&e.CompletedAt)
	case "pid":
		n, err := strconv.ParseUint(s.bare(), 10, 32)
		pid := uint32(n)
		e.PID = &pid
		return err
	case "probe_confidence":
		n, err := strconv.ParseFloat(s.bare(), 32)
		confidence := float32(n)
		e.ProbeConfidence = &confidence
		return err
	case "attach_precedence":
		return s.texts(&e.AttachPrecedence)
	}
	if into := e.optional(name); into != nil {
		var text string
		err := s.text(&text)
		*into = &text
		return err
	}
	return s.skip()
}

// optional is where a text that may be missing goes; nil for a name that is unknown.
func (e *Entry) optional(name string) **string {
	switch name {
	case "client_instance_id":
		return &e.ClientInstanceID
	case "native_actor_key":
		return &e.NativeActorKey
	case "native_parent_actor_key":
		return &e.NativeParentActorKey
	case "native_instance_key":
		return &e.NativeInstanceKey
	case "heddle_session_id":
		return &e.HeddleSessionID
	case "thread_id":
		return &e.ThreadID
	case "boot_id":
		return &e.BootID
	case "liveness_path":
		return &e.LivenessPath
	case "anchor_state":
		return &e.AnchorState
	case "anchor_root":
		return &e.AnchorRoot
	case "reservation_token":
		return &e.ReservationToken
	case "path":
		return &e.Path
	case "provider":
		return &e.Provider
	case "model":
		return &e.Model
	case "harness":
		return &e.Harness
	case "thinking_level":
		return &e.ThinkingLevel
	case "report_flush_state":
		return &e.ReportFlushState
	case "attach_reason":
		return &e.AttachReason
	case "winning_attach_rule":
		return &e.WinningAttachRule
	case "probe_source":
		return &e.ProbeSource
	}
	return nil
}

func (s *entryScanner) usage(u *Usage, name string) error {
	var into **uint64
	switch name {
	case "input_tokens":
		into = &u.InputTokens
	case "output_tokens":
		into = &u.OutputTokens
	case "reasoning_tokens":
		into = &u.ReasoningTokens
	case "tool_calls":
		into = &u.ToolCalls
	case "cost_micros_usd":
		into = &u.CostMicrosUSD
	default:
		return s.skip()
	}
	n, err := strconv.ParseUint(s.bare(), 10, 64)
	*into = &n
	return err
}

func (s *entryScanner) query(q *ContextQuery, name string) error {
	switch name {
	case "path":
		return s.text(&q.Path)
	case "scope":
		var text string
		err := s.text(&text)
		q.Scope = &text
		return err
	case "queried_at":
		return s.time(&q.QueriedAt)
	}
	return s.skip()
}

// text reads a string: basic or literal, on one line or several.
func (s *entryScanner) text(into *string) error {
	for _, quote := range []string{`"""`, `'''`, `"`, `'`} {
		if !strings.HasPrefix(s.rest, quote) {
			continue
		}
		body := s.rest[len(quote):]
		if len(quote) == 3 {
			body = strings.TrimPrefix(body, "\n")
		}
		end := strings.Index(body, quote)
		if quote[0] == '"' {
			end = closing(body, quote)
		}
		if end < 0 {
			return fmt.Errorf("a string has no end")
		}
		*into, s.rest = body[:end], body[end+len(quote):]
		if quote[0] == '"' && strings.IndexByte(*into, '\\') >= 0 {
			return unescape(into)
		}
		return nil
	}
	return fmt.Errorf("not a string")
}

// closing finds the quote that ends a basic string.
func closing(body, quote string) int {
	for i := 0; i < len(body); i++ {
		switch {
		case body[i] == '\\':
			i++
		case strings.HasPrefix(body[i:], quote):
			return i
		}
	}
	return -1
}

func unescape(text *string) error {
	var b strings.Builder
	rest := *text
	for rest != "" {
		before, after, escaped := strings.Cut(rest, `\`)
		b.WriteString(before)
		if !escaped {
			break
		}
		digits := 0
		if after == "" {
			return fmt.Errorf("an escape has no end")
		}
		switch after[0] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case '"', '\\':
			b.WriteByte(after[0])
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			return fmt.Errorf("an escape of %q", after[0])
		}
		if digits > 0 {
			code, err := strconv.ParseUint(after[1:min(1+digits, len(after))], 16, 32)
			if err != nil {
				return err
			}
			b.WriteRune(rune(code))
		}
		rest = after[1+digits:]
	}
	*text = b.String()
	return nil
}

// texts reads a list of strings.
func (s *entryScanner) texts(into *[]string) error {
	if !strings.HasPrefix(s.rest, "[") {
		return fmt.Errorf("not a list")
	}
	s.rest = s.rest[1:]
	for {
		s.blank()
		if strings.HasPrefix(s.rest, "]") {
			s.rest = s.rest[1:]
			return nil
		}
		var text string
		if err := s.text(&text); err != nil {
			return err
		}
		*into = append(*into, text)
		s.blank()
		s.rest = strings.TrimPrefix(s.rest, ",")
	}
}

func (s *entryScanner) time(into *time.Time) (err error) {
	var text string
	if err = s.text(&text); err == nil {
		*into, err = time.Parse(time.RFC3339Nano, text)
	}
	return err
}

func (s *entryScanner) optionalTime(into **time.Time) error {
	*into = new(time.Time)
	return s.time(*into)
}

// bare is a value without quotes.
func (s *entryScanner) bare() string {
	end := strings.IndexAny(s.rest, "\n#")
	if end < 0 {
		end = len(s.rest)
	}
	value := strings.TrimRight(s.rest[:end], " \t\r")
	s.rest = s.rest[end:]
	return value
}

// skip goes over a value of a member that the original does not know.
func (s *entryScanner) skip() error {
	switch {
	case strings.HasPrefix(s.rest, "["):
		var list []string
		return s.texts(&list)
	case strings.HasPrefix(s.rest, `"`), strings.HasPrefix(s.rest, `'`):
		var text string
		return s.text(&text)
	}
	s.bare()
	return nil
}

// TOML writes the entry as the original does.
func (e *Entry) TOML() []byte {
	b := make([]byte, 0, 2048)
	text := func(name, value string) { b = appendText(append(append(b, name...), " = "...), value) }
	maybe := func(name string) {
		if value := *e.optional(name); value != nil {
			text(name, *value)
		}
	}
	instant := func(name string, at *time.Time) {
		if at != nil {
			text(name, formatTime(*at))
		}
	}
	text("session_id", e.SessionID)
	for _, name := range []string{
		"client_instance_id", "native_actor_key", "native_parent_actor_key",
		"native_instance_key", "heddle_session_id", "thread_id",
	} {
		maybe(name)
	}
	text("thread", e.Thread)
	if e.PID != nil {
		b = append(strconv.AppendUint(append(b, "pid = "...), uint64(*e.PID), 10), '\n')
	}
	maybe("boot_id")
	maybe("liveness_path")
	instant("heartbeat_at", e.HeartbeatAt)
	for _, name := range []string{"anchor_state", "anchor_root", "reservation_token", "path"} {
		maybe(name)
	}
	text("base_state", e.BaseState)
	instant("started_at", &e.StartedAt)
	for _, name := range []string{"provider", "model", "harness", "thinking_level"} {
		maybe(name)
	}
	instant("last_progress_at", e.LastProgressAt)
	maybe("report_flush_state")
	maybe("attach_reason")
	b = appendList(append(b, "attach_precedence = "...), e.AttachPrecedence)
	for _, name := range []string{"winning_attach_rule", "probe_source"} {
		maybe(name)
	}
	if e.ProbeConfidence != nil {
		number := strconv.FormatFloat(float64(*e.ProbeConfidence), 'f', -1, 32)
		if !strings.Contains(number, ".") {
			number += ".0"
		}
		b = append(append(append(b, "probe_confidence = "...), number...), '\n')
	}
	text("status", e.Status)
	instant("completed_at", e.CompletedAt)
	if len(e.ContextQueries) == 0 {
		b = append(b, "context_queries = []\n"...)
	}
	return e.appendTables(b)
}

func (e *Entry) appendTables(b []byte) []byte {
	b = append(b, "\n[usage_summary]\n"...)
	for _, one := range []struct {
		name string
		n    *uint64
	}{
		{"input_tokens", e.Usage.InputTokens},
		{"output_tokens", e.Usage.OutputTokens},
		{"reasoning_tokens", e.Usage.ReasoningTokens},
		{"tool_calls", e.Usage.ToolCalls},
		{"cost_micros_usd", e.Usage.CostMicrosUSD},
	} {
		if one.n != nil {
			b = append(strconv.AppendUint(append(append(b, one.name...), " = "...), *one.n, 10), '\n')
		}
	}
	for _, q := range e.ContextQueries {
		b = appendText(append(b, "\n[[context_queries]]\npath = "...), q.Path)
		if q.Scope != nil {
			b = appendText(append(b, "scope = "...), *q.Scope)
		}
		b = appendText(append(b, "queried_at = "...), formatTime(q.QueriedAt))
	}
	return b
}

func appendList(b []byte, list []string) []byte {
	if len(list) == 0 {
		return append(b, "[]\n"...)
	}
	b = append(b, "[\n"...)
	for _, value := range list {
		b = append(bytes.TrimSuffix(appendText(append(b, "    "...), value), []byte("\n")), ",\n"...)
	}
	return append(b, "]\n"...)
}

// formatTime writes no fraction, or one of 3, 6 or 9 digits.
func formatTime(at time.Time) string {
	at = at.UTC()
	layout := "2006-01-02T15:04:05.000000000Z"
	switch ns := at.Nanosecond(); {
	case ns == 0:
		layout = "2006-01-02T15:04:05Z"
	case ns%1e6 == 0:
		layout = "2006-01-02T15:04:05.000Z"
	case ns%1e3 == 0:
		layout = "2006-01-02T15:04:05.000000Z"
	}
	return at.Format(layout)
}

// appendText writes a string and the end of its line.
func appendText(b []byte, value string) []byte {
	if strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }) < 0 {
		return append(append(append(b, '"'), value...), "\"\n"...)
	}
	b = append(b, '"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r < ' ' || r == 0x7f:
			b = fmt.Appendf(b, `\u%04X`, r)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, "\"\n"...)
}
