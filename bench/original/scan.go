package original

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"
)

// DecodeRecord reads a line of a trace in one pass. It is there because encoding/json takes seven
// times as long as Rust's serde_json for these lines, and a baseline may not be slower than the
// original. Free members stay text: the original makes trees of them, which costs it more.
//
// Its texts share the memory of the line, which must not change.
func DecodeRecord(line []byte) (r Record, err error) {
	s := scanner{text: unsafe.String(unsafe.SliceData(line), len(line)), raw: line}
	if err := s.object(func(name string) error { return s.record(&r, name) }); err != nil {
		return r, err
	}
	if s.blank(); s.at < len(line) {
		return r, errLine
	}
	switch r.Record {
	case "started", "turn", "ended":
		return r, nil
	}
	return r, errLine
}

var errLine = errors.New("the line can't be read")

type scanner struct {
	text string
	raw  []byte // the same
	at   int
}

func (s *scanner) blank() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\r' ||
		s.text[s.at] == '\n') {
		s.at++
	}
}

// take goes over one sign, with the white space before it.
func (s *scanner) take(sign byte) bool {
	s.blank()
	if s.at < len(s.text) && s.text[s.at] == sign {
		s.at++
		return true
	}
	return false
}

func (s *scanner) object(member func(name string) error) error {
	if !s.take('{') {
		return errLine
	}
	if s.take('}') {
		return nil
	}
	for {
		var name string
		if err := s.string(&name); err != nil {
			return err
		}
		if !s.take(':') {
			return errLine
		}
		s.blank()
		if err := member(name); err != nil {
			return err
		}
		if s.take('}') {
			return nil
		}
		if !s.take(',') {
			return errLine
		}
	}
}

func (s *scanner) array(element func() error) error {
	if !s.take('[') {
		return errLine
	}
	if s.take(']') {
		return nil
	}
	for {
		s.blank()
		if err := element(); err != nil {
			return err
		}
		if s.take(']') {
			return nil
		}
		if !s.take(',') {
			return errLine
		}
	}
}

// quoted reads a string and returns the text between its quotes.
func (s *scanner) quoted() (text string, escaped bool, err error) {
	if !s.take('"') {
		return "", false, errLine
	}
	from := s.at
	for {
		quote := strings.IndexByte(s.text[s.at:], '"')
		if quote < 0 {
			return "", false, errLine
		}
		slash := strings.IndexByte(s.text[s.at:s.at+quote], '\\')
		if slash < 0 {
			text = s.text[from : s.at+quote]
			s.at += quote + 1
			return text, escaped, nil
		}
		escaped = true
		if s.at += slash + 2; s.at > len(s.text) {
			return "", false, errLine
		}
	}
}

func (s *scanner) string(into *string) error {
	from := s.at
	text, escaped, err := s.quoted()
	if err != nil || !escaped {
		*into = text
		return err
	}
	return json.Unmarshal([]byte(s.text[from:s.at]), into)
}

func (s *scanner) null() bool {
	if strings.HasPrefix(s.text[s.at:], "null") {
		s.at += len("null")
		return true
	}
	return false
}

func (s *scanner) optional(into **string) error {
	if s.null() {
		return nil
	}
	*into = new(string)
	return s.string(*into)
}

// number returns the text of a number, or of true and false.
func (s *scanner) number() string {
	from := s.at
	for s.at < len(s.text) && s.text[s.at] != ',' && s.text[s.at] != '}' && s.text[s.at] != ']' &&
		s.text[s.at] > ' ' {
		s.at++
	}
	return s.text[from:s.at]
}

func (s *scanner) time(into *time.Time) error {
	var text string
	if err := s.string(&text); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	*into = at
	return err
}

// free reads a value and returns its text.
func (s *scanner) free() (json.RawMessage, error) {
	s.blank()
	from := s.at
	err := s.skip()
	return json.RawMessage(s.raw[from:s.at]), err
}

func (s *scanner) skip() error {
	s.blank()
	if s.at >= len(s.text) {
		return errLine
	}
	switch s.text[s.at] {
	case '{':
		return s.object(func(string) error { return s.skip() })
	case '[':
		return s.array(s.skip)
	case '"':
		_, _, err := s.quoted()
		return err
	}
	switch text := s.number(); text {
	case "true", "false", "null":
		return nil
	default:
		_, err := strconv.ParseFloat(text, 64)
		return err
	}
}

