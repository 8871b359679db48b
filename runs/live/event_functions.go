package live

import (
	"selvedge/db"
	"selvedge/internal/serdejson"
)

// AgentStart returns an event that begins a run's work: the run is executing, and its prompt is set
// if it was empty.
func AgentStart(prompt string) Event { return textEvent("agent_start", "prompt", prompt) }

// PlanningStart returns an event that moves a run to planning.
func PlanningStart(prompt string) Event { return textEvent("planning_start", "prompt", prompt) }

// PlanningEnd returns an event with the finished plan and the number of steps that it will take.
func PlanningEnd(plan Plan, estimatedSteps uint64) Event {
	return makeEvent("planning_end", []any{plan, estimatedSteps})
}

// TurnStart returns an event that begins a turn: the run is executing, unless it is planning.
func TurnStart(turn uint64) Event { return makeEvent("turn_start", []any{turn}) }

// TurnEnd returns an event that ends a turn. usage is the turn's usage.
func TurnEnd(turn uint64, usage db.Usage) Event {
	return makeEvent("turn_end", []any{turn, usageJSON(usage)}, furtherUsage(usage)...)
}

// TextDelta returns an event with a piece of the model's answer.
func TextDelta(text string) Event { return textEvent("text_delta", "text", text) }

// ReasoningDelta returns an event with a piece of the model's reasoning.
func ReasoningDelta(text string) Event { return textEvent("reasoning_delta", "text", text) }

// ToolStart returns an event that begins a call of a tool: the run is executing, unless it is
// planning. id is of the call and name of the tool.
func ToolStart(id, name string) Event { return makeEvent("tool_start", []any{id, name}) }

// ToolInputDelta returns an event with a piece of the JSON that a tool is called with.
func ToolInputDelta(delta string) Event { return textEvent("tool_input_delta", "delta", delta) }

// ErrorEvent returns an event that fails a run.
func ErrorEvent(message string) Event { return textEvent("error", "message", message) }

// AgentEnd returns an event that completes a run, with zero usage and no verification. [End] has more.
func AgentEnd(text string) Event {
	return makeEvent("agent_end",
		[]any{text, usageJSON(db.Usage{}), Verification{Status: "skipped"}, []any(nil)})
}

// ConfirmationTimeout returns an event that ends a wait for a person. The action is rejected or
// auto_approved.
func ConfirmationTimeout(toolID, actionTaken string) Event {
	return makeEvent("confirmation_timeout", []any{toolID, actionTaken})
}

// ContextResolving returns an event that asks providers for context.
func ContextResolving(providers ...string) Event {
	return makeEvent("context_resolving", []any{providers})
}

// ContextResolved returns an event with the size of the context that was found.
func ContextResolved(totalItems, totalTokens uint64) Event {
	return makeEvent("context_resolved", []any{totalItems, totalTokens})
}

// TaskUpdated returns an event with a session's whole list of tasks.
func TaskUpdated(sessionID string, tasks ...Task) Event {
	return makeEvent("task_updated", []any{sessionID, tasks})
}

// MemoryCleared returns an event that says how many memories of a tier were removed.
func MemoryCleared(tier string, count uint64) Event {
	return makeEvent("memory_cleared", []any{tier, count})
}

// GoalExtracted returns an event with a goal.
func GoalExtracted(goal Goal) Event { return makeEvent("goal_extracted", []any{goal}) }

// textEvent makes an event whose only member is a text. Append checks the text.
func textEvent(kind, member, value string) Event {
	text := append([]byte(`{"type":"`), kind...)
	text = append(append(append(text, `","`...), member...), `":`...)
	return Event{kind: kind, field: value, text: append(serdejson.AppendQuoted(text, value), '}')}
}
