package maintenance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An eraser puts a mark over what a pattern finds, or with nil over everything, and leaves every
// text as long as it was: sizes of rows, and the running totals of traces, stay true.
type eraser struct{ pattern *regexp.Regexp }

const redactedMark = "[redacted]"

func mark(length int) []byte {
	text := bytes.Repeat([]byte("*"), length)
	if length >= len(redactedMark) {
		copy(text, redactedMark)
	}
	return text
}

// A place is where something stands in a text, from its first byte to behind its last.
type place struct{ from, to int }

// joined gives the places in their order, as one where they meet.
func joined(places []place) (list []place) {
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	for _, p := range places {
		if last := len(list) - 1; last >= 0 && p.from < list[last].to {
			list[last].to = max(list[last].to, p.to)
		} else {
			list = append(list, p)
		}
	}
	return list
}

// marked gives a text with a mark over each place, and how many there are of them that were not there before.
func marked(text []byte, places []place) (out []byte, n int64) {
	out = text
	for _, p := range joined(places) {
		m := mark(p.to - p.from)
		if bytes.Equal(m, text[p.from:p.to]) {
			continue
		}
		if n == 0 {
			out = bytes.Clone(text)
		}
		copy(out[p.from:], m)
		n++
	}
	return out, n
}

// plain gives a text with marks over what stands there as it is.
func (e eraser) plain(text []byte) ([]byte, int64) {
	places := []place{{0, len(text)}}
	if e.pattern != nil {
		places = nil
		for _, p := range e.pattern.FindAllIndex(text, -1) {
			places = append(places, place{p[0], p[1]})
		}
	}
	return marked(text, places)
}

// mostDeep is how often escapes are read of what they stand for. JSON in JSON doubles them each
// time, and so ends long before; only a text that is made for it has more, as \u005cu005cu005c, and
// each time is one through all of it.
const mostDeep = 64

// text does it to a text that may hold JSON, or a piece of a program, in which a pattern stands
// behind escapes: tools are often called with JSON in a string, and that may hold JSON in a string.
func (e eraser) text(text []byte) ([]byte, int64) {
	if e.pattern == nil {
		return e.plain(text)
	}
	return marked(text, e.through(text, nil))
}

// through finds the pattern in what is said, which from leads back to a text, and in what its
// escapes stand for. A place in the text comes again for each escape that was taken away around it:
// with what the pattern finds then it is one.
func (e eraser) through(said []byte, from []int) (places []place) {
	for deep := 0; ; deep++ {
		for _, p := range e.pattern.FindAllIndex(said, -1) {
			places = append(places, place{origin(from, p[0]), origin(from, p[1])})
		}
		if deep == mostDeep || bytes.IndexByte(said, '\\') < 0 {
			return places
		}
		said, from = unescaped(said, from)
	}
}

// origin is where a byte that is said stands in the text.
func origin(from []int, at int) int {
	if from == nil {
		return at
	}
	return from[at]
}

// unescaped gives a text with what its escapes stand for, once, and where each of its bytes, and
// its end, is in the text that from leads to; nil leads to the text itself.
func unescaped(text []byte, from []int) (said []byte, at []int) {
	for i := 0; i < len(text); {
		piece, size := text[i:i+1], 1
		if text[i] == '\\' {
			piece, size = escape(text[i:])
		}
		for range piece {
			at = append(at, origin(from, i))
		}
		said = append(said, piece...)
		i += size
	}
	return said, append(at, origin(from, len(text)))
}

// escape reads the escape that a text begins with, of JSON or as \x2d in a program, and gives its
// length. A backslash before anything else, or at the end, goes.
func escape(text []byte) (piece []byte, size int) {
	number := func(digits []byte, most int) (rune, bool) {
		n, err := strconv.ParseUint(string(digits[:min(most, len(digits))]), 16, 32)
		return rune(n), len(digits) >= most && err == nil
	}
	if len(text) == 1 {
		return nil, 1
	}
	switch c := text[1]; c {
	case 'n', 't', 'r', 'b', 'f':
		return []byte{"\n\t\r\b\f"[strings.IndexByte("ntrbf", c)]}, 2
	case 'x':
		if r, ok := number(text[2:], 2); ok {
			return []byte{byte(r)}, 4
		}
	case 'u':
		r, ok := number(text[2:], 4)
		if !ok {
			break
		}
		if utf16.IsSurrogate(r) && bytes.HasPrefix(text[6:], []byte(`\u`)) {
			if low, ok := number(text[8:], 4); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
				return utf8.AppendRune(nil, utf16.DecodeRune(r, low)), 12
			}
		}
		return utf8.AppendRune(nil, r), 6
	}
	return text[1:2], 2
}

// keptMembers are the members of JSON whose texts are the program's own words, ids or times, which
// stay where all else is erased.
var keptMembers = []string{
	"record", "type", "kind", "status", "verdict", "verifier_verdict", "role", "severity", "code", "id", "ref",
	"start", "from", "to", "timestamp", "output_key", "failure_behavior", "record_version", "version",
	"workflow_id",
}

