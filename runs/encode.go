package runs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// encode returns the line, without its line feed, that the original writes for r: members in its
// order, absent values omitted, times and floats in its format, and free-form JSON in canonical
// form, which has no blanks, keys in byte order, and numbers as serde writes them. An [Unknown] is
// written as it is, without its blanks if a line feed is among them.
//
// What the original would lose on rewriting (unknown members, key order) is lost here too; a store
// keeps the original bytes of such lines. encode returns an error if the original could not read
// the line back: for text that is not UTF-8, JSON that it does not accept, a word it does not know,
// a duration that is not finite, or a year outside -262143 to 262142.
func encode(r Record) ([]byte, error) {
	if err := validate(r); err != nil {
		return nil, err
	}
	buffer := borrowBuffer() // already grown, so that only the copy is allocated
	defer buffer.giveBack()
	buffer.bytes = appendLine(buffer.bytes, r, canonicalRaw)
	return bytes.Clone(buffer.bytes), nil
}

// rawStyle appends free-form JSON to a line.
type rawStyle func(dst, raw []byte) []byte

// verbatim appends the bytes as they are; canonicalRaw appends what the original would write for
// them. Both take accepted JSON.
func verbatim(dst, raw []byte) []byte { return append(dst, raw...) }

func canonicalRaw(dst, raw []byte) []byte {
	dst, _ = serdejson.AppendCanonical(dst, raw)
	return dst
}

func appendLine(dst []byte, r Record, style rawStyle) []byte {
	switch r := r.(type) {
	case Started:
		return r.append(dst)
	case Turn:
		return r.append(dst, style)
	case Ended:
		return r.append(dst, style)
	case Unknown:
		return r.append(dst)
	}
	return dst
}

// appendText appends before, and then the quoted text.
func appendText(dst []byte, before, text string) []byte {
	return serdejson.AppendQuoted(append(dst, before...), text)
}

// appendOptional is appendText for a text that may be absent.
func appendOptional(dst []byte, before string, text *string) []byte {
	if text == nil {
		return dst
	}
	return appendText(dst, before, *text)
}

func (s Started) append(dst []byte) []byte {
	dst = appendText(dst, `{"record":"started","run_id":`, s.RunID)
	dst = appendText(dst, `,"agent_id":`, s.AgentID)
	dst = appendText(dst, `,"intent":`, s.Intent)
	dst = appendOptional(dst, `,"outcome_description":`, s.OutcomeDescription)
	dst = chrono.AppendText(append(dst, `,"started_at":"`...), s.StartedAt, s.startedAtText)
	return append(dst, `"}`...)
}

func (t Turn) append(dst []byte, style rawStyle) []byte {
	dst = strconv.AppendUint(append(dst, `{"record":"turn","index":`...), t.Index, 10)
	dst = appendOptional(dst, `,"prompt":`, t.Prompt)
	dst = appendOptional(dst, `,"tool":`, t.Tool)
	if !nothing(t.Parameters) {
		dst = style(append(dst, `,"parameters":`...), t.Parameters)
	}
	if !nothing(t.Output) {
		dst = style(append(dst, `,"output":`...), t.Output)
	}
	if o := t.CliOutcome; o != nil {
		dst = appendText(dst, `,"cli_outcome":{"kind":`, o.Kind)
		if o.Kind == CliExited {
			dst = strconv.AppendInt(append(dst, `,"code":`...), o.Code, 10)
		}
		dst = append(dst, '}')
	}
	dst = appendText(dst, `,"verifier_verdict":`, t.VerifierVerdict.String())
	if p := t.PolicyRejected; p != nil {
		dst = appendText(dst, `,"policy_rejected":{"rule":`, p.Rule)
		dst = appendOptional(dst, `,"param":`, p.Param)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func (e Ended) append(dst []byte, style rawStyle) []byte {
	dst = appendText(dst, `{"record":"ended","run_id":`, e.RunID)
	dst = appendText(dst, `,"agent_id":`, e.AgentID)
	dst = e.appendTermination(append(dst, `,"termination":`...), style)
	dst = chrono.AppendText(append(dst, `,"ended_at":"`...), e.EndedAt, e.endedAtText)
	return append(dst, `"}`...)
}

func (e Ended) appendTermination(dst []byte, style rawStyle) []byte {
	o := e.Termination.Outcome
	if o == nil {
		return append(dst, `{"kind":"incomplete"}`...)
	}
	dst = appendText(dst, `{"kind":"outcome","status":`, string(e.Termination.status()))
	dst = appendText(dst, `,"outcome":{"status":`, string(o.Status))
	dst = appendText(dst, `,"summary":`, o.Summary)
	dst = append(dst, `,"evidence":[`...)
	for i, ev := range o.Evidence {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, `{"kind":`, ev.Kind)
		dst = appendText(dst, `,"description":`, ev.Description)
		dst = append(dst, `,"data":`...)
		if nothing(ev.Data) {
			dst = append(dst, "null}"...)
		} else {
			dst = append(style(dst, ev.Data), '}')
		}
	}
	dst = strconv.AppendUint(append(dst, `],"metrics":{"turns":`...), uint64(o.Metrics.Turns), 10)
	dst = strconv.AppendUint(append(dst, `,"tool_calls":`...), uint64(o.Metrics.ToolCalls), 10)
	dst = serdejson.AppendFloat(append(dst, `,"duration_ms":`...), o.Metrics.DurationMs)
	dst = strconv.AppendUint(append(dst, `,"retries":`...), uint64(o.Metrics.Retries), 10)
	dst = strconv.AppendUint(append(dst, `,"actions_succeeded":`...), uint64(o.Metrics.ActionsSucceeded), 10)
	dst = strconv.AppendUint(append(dst, `,"actions_failed":`...), uint64(o.Metrics.ActionsFailed), 10)
	dst = append(dst, `},"timestamp":"`...)
	if o.Timestamp.IsZero() && o.timestampText == "" {
		dst = chrono.AppendText(dst, e.EndedAt, e.endedAtText)
	} else {
		dst = chrono.AppendText(dst, o.Timestamp, o.timestampText)
	}
	return append(dst, `"}}`...)
}

func (t Termination) status() OutcomeStatus {
	if t.Status == "" {
		return t.Outcome.Status
	}
	return t.Status
}

func (u Unknown) append(dst []byte) []byte {
	if bytes.IndexByte(u.Raw, '\n') < 0 {
		return append(dst, u.Raw...)
	}
	out := bytes.NewBuffer(dst)
	if err := json.Compact(out, u.Raw); err != nil {
		return append(dst, u.Raw...)
	}
	return out.Bytes()
}

// nothing reports whether a raw member is equivalent to an absent one.
func nothing(raw []byte) bool {
	trimmed := bytes.Trim(raw, " \t\r\n")
	return len(trimmed) == 0 || string(trimmed) == "null"
}

// validate returns an error if the original could not read the line of r.
func validate(r Record) error {
	var bad checker
	switch r := r.(type) {
	case Started:
		bad.texts("run_id", r.RunID, "agent_id", r.AgentID, "intent", r.Intent)
		bad.optionalText("outcome_description", r.OutcomeDescription)
		bad.year("started_at", chrono.InRange(r.StartedAt))
	case Turn:
		bad.turn(r)
	case Ended:
		bad.ended(r)
	case Unknown:
		bad.unknown(r)
	default:
		bad.note("record", "is missing or of a foreign type")
	}
	return bad.err
}

// checker records the first error.
type checker struct{ err error }

func (c *checker) note(field, complaint string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s %s", field, complaint)
	}
}

