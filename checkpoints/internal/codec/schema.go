package codec

import (
	"cmp"
	"slices"
)

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
	noMetrics = `{"actions_failed":0,"actions_succeeded":0,"duration_ms":0.0,"retries":0,` +
		`"tool_calls":0,"turns":0}`
	noCost = `{"actions_executed":0,"actions_skipped":0,"retries":0,"tool_calls":0,` +
		`"total_duration_ms":0.0}`
)

func documentTypes() *structure {
	workflow, stage, result := &structure{name: "struct Workflow"}, &structure{name: "struct Stage"},
		&structure{name: "struct StageResult"}
	approvalField := define("struct ApprovalField",
		needs(text, "name"),
		fills(text, emptyText, "label"),
		fills(text, `"text"`, "field_type"),
		drops(list(text), emptyList, "options"),
		fills(boolean, no, "required"),
	)
	precondition := define("struct Precondition",
		needs(text, "key"),
		fills(text, `"eq"`, "operator"),
		fills(anything, null, "value"),
		fills(text, emptyText, "description"),
	)
	proposal := proposalTypes(precondition)
	step := stepTypes(workflow, proposal, precondition, approvalField)
	compensation := &tagged{
		name: "CompensationHandler", words: []string{"proposal", "stage_ref"},
		variants: []*structure{
			define("struct ProposalStep", needs(proposal.read, "proposal")),
			define("struct variant CompensationHandler::StageRef", needs(text, "stage_id")),
		},
	}
	stage.define(
		needs(text, "id", "name"),
		needs(step.read, "step"),
		drops(optional(compensation.read), null, "compensation"),
		drops(optional(u64), null, "timeout_ms"),
		fills(anyMap, emptyMap, "metadata"),
	)
	edge := define("struct Edge",
		needs(text, "from", "to"),
		fills(list(precondition.read), emptyList, "conditions"),
		fills(text, emptyText, "label"),
	)
	workflow.define(
		needs(text, "id", "name", "start"),
		drops(optional(text), null, "goal"),
		needs(list(stage.read), "stages"),
		needs(list(edge.read), "edges"),
		fills(u32, "100", "max_iterations"),
		fills(anyMap, emptyMap, "metadata"),
	)
	paused := &structure{name: "struct PausedWorkflow"}
	output := outputTypes(paused, result)
	result.define(
		needs(text, "stage_id", "stage_name"),
		needs(stageStatus, "status"),
		needs(output.read, "output"),
		needs(float, "duration_ms"),
		drops(optional(text), null, "error"),
	)
	paused.define(
		needs(text, "run_id"),
		needs(workflow.read, "workflow"),
		needs(text, "paused_stage_id", "prompt"),
		needs(list(approvalField.read), "fields"),
		needs(text, "output_key"),
		needs(anyMap, "wf_state"),
		needs(list(result.read), "stage_results"),
		needs(list(text), "completed_stage_ids"),
		needs(u32, "iterations"),
		fills(float, zeroFloat, "prior_duration_ms"),
		needs(instant, "created_at"),
	)
	return paused
}

var stageStatus = word("succeeded", "failed", "skipped", "compensated")

func define(name string, groups ...[]field) *structure {
	st := &structure{name: name}
	st.define(groups...)
	return st
}

// define gives a structure its fields; those that contain each other are named before they are defined.
func (st *structure) define(groups ...[]field) {
	st.fields = slices.Concat(groups...)
	for i := range st.fields {
		st.sorted = append(st.sorted, i)
	}
	slices.SortFunc(st.sorted, func(a, b int) int { return cmp.Compare(st.fields[a].name, st.fields[b].name) })
}

// needs are members that must be there.
func needs(of shape, names ...string) []field { return fills(of, required, names...) }

// fills are members that stand for a default if they are absent.
func fills(of shape, missing string, names ...string) (fields []field) {
	for _, name := range names {
		fields = append(fields, field{name: name, of: of, missing: missing})
	}
	return fields
}

