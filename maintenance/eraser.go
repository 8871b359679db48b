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

	"selvedge/internal/engine"
)

// An eraser overwrites every match of a pattern, or everything if the pattern is nil, with a mark
// of the same length, so that the sizes of rows and the running totals of traces stay correct.
type eraser struct{ pattern *regexp.Regexp }

const redactedMark = "[redacted]"

func mark(length int) []byte {
	text := bytes.Repeat([]byte("*"), length)
	if length >= len(redactedMark) {
		copy(text, redactedMark)
	}
	return text
}

// A place is a range of bytes in a text, from its first byte to the one after its last.
type place struct{ from, to int }

// joined returns the places in order, with overlapping ones joined.
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

// marked returns a text with a mark over each place, and the number of marks that are new.
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

// plain returns a text with marks over the matches, without reading escapes.
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

// mostDeep bounds the rounds of unescaping. JSON in JSON doubles its escapes at each level, and so
// ends long before; only a crafted text, such as \u005cu005cu005c, has more levels, and each round
// reads all of it.
const mostDeep = 64

// text erases in a text that may hold JSON or source code, in which escapes may hide a match: tools
// are often called with JSON in a string, and that may hold JSON in a string.
func (e eraser) text(text []byte) ([]byte, int64) {
	if e.pattern == nil {
		return e.plain(text)
	}
	return marked(text, e.through(text, nil))
}

// through returns the matches of the pattern in said, and in said after each round of unescaping,
// as places in the original text; from maps the bytes of said to that text. The same place can
// appear once per round; joined merges the repeats.
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

// origin returns the position in the original text of a byte of the unescaped one.
func origin(from []int, at int) int {
	if from == nil {
		return at
	}
	return from[at]
}

// unescaped undoes one level of escapes in a text. It also returns the position of each byte, and
// of the end, in the original text that from maps to; nil maps to the text itself.
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

// escape reads the escape that a text begins with, of JSON or like \x2d in source code, and returns
// its length. A backslash before anything else, or at the end, is dropped.
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

// keptMembers are the members of JSON with the program's own words, ids or times. They stay when
// everything else is erased.
var keptMembers = engine.Words(`record type kind status verdict verifier_verdict role severity code id ref
	start from to timestamp output_key failure_behavior record_version version workflow_id`)

// wordOfStage is another kept member, in the document of a workflow: the word for how the agents of
// a stage work together. The document can't be read without it.
const wordOfStage = "pattern"

func keptMember(name string) bool {
	return keptMembers[name] || strings.HasSuffix(name, "_id") ||
		strings.HasSuffix(name, "_at") || strings.HasSuffix(name, "_ms") || strings.HasSuffix(name, "_ids")
}

// toolMembers are the members of JSON, and the columns, with the input and output of tools.
// stateMembers are the members of the document of a workflow that hold any JSON; its outputs and
// results belong to stages, and have types. Nothing in these members is the program's own.
var (
	toolMembers  = engine.Words("parameters output args arguments input result")
	stateMembers = engine.Words(`wf_state final_state state_changes metadata config parameters context response
		data value expected_value expected_effects`)
)

// json erases in the strings of JSON, and in its numbers if there is a pattern or nothing around
// them is the program's own. column is the name of the column that holds text. With a pattern,
// invalid JSON, such as a torn line, is treated as JSON as far as possible, and then as text.
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
		member string // that holds it, also for the elements of a list
		bare   bool   // nothing of it is kept
	}
	bare := toolMembers
	if column == "document" {
		bare = stateMembers
	}
	in := value{column, bare[column]}
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
				in.bare = in.bare || bare[in.member]
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
			if len(around) > 0 { // a torn line may close more than it opened
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

// literalEnd returns the position after the string that begins at i.
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

// literal erases in a string of JSON. A mark is as long as the unescaped match, so that it equals
// the mark in a column that holds the same text without escapes. The rest stays as it is written; a
// string that becomes shorter is padded with blanks after it. An unreadable string is erased as
// plain text.
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

// asText replaces each byte that is not valid UTF-8 with U+FFFD, as a reader of JSON does.
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
