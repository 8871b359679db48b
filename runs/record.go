package runs

import (
	"encoding/json"
	"time"
)

// A Record is one line of a run's trace: [Started], [Turn], [Ended], or [Unknown] for any other.
// The set is closed.
//
// A record that was decoded remembers the line it came from where its fields cannot say all of it
// (unknown members, key order, spelling of times). Copying the value keeps that memory; it is
// dropped as soon as the fields no longer say what the line says.
type Record interface {
	// RecordKind is the record's tag in a trace line: "started", "turn", "ended", or an Unknown's own word.
	RecordKind() string
	// MarshalJSON gives the line of a trace that says what the record says, and an error for one that
	// no trace can hold.
	MarshalJSON() ([]byte, error)

	source() provenance
}

// Started opens a run. Where a trace holds several, the last one describes the run.
type Started struct {
	RunID   string
	AgentID string // as the caller names the agent, never a folder name
	Intent  string // what the run is meant to achieve, in words
	// OutcomeDescription says what a good end looks like; nil: not recorded, which differs from "".
	OutcomeDescription *string
	StartedAt          time.Time // zero: when it is appended

	startedAtText string // the spelling that StartedAt cannot hold; see chrono.Parse
	from          provenance
}

// Turn is one submitted action of a run and what came of it.
type Turn struct {
	// Index is the position the recorder stamped. Old traces repeat and skip values; order is the
	// order of the lines.
	Index  uint64
	Prompt *string // nil: not recorded
	Tool   *string // nil: not recorded
	// Parameters is any JSON value. Nil and null are the same and are not written. A reader gets the
	// bytes that were recorded; a trace line written from them holds their canonical form: keys in
	// byte order, without blanks.
	Parameters json.RawMessage
	// Output is any JSON value, with the rules of Parameters.
	Output     json.RawMessage
	CliOutcome *CliOutcome // nil: the tool was no command line, or nothing was classified
	// VerifierVerdict is VerdictNotRun in a zero Turn.
	VerifierVerdict Verdict
	PolicyRejected  *PolicyRejection // nil: no policy objected

	from provenance
}

// Ended closes a run. Where a trace holds several, the last one counts; a turn after it does not
// reopen the run.
type Ended struct {
	RunID       string
	AgentID     string
	Termination Termination
	EndedAt     time.Time // zero: when it is appended

	endedAtText string // the spelling that EndedAt cannot hold; see chrono.Parse
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

// RecordKind is "started".
func (Started) RecordKind() string { return "started" }

// RecordKind is "turn".
func (Turn) RecordKind() string { return "turn" }

// RecordKind is "ended".
func (Ended) RecordKind() string { return "ended" }

// RecordKind is the word that the record itself says.
func (u Unknown) RecordKind() string { return u.Kind }

// Termination says how a run ended. The zero value is an incomplete run: it stopped without an
// outcome, as a crashed or adopted run does.
type Termination struct {
	// Status is the outcome as the runtime judged it; the agent's own word is Outcome.Status, and the
	// two may differ. Empty means Outcome.Status. It must be empty when Outcome is nil.
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

	// timestampText is the spelling that Timestamp cannot hold: see chrono.Parse, and Go's zero time,
	// which means "absent".
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
	// Data is any JSON value; nil and null are the same, and written as null.
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
	Param *string // the parameter that offended; nil if the rule names none
}

// OutcomeStatus is one of six words. All of them end a run as completed, "failure" too.
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

// Verdict is a verifier's word on a turn. It is a number, unlike the other words, so that a Turn
// literal that does not mention it says "not run".
type Verdict uint8

const (
	VerdictNotRun Verdict = iota
	VerdictPass
	VerdictFail
)