// drops are such members, which the original leaves out if they have the default.
func drops(of shape, missing string, names ...string) []field {
	fields := fills(of, missing, names...)
	for i := range fields {
		fields[i].dropped = missing
	}
	return fields
}

// inLists are members that a list which stands for the struct must have all the same.
func inLists(fields []field) []field {
	for i := range fields {
		fields[i].inLists = true
	}
	return fields
}

// stepTypes are the kinds of a stage.
func stepTypes(workflow, proposal, precondition, approvalField *structure) *tagged {
	step := &tagged{
		name:  "StageStep",
		words: []string{"pattern", "proposal", "sub_workflow", "approval", "loop_until", "for_each", "dedup"},
	}
	agent := define("struct AgentSpec",
		needs(text, "name", "system_prompt"),
		needs(list(text), "tools"),
		needs(u32, "max_turns"),
		needs(anyMap, "metadata"),
		fills(boolean, no, "cache_control"),
	)
	pattern := word("swarm_parallel", "swarm_sequential", "swarm_debate", "pipeline", "supervisor", "delegator",
		"map_reduce", "vote", "fleet", "adversarial_review", "tournament")
	step.variants = []*structure{
		define("struct PatternStep",
			needs(pattern, "pattern"),
			needs(text, "task"),
			needs(list(agent.read), "agents"),
			fills(anyMap, emptyMap, "config"),
		),
		define("struct ProposalStep", needs(proposal.read, "proposal")),
		define("struct SubWorkflowStep", needs(workflow.read, "workflow")),
		define("struct ApprovalStep",
			needs(text, "prompt"),
			fills(list(approvalField.read), emptyList, "fields"),
			needs(text, "output_key"),
		),
		define("struct LoopUntilStep",
			needs(step.read, "body"),
			fills(list(precondition.read), emptyList, "until"),
			needs(u32, "max_iterations"),
		),
		define("struct ForEachStep",
			needs(text, "items_from"), needs(step.read, "body"), fills(usize, zero, "max_concurrent")),
		define("struct DedupStep",
			needs(text, "items_from", "into", "store"),
			drops(list(text), emptyList, "hash_fields"),
			drops(optional(u64), null, "ttl_secs"),
		),
	}
	return step
}

// proposalTypes are the original's actions, as a stage proposes them.
func proposalTypes(precondition *structure) *structure {
	assumption := define("struct StateAssumption",
		needs(text, "key"),
		drops(optional(anything), null, "expected_value"),
		drops(optional(u64), null, "read_version"),
	)
	action := define("struct Action",
		fills(text, madeUp, "id"),
		needs(word("tool_call", "state_write", "state_read", "assertion"), "type"),
		drops(optional(text), null, "tool"),
		fills(anyMap, emptyMap, "parameters"),
		fills(list(precondition.read), emptyList, "preconditions"),
		fills(anyMap, emptyMap, "expected_effects"),
		fills(list(text), emptyList, "state_dependencies", "read_set", "write_set"),
		fills(list(assumption.read), emptyList, "assumptions"),
		fills(boolean, no, "idempotent"),
		fills(u32, "3", "max_retries"),
		fills(word("abort", "retry", "skip"), `"abort"`, "failure_behavior"),
		drops(optional(u64), null, "timeout_ms"),
		fills(anyMap, emptyMap, "metadata"),
	)
	return define("struct ActionProposal",
		fills(text, madeUp, "id"),
		fills(text, `"unknown"`, "source"),
		needs(list(action.read), "actions"),
		fills(instant, madeUp, "timestamp"),
		fills(anyMap, emptyMap, "context"),
	)
}

