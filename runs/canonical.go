package runs

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Canonical is raw as the original writes a free-form value it has read: without blanks, object keys in byte order, the
// last of equal keys, strings with the fewest escapes, integers beyond 64 bits as floats, floats in their shortest form
// (1.0, 1e+16, 1e-6). Two values are the same to the original if their canonical forms are.
//
// It is applied where a trace line is written from a record ([Encode]), never to what a store hands back: a reader gets
// the bytes that were given. Lines that came from the original keep their own bytes and do not pass through here.
// Nothing, and null, give null.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if nothing(raw) {
		return json.RawMessage("null"), nil
	}
	if reason := checkJSON(raw, 0); reason != "" {
		return nil, &DecodeError{Reason: reason}
	}
	return appendCanonical(nil, raw), nil
}

// appendCanonical takes a value that the scanner has accepted.
func appendCanonical(dst, raw []byte) []byte {
	s := scanner{data: raw, levels: maxLevels}
	return s.canonical(dst)
}

// canonicalMember is a member that has been written: its key, and where it stands with its value.
type canonicalMember struct {
	key        string
	start, end int
}

func (s *scanner) canonical(dst []byte) []byte {
	switch c := s.peek(); c {
	case '{':
		return s.canonicalObject(dst)
	case '[':
		s.enter()
		dst = append(dst, '[')
		for first := true; ; first = false {
			if more, _ := s.nextElement(first); !more {
				return append(dst, ']')
			}
			if !first {
				dst = append(dst, ',')
			}
			dst = s.canonical(dst)
		}
	default:
		text, _ := s.value()
		switch {
		case c == '"' && !fewestEscapes(text):
			return appendQuoted(dst, unquote(text))
		case c == '-' || isDigit(c):
			return appendNumber(dst, text)
		}
		return append(dst, text...)
	}
}

// fewestEscapes reports whether a string is certainly written as appendQuoted would write it.
func fewestEscapes(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return true
		}
		if c := text[i+1]; c == '/' || c == 'u' {
			return false
		}
		text = text[i+2:]
	}
}

// canonicalObject writes the members as they come, and again in order where they came in another one.
func (s *scanner) canonicalObject(dst []byte) []byte {
	var few [8]canonicalMember
	members := few[:0]
	s.enter()
	dst = append(dst, '{')
	body, ordered := len(dst), true
	for first := true; ; first = false {
		quoted, more, _ := s.nextKey(first)
		if !more {
			break
		}
		key := unquote(quoted)
		if !first {
			dst = append(dst, ',')
			ordered = ordered && members[len(members)-1].key < key
		}
		start := len(dst)
		dst = s.canonical(append(appendQuoted(dst, key), ':'))
		members = append(members, canonicalMember{key: key, start: start - body, end: len(dst) - body})
	}
	if ordered {
		return append(dst, '}')
	}
	// Stable, so that the last of equal keys stays behind the others.
	slices.SortStableFunc(members, func(a, b canonicalMember) int { return strings.Compare(a.key, b.key) })
	asTheyCame := bytes.Clone(dst[body:])
	dst = dst[:body]
	for i, m := range members {
		if i+1 < len(members) && members[i+1].key == m.key {
			continue
		}
		if len(dst) > body {
			dst = append(dst, ',')
		}
		dst = append(dst, asTheyCame[m.start:m.end]...)
	}
	return append(dst, '}')
}

// number is a JSON number as the original holds it: the first of uint64, int64 and float64 that fits.
type number struct {
	kind byte // 'u', 'i' or 'f'
	u    uint64
	i    int64
	f    float64
}

// parseNumber takes a number that the scanner has accepted.
func parseNumber(text []byte) number {
	if text[0] != '-' {
		if u, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			return number{kind: 'u', u: u}
		}
	} else if i, err := strconv.ParseInt(string(text), 10, 64); err == nil && i < 0 {
		return number{kind: 'i', i: i}
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	return number{kind: 'f', f: f}
}

func appendNumber(dst, text []byte) []byte {
	switch n := parseNumber(text); n.kind {
	case 'u':
		return strconv.AppendUint(dst, n.u, 10)
	case 'i':
		return strconv.AppendInt(dst, n.i, 10)
	default:
		return appendFloat(dst, n.f)
	}
}

// appendFloat writes the shortest digits that read back as f, as serde_json 1.0.154 does: with a point for decimal
// exponents from -5 to 15, else like 1e+16 and 1.5e-7.
func appendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		if math.Signbit(f) {
			dst = append(dst, '-')
		}
		return append(dst, '0', '.', '0')
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	mark := start + bytes.LastIndexByte(dst[start:], 'e')
	exponent, _ := strconv.Atoi(string(dst[mark+1:]))
	if exponent < -5 || exponent > 15 {
		// Go pads the exponent to two digits.
		if dst[mark+2] == '0' {
			dst = append(dst[:mark+2], dst[mark+3:]...)
		}
		return dst
	}
	dst = strconv.AppendFloat(dst[:start], f, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	return dst
}
