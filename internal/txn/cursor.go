package txn

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"selvedge/internal/engine"
)

// Every cursor has one text form: base64url of the file's generation, the name of the list or
// stream that it belongs to, and the values of the position. Callers keep it and pass it back
// without reading it.
var cursorText = base64.RawURLEncoding

// Cursor returns the text of a position in the list or stream called of: the numbers and texts that
// identify the position.
func (rx *Rx) Cursor(of string, numbers []int64, texts ...string) string {
	out := binary.AppendUvarint(make([]byte, 0, 48), rx.generation())
	out = appendCursorText(out, of)
	for _, n := range numbers {
		out = binary.AppendVarint(out, n)
	}
	for _, text := range texts {
		out = appendCursorText(out, text)
	}
	return cursorText.EncodeToString(out)
}

func appendCursorText(out []byte, text string) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

// ReadCursor parses a text that Cursor made from the same count of numbers and texts. Any other
// text, and a cursor of another list or stream, is ErrInvalid; one from before the file was
// restored from a backup is ErrCursorExpired.
func (rx *Rx) ReadCursor(of, cursor string, numbers []int64, texts ...*string) error {
	raw, err := cursorText.DecodeString(cursor)
	if err != nil {
		return NotThisCursor(cursor)
	}
	in := cursorReader{rest: raw}
	generation, name := in.uvarint(), in.text()
	if in.bad || name != of {
		return NotThisCursor(cursor)
	}
	for i := range numbers {
		numbers[i] = in.varint()
	}
	for _, text := range texts {
		*text = in.text()
	}
	if in.bad || len(in.rest) > 0 {
		return NotThisCursor(cursor)
	}
	if generation != rx.generation() {
		return CursorExpired("the file was restored since the cursor was given")
	}
	return nil
}

// NotThisCursor is the error for a text that is no cursor of this list or stream.
func NotThisCursor(cursor string) error {
	return Invalid("give back a cursor as it was received, to the call for the same list or stream",
		"%q is no cursor of this list or stream", cursor)
}

// CursorExpired is the error for a cursor to something that is gone.
func CursorExpired(why string) error {
	return &engine.Failure{
		Kind: engine.ErrCursorExpired, Hint: "start over without the cursor", Err: errors.New(why),
	}
}

// generation distinguishes the files that a path has had: restoring a backup changes it.
func (rx *Rx) generation() uint64 { return rx.in.Engine.Generation() }

type cursorReader struct {
	rest []byte
	bad  bool
}

func (r *cursorReader) uvarint() uint64 {
	n, size := binary.Uvarint(r.rest)
	if !r.took(size) {
		return 0
	}
	return n
}

func (r *cursorReader) varint() int64 {
	n, size := binary.Varint(r.rest)
	if !r.took(size) {
		return 0
	}
	return n
}

// took advances past a number; false: there was none.
func (r *cursorReader) took(size int) bool {
	if size <= 0 {
		r.bad, r.rest = true, nil
		return false
	}
	r.rest = r.rest[size:]
	return true
}

func (r *cursorReader) text() string {
	size := r.uvarint()
	if size > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return ""
	}
	text := string(r.rest[:size])
	r.rest = r.rest[size:]
	return text
}