// outputTypes are the kinds of a stage's result.
func outputTypes(paused, stageResult *structure) *tagged {
	output := &tagged{
		name: "StageOutput",
		words: []string{
			"pattern", "proposal", "sub_workflow", "approval", "review", "loop", "for_each", "dedup", "empty",
		},
	}
	agent := agentOutput()
	finding := define("struct ReviewFinding",
		needs(text, "criterion"), needs(boolean, "passed"), needs(text, "evidence", "severity"))
	output.variants = []*structure{
		define("struct variant StageOutput::Pattern",
			needs(list(agent.read), "outputs"), needs(text, "final_answer")),
		define("struct variant StageOutput::Proposal", needs(proposalResult().read, "result")),
		define("struct variant StageOutput::SubWorkflow",
			needs(workflowResult(paused, stageResult).read, "result")),
		define("struct variant StageOutput::Approval", needs(anything, "response")),
		define("struct variant StageOutput::Review",
			needs(boolean, "passed"),
			needs(usize, "blocker_count"),
			needs(list(finding.read), "findings"),
			needs(agent.read, "reviewer"),
			fills(boolean, no, "inconclusive"),
		),
		define("struct variant StageOutput::Loop",
			needs(u32, "iterations"),
			needs(boolean, "satisfied"),
			needs(list(output.read), "iterations_output"),
		),
		define("struct variant StageOutput::ForEach",
			needs(list(text), "items"), needs(list(output.read), "outputs")),
		define("struct variant StageOutput::Dedup", needs(usize, "total", "unseen")),
		define("unit variant StageOutput::Empty"),
	}
	return output
}

func agentOutput() *structure {
	evidence := define("struct Evidence",
		needs(word("self_assessment", "tool_result", "state_change", "external_verification",
			"stop_reason", "evaluator"), "kind"),
		needs(text, "description"),
		inLists(fills(optional(anything), null, "data")),
	)
	metrics := define("struct OutcomeMetrics",
		fills(u32, zero, "turns", "tool_calls"),
		fills(float, zeroFloat, "duration_ms"),
		fills(u32, zero, "retries", "actions_succeeded", "actions_failed"),
	)
	outcome := define("struct AgentOutcome",
		needs(word("success", "partial_success", "give_up", "timeout", "failure", "done"), "status"),
		fills(text, emptyText, "summary"),
		fills(list(evidence.read), emptyList, "evidence"),
		fills(metrics.read, noMetrics, "metrics"),
		fills(instant, madeUp, "timestamp"),
	)
	tokens := define("struct TokenAccounting",
		fills(u64, zero, "input_tokens", "output_tokens"), fills(float, zeroFloat, "cost_usd"))
	return define("struct AgentOutput",
		needs(text, "name", "answer"),
		needs(u32, "turns", "tool_calls"),
		needs(float, "duration_ms"),
		inLists(fills(optional(text), null, "error")),
		drops(optional(outcome.read), null, "outcome"),
		drops(optional(tokens.read), null, "tokens"),
		drops(list(text), emptyList, "tools_used"),
	)
}

func proposalResult() *structure {
	action := define("struct ActionResult",
		needs(text, "action_id"),
		needs(word("proposed", "validated", "rejected", "executing", "succeeded", "failed", "skipped"), "status"),
		drops(optional(anything), null, "output"),
		drops(optional(text), null, "error"),
		fills(anyMap, emptyMap, "state_changes"),
		drops(optional(float), null, "duration_ms"),
		fills(instant, madeUp, "timestamp"),
	)
	cost := define("struct CostSummary",
		needs(u32, "tool_calls", "actions_executed", "actions_skipped"),
		needs(float, "total_duration_ms"),
		needs(u32, "retries"),
	)
	return define("struct ProposalResult",
		needs(text, "proposal_id"),
		fills(list(action.read), emptyList, "results"),
		fills(cost.read, noCost, "cost"),
	)
}

func workflowResult(paused, stageResult *structure) *structure {
	compensation := define("struct CompensationResult",
		needs(text, "for_stage_id"),
		needs(stageStatus, "status"),
		needs(float, "duration_ms"),
		drops(optional(text), null, "error"),
	)
	return define("struct WorkflowResult",
		needs(text, "workflow_id", "workflow_name"),
		needs(word("completed", "failed", "compensated", "partially_compensated", "paused"), "status"),
		needs(list(stageResult.read), "stages"),
		needs(list(compensation.read), "compensations"),
		needs(float, "duration_ms"),
		needs(instant, "timestamp"),
		fills(anyMap, emptyMap, "final_state"),
		drops(optional(paused.read), null, "paused"),
	)
}
