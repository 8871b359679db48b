package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"

	"selvedge/checkpoints/internal/codec"
	"selvedge/internal/chrono"
)

// Decode reads a document. It refuses what no program of the store could read: a required member
// that is missing, a kind of stage or result that only later versions have, a member twice, 128
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
