package serdejson

import (
	"bytes"
	"strings"
	"unicode/utf16"
)

// The characters that have a short escape, and their letters in it, by place.
const (
	shortEscapes = "\b\f\n\r\t\"\\"
	shortNames   = `bfnrt"\`
)

// Unquote reads a string that a scanner has accepted.
func Unquote(text []byte) string {
	inner := text[1 : len(text)-1]
	next := bytes.IndexByte(inner, '\\')
	if next < 0 {
		return string(inner)
	}
	var out strings.Builder
	out.Grow(len(inner))
	for ; next >= 0; next = bytes.IndexByte(inner, '\\') {
		out.Write(inner[:next])
		c := inner[next+1]
		inner = inner[next+2:]
		switch i := strings.IndexByte(shortNames, c); {
		case i >= 0:
			out.WriteByte(shortEscapes[i])
		case c == 'u':
			r, _ := hexUnit(inner)
			inner = inner[4:]
			if utf16.IsSurrogate(r) {
				low, _ := hexUnit(inner[2:])
				r, inner = utf16.DecodeRune(r, low), inner[6:]
			}
			out.WriteRune(r)
		default:
			out.WriteByte(c)
		}
	}
	out.Write(inner)
	return out.String()
}

// KeyIs compares a key as it is in the input. Only keys with escapes, which are rare, are decoded.
func KeyIs(key []byte, name string) bool {
	if len(key) == len(name)+2 {
		return string(key[1:len(key)-1]) == name
	}
	return len(key) > len(name)+2 && bytes.IndexByte(key, '\\') >= 0 && Unquote(key) == name
}

// AppendQuoted writes a string as serde_json does: it escapes only what it must, in a short form if
// there is one, else in lower-case hex.
func AppendQuoted(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(append(dst, '"'), s...)
	begin := len(dst) - len(s)
	plain := plainPrefix(dst[begin:])
	dst = dst[:begin+plain]
	start := plain
	for i := plain; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		if i := strings.IndexByte(shortEscapes, c); i >= 0 {
			dst = append(dst, '\\', shortNames[i])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[start:]...), '"')
}
