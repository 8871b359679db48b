package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/internal/serdejson"
)

func snapshotFields() []field { return objectTypes()["snapshot"].fields }
func eventFields() []field    { return objectTypes()["event_record"].fields }
func recordFields() []field   { return objectTypes()["record"].fields }

// appendJSON appends the snapshot as compact JSON: absent texts are omitted, further members come
// last.
func (s RunSnapshot) appendJSON(dst []byte) []byte {
	dst = serdejson.AppendQuoted(append(dst, `{"id":`...), s.ID)
	dst = serdejson.AppendQuoted(append(dst, `,"session_id":`...), s.SessionID)
	dst = serdejson.AppendQuoted(append(dst, `,"status":`...), string(s.Status))
	dst = serdejson.AppendQuoted(append(dst, `,"prompt":`...), s.Prompt)
	dst = strconv.AppendUint(append(dst, `,"created_at_ms":`...), s.CreatedAtMs, 10)
	dst = strconv.AppendUint(append(dst, `,"updated_at_ms":`...), s.UpdatedAtMs, 10)
	if s.ResultText != nil {
		dst = serdejson.AppendQuoted(append(dst, `,"result_text":`...), *s.ResultText)
	}
	if s.Error != nil {
		dst = serdejson.AppendQuoted(append(dst, `,"error":`...), *s.Error)
	}
	dst = strconv.AppendUint(append(dst, `,"event_count":`...), s.EventCount, 10)
	return appendFurther(dst, s.Further)
}

