package live

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"selvedge/internal/serdejson"
)

// A shape says which JSON values a type of the event schema, a Rust type, is read from.
type shape struct {
	sort     sort
	words    []string // of sortWord
	empty    bool     // of sortWord: in an object, too, the word may have {} for its value
	of       *shape   // of sortList
	fields   []field  // of sortObject
	nullable bool     // null, and an absent member, are none
}

type sort byte

const (
	sortText  sort = iota
	sortWord       // one of words, or an object with the word as its only name and null for its value
	sortFlag       // true or false
	sortCount      // an integer of 64 bits without sign
	sortInt        // of 64 bits
	sortShort      // of 32 bits
	sortU32        // of 32 bits without sign
	sortFloat      // of 32 bits; any number is read
	sortAny        // free JSON
	sortList
	sortObject
)

type field struct {
	name    string
	shape   *shape
	absent  bool // the member can be missing
	element bool // and so can, at the end of an array that stands for the object, the element
}

var (
	aText   = &shape{sort: sortText}
	aFlag   = &shape{sort: sortFlag}
	aCount  = &shape{sort: sortCount}
	anInt   = &shape{sort: sortInt}
	aShort  = &shape{sort: sortShort}
	u32     = &shape{sort: sortU32}
	aFloat  = &shape{sort: sortFloat}
	free    = &shape{sort: sortAny}
	noFree  = &shape{sort: sortAny, nullable: true}
	texts   = &shape{sort: sortList, of: aText}
	noText  = &shape{sort: sortText, nullable: true}
	noCount = &shape{sort: sortCount, nullable: true}
	noInt   = &shape{sort: sortInt, nullable: true}
)

func word(words string) *shape {
	return &shape{sort: sortWord, words: strings.Fields(words), empty: true}
}

func object(fields ...field) *shape { return &shape{sort: sortObject, fields: fields} }

func a(name string, s *shape) field { return field{name: name, shape: s, absent: s.nullable} }

// maybe is a member that the original has a default for.
func maybe(name string, s *shape) field {
	return field{name: name, shape: s, absent: true, element: true}
}

func maybeIn(s *shape, names string) (fields []field) {
	for name := range strings.FieldsSeq(names) {
		fields = append(fields, maybe(name, s))
	}
	return fields
}

// in pairs a shape with the names of several members.
func in(s *shape, names string) (fields []field) {
	for name := range strings.FieldsSeq(names) {
		fields = append(fields, a(name, s))
	}
	return fields
}

func all(groups ...[]field) (fields []field) {
	for _, group := range groups {
		fields = append(fields, group...)
	}
	return fields
}

var (
	tokenUsage = object(all(in(aCount, "prompt_tokens completion_tokens total_tokens"),
		in(noCount, "cache_read_tokens cache_write_tokens"))...)

	verification = object(all([]field{a("status", word("passed failed needs_review skipped"))},
		in(aCount, "report_count required_check_count pending_required_check_count failed_check_count "+
			"residual_risk_count"),
		[]field{maybe("pending_subjects", texts), maybe("failed_subjects", texts)})...)

	responseMeta = &shape{sort: sortObject, nullable: true, fields: all(
		maybeIn(noText, "provider request_model request_url response_id response_model response_object"),
		maybeIn(noCount, "first_token_ms duration_ms"))}

	lane       = word("Control Query Execute Generate")
	taskStatus = word("pending in_progress completed failed skipped cancelled")

	task = object(a("id", aText), a("content", aText), a("status", taskStatus),
		maybe("priority", word("high medium low")), maybe("tool", noText), maybe("dependencies", texts),
		maybe("success_criteria", noText))

	plan = object(a("goal", aText), a("steps", &shape{sort: sortList, of: task}),
		a("complexity", word("Simple Medium Complex VeryComplex")),
		a("required_tools", texts), a("estimated_steps", aCount))

	goal = object(a("description", aText), a("success_criteria", texts), a("progress", aFloat),
		a("achieved", aFlag),
		a("created_at", anInt), a("achieved_at", noInt))
)

