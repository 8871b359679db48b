package live

import (
	"cmp"
	"encoding/json"
	"reflect"

	"selvedge/db"
)

// A Payload is a struct with the members of an event of one type, in their order (docs/live-events.md). A
// nil json.RawMessage is null.
type Payload interface {
	AgentModeChanged | BtwAnswer | CommandDeadLettered | CommandRetry | ConfirmationReceived |
		ConfirmationRequired | ContextCompacted | End | ExternalTaskCompleted | ExternalTaskPending |
		GoalAchieved | GoalProgress | MemoriesSearched | MemoryRecalled | MemoryStored |
		PermissionDenied | PersistenceFailed | QueueAlert | StepEnd | StepStart | SubagentEnd |
		SubagentProgress | SubagentStart | ToolEnd | ToolOutputDelta
}

// EventOf returns the event with the members of a struct.
func EventOf[P Payload](members P) Event {
	switch e := any(members).(type) {
	case End:
		return e.event()
	case BtwAnswer:
		return e.event()
	}
	var kind []byte // ToolEnd is tool_end
	for i, c := range []byte(reflect.TypeFor[P]().Name()) {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
			if i > 0 {
				kind = append(kind, '_')
			}
		}
		kind = append(kind, c)
	}
	return makeEvent(string(kind), members)
}

// An End is an agent_end with all of its members. It completes the run.
type End struct {
	Text         string
	Usage        db.Usage     // sum of the turns
	Verification Verification // the zero value: skipped
	Meta         ResponseMeta
}

// The provider and the models of Usage are written into the member meta.
func (e End) event() Event {
	e.Verification.Status = cmp.Or(e.Verification.Status, "skipped")
	u, m := e.Usage, e.Meta
	meta := []any{
		u.Provider, u.RequestModel, m.RequestURL, m.ResponseID, u.ResponseModel, m.ResponseObject,
		m.FirstTokenMs, m.DurationMs,
	}
	if m == (ResponseMeta{}) && u.Provider == nil && u.RequestModel == nil && u.ResponseModel == nil {
		meta = nil
	}
	u.Provider, u.RequestModel, u.ResponseModel = nil, nil, nil
	return makeEvent("agent_end", []any{e.Text, usageJSON(u), e.Verification, meta}, furtherUsage(u)...)
}

// ResponseMeta describes the model's last response. Zero values are not written.
type ResponseMeta struct {
	RequestURL, ResponseID, ResponseObject string
	FirstTokenMs, DurationMs               *uint64
}

// Verification is a summary of the checks of a run's result.
type Verification struct {
	Status                              string // passed, failed, needs_review or skipped
	ReportCount, RequiredCheckCount     uint64
	PendingRequiredCheckCount           uint64
	FailedCheckCount, ResidualRiskCount uint64
	PendingSubjects, FailedSubjects     []string
}

// usageJSON returns the member usage. The type has no way to say that input and output were not counted,
// so 0 stands for that.
func usageJSON(u db.Usage) json.RawMessage {
	var input, output uint64
	if u.InputTokens != nil {
		input = *u.InputTokens
	}
	if u.OutputTokens != nil {
		output = *u.OutputTokens
	}
	counts := []any{input, output, input + output, u.CacheReadInputTokens, u.CacheWriteInputTokens}
	usage := objectTypes()["usage"].appendValue(nil, reflect.ValueOf(counts))
	return withMembers(usage, "reasoning_tokens", u.ReasoningOutputTokens, "cost_usd", u.CostUSD)
}

// furtherUsage returns the further members with what the member usage does not say. The reader of usage
// prefers token_usage, which says what was not counted.
func furtherUsage(u db.Usage) []any {
	further := []any{
		"provider", u.Provider, "request_model", u.RequestModel, "response_model", u.ResponseModel,
	}
	if u.InputTokens == nil || u.OutputTokens == nil {
		further = append(further, "token_usage", json.RawMessage(withMembers([]byte("{}"),
			"input_tokens", u.InputTokens, "cache_read_input_tokens", u.CacheReadInputTokens,
			"cache_write_input_tokens", u.CacheWriteInputTokens, "output_tokens", u.OutputTokens,
			"reasoning_output_tokens", u.ReasoningOutputTokens, "cost_usd", u.CostUSD)))
	}
	return further
}

// AgentModeChanged says that another agent or mode continues the work.
type AgentModeChanged struct{ Mode, Agent, Description string }

// ToolEnd is the end of a call of a tool.
type ToolEnd struct {
	ID, Name, Output string
	ExitCode         int32
	Metadata         json.RawMessage // nil: the event has no such member
}

