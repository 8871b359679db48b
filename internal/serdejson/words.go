package serdejson

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Unexpected describes a value as the originals' error texts do.
func Unexpected(text []byte) string {
	switch c := text[0]; {
	case c == 'n':
		return "null"
	case c == 't' || c == 'f':
		return "boolean `" + string(text) + "`"
	case c == '"':
		return "string " + quoteDebug(Unquote(text))
	case c == '[':
		return "sequence"
	case c == '{':
		return "map"
	}
	n := ParseNumber(text)
	if n.Kind == 'f' {
		return "floating point `" + string(AppendFloat(nil, n.Float)) + "`"
	}
	return "integer `" + string(text) + "`"
}

// quoteDebug quotes s as Rust's {:?} does, as far as error texts go.
func quoteDebug(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r == 0:
			out.WriteString(`\0`)
		case !strconv.IsPrint(r) || unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend):
			fmt.Fprintf(&out, `\u{%x}`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// OneOf lists the allowed words.
func OneOf(words []string) string {
	if len(words) == 2 {
		return "`" + words[0] + "` or `" + words[1] + "`"
	}
	return "one of `" + strings.Join(words, "`, `") + "`"
}

// Count is a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