func (s *scanner) record(r *Record, name string) (err error) {
	switch name {
	case "record":
		return s.string(&r.Record)
	case "run_id":
		return s.string(&r.RunID)
	case "agent_id":
		return s.string(&r.AgentID)
	case "intent":
		return s.string(&r.Intent)
	case "outcome_description":
		return s.optional(&r.OutcomeDescription)
	case "started_at":
		return s.time(&r.StartedAt)
	case "ended_at":
		return s.time(&r.EndedAt)
	case "index":
		r.Index, err = strconv.ParseUint(s.number(), 10, 64)
	case "prompt":
		return s.optional(&r.Prompt)
	case "tool":
		return s.optional(&r.Tool)
	case "parameters":
		r.Parameters, err = s.free()
	case "output":
		r.Output, err = s.free()
	case "verifier_verdict":
		var verdict *string
		if err = s.optional(&verdict); verdict != nil {
			r.VerifierVerdict = *verdict
		}
	case "cli_outcome":
		if s.null() {
			return nil
		}
		r.CliOutcome = &CliOutcome{}
		return s.object(func(name string) error { return s.cliOutcome(r.CliOutcome, name) })
	case "policy_rejected":
		if s.null() {
			return nil
		}
		r.PolicyRejected = &PolicyRejected{}
		return s.object(func(name string) error { return s.policy(r.PolicyRejected, name) })
	case "termination":
		r.Termination = &Termination{}
		return s.object(func(name string) error { return s.termination(r.Termination, name) })
	default:
		return s.skip()
	}
	return err
}

func (s *scanner) cliOutcome(c *CliOutcome, name string) (err error) {
	switch name {
	case "kind":
		return s.string(&c.Kind)
	case "code":
		c.Code, err = strconv.ParseInt(s.number(), 10, 64)
		return err
	}
	return s.skip()
}

func (s *scanner) policy(p *PolicyRejected, name string) error {
	switch name {
	case "rule":
		return s.string(&p.Rule)
	case "param":
		return s.optional(&p.Param)
	}
	return s.skip()
}

func (s *scanner) termination(t *Termination, name string) error {
	switch name {
	case "kind":
		return s.string(&t.Kind)
	case "status":
		return s.string(&t.Status)
	case "outcome":
		if s.null() {
			return nil
		}
		t.Outcome = &Outcome{}
		return s.object(func(name string) error { return s.outcome(t.Outcome, name) })
	}
	return s.skip()
}

func (s *scanner) outcome(o *Outcome, name string) error {
	switch name {
	case "status":
		return s.string(&o.Status)
	case "summary":
		return s.string(&o.Summary)
	case "timestamp":
		return s.time(&o.Timestamp)
	case "metrics":
		return s.object(func(name string) error { return s.metric(o, name) })
	case "evidence": // mostly none
		text, err := s.free()
		if err != nil || len(text) == len("[]") {
			o.Evidence = []Evidence{}
			return err
		}
		return json.Unmarshal(text, &o.Evidence)
	}
	return s.skip()
}

func (s *scanner) metric(o *Outcome, name string) (err error) {
	var into *uint32
	switch name {
	case "turns":
		into = &o.Metrics.Turns
	case "tool_calls":
		into = &o.Metrics.ToolCalls
	case "retries":
		into = &o.Metrics.Retries
	case "actions_succeeded":
		into = &o.Metrics.ActionsSucceeded
	case "actions_failed":
		into = &o.Metrics.ActionsFailed
	case "duration_ms":
		o.Metrics.DurationMs, err = strconv.ParseFloat(s.number(), 64)
		return err
	default:
		return s.skip()
	}
	n, err := strconv.ParseUint(s.number(), 10, 32)
	*into = uint32(n)
	return err
}

// A traceReader reads traces one after the other, each into the memory of the one before.
type traceReader struct {
	content []byte
	records []Record
}

// read returns the records of a trace up to the first line that is no UTF-8, without lines that
// can't be read. They hold until the next call.
func (r *traceReader) read(path string) (list []Record, err error) {
	if r.content, err = readInto(r.content[:0], path); err != nil {
		return nil, err
	}
	r.records = r.records[:0]
	for line := range bytes.Lines(r.content) {
		if !utf8.Valid(line) {
			break
		}
		if record, err := DecodeRecord(line); err == nil {
			r.records = append(r.records, record)
		}
	}
	return r.records, nil
}