// ToolOutputDelta is a piece of what a tool writes.
type ToolOutputDelta struct{ ID, Name, Delta string }

// ConfirmationRequired asks a person whether a tool may be called.
type ConfirmationRequired struct {
	ToolID, ToolName string
	Args             json.RawMessage
	TimeoutMs        uint64
}

// ConfirmationReceived is the person's answer.
type ConfirmationReceived struct {
	ToolID   string
	Approved bool
	Reason   *string // nil: none
}

// ExternalTaskPending waits for work outside of the agent.
type ExternalTaskPending struct {
	TaskID, SessionID string
	Lane              string // Control, Query, Execute or Generate
	CommandType       string
	Payload           json.RawMessage
	TimeoutMs         uint64
}

// ExternalTaskCompleted is the end of that work.
type ExternalTaskCompleted struct {
	TaskID, SessionID string
	Success           bool
}

// PermissionDenied says that a tool was not called.
type PermissionDenied struct {
	ToolID, ToolName string
	Args             json.RawMessage
	Reason           string
}

// CommandDeadLettered says that a command failed for the last time.
type CommandDeadLettered struct {
	CommandID, CommandType, Lane, Error string
	Attempts                            uint32
}

// CommandRetry says that a command will be tried again.
type CommandRetry struct {
	CommandID, CommandType, Lane string
	Attempt                      uint32
	DelayMs                      uint64
}

// QueueAlert is a warning about the queue of commands.
type QueueAlert struct{ Level, AlertType, Message string }

// A Task is a task of a session, or a step of a plan. Empty texts and lists after Status are not written.
type Task struct {
	ID, Content     string
	Status          string // pending, in_progress, completed, failed, skipped or cancelled
	Priority        string // high, medium or low; "" means medium
	Tool            string
	Dependencies    []string
	SuccessCriteria string
}

// MemoryStored says that something was remembered.
type MemoryStored struct {
	MemoryID, MemoryType string
	Importance           float32
	Tags                 []string
}

// MemoryRecalled is a memory that was found.
type MemoryRecalled struct {
	MemoryID, Content string
	Relevance         float32
}

// MemoriesSearched is a search in the memories.
type MemoriesSearched struct {
	Query       *string // nil: none
	Tags        []string
	ResultCount uint64
}

// SubagentStart begins the work of a subagent.
type SubagentStart struct{ TaskID, SessionID, ParentSessionID, Agent, Description string }

// SubagentProgress is a report of a subagent.
type SubagentProgress struct {
	TaskID, SessionID, Status string
	Metadata                  json.RawMessage
}

// SubagentEnd ends the work of a subagent.
type SubagentEnd struct {
	TaskID, SessionID, Agent, Output string
	Success                          bool
}

// A Plan is what [PlanningEnd] reports.
type Plan struct {
	Goal           string
	Steps          []Task
	Complexity     string // Simple, Medium, Complex or VeryComplex
	RequiredTools  []string
	EstimatedSteps uint64
}

// StepStart begins a step of a plan: the run is executing, unless it is planning.
type StepStart struct {
	StepID, Description    string
	StepNumber, TotalSteps uint64
}

// StepEnd ends a step of a plan.
type StepEnd struct {
	StepID                 string
	Status                 string // as of a Task
	StepNumber, TotalSteps uint64
}

// A Goal is what [GoalExtracted] reports.
type Goal struct {
	Description     string
	SuccessCriteria []string
	Progress        float32 // 0 to 1
	Achieved        bool
	CreatedAt       int64  // Unix seconds
	AchievedAt      *int64 // Unix seconds; nil: not yet
}

// GoalProgress says how far a goal is.
type GoalProgress struct {
	Goal                       string
	Progress                   float32 // 0 to 1
	CompletedSteps, TotalSteps uint64
}

// GoalAchieved says that a goal is reached.
type GoalAchieved struct {
	Goal       string
	TotalSteps uint64
	DurationMs int64
}

// ContextCompacted says that a session's messages were made fewer.
type ContextCompacted struct {
	SessionID                     string
	BeforeMessages, AfterMessages uint64
	PercentBefore                 float32
}

// PersistenceFailed says that something could not be stored.
type PersistenceFailed struct{ SessionID, Operation, Error string }

// BtwAnswer answers a question that was asked beside the run.
type BtwAnswer struct {
	Question, Answer string
	Usage            db.Usage
}

func (e BtwAnswer) event() Event {
	u := e.Usage
	return makeEvent("btw_answer", []any{e.Question, e.Answer, usageJSON(u)}, furtherUsage(u)...)
}
