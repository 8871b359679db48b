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
	case sortF32:
		if !serdejson.IsNumber(text) {
			return wrongType(text, "f32")
		}
	case sortUsize, sortI64, sortI32, sortU32:
		of := &wholeNumbers[sh.sort]
		if _, err := serdejson.Whole(text, of.least, of.largest, of.name); err != nil {
			return err.Error()
		}
	case sortList:
		if c != '[' {
			return wrongType(text, "a sequence")
		}
		s := serdejson.NewScanner(text)
		for range s.Elements() {
			element, _ := s.Value()
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
		if len(m.Members) != 1 || !sh.contents(m.Members[0].Value) {
			return "", wrongType(text, "a string")
		}
		got = serdejson.Unquote(m.Members[0].Key)
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
		return len(m.Members) == 0
	}
	return text[0] == 'n'
}

// wholeNumbers are the types of whole numbers.
var wholeNumbers = [...]struct {
	name    string
	least   int64
	largest uint64
}{
	sortUsize: {"usize", 0, math.MaxUint64},
	sortI64:   {"i64", math.MinInt64, math.MaxInt64},
	sortI32:   {"i32", math.MinInt32, math.MaxInt32},
	sortU32:   {"u32", 0, math.MaxUint32},
}

func wrongType(text []byte, expected string) string {
	return "invalid type: " + serdejson.Unexpected(text) + ", expected " + expected
}
