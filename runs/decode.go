package runs

import (
	"bytes"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"selvedge/internal/chrono"
	"selvedge/internal/serdejson"
)

// decode reads one trace line, without its line feed. It accepts exactly what the seed version of
// the original accepts: a [Started], a [Turn] or an [Ended]. The error is a *serdejson.DecodeError.
// The record shares the bytes of line.
//
// The result differs from the original's in two ways. An outcome without a timestamp gets its
// record's EndedAt (see [AgentOutcome]), and free-form JSON is returned as it was written, not
// normalised.
func decode(line []byte) (Record, error) { return decodeFrom(line, line) }

// decodeFrom is decode for a record that remembers source as its line; nil means no line.
func decodeFrom(line, source []byte) (Record, error) {
	if !utf8.Valid(line) {
		return nil, &serdejson.DecodeError{Reason: serdejson.NotUTF8}
	}
	var few [12]serdejson.Member
	tag, rest, trailing, reason := scanRecord(line, few[:0])
	if reason != "" {
		return nil, &serdejson.DecodeError{Reason: reason}
	}
	record, err := decodeRecord(tag, rest, source)
	if err == nil && trailing != "" {
		return nil, &serdejson.DecodeError{Reason: trailing}
	}
	return record, err
}

// scanRecord reads the line as the original reads its tagged enum: an object with the tag anywhere,
// or an array with the tag first. It checks everything as JSON. reason is the first error, in the
// original's order. trailing is the error about text after the record, which the original checks
// last.
func scanRecord(line []byte, few []serdejson.Member) (tag int, rest serdejson.Content, trailing,
	reason string,
) {
	s := serdejson.NewScanner(line)
	open := s.Peek()
	if open != '{' && open != '[' {
		text, ok := s.Value()
		if ok {
			s.Fail(fmt.Sprintf("invalid type: %s, expected internally tagged enum RunRecord",
				serdejson.Unexpected(text)))
		}
		return 0, rest, "", s.Reason()
	}
	tag, rest.Members, rest.Array = -1, few, open == '['
	for key := range s.Elements() {
		switch isTag := rest.Array && tag < 0 || !rest.Array && serdejson.KeyIs(key, "record"); {
		case !isTag:
			text, _ := s.Value()
			rest.Members = append(rest.Members, serdejson.Member{Key: key, Value: text})
		case tag >= 0:
			s.Seek(s.Pos() - 1) // the original stops before the colon
			s.Fail("duplicate field `record`")
		default:
			tag = recordTag(s)
		}
	}
	if s.Reason() == "" && tag < 0 {
		s.Fail("missing field `record`")
	}
	if s.Reason() != "" {
		return 0, rest, "", s.Reason()
	}
	if s.Peek(); !s.AtEnd() {
		s.PeekFail("trailing characters")
		trailing = s.Reason()
	}
	return tag, rest, trailing, ""
}

// recordTag returns the index of the tag's word; -1 after a failure.
func recordTag(s *serdejson.Scanner) (tag int) {
	c := s.Peek()
	text, ok := []byte{c}, true
	if c != '{' && c != '[' {
		text, ok = s.Value()
	}
	switch {
	case !ok:
		return -1
	case c != '"':
		s.Fail(fmt.Sprintf("invalid type: %s, expected variant identifier", serdejson.Unexpected(text)))
		return -1
	}
	tag, err := serdejson.Variant(text, recordWords)
	if err != nil {
		s.Fail(err.Error())
		return -1
	}
	return tag
}

func decodeRecord(tag int, c serdejson.Content, line []byte) (Record, error) {
	switch recordWords[tag] {
	case "turn":
		return decodeTurn(turnStructure.Take(c), line)
	case "started":
		return decodeStarted(startedStructure.Take(c), line)
	}
	return decodeEnded(endedStructure.Take(c), line)
}

// sourceOf returns the provenance of a record. It compares line with the line that the record's
// fields encode to; nil means no line.
func sourceOf(r Record, line []byte) provenance {
	if line == nil {
		return provenance{}
	}
	buffer := borrowBuffer()
	defer buffer.giveBack()
	buffer.bytes = appendLine(buffer.bytes, r, verbatim)
	if bytes.Equal(buffer.bytes, line) {
		return provenance{Exact: true}
	}
	return provenance{Line: line}
}

func decodeStarted(f serdejson.Fields, line []byte) (Record, error) {
	s := Started{RunID: f.Text(0), AgentID: f.Text(1), Intent: f.Text(2), OutcomeDescription: f.OptionalText(3)}
	s.StartedAt, s.startedAtText = timeField(&f, 4)
	if f.Err != nil {
		return nil, f.Err
	}
	s.from = sourceOf(s, line)
	return s, nil
}

func decodeTurn(f serdejson.Fields, line []byte) (Record, error) {
	t := Turn{Index: f.Uint(0, math.MaxUint64, "usize"), Prompt: f.OptionalText(1), Tool: f.OptionalText(2)}
	t.Parameters = rawMember(f.Values[3])
	t.Output = rawMember(f.Values[4])
	t.CliOutcome = cliOutcome(&f, 5)
	if i := f.Word(6, verdictWords, isUnit); f.Err == nil {
		t.VerifierVerdict = verdictsByWord[i]
	}
	t.PolicyRejected = policyRejection(&f, 7)
	if f.Err != nil {
		return nil, f.Err
	}
	t.from = sourceOf(t, line)
	return t, nil
}

