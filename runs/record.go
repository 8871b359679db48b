package runs

import (
	"encoding/json"
	"time"
)

// A Record is one line of a run's trace: [Started], [Turn], [Ended], or [Unknown] for any other.
// The set is closed.
//
// A decoded record remembers the line it came from if its fields cannot express all of it (unknown
// members, key order, spelling of times). A copy of the value remembers it too. The line is dropped
// once the fields no longer match it.
type Record interface {
	// RecordKind returns the record's tag in a trace line: "started", "turn", "ended", or an
	// Unknown's own word.
	RecordKind() string
	// MarshalJSON returns the record as a trace line. It returns an error for a record that no
	// trace can hold.
	MarshalJSON() ([]byte, error)

	source() provenance
}

// Started opens a run. If a trace holds several, the last one describes the run.
type Started struct {
	RunID   string
	AgentID string // as the caller names the agent, never a folder name
	Intent  string // what the run is meant to achieve, in words
	// OutcomeDescription describes a good end; nil: not recorded, which differs from "".
	OutcomeDescription *string
	StartedAt          time.Time // zero: the time of the append

	startedAtText string // the spelling, if StartedAt cannot hold it; see chrono.Parse
	from          provenance
}

// Turn is one submitted action of a run and what came of it.
type Turn struct {
	// Index is the position that the recorder stamped. Old traces repeat and skip values; the order
	// of turns is the order of the lines.
	Index  uint64
	Prompt *string // nil: not recorded
	Tool   *string // nil: not recorded
	// Parameters is any JSON value. Nil and null are equivalent and are not written. A reader gets
	// the bytes that were recorded; a trace line written from them holds their canonical form: keys
	// in byte order, without blanks.
	Parameters json.RawMessage
	// Output is any JSON value, with the rules of Parameters.
	Output     json.RawMessage
	CliOutcome *CliOutcome // nil: not a command line, or not classified
	// VerifierVerdict is VerdictNotRun in a zero Turn.
	VerifierVerdict Verdict
	PolicyRejected  *PolicyRejection // nil: no policy objected

	from provenance
}

// Ended closes a run. If a trace holds several, the last one counts; a turn after it does not
// reopen the run.
type Ended struct {
	RunID       string
	AgentID     string
	Termination Termination
	EndedAt     time.Time // zero: the time of the append

	endedAtText string // the spelling, if EndedAt cannot hold it; see chrono.Parse
	from        provenance
}

// Unknown is a record of another kind (cancellation_requested, model_turn, …), or of a known kind
// in another shape (an end whose termination is "cancelled").
type Unknown struct {
	// Kind is the value of the object's "record" member.
	Kind string
	// Raw is the whole JSON object, as it was written.
	Raw json.RawMessage

	from provenance
}

// RecordKind returns "started".
func (Started) RecordKind() string { return "started" }

// RecordKind returns "turn".
func (Turn) RecordKind() string { return "turn" }

// RecordKind returns "ended".
func (Ended) RecordKind() string { return "ended" }

// RecordKind returns the record's own word, Kind.
func (u Unknown) RecordKind() string { return u.Kind }

// Termination describes how a run ended. The zero value is an incomplete run, which stopped without
// an outcome, as a crashed or adopted run does.
type Termination struct {
	// Status is the outcome as the runtime judged it. The agent's own judgement is Outcome.Status,
	// and the two may differ. Empty means Outcome.Status. It must be empty when Outcome is nil.
	Status  OutcomeStatus
	Outcome *AgentOutcome
}

// AgentOutcome is the agent's own account of its run.
type AgentOutcome struct {
	Status   OutcomeStatus
	Summary  string
	Evidence []Evidence
	Metrics  OutcomeMetrics
	// Timestamp is when the account was given. Zero means the EndedAt of the record that holds it.
	Timestamp time.Time

	// timestampText is the spelling if Timestamp cannot hold it: see chrono.Parse, and Go's zero
	// time, which means "absent".
	timestampText string
}

// OutcomeMetrics counts what a run did. DurationMs is in milliseconds and must be finite.
type OutcomeMetrics struct {
	Turns            uint32
	ToolCalls        uint32
	DurationMs       float64
	Retries          uint32
	ActionsSucceeded uint32
	ActionsFailed    uint32
}

// Evidence is one reason to believe an outcome.
type Evidence struct {
	// Kind is self_assessment, tool_result, state_change, external_verification, stop_reason or
	// evaluator.
	Kind        string
	Description string
	// Data is any JSON value; nil and null are equivalent, and written as null.
	Data json.RawMessage
}

// CliOutcome is how a command line ended.
type CliOutcome struct {
	Kind string // CliExited, CliKilled or CliTimeout
	Code int64  // the exit code; only CliExited has one
}

// PolicyRejection names the policy rule that stopped an action.
type PolicyRejection struct {
	Rule  string
	Param *string // the offending parameter; nil if the rule names none
}

// OutcomeStatus is one of six words. A run with any of them is completed, even with "failure".
type OutcomeStatus string

const (
	OutcomeSuccess        OutcomeStatus = "success"
	OutcomePartialSuccess OutcomeStatus = "partial_success"
	OutcomeGiveUp         OutcomeStatus = "give_up"
	OutcomeTimeout        OutcomeStatus = "timeout"
	OutcomeFailure        OutcomeStatus = "failure"
	OutcomeDone           OutcomeStatus = "done"
)

// The kinds of a [CliOutcome].
const (
	CliExited  = "exited" // by itself
	CliKilled  = "killed"
	CliTimeout = "timeout"
)

// Verdict is a verifier's judgement of a turn. It is a number, unlike the other words, so that a
// Turn literal that does not mention it means "not run".
type Verdict uint8

const (
	VerdictNotRun Verdict = iota
	VerdictPass
	VerdictFail
)
