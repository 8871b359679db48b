package runs

import (
	"bytes"
	"errors"
	"fmt"
)

// Records as JSON are trace lines. json.Marshal also escapes '<', '>' and '&' in them; MarshalJSON
// does not.

// MarshalJSON returns the record as a trace line.
func (s Started) MarshalJSON() ([]byte, error) { return encode(s) }

// MarshalJSON returns the record as a trace line.
func (t Turn) MarshalJSON() ([]byte, error) { return encode(t) }

// MarshalJSON returns the record as a trace line.
func (e Ended) MarshalJSON() ([]byte, error) { return encode(e) }

// MarshalJSON returns the record as a trace line.
func (u Unknown) MarshalJSON() ([]byte, error) { return encode(u) }

// UnmarshalJSON reads a trace line that holds a started record.
func (s *Started) UnmarshalJSON(line []byte) error { return decodeInto(s, line) }

// UnmarshalJSON reads a trace line that holds a turn.
func (t *Turn) UnmarshalJSON(line []byte) error { return decodeInto(t, line) }

// UnmarshalJSON reads a trace line that holds an ended record.
func (e *Ended) UnmarshalJSON(line []byte) error { return decodeInto(e, line) }

// UnmarshalJSON reads a trace line that holds an object with a "record" member and no other record.
func (u *Unknown) UnmarshalJSON(line []byte) error { return decodeInto(u, line) }

func decodeInto[R Record](into *R, line []byte) error {
	read, err := ParseRecord(line)
	if err != nil {
		return err
	}
	record, ok := read.(R)
	if !ok {
		return fmt.Errorf("it is a %s record, not one of the type wanted", read.RecordKind())
	}
	*into = record
	return nil
}

// ParseRecord reads a trace line, without its line feed. Any JSON object with exactly one "record"
// member, a string, is at least an Unknown. The error says why a line is no record.
func ParseRecord(line []byte) (Record, error) {
	read := readLine(bytes.Clone(line))
	switch read.kind {
	case lineRecord, lineUnknown:
		return read.record, nil
	case lineUndecodable:
		return nil, read.err
	case lineBlank:
	}
	return nil, errors.New("it is a blank line, not a record")
}