func decodeEnded(f serdejson.Fields, line []byte) (Record, error) {
	e := Ended{RunID: f.Text(0), AgentID: f.Text(1), Termination: termination(&f, 2)}
	e.EndedAt, e.endedAtText = timeField(&f, 3)
	if f.Err != nil {
		return nil, f.Err
	}
	if o := e.Termination.Outcome; o != nil && o.Timestamp.IsZero() && o.timestampText == "" {
		o.Timestamp, o.timestampText = e.EndedAt, e.endedAtText
	}
	e.from = sourceOf(e, line)
	return e, nil
}

func cliOutcome(f *serdejson.Fields, i int) *CliOutcome {
	if isNull(f.Values[i]) || f.Err != nil {
		return nil
	}
	var few [4]serdejson.Member
	kind, c, err := tagged(f.Values[i], "CliOutcome", cliOutcomeWords, few[:0])
	if err != nil {
		f.Keep(err)
		return nil
	}
	o := &CliOutcome{Kind: cliOutcomeWords[kind]}
	if o.Kind != CliExited {
		f.Keep(c.Unit())
		return o
	}
	inner := exitedStructure.Take(c)
	o.Code = signed(&inner, 0)
	f.Keep(inner.Err)
	return o
}

func policyRejection(f *serdejson.Fields, i int) *PolicyRejection {
	if isNull(f.Values[i]) || f.Err != nil {
		return nil
	}
	inner := rejectionStructure.Read(f.Values[i])
	p := &PolicyRejection{Rule: inner.Text(0), Param: inner.OptionalText(1)}
	f.Keep(inner.Err)
	return p
}

func termination(f *serdejson.Fields, i int) (t Termination) {
	text := f.Need(i)
	if text == nil {
		return t
	}
	var few [4]serdejson.Member
	kind, c, err := tagged(text, "RunTermination", terminationWords, few[:0])
	switch {
	case err != nil:
		f.Keep(err)
	case terminationWords[kind] == "incomplete":
		f.Keep(c.Unit())
	default:
		inner := terminationStructure.Take(c)
		if status := inner.Word(0, outcomeWords, isUnit); inner.Err == nil {
			t.Status = OutcomeStatus(outcomeWords[status])
		}
		if outcome := inner.Need(1); outcome != nil {
			agent, err := decodeOutcome(agentStructure.Read(outcome))
			inner.Keep(err)
			t.Outcome = &agent
		}
		f.Keep(inner.Err)
	}
	return t
}

func decodeOutcome(f serdejson.Fields) (o AgentOutcome, err error) {
	if i := f.Word(0, outcomeWords, isUnit); f.Err == nil {
		o.Status = OutcomeStatus(outcomeWords[i])
	}
	if f.Values[1] != nil {
		o.Summary = f.Text(1)
	}
	if f.Values[2] != nil && f.Err == nil {
		o.Evidence, f.Err = decodeEvidence(f.Values[2])
	}
	if f.Values[3] != nil && f.Err == nil {
		o.Metrics, f.Err = decodeMetrics(metricsStructure.Read(f.Values[3]))
	}
	if f.Values[4] != nil {
		o.Timestamp, o.timestampText = timeField(&f, 4)
		if o.Timestamp.IsZero() && o.timestampText == "" {
			o.timestampText = chrono.Format(time.Time{})
		}
	}
	return o, f.Err
}

func decodeEvidence(text []byte) (list []Evidence, err error) {
	if text[0] != '[' {
		return nil, serdejson.Errorf("invalid type: %s, expected a sequence", serdejson.Unexpected(text))
	}
	for _, m := range serdejson.ContentOf(text, nil).Members {
		f := evidenceStructure.Read(m.Value)
		var e Evidence
		if i := f.Word(0, evidenceWords, isUnit); f.Err == nil {
			e.Kind = evidenceWords[i]
		}
		e.Description = f.Text(1)
		e.Data = rawMember(f.Values[2])
		if f.Err != nil {
			return nil, f.Err
		}
		list = append(list, e)
	}
	return list, nil
}

func decodeMetrics(f serdejson.Fields) (m OutcomeMetrics, err error) {
	for i, count := range []*uint32{
		0: &m.Turns, 1: &m.ToolCalls, 3: &m.Retries, 4: &m.ActionsSucceeded,
		5: &m.ActionsFailed,
	} {
		if count != nil && f.Values[i] != nil {
			*count = uint32(f.Uint(i, math.MaxUint32, "u32"))
		}
	}
	if f.Values[2] != nil {
		m.DurationMs = float(&f, 2)
	}
	return m, f.Err
}

func timeField(f *serdejson.Fields, i int) (t time.Time, kept string) {
	text := f.Need(i)
	if text == nil {
		return t, ""
	}
	if text[0] != '"' {
		f.Fail("invalid type: %s, expected an RFC 3339 formatted date and time string", serdejson.Unexpected(text))
		return t, ""
	}
	t, kept, err := parseTime(serdejson.Unquote(text))
	f.Keep(err)
	return t, kept
}
