package replay

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"selvedge/internal/serdejson"
)

// liveEvents are the events of the original of the live runs: members in its order, each with its
// type. Types: s text, b flag, u, u32, i32 and i64 integers, f a float of 32 bits, j free JSON, a
// name of liveTypes; * before it makes a list of it, ? an optional one that is written as null, -
// one that is not written, ~ one that is not written (nor is an empty ~* list) and may be left
// out at the end of an array that represents the object.
var liveEvents = map[string]string{
	"agent_start": "prompt s", "agent_mode_changed": "mode s agent s description s", "turn_start": "turn u",
	"text_delta": "text s", "reasoning_delta": "text s", "tool_start": "id s name s",
	"tool_input_delta": "delta s",
	"tool_end":         "id s name s output s exit_code i32 metadata -j", "tool_output_delta": "id s name s " +
		"delta s",
	"turn_end": "turn u usage usage", "agent_end": "text s usage usage verification_summary verification " +
		"meta -meta",
	"error": "message s", "confirmation_required": "tool_id s tool_name s args j timeout_ms u",
	"confirmation_received":   "tool_id s approved b reason ?s",
	"confirmation_timeout":    "tool_id s action_taken s",
	"external_task_pending":   "task_id s session_id s lane lane command_type s payload j timeout_ms u",
	"external_task_completed": "task_id s session_id s success b",
	"permission_denied":       "tool_id s tool_name s args j reason s",
	"context_resolving":       "providers *s", "context_resolved": "total_items u total_tokens u",
	"command_dead_lettered": "command_id s command_type s lane s error s attempts u32",
	"command_retry":         "command_id s command_type s lane s attempt u32 delay_ms u",
	"queue_alert":           "level s alert_type s message s",
	"task_updated":          "session_id s tasks *task",
	"memory_stored":         "memory_id s memory_type s importance f tags *s",
	"memory_recalled":       "memory_id s content s relevance f",
	"memories_searched":     "query ?s tags *s result_count u",
	"memory_cleared":        "tier s count u", "subagent_start": "task_id s session_id s parent_session_id s " +
		"agent " +
		"s description s",
	"subagent_progress": "task_id s session_id s status s metadata j",
	"subagent_end":      "task_id s session_id s agent s output s success b",
	"planning_start":    "prompt s", "planning_end": "plan plan estimated_steps u",
	"step_start":     "step_id s description s step_number u total_steps u",
	"step_end":       "step_id s status status step_number u total_steps u",
	"goal_extracted": "goal goal", "goal_progress": "goal s progress f completed_steps u total_steps u",
	"goal_achieved":      "goal s total_steps u duration_ms i64",
	"context_compacted":  "session_id s before_messages u after_messages u percent_before f",
	"persistence_failed": "session_id s operation s error s", "btw_answer": "question s answer s usage usage",
}

const liveOptional = "?-~"

var liveTypes = map[string]string{
	"usage": "prompt_tokens u completion_tokens u total_tokens u cache_read_tokens ?u cache_write_tokens ?u",
	"verification": "status verdict report_count u required_check_count u pending_required_check_count u " +
		"failed_check_count u " +
		"residual_risk_count u pending_subjects ~*s failed_subjects ~*s",
	"meta": "provider ~s request_model ~s request_url ~s response_id ~s response_model ~s " +
		"response_object ~s first_token_ms ~u duration_ms ~u",
	"task": "id s content s status status priority priority tool ~s dependencies ~*s success_criteria ~s",
	"plan": "goal s steps *task complexity complexity required_tools *s estimated_steps u",
	"goal": "description s success_criteria *s progress f achieved b created_at i64 achieved_at ?i64",
	"snapshot": "id s session_id s status run_status prompt s created_at_ms u updated_at_ms u result_text -s " +
		"error -s event_count u",
	"event": "sequence u timestamp_ms u event j",
}

var liveWords = map[string]string{
	"lane": "Control Query Execute Generate", "status": "pending in_progress completed failed skipped cancelled",
	"verdict": "passed failed needs_review skipped", "priority": "high medium low",
	"complexity": "Simple Medium Complex VeryComplex",
	"run_status": "created planning executing verifying completed failed cancelled",
}

// LiveEvent returns an event as the original holds it: unknown members gone, defaults filled in.
// known is false for a type that it doesn't have; the error is about an event that it does not
// read.
func LiveEvent(value any) (event map[string]any, known bool, err error) {
	var kind string
	switch v := value.(type) {
	case map[string]any:
		text, ok := v["type"].(string)
		if !ok {
			return nil, false, fmt.Errorf("the event has no type")
		}
		kind = text
	case []any:
		if len(v) > 0 {
			kind, _ = v[0].(string)
			value = v[1:]
		}
	default:
		return nil, false, fmt.Errorf("the event is no object")
	}
	spec, known := liveEvents[kind]
	if !known {
		return nil, false, fmt.Errorf("the type %q is unknown", kind)
	}
	if event, err = liveObject(spec, value); err == nil {
		event["type"] = kind
	}
	return event, true, err
}

