package runs

import "bytes"

// Records as JSON are their trace lines. json.Marshal goes on to escape '<', '>' and '&' in them; [Encode] does not.

// MarshalJSON gives the record as [Encode] does.
func (s Started) MarshalJSON() ([]byte, error) { return Encode(s) }

// MarshalJSON gives the record as [Encode] does.
func (t Turn) MarshalJSON() ([]byte, error) { return Encode(t) }

// MarshalJSON gives the record as [Encode] does.
func (e Ended) MarshalJSON() ([]byte, error) { return Encode(e) }

// MarshalJSON gives the record as [Encode] does.
func (u Unknown) MarshalJSON() ([]byte, error) { return Encode(u) }

// UnmarshalJSON reads a trace line that holds a started record.
func (s *Started) UnmarshalJSON(line []byte) error { return decodeInto(s, line) }

// UnmarshalJSON reads a trace line that holds a turn.
func (t *Turn) UnmarshalJSON(line []byte) error { return decodeInto(t, line) }

// UnmarshalJSON reads a trace line that holds an ended record.
func (e *Ended) UnmarshalJSON(line []byte) error { return decodeInto(e, line) }

// UnmarshalJSON reads a trace line that [ReadLine] calls unknown.
func (u *Unknown) UnmarshalJSON(line []byte) error { return decodeInto(u, line) }

func decodeInto[R Record](into *R, line []byte) error {
	read := ReadLine(bytes.Clone(line))
	if record, ok := read.Record.(R); ok {
		*into = record
		return nil
	}
	switch {
	case read.Record != nil && read.Err == nil:
		return decodeErrorf("is a %s record, not one of the type wanted", read.Record.RecordKind())
	case read.Err != nil:
		return read.Err
	}
	return decodeErrorf("is a blank line, not a record")
}