// eventTypes are the known types of events, with their members in the order of the schema.
var eventTypes = map[string][]field{
	"agent_start":        in(aText, "prompt"),
	"agent_mode_changed": in(aText, "mode agent description"),
	"turn_start":         in(aCount, "turn"),
	"text_delta":         in(aText, "text"),
	"reasoning_delta":    in(aText, "text"),
	"tool_start":         in(aText, "id name"),
	"tool_input_delta":   in(aText, "delta"),
	"tool_end":           all(in(aText, "id name output"), in(aShort, "exit_code"), in(noFree, "metadata")),
	"tool_output_delta":  in(aText, "id name delta"),
	"turn_end":           {a("turn", aCount), a("usage", tokenUsage)},
	"agent_end": {
		a("text", aText), a("usage", tokenUsage), a("verification_summary", verification),
		a("meta", responseMeta),
	},
	"error":                 in(aText, "message"),
	"confirmation_required": all(in(aText, "tool_id tool_name"), in(free, "args"), in(aCount, "timeout_ms")),
	"confirmation_received": {a("tool_id", aText), a("approved", aFlag), a("reason", noText)},
	"confirmation_timeout":  in(aText, "tool_id action_taken"),
	"external_task_pending": {
		a("task_id", aText), a("session_id", aText), a("lane", lane),
		a("command_type", aText), a("payload", free), a("timeout_ms", aCount),
	},
	"external_task_completed": all(in(aText, "task_id session_id"), in(aFlag, "success")),
	"permission_denied":       {a("tool_id", aText), a("tool_name", aText), a("args", free), a("reason", aText)},
	"context_resolving":       in(texts, "providers"),
	"context_resolved":        in(aCount, "total_items total_tokens"),
	"command_dead_lettered":   all(in(aText, "command_id command_type lane error"), in(u32, "attempts")),
	"command_retry": all(in(aText, "command_id command_type lane"), in(u32, "attempt"),
		in(aCount, "delay_ms")),
	"queue_alert":  in(aText, "level alert_type message"),
	"task_updated": {a("session_id", aText), a("tasks", &shape{sort: sortList, of: task})},
	"memory_stored": {
		a("memory_id", aText), a("memory_type", aText), a("importance", aFloat),
		a("tags", texts),
	},
	"memory_recalled":   {a("memory_id", aText), a("content", aText), a("relevance", aFloat)},
	"memories_searched": {a("query", noText), a("tags", texts), a("result_count", aCount)},
	"memory_cleared":    {a("tier", aText), a("count", aCount)},
	"subagent_start":    in(aText, "task_id session_id parent_session_id agent description"),
	"subagent_progress": all(in(aText, "task_id session_id status"), in(free, "metadata")),
	"subagent_end":      all(in(aText, "task_id session_id agent output"), in(aFlag, "success")),
	"planning_start":    in(aText, "prompt"),
	"planning_end":      {a("plan", plan), a("estimated_steps", aCount)},
	"step_start":        all(in(aText, "step_id description"), in(aCount, "step_number total_steps")),
	"step_end": {
		a("step_id", aText), a("status", taskStatus), a("step_number", aCount),
		a("total_steps", aCount),
	},
	"goal_extracted": {a("goal", goal)},
	"goal_progress": {
		a("goal", aText), a("progress", aFloat), a("completed_steps", aCount),
		a("total_steps", aCount),
	},
	"goal_achieved": {a("goal", aText), a("total_steps", aCount), a("duration_ms", anInt)},
	"context_compacted": {
		a("session_id", aText), a("before_messages", aCount),
		a("after_messages", aCount), a("percent_before", aFloat),
	},
	"persistence_failed": in(aText, "session_id operation error"),
	"btw_answer":         {a("question", aText), a("answer", aText), a("usage", tokenUsage)},
}

// read says why the original does not read a value of this shape; "" if it does. The value is one
// that a scanner has accepted.
func (sh *shape) read(text []byte) string {
	c := text[0]
	if sh.nullable && c == 'n' {
		return ""
	}
	switch sh.sort {
	case sortText:
		if c != '"' {
			return wrongType(text, "a string")
		}
	case sortFlag:
		if c != 't' && c != 'f' {
			return wrongType(text, "a boolean")
		}
	case sortWord:
		_, reason := sh.readWord(text)
		return reason
	case sortCount, sortInt, sortShort, sortU32, sortFloat:
		return sh.readNumber(text)
	case sortList:
		if c != '[' {
			return wrongType(text, "a sequence")
		}
		return sh.readList(text)
	case sortObject:
		if c != '{' && c != '[' {
			return wrongType(text, "a struct")
		}
		m, reason := spanMembers(serdejson.NewScanner(text), true)
		if reason == "" {
			reason = m.check(sh.fields)
		}
		return reason
	}
	return ""
}

func (sh *shape) readWord(text []byte) (got, reason string) {
	switch text[0] {
	case '"':
		got = serdejson.Unquote(text)
	case '{':
		m, _ := spanMembers(serdejson.NewScanner(text), false)
		if len(m.keys) != 1 || !sh.contents(m.values[0]) {
			return "", wrongType(text, "a string")
		}
		got = serdejson.Unquote(m.keys[0])
	default:
		return "", wrongType(text, "a string")
	}
	if slices.Contains(sh.words, got) {
		return got, ""
	}
	return "", fmt.Sprintf("unknown variant `%s`, expected %s", got, serdejson.OneOf(sh.words))
}

// contents reports whether a word that is the name in an object can have this value.
func (sh *shape) contents(text []byte) bool {
	if text[0] == '{' && sh.empty {
		m, _ := spanMembers(serdejson.NewScanner(text), false)
		return len(m.keys) == 0
	}
	return text[0] == 'n'
}

func (sh *shape) readNumber(text []byte) string {
	name := [...]string{
		sortCount: "usize", sortInt: "i64", sortShort: "i32", sortU32: "u32",
		sortFloat: "f32",
	}[sh.sort]
	if !serdejson.IsNumber(text) {
		return wrongType(text, name)
	}
	n := serdejson.ParseNumber(text)
	if sh.sort == sortFloat {
		return ""
	}
	if n.Kind == 'f' {
		return wrongType(text, name)
	}
	fits := false
	switch sh.sort {
	case sortCount:
		fits = n.Kind == 'u'
	case sortU32:
		fits = n.Kind == 'u' && n.Uint <= math.MaxUint32
	case sortInt:
		fits = n.Kind == 'i' || n.Uint <= math.MaxInt64
	case sortShort:
		fits = n.Kind == 'i' && n.Int >= math.MinInt32 || n.Kind == 'u' && n.Uint <= math.MaxInt32
	}
	if !fits {
		return "invalid value: " + serdejson.Unexpected(text) + ", expected " + name
	}
	return ""
}

func (sh *shape) readList(text []byte) string {
	s := serdejson.NewScanner(text)
	s.Peek()
	s.Enter()
	for first := true; ; first = false {
		more, _ := s.NextElement(first)
		if !more {
			return ""
		}
		element, _ := s.Value()
		if reason := sh.of.read(element); reason != "" {
			return reason
		}
	}
}

func wrongType(text []byte, expected string) string {
	return "invalid type: " + serdejson.Unexpected(text) + ", expected " + expected
}
