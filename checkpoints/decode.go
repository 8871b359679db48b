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
	type plain PausedWorkflow // without UnmarshalJSON
	var read struct {
		plain
		CreatedAt string `json:"created_at"`
	}
	err = json.Unmarshal(text, &read)
	p := PausedWorkflow(read.plain)
	if err == nil {
		p.CreatedAt, p.createdAtText, err = chrono.Parse(read.CreatedAt)
	}
	if err != nil {
		return nil, fmt.Errorf("decode an accepted document: %w", err)
	}
	p.document = bytes.Clone(document)
	return &p, nil
}
