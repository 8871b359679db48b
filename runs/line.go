package runs

import (
	"bytes"
	"math"
	"sync"
	"unicode/utf8"

	"selvedge/internal/serdejson"
)

// lineKind classifies a line of a trace.
type lineKind uint8

const (
	lineBlank       lineKind = iota // only Unicode white space; not counted
	lineRecord                      // a Started, Turn or Ended
	lineUnknown                     // an Unknown: readers of known kinds skip it
	lineUndecodable                 // not a record of any kind
)

// parsedLine is a line of a trace, parsed without loss.
type parsedLine struct {
	kind   lineKind
	record Record                 // set for lineRecord and lineUnknown
	err    *serdejson.DecodeError // lineUnknown, lineUndecodable: why it is not a lineRecord

	given []byte
}

// readLine reads a line of a trace, without its line feed. Unlike [decode] it accepts records of
// later versions: any JSON object with exactly one "record" member, a string, is at least an
// [Unknown]. JSON that breaks the original's rules for every kind (lone surrogates, more than 127
// levels, a number beyond a float, a second record after the first) is undecodable. The result
// shares memory with text, which must not change while the result is used.
func readLine(text []byte) parsedLine {
	line := parsedLine{given: text}
	if isBlank(text) && utf8.Valid(text) {
		return line
	}
	record, err := decode(text)
	if err == nil {
		line.kind, line.record = lineRecord, record
		return line
	}
	line.kind, line.err = lineUndecodable, &serdejson.DecodeError{Reason: err.Error()}
	if kind, ok := kindOf(text); ok {
		u := Unknown{Kind: kind, Raw: rawMember(bytes.Trim(text, " \t\r\n")), from: provenance{Exact: true}}
		if len(u.Raw) < len(text) {
			u.from = provenance{Line: text}
		}
		line.kind, line.record = lineUnknown, u
	}
	return line
}

func isBlank(text []byte) bool {
	return len(text) == 0 || text[0] != '{' && len(bytes.TrimSpace(text)) == 0
}

// kindOf returns the value of the "record" member of an object; ok is false unless there is exactly
// one and it is a string.
func kindOf(text []byte) (kind string, ok bool) {
	if !utf8.Valid(text) || serdejson.Check(text, 0) != "" {
		return "", false
	}
	text = bytes.Trim(text, " \t\r\n")
	if text[0] != '{' {
		return "", false
	}
	tag := onlyMember(text, "record")
	if tag == nil || tag[0] != '"' {
		return "", false
	}
	return serdejson.Unquote(tag), true
}

// raw returns the text that a store must keep beside the columns of the line's record. It is nil if
// the line can be rebuilt from the columns, with raw members verbatim, and the line itself
// otherwise.
func (l parsedLine) raw() []byte {
	if l.kind == lineRecord && l.record.source().Exact && columnsHold(l.record) {
		return nil
	}
	return l.given
}

// stillSays reports whether a record still equals the line that it came from.
func stillSays(r Record, line []byte) bool {
	read := readLine(line)
	return read.record != nil && sameLine(r, read.record)
}

// sameLine reports whether the original would write the same line for both. JSON that it does not
// accept, which only a record made by a caller can hold, is compared as it is.
func sameLine(a, b Record) bool {
	style := func(dst, raw []byte) []byte {
		if serdejson.Check(raw, 0) != "" {
			return append(dst, raw...)
		}
		return canonicalRaw(dst, raw)
	}
	return bytes.Equal(appendLine(nil, a, style), appendLine(nil, b, style))
}

// columnsHold reports whether INTEGER columns can hold every number and time of the record.
func columnsHold(r Record) bool {
	switch r := r.(type) {
	case Started:
		return r.startedAtText == "" && holdsNanos(r.StartedAt)
	case Turn:
		return r.Index <= math.MaxInt64
	case Ended:
		if o := r.Termination.Outcome; o != nil && (o.timestampText != "" || !holdsNanos(o.Timestamp)) {
			return false
		}
		return r.endedAtText == "" && holdsNanos(r.EndedAt)
	}
	return true
}

// columnIndex returns a turn's index for an INTEGER column, clamped to its largest value.
func columnIndex(index uint64) int64 { return int64(min(index, math.MaxInt64)) }

// lineBuffer is a buffer for lines that are only compared, or copied.
type lineBuffer struct{ bytes []byte }

var lineBuffers = sync.Pool{New: func() any { return new(lineBuffer) }}

func borrowBuffer() *lineBuffer {
	b := lineBuffers.Get().(*lineBuffer)
	b.bytes = b.bytes[:0]
	return b
}

// giveBack drops large buffers, so that one huge line does not stay in memory for good.
func (b *lineBuffer) giveBack() {
	if cap(b.bytes) <= 1<<16 {
		lineBuffers.Put(b)
	}
}
