package codec

import "slices"

// The types of the original's document (car-workflow 0.27.0), which decide what can be read. Later
// versions add stage kinds and result kinds; a document with one of those is kept, and answered
// with ErrCorrupt as by the version we follow.

var pausedWorkflow = documentTypes()

// emptyList and its like are what the original takes for an absent member.
const (
	null      = "null"
	emptyText = `""`
	emptyList = "[]"
	emptyMap  = "{}"
	no        = "false"
	zero      = "0"
	zeroFloat = "0.0"
)

func documentTypes() *structure {
	workflow, stage, result := &structure{name: "struct Workflow"}, &structure{name: "struct Stage"},
		&structure{name: "struct StageResult"}
	approvalField := define("struct ApprovalField",
		field{name: "name", of: text},
		field{name: "label", of: text, missing: emptyText},
		field{name: "field_type", of: text, missing: `"text"`},
		field{name: "options", of: list(text), missing: emptyList, dropped: emptyList},
		field{name: "required", of: boolean, missing: no},
	)
	precondition := define("struct Precondition",
		field{name: "key", of: text},
		field{name: "operator", of: text, missing: `"eq"`},
		field{name: "value", of: anything, missing: null},
		field{name: "description", of: text, missing: emptyText},
	)
	proposal := proposalTypes(precondition)
	step := stepTypes(workflow, proposal, precondition, approvalField)
	compensation := &tagged{
		name: "CompensationHandler", words: []string{"proposal", "stage_ref"},
		variants: []*structure{
			define("struct ProposalStep", field{name: "proposal", of: proposal.read}),
			define("struct variant CompensationHandler::StageRef", field{name: "stage_id", of: text}),
		},
	}
	stage.define(
		field{name: "id", of: text},
		field{name: "name", of: text},
		field{name: "step", of: step.read},
		field{name: "compensation", of: optional(compensation.read), missing: null, dropped: null},
		field{name: "timeout_ms", of: optional(u64), missing: null, dropped: null},
		field{name: "metadata", of: anyMap, missing: emptyMap},
	)
	edge := define("struct Edge",
		field{name: "from", of: text},
		field{name: "to", of: text},
		field{name: "conditions", of: list(precondition.read), missing: emptyList},
		field{name: "label", of: text, missing: emptyText},
	)
	workflow.define(
		field{name: "id", of: text},
		field{name: "name", of: text},
		field{name: "start", of: text},
		field{name: "goal", of: optional(text), missing: null, dropped: null},
		field{name: "stages", of: list(stage.read)},
		field{name: "edges", of: list(edge.read)},
		field{name: "max_iterations", of: u32, missing: "100"},
		field{name: "metadata", of: anyMap, missing: emptyMap},
	)
	paused := &structure{name: "struct PausedWorkflow"}
	output := outputTypes(paused, result)
	result.define(
		field{name: "stage_id", of: text},
		field{name: "stage_name", of: text},
		field{name: "status", of: stageStatus},
		field{name: "output", of: output.read},
		field{name: "duration_ms", of: float},
		field{name: "error", of: optional(text), missing: null, dropped: null},
	)
	paused.define(
		field{name: "run_id", of: text},
		field{name: "workflow", of: workflow.read},
		field{name: "paused_stage_id", of: text},
		field{name: "prompt", of: text},
		field{name: "fields", of: list(approvalField.read)},
		field{name: "output_key", of: text},
		field{name: "wf_state", of: anyMap},
		field{name: "stage_results", of: list(result.read)},
		field{name: "completed_stage_ids", of: list(text)},
		field{name: "iterations", of: u32},
		field{name: "prior_duration_ms", of: float, missing: zeroFloat},
		field{name: "created_at", of: instant},
	)
	return paused
}

var stageStatus = word("succeeded", "failed", "skipped", "compensated")

func define(name string, fields ...field) *structure {
	st := &structure{name: name}
	st.define(fields...)
	return st
}

// define gives a structure its fields; those that contain each other are named before they are defined.
func (st *structure) define(fields ...field) {
	st.fields = fields
	for i := range fields {
		st.sorted = append(st.sorted, i)
	}
	slices.SortFunc(st.sorted, func(a, b int) int {
		if fields[a].name < fields[b].name {
			return -1
		}
		return 1
	})
}

