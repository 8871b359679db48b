package checkpoints

import (
	"encoding/json"
	"reflect"
	"time"

	"selvedge/checkpoints/internal/codec"
)

// A PausedWorkflow is a run that waits at an approval stage, with everything needed to resume it.
// Its zero value can't be used: the caller sets RunID, CreatedAt and the workflow.
//
// A value that was read keeps its document. If nothing in it was changed, exactly those bytes are
// saved; unknown members of the document survive a change elsewhere.
type PausedWorkflow struct {
	RunID         string          `json:"run_id"`
	Workflow      Workflow        `json:"workflow"`        // the whole definition
	PausedStageID string          `json:"paused_stage_id"` // the approval stage
	Prompt        string          `json:"prompt"`          // what the person is asked
	Fields        []ApprovalField `json:"fields"`          // what the person is to fill in
	// key in the state for the person's answer
	OutputKey string `json:"output_key"`
	// the state of the run, any JSON by key
	WFState           map[string]json.RawMessage `json:"wf_state"`
	StageResults      []StageResult              `json:"stage_results"` // of stages before the pause
	CompletedStageIDs []string                   `json:"completed_stage_ids"`
	// stages run so far, against Workflow.MaxIterations
	Iterations uint32 `json:"iterations"`
	// milliseconds of work before the pause, without the waiting
	PriorDurationMS float64   `json:"prior_duration_ms"`
	CreatedAt       time.Time `json:"created_at"` // when the run paused

	createdAtText string   // CreatedAt as in the document, if a time.Time can't hold it (second 60)
	read          *reading // nil: made by the program
}

// A reading is a document and what was read from it, which never changes.
type reading struct {
	document []byte
	value    PausedWorkflow
}

// A Workflow is a graph of stages.
type Workflow struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Start  string  `json:"start"`          // id of the first stage
	Goal   *string `json:"goal,omitempty"` // nil: none was set
	Stages []Stage `json:"stages"`
	Edges  []Edge  `json:"edges"`
	// stages that a run may execute; 100 if the document has none
	MaxIterations uint32                     `json:"max_iterations"`
	Metadata      map[string]json.RawMessage `json:"metadata"`
}

// A Stage is a named step.
type Stage struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// an object whose "type" is pattern, proposal, sub_workflow, approval, loop_until, for_each or
	// dedup
	Step json.RawMessage `json:"step"`
	// an object whose "type" is proposal or stage_ref; nil: none
	Compensation json.RawMessage            `json:"compensation,omitempty"`
	TimeoutMS    *uint64                    `json:"timeout_ms,omitempty"` // milliseconds; nil: none
	Metadata     map[string]json.RawMessage `json:"metadata"`
}

// An Edge leads from one stage to another when all its conditions hold.
type Edge struct {
	From       string         `json:"from"`
	To         string         `json:"to"`
	Conditions []Precondition `json:"conditions"`
	Label      string         `json:"label"`
}

// A Precondition is a test of a key of the state.
type Precondition struct {
	Key         string          `json:"key"`
	Operator    string          `json:"operator"` // "eq" if the document has none
	Value       json.RawMessage `json:"value"`    // any JSON; nil: null
	Description string          `json:"description"`
}

// An ApprovalField is a field of the form that a person fills in.
type ApprovalField struct {
	Name  string `json:"name"` // key in the answer
	Label string `json:"label"`
	// text, textarea, options, bool or number; "text" if the document has none
	FieldType string   `json:"field_type"`
	Options   []string `json:"options,omitempty"` // of the type options
	Required  bool     `json:"required"`
}

// A StageResult is the result of a stage.
type StageResult struct {
	StageID   string `json:"stage_id"`
	StageName string `json:"stage_name"`
	Status    string `json:"status"` // succeeded, failed, skipped or compensated
	// an object whose "type" is pattern, proposal, sub_workflow, approval, review, loop, for_each,
	// dedup or empty
	Output     json.RawMessage `json:"output"`
	DurationMS float64         `json:"duration_ms"`
	Error      *string         `json:"error,omitempty"` // nil: none
}

// Document returns p as it is saved: the bytes that it was read from if p was not changed, else a
// new encoding, which includes the members that only the document has. A value that could not be
// read back is an error.
func (p *PausedWorkflow) Document() ([]byte, error) {
	document, err := p.text()
	if err == nil {
		err = codec.Check(document)
	}
	if err != nil {
		return nil, err
	}
	return document, nil
}

// text is Document without the check that it can be read back.
func (p *PausedWorkflow) text() ([]byte, error) {
	if p.read == nil {
		return encode(p)
	}
	now := *p
	now.read = nil
	if reflect.DeepEqual(p.read.value, now) {
		return p.read.document, nil
	}
	return rewrite(p.read.document, &p.read.value, p)
}

// MarshalJSON returns the document.
func (p *PausedWorkflow) MarshalJSON() ([]byte, error) { return p.Document() }

// UnmarshalJSON is Decode.
func (p *PausedWorkflow) UnmarshalJSON(document []byte) error {
	read, err := Decode(document)
	if err == nil {
		*p = *read
	}
	return err
}
