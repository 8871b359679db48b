package serdejson

import (
	"bytes"
	"math"
	"slices"
	"strings"
)

// AppendCanonical writes a value that a scanner has accepted as the originals write a free-form value:
// without blanks, object keys in byte order, the last of equal keys, strings with the fewest
// escapes, integers beyond 64 bits as floats, floats in their shortest form (1.0, 1e+16, 1e-6). Two
// values are the same to the originals if their canonical forms are. It is not ok if raw is damaged.
func AppendCanonical(dst, raw []byte) (canonical []byte, ok bool) {
	s := Scanner{data: raw, levels: math.MaxInt}
	dst = s.canonical(dst)
	s.Peek()
	return dst, s.reason == "" && s.AtEnd()
}

// canonicalMember is a member that has been written: its key, and where it is with its value.
type canonicalMember struct {
	key        string
	start, end int
}

func (s *Scanner) canonical(dst []byte) []byte {
	switch s.Peek() {
	case '{':
		return s.canonicalObject(dst)
	case '[':
		dst = append(dst, '[')
		body := len(dst)
		for range s.Elements() {
			if len(dst) > body {
				dst = append(dst, ',')
			}
			dst = s.canonical(dst)
		}
		return append(dst, ']')
	default:
		text, ok := s.Value()
		switch {
		case !ok:
		case bytes.IndexByte(text, '\\') >= 0:
			return AppendQuoted(dst, Unquote(text))
		case IsNumber(text):
			if n := ParseNumber(text); n.Kind == 'f' {
				return AppendFloat(dst, n.Float)
			}
		}
		return append(dst, text...)
	}
}

// canonicalObject writes the members as they come. If they are not in order, it writes them again.
func (s *Scanner) canonicalObject(dst []byte) []byte {
	var few [8]canonicalMember
	members := few[:0]
	dst = append(dst, '{')
	body, ordered := len(dst), true
	for quoted := range s.Elements() {
		key := Unquote(quoted)
		if len(members) > 0 {
			dst = append(dst, ',')
			ordered = ordered && members[len(members)-1].key < key
		}
		start := len(dst)
		dst = s.canonical(append(AppendQuoted(dst, key), ':'))
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
