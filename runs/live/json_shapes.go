package live

import (
	"fmt"
	"math"
	"slices"

	"selvedge/internal/serdejson"
)

// A shape describes the JSON values that a Rust type is read from.
type shape struct {
	sort     sort
	words    []string // of sortWord
	empty    bool     // of sortWord: in an object, the word may also have {} as its value
	of       *shape   // of sortList
	fields   []field  // of sortObject
	nullable bool     // null, or an absent member, means none
}

type sort byte

const (
	sortText  sort = iota
	sortWord       // one of words, or an object with the word as its only name and null as value
	sortFlag       // true or false
	sortUsize      // 64 bits
	sortI64
	sortI32
	sortU32
	sortF32 // reads any number
	sortAny // any JSON
	sortList
	sortObject
)

type field struct {
	name    string
	shape   *shape
	absent  bool // the member can be missing
	element bool // the element can be missing too, at the end of an array for the object
}

var basicTypes = map[string]*shape{
	"text": {sort: sortText}, "flag": {sort: sortFlag}, "any": {sort: sortAny},
	"usize": {sort: sortUsize}, "i64": {sort: sortI64}, "i32": {sort: sortI32},
	"u32": {sort: sortU32}, "f32": {sort: sortF32},
	"status": {sort: sortWord, words: statuses},
}

// read returns why serde does not read a value into this type; "" if it does. A scanner has
// accepted the value.
func (sh *shape) read(text []byte) string {
	c := text[0]
	if sh.nullable && c == 'n' {
		return ""
	}
	switch sh.sort {
	case sortText:
		if c != '"' {
			return wrongType(text, "a string")
		}
	case sortFlag:
		if c != 't' && c != 'f' {
			return wrongType(text, "a boolean")
		}
	case sortWord:
		_, reason := sh.readWord(text)
		return reason
	case sortUsize, sortI64, sortI32, sortU32, sortF32:
		return sh.readNumber(text)
	case sortList:
		if c != '[' {
			return wrongType(text, "a sequence")
		}
		for element := range elementsOf(text) {
			if reason := sh.of.read(element); reason != "" {
				return reason
			}
		}
	case sortObject:
		if c != '{' && c != '[' {
			return wrongType(text, "a struct")
		}
		m, reason := spanMembers(serdejson.NewScanner(text), true)
		if reason == "" {
			reason = m.check(sh.fields)
		}
		return reason
	}
	return ""
}

func (sh *shape) readWord(text []byte) (got, reason string) {
	switch text[0] {
	case '"':
		got = serdejson.Unquote(text)
	case '{':
		m, _ := spanMembers(serdejson.NewScanner(text), false)
		if len(m.keys) != 1 || !sh.contents(m.values[0]) {
			return "", wrongType(text, "a string")
		}
		got = serdejson.Unquote(m.keys[0])
	default:
		return "", wrongType(text, "a string")
	}
	if slices.Contains(sh.words, got) {
		return got, ""
	}
	return "", fmt.Sprintf("unknown variant `%s`, expected %s", got, serdejson.OneOf(sh.words))
}

// contents reports whether a word that is the name in an object can have this value.
func (sh *shape) contents(text []byte) bool {
	if text[0] == '{' && sh.empty {
		m, _ := spanMembers(serdejson.NewScanner(text), false)
		return len(m.keys) == 0
	}
	return text[0] == 'n'
}

// numbers are the number types and the whole numbers that they hold.
var numbers = [...]struct {
	name string
	hold func(n serdejson.Number) bool
}{
	sortUsize: {"usize", func(n serdejson.Number) bool { return n.Kind == 'u' }},
	sortU32:   {"u32", func(n serdejson.Number) bool { return n.Kind == 'u' && n.Uint <= math.MaxUint32 }},
	sortI64:   {"i64", func(n serdejson.Number) bool { return n.Kind == 'i' || n.Uint <= math.MaxInt64 }},
	sortI32: {"i32", func(n serdejson.Number) bool {
		return n.Kind == 'i' && n.Int >= math.MinInt32 || n.Kind == 'u' && n.Uint <= math.MaxInt32
	}},
	sortF32: {"f32", nil}, // holds any number
}

func (sh *shape) readNumber(text []byte) string {
	of := &numbers[sh.sort]
	if !serdejson.IsNumber(text) {
		return wrongType(text, of.name)
	}
	n := serdejson.ParseNumber(text)
	switch {
	case of.hold == nil:
	case n.Kind == 'f':
		return wrongType(text, of.name)
	case !of.hold(n):
		return "invalid value: " + serdejson.Unexpected(text) + ", expected " + of.name
	}
	return ""
}

func wrongType(text []byte, expected string) string {
	return "invalid type: " + serdejson.Unexpected(text) + ", expected " + expected
}
