package live

import (
	"cmp"
	"strings"
	"sync"
)

// The JSON of records and events, as the Rust types that serde reads them into. A line is a type
// and its members in order; a line that begins with a tab continues the one before. A member is
// NAME:TYPE, or NAME~TYPE where the type has a default. TYPE? is an Option, TYPE[] a Vec, and (a|b)
// an enum of words.

// objectTypes are the records and what events have in them.
var objectTypes = sync.OnceValue(func() map[string]*shape {
	return parseTypes(nil, `
snapshot     id,session_id:text status:status prompt:text created_at_ms,updated_at_ms:usize
	result_text,error:text? event_count:usize
event_record sequence,timestamp_ms:usize event:any
record       snapshot:snapshot events:event_record[]
usage         prompt_tokens,completion_tokens,total_tokens:usize cache_read_tokens,cache_write_tokens:usize?
verification  status:(passed|failed|needs_review|skipped) report_count,required_check_count:usize
	pending_required_check_count,failed_check_count,residual_risk_count:usize
	pending_subjects,failed_subjects~text[]
response_meta provider,request_model,request_url,response_id,response_model,response_object~text?
	first_token_ms,duration_ms~usize?
lane          (Control|Query|Execute|Generate)
task_status   (pending|in_progress|completed|failed|skipped|cancelled)
task          id,content:text status:task_status priority~(high|medium|low) tool~text? dependencies~text[]
	success_criteria~text?
plan          goal:text steps:task[] complexity:(Simple|Medium|Complex|VeryComplex) required_tools:text[]
	estimated_steps:usize
goal          description:text success_criteria:text[] progress:f32 achieved:flag created_at:i64
	achieved_at:i64?
`)
})

// eventTypes are the known types of events.
var eventTypes = sync.OnceValue(func() map[string]*shape {
	return parseTypes(objectTypes(), `
agent_start             prompt:text
agent_mode_changed      mode,agent,description:text
turn_start              turn:usize
text_delta              text:text
reasoning_delta         text:text
tool_start              id,name:text
tool_input_delta        delta:text
tool_end                id,name,output:text exit_code:i32 metadata:any?
tool_output_delta       id,name,delta:text
turn_end                turn:usize usage:usage
agent_end               text:text usage:usage verification_summary:verification meta:response_meta?
error                   message:text
confirmation_required   tool_id,tool_name:text args:any timeout_ms:usize
confirmation_received   tool_id:text approved:flag reason:text?
confirmation_timeout    tool_id,action_taken:text
external_task_pending   task_id,session_id:text lane:lane command_type:text payload:any timeout_ms:usize
external_task_completed task_id,session_id:text success:flag
permission_denied       tool_id,tool_name:text args:any reason:text
context_resolving       providers:text[]
context_resolved        total_items,total_tokens:usize
command_dead_lettered   command_id,command_type,lane,error:text attempts:u32
command_retry           command_id,command_type,lane:text attempt:u32 delay_ms:usize
queue_alert             level,alert_type,message:text
task_updated            session_id:text tasks:task[]
memory_stored           memory_id,memory_type:text importance:f32 tags:text[]
memory_recalled         memory_id,content:text relevance:f32
memories_searched       query:text? tags:text[] result_count:usize
memory_cleared          tier:text count:usize
subagent_start          task_id,session_id,parent_session_id,agent,description:text
subagent_progress       task_id,session_id,status:text metadata:any
subagent_end            task_id,session_id,agent,output:text success:flag
planning_start          prompt:text
planning_end            plan:plan estimated_steps:usize
step_start              step_id,description:text step_number,total_steps:usize
step_end                step_id:text status:task_status step_number,total_steps:usize
goal_extracted          goal:goal
goal_progress           goal:text progress:f32 completed_steps,total_steps:usize
goal_achieved           goal:text total_steps:usize duration_ms:i64
context_compacted       session_id:text before_messages,after_messages:usize percent_before:f32
persistence_failed      session_id,operation,error:text
btw_answer              question,answer:text usage:usage
`)
})

// parseTypes reads the types of a text, which may use known ones.
func parseTypes(known map[string]*shape, text string) map[string]*shape {
	types := map[string]*shape{}
	find := func(name string) *shape { return cmp.Or(types[name], known[name], basicTypes[name]) }
	for line := range strings.Lines(strings.ReplaceAll(text, "\n\t", " ")) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		s := &shape{sort: sortObject}
		for _, member := range words[1:] {
			at := strings.IndexAny(member, ":~")
			if at < 0 {
				s = parseShape(find, member)
				break
			}
			of := parseShape(find, member[at+1:])
			for name := range strings.SplitSeq(member[:at], ",") {
				s.fields = append(s.fields, field{name, of, of.nullable || member[at] == '~', member[at] == '~'})
			}
		}
		types[words[0]] = s
	}
	return types
}

func parseShape(find func(name string) *shape, text string) *shape {
	if name, ok := strings.CutSuffix(text, "?"); ok {
		s := *parseShape(find, name)
		s.nullable = true
		return &s
	}
	if name, ok := strings.CutSuffix(text, "[]"); ok {
		return &shape{sort: sortList, of: parseShape(find, name)}
	}
	if text[0] == '(' {
		return &shape{sort: sortWord, words: strings.Split(text[1:len(text)-1], "|"), empty: true}
	}
	return find(text)
}