// appendJSON appends the record as compact JSON, with the event as it was given.
func (e RunEventRecord) appendJSON(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"sequence":`...), e.Sequence, 10)
	dst = strconv.AppendUint(append(dst, `,"timestamp_ms":`...), e.TimestampMs, 10)
	dst = append(append(dst, `,"event":`...), e.Event.text...)
	return appendFurther(dst, e.Further)
}

// json returns the run and its events as compact JSON.
func (r RunRecord) json() []byte {
	dst := append(r.Snapshot.appendJSON([]byte(`{"snapshot":`)), `,"events":[`...)
	for i := range r.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.Events[i].appendJSON(dst)
	}
	return append(dst, `]}`...)
}

// appendFurther appends further members after those of an object, and closes the object.
func appendFurther(dst, further []byte) []byte {
	if len(further) > len("{}") {
		dst = append(append(dst, ','), further[1:len(further)-1]...)
	}
	return append(dst, '}')
}

// MarshalJSON returns the snapshot as compact JSON.
func (s RunSnapshot) MarshalJSON() ([]byte, error) { return s.appendJSON(nil), nil }

// MarshalJSON returns the record as compact JSON, with the event as it was given.
func (e RunEventRecord) MarshalJSON() ([]byte, error) { return e.appendJSON(nil), nil }

// MarshalJSON returns the run and its events as compact JSON.
func (r RunRecord) MarshalJSON() ([]byte, error) { return r.json(), nil }

// UnmarshalJSON reads a snapshot. It returns db.ErrInvalid with the reason if it cannot. The count
// of events is taken as it is.
func (s *RunSnapshot) UnmarshalJSON(text []byte) error {
	m, reason := wholeMembers(text, 0, true)
	if reason == "" {
		*s, reason = m.snapshot()
	}
	return unreadable("run snapshot", reason)
}

// UnmarshalJSON reads the record of an event, also of an unknown type. It returns db.ErrInvalid
// with the reason if it cannot.
func (e *RunEventRecord) UnmarshalJSON(text []byte) error {
	m, reason := wholeMembers(text, 0, true)
	if reason == "" {
		*e, reason = m.eventRecord(eventLevels, false)
	}
	return unreadable("event record", reason)
}

// UnmarshalJSON reads a run and its events. It returns db.ErrInvalid with the reason if it cannot.
func (r *RunRecord) UnmarshalJSON(text []byte) error {
	record, reason := readRecord(text, 1, false)
	if reason == "" {
		*r = record
	}
	return unreadable("run record", reason)
}

func unreadable(what, reason string) error {
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w: the %s can't be read: %s", db.ErrInvalid, what, reason)
}

// readRecord reads one element of a session's file, which is nested in this many arrays and
// objects. arrays is true if an event may be an array.
func readRecord(text []byte, above int, arrays bool) (r RunRecord, reason string) {
	m, reason := wholeMembers(text, above, true)
	if reason != "" {
		return r, reason
	}
	if reason := m.check(recordFields()); reason != "" {
		return r, reason
	}
	snapshot, _ := spanMembers(serdejson.NewScanner(m.value(recordFields(), "snapshot")), true)
	if r.Snapshot, reason = snapshot.snapshot(); reason != "" {
		return r, reason
	}
	events := serdejson.NewScanner(m.value(recordFields(), "events"))
	for range events.Elements() {
		em, _ := spanMembers(events, true)
		event, reason := em.eventRecord(above+3, arrays)
		if reason != "" {
			return r, reason
		}
		r.Events = append(r.Events, event)
	}
	return r, ""
}

// wholeMembers reads a text that is one object, or with arrays an array that represents one, nested
// in this many arrays and objects.
func wholeMembers(text []byte, above int, arrays bool) (*members, string) {
	if !utf8.Valid(text) {
		return nil, "it is not valid UTF-8"
	}
	s := serdejson.NewScannerInside(text, above)
	m, reason := spanMembers(s, arrays)
	if reason != "" {
		return nil, reason
	}
	if s.Peek(); !s.AtEnd() {
		s.PeekFail("trailing characters")
		return nil, s.Reason()
	}
	return m, ""
}

func (m *members) snapshot() (s RunSnapshot, reason string) {
	if reason := m.check(snapshotFields()); reason != "" {
		return s, reason
	}
	text := func(name string) string { return serdejson.Unquote(m.value(snapshotFields(), name)) }
	status, _ := basicTypes["status"].readWord(m.value(snapshotFields(), "status"))
	count := func(name string) uint64 { return serdejson.ParseNumber(m.value(snapshotFields(), name)).Uint }
	maybe := func(name string) *string {
		value := m.value(snapshotFields(), name)
		if value == nil || value[0] == 'n' {
			return nil
		}
		unquoted := serdejson.Unquote(value)
		return &unquoted
	}
	return RunSnapshot{
		ID: text("id"), SessionID: text("session_id"), Status: RunStatus(status), Prompt: text("prompt"),
		CreatedAtMs: count("created_at_ms"), UpdatedAtMs: count("updated_at_ms"),
		ResultText: maybe("result_text"), Error: maybe("error"), EventCount: count("event_count"),
		Further: m.further(snapshotFields()),
	}, ""
}

func (m *members) eventRecord(above int, arrays bool) (e RunEventRecord, reason string) {
	if reason := m.check(eventFields()); reason != "" {
		return e, reason
	}
	e.Sequence = serdejson.ParseNumber(m.value(eventFields(), "sequence")).Uint
	e.TimestampMs = serdejson.ParseNumber(m.value(eventFields(), "timestamp_ms")).Uint
	e.Event, reason = readEvent(m.value(eventFields(), "event"), above, arrays)
	if reason == "" {
		e.Event.text = appendCompact(nil, e.Event.text)
		e.Further = m.further(eventFields())
	}
	return e, reason
}

// appendCompact writes a JSON text that a scanner has accepted without the blanks between its
// parts.
func appendCompact(dst, text []byte) []byte {
	buffer := bytes.NewBuffer(dst)
	_ = json.Compact(buffer, text)
	return buffer.Bytes()
}

// appendIndented writes a JSON text as serde_json's pretty printer does, at a level of indentation.
func appendIndented(dst, text []byte, level int) []byte {
	buffer := bytes.NewBuffer(dst)
	_ = json.Indent(buffer, text, strings.Repeat("  ", level), "  ") // a scanner has accepted it
	return buffer.Bytes()
}
