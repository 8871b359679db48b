package checkpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/chrono"
)

// Decode reads a document. It refuses what no program of the store could read: a required member that
// is missing, a kind of stage or result that only later versions have, a member twice, 128 levels and more.
func Decode(document []byte) (*PausedWorkflow, error) {
	unusual, reason := codec.Inspect(document)
	if reason != "" {
		return nil, &codec.Error{Reason: reason}
	}
	var p *PausedWorkflow
	err := errUnusual
	if !unusual {
		p, err = unmarshal(document)
	}
	if err != nil { // the canonical form says the same in a way that both readers understand
		canonical, err := codec.Canonical(document)
		if err == nil {
			p, err = unmarshal(canonical)
		}
		if err != nil {
			return nil, fmt.Errorf("decode an accepted document: %w", err)
		}
	}
	p.document = bytes.Clone(document)
	return p, nil
}

var errUnusual = errors.New("a document that encoding/json reads otherwise")

// unmarshal reads a document that encoding/json understands in the store's sense.
func unmarshal(text []byte) (*PausedWorkflow, error) {
	type plain PausedWorkflow // without UnmarshalJSON
	var read struct {
		plain
		CreatedAt string `json:"created_at"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, err
	}
	p := PausedWorkflow(read.plain)
	var err error
	p.CreatedAt, p.createdAtText, err = chrono.Parse(read.CreatedAt)
	return &p, err
}

// UnmarshalJSON fills in what absent members stand for.
func (w *Workflow) UnmarshalJSON(text []byte) error {
	type plain Workflow
	read := plain{MaxIterations: 100}
	err := json.Unmarshal(text, &read)
	*w = Workflow(read)
	return err
}

// UnmarshalJSON fills in what absent members stand for.
func (p *Precondition) UnmarshalJSON(text []byte) error {
	type plain Precondition
	read := plain{Operator: "eq"}
	err := json.Unmarshal(text, &read)
	*p = Precondition(read)
	return err
}

// UnmarshalJSON fills in what absent members stand for.
func (f *ApprovalField) UnmarshalJSON(text []byte) error {
	type plain ApprovalField
	read := plain{FieldType: "text"}
	err := json.Unmarshal(text, &read)
	*f = ApprovalField(read)
	return err
}

// UnmarshalJSON tells an absent compensation from none by nothing: both are nil.
func (s *Stage) UnmarshalJSON(text []byte) error {
	type plain Stage
	var read plain
	err := json.Unmarshal(text, &read)
	*s = Stage(read)
	if string(s.Compensation) == "null" {
		s.Compensation = nil
	}
	return err
}

// UnmarshalJSON reads a status in its longer spelling, too.
func (s *StageStatus) UnmarshalJSON(text []byte) error {
	if text[0] == '{' {
		var longer map[string]json.RawMessage
		err := json.Unmarshal(text, &longer)
		for name := range longer {
			*s = StageStatus(name)
		}
		return err
	}
	return json.Unmarshal(text, (*string)(s))
}