func liveObject(spec string, value any) (map[string]any, error) {
	members, isObject := value.(map[string]any)
	elements, isArray := value.([]any)
	if !isObject && !isArray {
		return nil, fmt.Errorf("%v is no object", value)
	}
	out := map[string]any{}
	fields := strings.Fields(spec)
	for i := 0; i < len(fields); i += 2 {
		name, as := fields[i], fields[i+1]
		member, there := members[name]
		if isArray {
			if there = i/2 < len(elements); there {
				member = elements[i/2]
			}
		}
		list := strings.HasPrefix(as, "~*")
		switch optional := strings.ContainsRune(liveOptional, rune(as[0])) && !list; {
		case !there && as == "priority":
			member = "medium"
		case !there && (as[0] == '~' || optional && isObject), there && member == nil && optional:
			if as[0] == '?' {
				out[name] = nil
			}
			continue
		case !there:
			return nil, fmt.Errorf("%s is missing", name)
		}
		read, err := liveValue(strings.TrimLeft(as, liveOptional), member)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if elements, _ := read.([]any); list && len(elements) == 0 {
			continue
		}
		out[name] = read
	}
	if isArray && len(elements) > len(fields)/2 {
		return nil, fmt.Errorf("there are too many elements")
	}
	return out, nil
}

func liveValue(as string, value any) (any, error) {
	wrong := fmt.Errorf("%v is no %s", value, as)
	if of, ok := strings.CutPrefix(as, "*"); ok {
		list, ok := value.([]any)
		if !ok {
			return nil, wrong
		}
		out := make([]any, len(list))
		for i := range list {
			var err error
			if out[i], err = liveValue(of, list[i]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if spec, ok := liveTypes[as]; ok {
		return liveObject(spec, value)
	}
	if words, ok := liveWords[as]; ok {
		text, ok := value.(string)
		// a variant with its contents, if it has any
		if object, _ := value.(map[string]any); len(object) == 1 {
			for name, contents := range object {
				empty, isObject := contents.(map[string]any)
				text, ok = name, contents == nil || isObject && len(empty) == 0 && as != "run_status"
			}
		}
		if !ok || !slices.Contains(strings.Fields(words), text) {
			return nil, wrong
		}
		return text, nil
	}
	var ok bool
	switch as {
	case "j":
		return liveFree(value), nil
	case "s":
		_, ok = value.(string)
	case "b":
		_, ok = value.(bool)
	case "f":
		number, isNumber := value.(json.Number)
		if !isNumber {
			return nil, wrong
		}
		return liveShort(number), nil
	default:
		ok = liveInteger(as, value)
	}
	if !ok {
		return nil, wrong
	}
	return value, nil
}

// liveInteger reports whether the value is written as an integer and fits.
func liveInteger(as string, value any) bool {
	number, _ := value.(json.Number)
	n, ok := new(big.Int).SetString(string(number), 10)
	if !ok || number == "-0" { // which is a float
		return false
	}
	switch as {
	case "u":
		return n.IsUint64()
	case "u32":
		return n.IsUint64() && n.Uint64() <= 1<<32-1
	case "i64":
		return n.IsInt64()
	}
	return n.IsInt64() && n.Int64() == int64(int32(n.Int64()))
}

// LiveEventText writes an event that LiveEvent has read as the original does: compact, members in
// its own order.
func LiveEventText(event map[string]any) []byte {
	kind := event["type"].(string)
	text := liveMembers(append(append([]byte(`{"type":"`), kind...), '"'), liveEvents[kind], event, false)
	return append(text, '}')
}

// liveMembers writes the members of an object that has none yet (first), or goes on with it.
func liveMembers(dst []byte, spec string, object map[string]any, first bool) []byte {
	fields := strings.Fields(spec)
	for i := 0; i < len(fields); i += 2 {
		value, there := object[fields[i]]
		if !there {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), fields[i]...), `":`...)
		dst = liveText(dst, strings.TrimLeft(fields[i+1], liveOptional), value)
	}
	return dst
}

func liveText(dst []byte, as string, value any) []byte {
	if of, ok := strings.CutPrefix(as, "*"); ok {
		dst = append(dst, '[')
		for i, element := range value.([]any) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = liveText(dst, of, element)
		}
		return append(dst, ']')
	}
	if spec, ok := liveTypes[as]; ok && value != nil {
		return append(liveMembers(append(dst, '{'), spec, value.(map[string]any), true), '}')
	}
	if number, ok := value.(json.Number); ok && as == "f" {
		return append(dst, number...)
	}
	dst, _ = serdejson.AppendCanonical(dst, Encode(value))
	return dst
}
