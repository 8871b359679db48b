package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/chrono"
)

// Decode reads a document. It refuses documents that no program of the store could read: those with
// a required member missing, a kind of stage or result of later versions, a repeated member, or 128
// levels and more.
func Decode(document []byte) (*PausedWorkflow, error) {
	text, err := codec.Plain(document)
	if err != nil {
		return nil, err
	}
	p, err := read(text)
	var value *PausedWorkflow
	if err == nil {
		value, err = read(text) // shares nothing with p, which the caller may change
	}
	if err != nil {
		return nil, fmt.Errorf("decode an accepted document: %w", err)
	}
	p.read = &reading{bytes.Clone(document), *value}
	return p, nil
}

// read reads what [codec.Plain] returns.
func read(text []byte) (*PausedWorkflow, error) {
	type plain PausedWorkflow // without UnmarshalJSON
	var members struct {
		plain
		CreatedAt string `json:"created_at"`
	}
	err := json.Unmarshal(text, &members)
	p := PausedWorkflow(members.plain)
	if err == nil {
		p.CreatedAt, p.createdAtText, err = chrono.Parse(members.CreatedAt)
	}
	return &p, err
}
