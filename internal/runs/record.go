package traces

import (
	"fmt"
	"time"

	"selvedge/internal/serdejson"
)

// A Record is a Started, Turn, Ended or Unknown; package runs says what they and their fields mean.
type Record interface {
	RecordKind() string
	MarshalJSON() ([]byte, error)
	Source() Provenance
}

type Started struct {
	RunID              string
	AgentID            string
	Intent             string
	OutcomeDescription *string
	StartedAt          time.Time
	StartedAtText      string // the spelling that StartedAt cannot hold; see chrono.Parse
	From               Provenance
}

type Turn struct {
	Index           uint64
	Prompt          *string
	Tool            *string
	Parameters      []byte
	Output          []byte
	CliOutcome      *CliOutcome
	VerifierVerdict Verdict
	PolicyRejected  *PolicyRejection
	From            Provenance
}

type Ended struct {
	RunID       string
	AgentID     string
	Termination Termination
	EndedAt     time.Time
	EndedAtText string // the spelling that EndedAt cannot hold; see chrono.Parse
	From        Provenance
}

type Unknown struct {
	Kind string
	Raw  []byte
	From Provenance
}

// Provenance is where a decoded record came from. A record that a caller builds has the zero value.
type Provenance struct {
	Line  []byte // the line, where encoding the fields gives other bytes
	Exact bool   // encoding the fields as they are gives the line
}

// Made reports that the record was built and not decoded.
func (p Provenance) Made() bool { return p.Line == nil && !p.Exact }

func (Started) RecordKind() string   { return "started" }
func (Turn) RecordKind() string      { return "turn" }
func (Ended) RecordKind() string     { return "ended" }
func (u Unknown) RecordKind() string { return u.Kind }

func (s Started) Source() Provenance { return s.From }
func (t Turn) Source() Provenance    { return t.From }
func (e Ended) Source() Provenance   { return e.From }
func (u Unknown) Source() Provenance { return u.From }

// MarshalJSON gives the record's line.
func (s Started) MarshalJSON() ([]byte, error) { return Encode(s) }

// MarshalJSON gives the record's line.
func (t Turn) MarshalJSON() ([]byte, error) { return Encode(t) }

// MarshalJSON gives the record's line.
func (e Ended) MarshalJSON() ([]byte, error) { return Encode(e) }

// MarshalJSON gives the record's line.
func (u Unknown) MarshalJSON() ([]byte, error) { return Encode(u) }

type Termination struct {
	Status  string
	Outcome *AgentOutcome
}

func (t Termination) Incomplete() bool { return t.Outcome == nil }

type AgentOutcome struct {
	Status    string
	Summary   string
	Evidence  []Evidence
	Metrics   OutcomeMetrics
	Timestamp time.Time
	// the spelling that Timestamp cannot hold: see chrono.Parse, and Go's zero time, which means "absent"
	TimestampText string
}

type OutcomeMetrics struct {
	Turns            uint32
	ToolCalls        uint32
	DurationMs       float64
	Retries          uint32
	ActionsSucceeded uint32
	ActionsFailed    uint32
}

type Evidence struct {
	Kind        string
	Description string
	Data        []byte
}

type CliOutcome struct {
	Kind string
	Code int64
}

// CliExited is the one kind of a CliOutcome that has a code.
const CliExited = "exited"

type PolicyRejection struct {
	Rule  string
	Param *string
}

// A Verdict is an index into verdictsByWord's words; the zero value is "not_run".
type Verdict uint8

const (
	VerdictNotRun Verdict = iota
	VerdictPass
	VerdictFail
)

// The words in the order in which the original declares them: its error texts list them so, and
// inside a record it also reads a tag given as a number in this order.
var (
	recordWords      = []string{"started", "ended", "turn"}
	terminationWords = []string{"outcome", "incomplete"}
	cliOutcomeWords  = []string{"exited", "killed", "timeout"}
	verdictWords     = []string{"pass", "fail", "not_run"}
	OutcomeWords     = []string{"success", "partial_success", "give_up", "timeout", "failure", "done"}
	evidenceWords    = []string{
		"self_assessment", "tool_result", "state_change", "external_verification",
		"stop_reason", "evaluator",
	}
	verdictsByWord = []Verdict{VerdictPass, VerdictFail, VerdictNotRun}
)

// String is the word in a trace: "not_run", "pass" or "fail".
func (v Verdict) String() string {
	switch v {
	case VerdictNotRun:
		return "not_run"
	case VerdictPass:
		return "pass"
	case VerdictFail:
		return "fail"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// ParseVerdict reads the word of a trace.
func ParseVerdict(word string) (Verdict, error) {
	for i, w := range verdictWords {
		if w == word {
			return verdictsByWord[i], nil
		}
	}
	return 0, serdejson.Errorf("unknown variant `%s`, expected %s", word, serdejson.OneOf(verdictWords))
}