// stepTypes are the kinds of a stage.
func stepTypes(workflow, proposal, precondition, approvalField *structure) *tagged {
	step := &tagged{
		name:  "StageStep",
		words: []string{"pattern", "proposal", "sub_workflow", "approval", "loop_until", "for_each", "dedup"},
	}
	agent := define("struct AgentSpec",
		field{name: "name", of: text},
		field{name: "system_prompt", of: text},
		field{name: "tools", of: list(text)},
		field{name: "max_turns", of: u32},
		field{name: "metadata", of: anyMap},
		field{name: "cache_control", of: boolean, missing: no},
	)
	pattern := word("swarm_parallel", "swarm_sequential", "swarm_debate", "pipeline", "supervisor", "delegator",
		"map_reduce",
		"vote", "fleet", "adversarial_review", "tournament")
	step.variants = []*structure{
		define("struct PatternStep",
			field{name: "pattern", of: pattern},
			field{name: "task", of: text},
			field{name: "agents", of: list(agent.read)},
			field{name: "config", of: anyMap, missing: emptyMap},
		),
		define("struct ProposalStep", field{name: "proposal", of: proposal.read}),
		define("struct SubWorkflowStep", field{name: "workflow", of: workflow.read}),
		define("struct ApprovalStep",
			field{name: "prompt", of: text},
			field{name: "fields", of: list(approvalField.read), missing: emptyList},
			field{name: "output_key", of: text},
		),
		define("struct LoopUntilStep",
			field{name: "body", of: step.read},
			field{name: "until", of: list(precondition.read), missing: emptyList},
			field{name: "max_iterations", of: u32},
		),
		define("struct ForEachStep",
			field{name: "items_from", of: text},
			field{name: "body", of: step.read},
			field{name: "max_concurrent", of: usize, missing: zero},
		),
		define("struct DedupStep",
			field{name: "items_from", of: text},
			field{name: "into", of: text},
			field{name: "store", of: text},
			field{name: "hash_fields", of: list(text), missing: emptyList, dropped: emptyList},
			field{name: "ttl_secs", of: optional(u64), missing: null, dropped: null},
		),
	}
	return step
}

// proposalTypes are the original's actions, as a stage proposes them.
func proposalTypes(precondition *structure) *structure {
	assumption := define("struct StateAssumption",
		field{name: "key", of: text},
		field{name: "expected_value", of: optional(anything), missing: null, dropped: null},
		field{name: "read_version", of: optional(u64), missing: null, dropped: null},
	)
	action := define("struct Action",
		field{name: "id", of: text, missing: madeUp},
		field{name: "type", of: word("tool_call", "state_write", "state_read", "assertion")},
		field{name: "tool", of: optional(text), missing: null, dropped: null},
		field{name: "parameters", of: anyMap, missing: emptyMap},
		field{name: "preconditions", of: list(precondition.read), missing: emptyList},
		field{name: "expected_effects", of: anyMap, missing: emptyMap},
		field{name: "state_dependencies", of: list(text), missing: emptyList},
		field{name: "read_set", of: list(text), missing: emptyList},
		field{name: "write_set", of: list(text), missing: emptyList},
		field{name: "assumptions", of: list(assumption.read), missing: emptyList},
		field{name: "idempotent", of: boolean, missing: no},
		field{name: "max_retries", of: u32, missing: "3"},
		field{name: "failure_behavior", of: word("abort", "retry", "skip"), missing: `"abort"`},
		field{name: "timeout_ms", of: optional(u64), missing: null, dropped: null},
		field{name: "metadata", of: anyMap, missing: emptyMap},
	)
	return define("struct ActionProposal",
		field{name: "id", of: text, missing: madeUp},
		field{name: "source", of: text, missing: `"unknown"`},
		field{name: "actions", of: list(action.read)},
		field{name: "timestamp", of: instant, missing: madeUp},
		field{name: "context", of: anyMap, missing: emptyMap},
	)
}

// outputTypes are the kinds of a stage's result.
func outputTypes(paused, stageResult *structure) *tagged {
	output := &tagged{
		name: "StageOutput",
		words: []string{
			"pattern", "proposal", "sub_workflow", "approval", "review", "loop", "for_each", "dedup",
			"empty",
		},
	}
	agent := agentOutput()
	finding := define("struct ReviewFinding",
		field{name: "criterion", of: text},
		field{name: "passed", of: boolean},
		field{name: "evidence", of: text},
		field{name: "severity", of: text},
	)
	output.variants = []*structure{
		define("struct variant StageOutput::Pattern",
			field{name: "outputs", of: list(agent.read)},
			field{name: "final_answer", of: text},
		),
		define("struct variant StageOutput::Proposal", field{name: "result", of: proposalResult().read}),
		define("struct variant StageOutput::SubWorkflow",
			field{name: "result", of: workflowResult(paused, stageResult).read}),
		define("struct variant StageOutput::Approval", field{name: "response", of: anything}),
		define("struct variant StageOutput::Review",
			field{name: "passed", of: boolean},
			field{name: "blocker_count", of: usize},
			field{name: "findings", of: list(finding.read)},
			field{name: "reviewer", of: agent.read},
			field{name: "inconclusive", of: boolean, missing: no},
		),
		define("struct variant StageOutput::Loop",
			field{name: "iterations", of: u32},
			field{name: "satisfied", of: boolean},
			field{name: "iterations_output", of: list(output.read)},
		),
		define("struct variant StageOutput::ForEach",
			field{name: "items", of: list(text)},
			field{name: "outputs", of: list(output.read)},
		),
		define("struct variant StageOutput::Dedup",
			field{name: "total", of: usize},
			field{name: "unseen", of: usize},
		),
		define("unit variant StageOutput::Empty"),
	}
	return output
}