// wordOfStage is one more in the document of a workflow: the word for how the agents of a stage
// work together, without which it can't be read.
const wordOfStage = "pattern"

func keptMember(name string) bool {
	return slices.Contains(keptMembers, name) || strings.HasSuffix(name, "_id") ||
		strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_ms") || strings.HasSuffix(name, "_ids")
}

// toolMembers are the members of JSON, and the columns, that hold what tools were given and gave
// back, and stateMembers those of the document of a workflow that hold any JSON; its outputs and
// results are of stages, and have types. In these nothing is the program's own.
var (
	toolMembers  = []string{"parameters", "output", "args", "arguments", "input", "result"}
	stateMembers = []string{
		"wf_state", "final_state", "state_changes", "metadata", "config", "parameters", "context", "response",
		"data", "value", "expected_value", "expected_effects",
	}
)

// json does it to the strings of JSON, and to its numbers where there is a pattern, or nothing is
// the program's own. It is the text of a column of that name. Text that is no JSON, a torn line
// say, is gone over as JSON as far as it goes, and then as text.
func (e eraser) json(column string, text []byte) ([]byte, int64) {
	if e.pattern == nil && !json.Valid(text) {
		return e.plain(text)
	}
	out, n := text, int64(0)
	put := func(at int, piece []byte) {
		if n == 0 {
			out = bytes.Clone(text)
		}
		copy(out[at:], piece)
		n++
	}
	type value struct {
		member string // it is in, and so are the elements of a list
		bare   bool   // nothing of it is kept
	}
	bare := toolMembers
	if column == "document" {
		bare = stateMembers
	}
	in := value{column, slices.Contains(bare, column)}
	var around []value
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			end := literalEnd(text, i)
			literal := text[i:end]
			isName := bytes.HasPrefix(bytes.TrimLeft(text[end:], " \t\r\n"), []byte(":"))
			if isName {
				in = value{bare: len(around) > 0 && around[len(around)-1].bare}
				_ = json.Unmarshal(literal, &in.member)
				in.bare = in.bare || slices.Contains(bare, in.member)
			}
			kept := keptMember(in.member) || column == "document" && in.member == wordOfStage
			if e.pattern != nil || !isName && (in.bare || !kept) {
				if piece, ok := e.literal(literal); ok {
					put(i, piece)
				}
			}
			i = end
		case c == '{' || c == '[':
			around = append(around, in)
			i++
		case c == '}' || c == ']':
			if len(around) > 0 { // a torn line may end what it did not begin
				in, around = around[len(around)-1], around[:len(around)-1]
			}
			i++
		case (e.pattern != nil || in.bare) && (c == '-' || c >= '0' && c <= '9'):
			end := i + 1
			for end < len(text) && strings.IndexByte("0123456789+-.eE", text[end]) >= 0 {
				end++
			}
			if string(text[i:end]) != "0" && (e.pattern == nil || e.pattern.Match(text[i:end])) {
				put(i, append([]byte("0"), bytes.Repeat([]byte(" "), end-i-1)...))
			}
			i = end
		default:
			i++
		}
	}
	if e.pattern != nil && !json.Valid(text) {
		more, m := e.text(out)
		return more, n + m
	}
	return out, n
}

// literalEnd is the place behind the string that begins at i.
func literalEnd(text []byte, i int) int {
	for j := i + 1; j < len(text); j++ {
		switch text[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(text)
}

// literal erases in a string of JSON. A mark is as long as what the string says there, so that it
// is that of the column which holds the same without escapes; all else stays as it is written, and
// where the string becomes shorter blanks are behind it. Where it can't be read its bytes are a
// text.
func (e eraser) literal(literal []byte) (erased []byte, ok bool) {
	if json.Unmarshal(literal, new(string)) != nil {
		piece, n := e.plain(literal)
		return piece, n > 0
	}
	inner := literal[1 : len(literal)-1]
	said, from := asText(unescaped(inner, nil))
	places := []place{{0, len(said)}}
	if e.pattern != nil {
		places = e.through(said, nil)
	}
	erased, done := []byte{'"'}, 0
	for _, p := range joined(places) {
		m := mark(p.to - p.from)
		if bytes.Equal(m, said[p.from:p.to]) {
			continue
		}
		at, end := from[p.from], from[p.to]
		erased = append(append(erased, inner[done:at]...), m[:min(len(m), end-at)]...)
		done, ok = end, true
	}
	erased = append(append(erased, inner[done:]...), '"')
	return append(erased, bytes.Repeat([]byte(" "), len(literal)-len(erased))...), ok
}

// asText has U+FFFD for each byte that is no UTF-8, as a reader of JSON has.
func asText(said []byte, from []int) (text []byte, at []int) {
	if utf8.Valid(said) {
		return said, from
	}
	for i := 0; i < len(said); {
		r, size := utf8.DecodeRune(said[i:])
		text = utf8.AppendRune(text, r)
		for range len(text) - len(at) {
			at = append(at, from[i])
		}
		i += size
	}
	return text, append(at, from[len(said)])
}
