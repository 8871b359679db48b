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

var debugEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, 0: `\0`,
}

// quoteDebug quotes s as Rust's {:?} does, as far as error texts go.
func quoteDebug(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch escape, ok := debugEscapes[r]; {
		case ok:
			out.WriteString(escape)
		case !strconv.IsPrint(r) || unicode.In(r, unicode.Mn, unicode.Me, unicode.Other_Grapheme_Extend):
			fmt.Fprintf(&out, `\u{%x}`, r)
		default:
			out.WriteRune(r)
		}
	}
	return `"` + out.String() + `"`
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
