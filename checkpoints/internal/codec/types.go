package codec

import (
	"slices"
	"strings"
	"sync"
)

// types are the types of the original's document (car-workflow 0.27.0), which decide what can be
// read. Later versions add stage kinds and result kinds; a document with one of those is kept, and
// is ErrCorrupt, as for the version that we follow.
//
// A paragraph is a struct or an enum, named as error texts call it; its last word is its name here.
// A struct has members, "NAME... TYPE", separated by semicolons. Most are required. A mark after
// the type defines what an absent one stands for:
//
//	= JSON  this value
//	~ JSON  this value, and the original leaves the member out when it has it
//	@ JSON  this value, but a list that stands for the struct must have the member all the same
//	!       what the original makes up at each load: an id, or the time
//
// [T] is a list, T? a value or null, and a|b one of the words. The variants of an enum are structs.
const types = `
struct PausedWorkflow: run_id text; workflow Workflow; paused_stage_id prompt text; fields [ApprovalField];
	output_key text; wf_state map; stage_results [StageResult]; completed_stage_ids [text];
	iterations u32; prior_duration_ms f64 = 0.0; created_at time

struct Workflow: id name start text; goal text? ~ null; stages [Stage]; edges [Edge];
	max_iterations u32 = 100; metadata map = {}

struct Stage: id name text; step StageStep; compensation CompensationHandler? ~ null;
	timeout_ms u64? ~ null; metadata map = {}

struct Edge: from to text; conditions [Precondition] = []; label text = ""

struct Precondition: key text; operator text = "eq"; value any = null; description text = ""

struct ApprovalField: name text; label text = ""; field_type text = "text"; options [text] ~ [];
	required bool = false

internally tagged enum StageStep: pattern PatternStep; proposal ProposalStep; sub_workflow SubWorkflowStep;
	approval ApprovalStep; loop_until LoopUntilStep; for_each ForEachStep; dedup DedupStep

struct PatternStep: pattern swarm_parallel|swarm_sequential|swarm_debate|pipeline|supervisor|delegator|
	map_reduce|vote|fleet|adversarial_review|tournament; task text; agents [AgentSpec]; config map = {}

struct AgentSpec: name system_prompt text; tools [text]; max_turns u32; metadata map;
	cache_control bool = false

struct ProposalStep: proposal ActionProposal

struct SubWorkflowStep: workflow Workflow

struct ApprovalStep: prompt text; fields [ApprovalField] = []; output_key text

struct LoopUntilStep: body StageStep; until [Precondition] = []; max_iterations u32

struct ForEachStep: items_from text; body StageStep; max_concurrent usize = 0

struct DedupStep: items_from into store text; hash_fields [text] ~ []; ttl_secs u64? ~ null

internally tagged enum CompensationHandler: proposal ProposalStep; stage_ref CompensationHandler::StageRef

struct variant CompensationHandler::StageRef: stage_id text

struct ActionProposal: id text !; source text = "unknown"; actions [Action]; timestamp time !;
	context map = {}

struct Action: id text !; type tool_call|state_write|state_read|assertion; tool text? ~ null;
	parameters map = {}; preconditions [Precondition] = []; expected_effects map = {};
	state_dependencies read_set write_set [text] = []; assumptions [StateAssumption] = [];
	idempotent bool = false; max_retries u32 = 3; failure_behavior abort|retry|skip = "abort";
	timeout_ms u64? ~ null; metadata map = {}

struct StateAssumption: key text; expected_value any? ~ null; read_version u64? ~ null

struct StageResult: stage_id stage_name text; status succeeded|failed|skipped|compensated;
	output StageOutput; duration_ms f64; error text? ~ null

internally tagged enum StageOutput: pattern StageOutput::Pattern; proposal StageOutput::Proposal;
	sub_workflow StageOutput::SubWorkflow; approval StageOutput::Approval; review StageOutput::Review;
	loop StageOutput::Loop; for_each StageOutput::ForEach; dedup StageOutput::Dedup; empty StageOutput::Empty

struct variant StageOutput::Pattern: outputs [AgentOutput]; final_answer text

struct variant StageOutput::Proposal: result ProposalResult

struct variant StageOutput::SubWorkflow: result WorkflowResult

struct variant StageOutput::Approval: response any

struct variant StageOutput::Review: passed bool; blocker_count usize; findings [ReviewFinding];
	reviewer AgentOutput; inconclusive bool = false

struct variant StageOutput::Loop: iterations u32; satisfied bool; iterations_output [StageOutput]

struct variant StageOutput::ForEach: items [text]; outputs [StageOutput]

struct variant StageOutput::Dedup: total unseen usize

unit variant StageOutput::Empty

struct ReviewFinding: criterion text; passed bool; evidence severity text

struct AgentOutput: name answer text; turns tool_calls u32; duration_ms f64; error text? @ null;
	outcome AgentOutcome? ~ null; tokens TokenAccounting? ~ null; tools_used [text] ~ []

struct AgentOutcome: status success|partial_success|give_up|timeout|failure|done; summary text = "";
	evidence [Evidence] = [];
	metrics OutcomeMetrics = {"actions_failed":0,"actions_succeeded":0,"duration_ms":0.0,"retries":0,
	"tool_calls":0,"turns":0}; timestamp time !

struct Evidence: kind self_assessment|tool_result|state_change|external_verification|stop_reason|evaluator;
	description text; data any? @ null

struct OutcomeMetrics: turns tool_calls u32 = 0; duration_ms f64 = 0.0;
	retries actions_succeeded actions_failed u32 = 0

struct TokenAccounting: input_tokens output_tokens u64 = 0; cost_usd f64 = 0.0

struct ProposalResult: proposal_id text; results [ActionResult] = [];
	cost CostSummary = {"actions_executed":0,"actions_skipped":0,"retries":0,"tool_calls":0,
	"total_duration_ms":0.0}

struct ActionResult: action_id text; status proposed|validated|rejected|executing|succeeded|failed|skipped;
	output any? ~ null; error text? ~ null; state_changes map = {}; duration_ms f64? ~ null; timestamp time !

struct CostSummary: tool_calls actions_executed actions_skipped u32; total_duration_ms f64; retries u32

struct WorkflowResult: workflow_id workflow_name text;
	status completed|failed|compensated|partially_compensated|paused; stages [StageResult];
	compensations [CompensationResult]; duration_ms f64; timestamp time; final_state map = {};
	paused PausedWorkflow? ~ null

struct CompensationResult: for_stage_id text; status succeeded|failed|skipped|compensated; duration_ms f64;
	error text? ~ null
`

