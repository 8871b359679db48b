package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

var agentStatuses = []string{"active", "abandoned", "complete", "merged"}

// agentMembers are the members of an entry, of its usage_summary and of one of its context_queries.
var agentMembers, usageMembers, queryMembers = strings.Fields(`
	session_id client_instance_id native_actor_key native_parent_actor_key native_instance_key heddle_session_id
	thread_id thread pid boot_id liveness_path heartbeat_at anchor_state anchor_root reservation_token path
	base_state started_at provider model harness thinking_level usage_summary last_progress_at report_flush_state
	attach_reason attach_precedence winning_attach_rule probe_source probe_confidence status completed_at
	context_queries`),
	strings.Fields("input_tokens output_tokens reasoning_tokens tool_calls cost_micros_usd"),
	strings.Fields("path scope queried_at")

// The longest ids: the original's must fit into the name of a temporary file, which has the number
// of its process in it, so that the last few bytes differ from run to run; ours is db.MaxID (rule
// 16).
const (
	longestFileID = 216
	longestID     = 1024
	nameTooLong   = "io error: File name too long (os error 36)"
)

func sessionOf(e map[string]any) string {
	id, _ := e["session_id"].(string)
	return id
}

func checkAgentID(id string) error {
	if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("configuration error: invalid session ID '%s': only lowercase alphanumeric and "+
			"hyphens allowed", id)
	}
	return nil
}

func (m *Agents) checkLength(id string) error {
	longest := longestFileID
	if m.Ours {
		longest = longestID
	}
	if len(id) > longest {
		return fmt.Errorf("%s", nameTooLong)
	}
	return nil
}

// normal returns an entry as the original reads it: without members that it does not know, and with
// its defaults.
func normal(e map[string]any) map[string]any {
	if e == nil {
		return nil
	}
	e = known(e, agentMembers)
	for name, empty := range map[string]any{
		"usage_summary": map[string]any{}, "attach_precedence": []any{},
		"context_queries": []any{},
	} {
		if e[name] == nil {
			e[name] = empty
		}
	}
	if usage, ok := e["usage_summary"].(map[string]any); ok {
		e["usage_summary"] = known(usage, usageMembers)
	}
	if queries, ok := e["context_queries"].([]any); ok {
		queries = slices.Clone(queries)
		for i := range queries {
			if query, ok := queries[i].(map[string]any); ok {
				queries[i] = known(query, queryMembers)
			}
		}
		e["context_queries"] = queries
	}
	if n, ok := e["probe_confidence"].(json.Number); ok {
		wide, _ := n.Float64()
		if math.IsInf(float64(float32(wide)), 0) { // JSON has no word for it
			delete(e, "probe_confidence")
		} else {
			e["probe_confidence"] = json.Number(strconv.FormatFloat(float64(float32(wide)), 'g', -1, 32))
		}
	}
	return e
}

// known is a copy of an object with the members of these names that are not null.
func known(object map[string]any, names []string) map[string]any {
	object = maps.Clone(object)
	maps.DeleteFunc(object, func(name string, v any) bool { return v == nil || !slices.Contains(names, name) })
	return object
}

func set(e, members map[string]any) {
	maps.Copy(e, members)
}