func (c *checker) texts(fieldsAndTexts ...string) {
	for i := 0; i < len(fieldsAndTexts); i += 2 {
		if !utf8.ValidString(fieldsAndTexts[i+1]) {
			c.note(fieldsAndTexts[i], "is not UTF-8")
		}
	}
}

func (c *checker) optionalText(field string, text *string) {
	if text != nil {
		c.texts(field, *text)
	}
}

func (c *checker) year(field string, ok bool) {
	if !ok {
		c.note(field, "is outside the years -262143 to 262142")
	}
}

func (c *checker) word(field, word string, words []string) {
	if !slices.Contains(words, word) {
		c.note(field, fmt.Sprintf("%q is not %s", word, serdejson.OneOf(words)))
	}
}

// raw checks free-form JSON that is nested in this many arrays and objects.
func (c *checker) raw(field string, raw []byte, above int) {
	if nothing(raw) {
		return
	}
	if reason := serdejson.Check(raw, above); reason != "" {
		c.note(field, "is not JSON that the original reads: "+reason)
	}
}

func (c *checker) turn(t Turn) {
	c.optionalText("prompt", t.Prompt)
	c.optionalText("tool", t.Tool)
	c.raw("parameters", t.Parameters, 1)
	c.raw("output", t.Output, 1)
	if t.CliOutcome != nil {
		c.word("cli_outcome.kind", t.CliOutcome.Kind, cliOutcomeWords)
	}
	c.word("verifier_verdict", t.VerifierVerdict.String(), verdictWords)
	if p := t.PolicyRejected; p != nil {
		c.texts("policy_rejected.rule", p.Rule)
		c.optionalText("policy_rejected.param", p.Param)
	}
}

func (c *checker) ended(e Ended) {
	c.texts("run_id", e.RunID, "agent_id", e.AgentID)
	c.year("ended_at", chrono.InRange(e.EndedAt))
	o := e.Termination.Outcome
	if o == nil {
		if e.Termination.Status != "" {
			c.note("termination.status", "is set, but there is no outcome")
		}
		return
	}
	c.word("termination.status", string(e.Termination.status()), outcomeWords)
	c.word("outcome.status", string(o.Status), outcomeWords)
	c.texts("outcome.summary", o.Summary)
	for _, ev := range o.Evidence {
		c.word("evidence.kind", ev.Kind, evidenceWords)
		c.texts("evidence.description", ev.Description)
		c.raw("evidence.data", ev.Data, 5)
	}
	if d := o.Metrics.DurationMs; math.IsNaN(d) || math.IsInf(d, 0) {
		c.note("metrics.duration_ms", "is not finite")
	}
	c.year("outcome.timestamp", chrono.InRange(o.Timestamp))
}

// unknown refuses a record that would be another one when it is read back.
func (c *checker) unknown(u Unknown) {
	line := readLine(u.Raw)
	switch {
	case line.kind == lineRecord:
		c.note("raw", fmt.Sprintf("is a %s record: use its own type", line.record.RecordKind()))
	case line.kind != lineUnknown:
		c.note("raw", "is not a JSON object with a \"record\" member")
	case line.record.RecordKind() != u.Kind:
		c.note("kind", fmt.Sprintf("is %q, but the object says %q", u.Kind, line.record.RecordKind()))
	}
}
