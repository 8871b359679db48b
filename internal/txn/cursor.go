package txn

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"

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
	in := cursorReader{Reader: bytes.NewReader(raw)}
	generation, name := in.uvarint(), in.text()
	if in.err != nil || name != of {
		return NotThisCursor(cursor)
	}
	for i := range numbers {
		numbers[i] = in.varint()
	}
	for _, text := range texts {
		*text = in.text()
	}
	if in.err != nil || in.Len() > 0 {
		return NotThisCursor(cursor)
	}
	if generation != rx.generation() {
		return CursorExpired("the file was restored since the cursor was given")
	}
	return nil
}

// ReadListCursor is ReadCursor for a list whose position begins with a number of what is listed: of a
// scope, say. place has that number; a cursor with another one is ErrInvalid. "" is the beginning of
// the list, and changes nothing.
func (rx *Rx) ReadListCursor(list, cursor string, place []int64, texts ...*string) error {
	if cursor == "" {
		return nil
	}
	of := place[0]
	err := rx.ReadCursor(list, cursor, place, texts...)
	if err == nil && place[0] != of {
		err = NotThisCursor(cursor)
	}
	return err
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

// A cursorReader reads the parts of a cursor, up to the first that is not there.
type cursorReader struct {
	*bytes.Reader
	err error
}

func (r *cursorReader) uvarint() (n uint64) {
	if r.err == nil {
		n, r.err = binary.ReadUvarint(r)
	}
	return n
}

func (r *cursorReader) varint() (n int64) {
	if r.err == nil {
		n, r.err = binary.ReadVarint(r)
	}
	return n
}

func (r *cursorReader) text() string {
	size := r.uvarint()
	if r.err == nil && size > uint64(r.Len()) {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return ""
	}
	text := make([]byte, size)
	_, r.err = io.ReadFull(r, text)
	return string(text)
}
