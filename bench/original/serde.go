package original

import (
	"bytes"
	"strconv"

	"selvedge/internal/serdejson"
)

// A serde writes JSON as serde_json does, in the same pieces: each brace, comma, indent, quote,
// text, escape and number is a piece of its own. That matters where the original passes
// serde_json a file, which has no buffer: every piece is a write.
type serde struct {
	pretty bool               // two blanks a level
	write  func([]byte) error // takes each piece; nil keeps them all in text
	text   []byte
	err    error // the first error of write

	depth  int
	filled bool // the object or array that is open has something in it
	quoted []byte
}

func (w *serde) put(piece string) {
	w.text = append(w.text, piece...)
	w.flush()
}

func (w *serde) flush() {
	if w.write == nil || w.err != nil {
		return
	}
	w.err = w.write(w.text)
	w.text = w.text[:0]
}

// begin opens an object or an array.
func (w *serde) begin(brace string) {
	w.depth++
	w.filled = false
	w.put(brace)
}

// end closes it.
func (w *serde) end(brace string) {
	w.depth--
	if w.pretty && w.filled {
		w.put("\n")
		w.indent()
	}
	w.filled = true
	w.put(brace)
}

func (w *serde) indent() {
	for range w.depth {
		w.put("  ")
	}
}

// element goes to the next place in an array.
func (w *serde) element() {
	switch {
	case w.pretty && w.filled:
		w.put(",\n")
	case w.pretty:
		w.put("\n")
	case w.filled:
		w.put(",")
	}
	if w.pretty {
		w.indent()
	}
}

// key goes to the next member of an object.
func (w *serde) key(name string) {
	w.element()
	w.string(name)
	if w.pretty {
		w.put(": ")
	} else {
		w.put(":")
	}
}

func (w *serde) string(s string) {
	w.quoted = serdejson.AppendQuoted(w.quoted[:0], s)
	w.put(`"`)
	for rest := w.quoted[1 : len(w.quoted)-1]; len(rest) > 0; {
		n := pieceOf(rest)
		w.text = append(w.text, rest[:n]...)
		w.flush()
		rest = rest[n:]
	}
	w.put(`"`)
	w.filled = true
}

// pieceOf is the length of the text up to the next escape, or of the escape that it begins with.
func pieceOf(quoted []byte) int {
	switch at := bytes.IndexByte(quoted, '\\'); {
	case at < 0:
		return len(quoted)
	case at > 0:
		return at
	case quoted[1] == 'u':
		return len(`\u0000`)
	}
	return len(`\n`)
}

func (w *serde) number(n uint64) {
	w.text = strconv.AppendUint(w.text, n, 10)
	w.flush()
	w.filled = true
}

func (w *serde) null() {
	w.put("null")
	w.filled = true
}

// stringMember and numberMember are members of an object with such a value.
func (w *serde) stringMember(name, value string) {
	w.key(name)
	w.string(value)
}

func (w *serde) numberMember(name string, value uint64) {
	w.key(name)
	w.number(value)
}