func agentOutput() *structure {
	evidence := define("struct Evidence",
		field{name: "kind", of: word("self_assessment", "tool_result", "state_change", "external_verification",
			"stop_reason", "evaluator")},
		field{name: "description", of: text},
		field{name: "data", of: optional(anything), missing: null, inLists: true},
	)
	metrics := define("struct OutcomeMetrics",
		field{name: "turns", of: u32, missing: zero},
		field{name: "tool_calls", of: u32, missing: zero},
		field{name: "duration_ms", of: float, missing: zeroFloat},
		field{name: "retries", of: u32, missing: zero},
		field{name: "actions_succeeded", of: u32, missing: zero},
		field{name: "actions_failed", of: u32, missing: zero},
	)
	outcome := define("struct AgentOutcome",
		field{name: "status", of: word("success", "partial_success", "give_up", "timeout", "failure", "done")},
		field{name: "summary", of: text, missing: emptyText},
		field{name: "evidence", of: list(evidence.read), missing: emptyList},
		field{
			name: "metrics", of: metrics.read,
			missing: `{"actions_failed":0,"actions_succeeded":0,"duration_ms":0.0,"retries":0,"tool_calls":0,"turns":0}`,
		},
		field{name: "timestamp", of: instant, missing: madeUp},
	)
	tokens := define("struct TokenAccounting",
		field{name: "input_tokens", of: u64, missing: zero},
		field{name: "output_tokens", of: u64, missing: zero},
		field{name: "cost_usd", of: float, missing: zeroFloat},
	)
	return define("struct AgentOutput",
		field{name: "name", of: text},
		field{name: "answer", of: text},
		field{name: "turns", of: u32},
		field{name: "tool_calls", of: u32},
		field{name: "duration_ms", of: float},
		field{name: "error", of: optional(text), missing: null, inLists: true},
		field{name: "outcome", of: optional(outcome.read), missing: null, dropped: null},
		field{name: "tokens", of: optional(tokens.read), missing: null, dropped: null},
		field{name: "tools_used", of: list(text), missing: emptyList, dropped: emptyList},
	)
}

func proposalResult() *structure {
	action := define("struct ActionResult",
		field{name: "action_id", of: text},
		field{name: "status", of: word("proposed", "validated", "rejected", "executing", "succeeded", "failed",
			"skipped")},
		field{name: "output", of: optional(anything), missing: null, dropped: null},
		field{name: "error", of: optional(text), missing: null, dropped: null},
		field{name: "state_changes", of: anyMap, missing: emptyMap},
		field{name: "duration_ms", of: optional(float), missing: null, dropped: null},
		field{name: "timestamp", of: instant, missing: madeUp},
	)
	cost := define("struct CostSummary",
		field{name: "tool_calls", of: u32},
		field{name: "actions_executed", of: u32},
		field{name: "actions_skipped", of: u32},
		field{name: "total_duration_ms", of: float},
		field{name: "retries", of: u32},
	)
	return define("struct ProposalResult",
		field{name: "proposal_id", of: text},
		field{name: "results", of: list(action.read), missing: emptyList},
		field{name: "cost", of: cost.read, missing: `{"actions_executed":0,"actions_skipped":0,"retries":0,"tool_calls":0,"total_duration_ms":0.0}`},
	)
}

func workflowResult(paused, stageResult *structure) *structure {
	compensation := define("struct CompensationResult",
		field{name: "for_stage_id", of: text},
		field{name: "status", of: stageStatus},
		field{name: "duration_ms", of: float},
		field{name: "error", of: optional(text), missing: null, dropped: null},
	)
	return define("struct WorkflowResult",
		field{name: "workflow_id", of: text},
		field{name: "workflow_name", of: text},
		field{name: "status", of: word("completed", "failed", "compensated", "partially_compensated", "paused")},
		field{name: "stages", of: list(stageResult.read)},
		field{name: "compensations", of: list(compensation.read)},
		field{name: "duration_ms", of: float},
		field{name: "timestamp", of: instant},
		field{name: "final_state", of: anyMap, missing: emptyMap},
		field{name: "paused", of: optional(paused.read), missing: null, dropped: null},
	)
}