const marks = "=~@!" // after a type

// parsed has the types by name. It parses them at the first use: a program that imports the store
// pays nothing before main.
var parsed = sync.OnceValue(parseTypes)

// A structure is a struct of the original, or an enum with the variant in a member "type" beside
// the variant's own members.
type structure struct {
	name     string   // as error texts call it
	names    []string // of the members, in order of declaration, as in an array; or of the variants
	fields   []field  // of a struct
	variants []*structure
}

// A field is a member of a struct.
type field struct {
	of      shape
	mark    string // see types; "" if the member is required
	missing string // the JSON that an absent one stands for
}

func parseTypes() map[string]*structure {
	named, bodies := map[string]*structure{}, map[*structure]string{}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(types), "\n\n") {
		name, body, _ := strings.Cut(strings.ReplaceAll(paragraph, "\n\t", ""), ": ")
		st := &structure{name: name}
		named[name[strings.LastIndexByte(name, ' ')+1:]], bodies[st] = st, body
	}
	for st, body := range bodies {
		for member := range strings.SplitSeq(body, ";") {
			words := strings.Fields(member)
			mark := slices.IndexFunc(words, func(w string) bool { return strings.Contains(marks, w) })
			var f field
			if mark >= 0 {
				f.mark, f.missing = words[mark], strings.Join(words[mark+1:], "")
				words = words[:mark]
			}
			for _, name := range words[:max(len(words)-1, 0)] {
				of := words[len(words)-1]
				f.of = shapeOf(named, of)
				st.names = append(st.names, name)
				st.fields = append(st.fields, f)
				if strings.HasPrefix(st.name, "internally") {
					st.variants = append(st.variants, named[of])
				}
			}
		}
	}
	return named
}

// shapeOf is the shape of a type.
func shapeOf(named map[string]*structure, name string) shape {
	of, isList := strings.CutPrefix(name, "[")
	switch {
	case isList:
		return list(shapeOf(named, strings.TrimSuffix(of, "]")))
	case strings.HasSuffix(name, "?"):
		return optional(shapeOf(named, strings.TrimSuffix(name, "?")))
	case strings.Contains(name, "|"):
		return word(strings.Split(name, "|"))
	case named[name] != nil:
		return named[name].read
	}
	return scalars[name]
}
