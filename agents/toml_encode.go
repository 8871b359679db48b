package agents

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// TOML returns the entry as a file of the old registry: the document that it came from if the
// fields still agree with it, else a new one, with unknown keys after the others of their table.
func (e Entry) TOML() []byte {
	if e.kept.document == nil {
		return e.encode()
	}
	was, err := DecodeTOML(e.kept.document)
	if err == nil && e.SessionID == e.kept.documentOf {
		was.SessionID = e.SessionID
		if bytes.Equal(was.encode(), e.encode()) {
			return e.kept.document
		}
	}
	root, err := parseDocument(e.kept.document)
	if err != nil {
		return e.encode() // no document of ours can be unreadable; the fields are right
	}
	return e.encodeWith(root)
}

func (e Entry) encode() []byte { return e.encodeWith(nil) }

// encodeWith follows the original's layout: keys in the order of the struct, empty lists among
// them, then the tables. from, which may be nil, is the document whose unknown keys are to be kept.
func (e Entry) encodeWith(from *tomlTable) []byte {
	dst := appendFields(nil, fieldsOf(&e), e.timeText, from)
	dst = append(dst, "\n[usage_summary]\n"...)
	dst = appendFields(dst, fieldsOf(&e.UsageSummary), nil, from.tableAt("usage_summary", 0))
	for i, q := range e.ContextQueries {
		dst = append(dst, "\n[[context_queries]]\n"...)
		dst = appendFields(dst, fieldsOf(&q), q.timeText, from.tableAt("context_queries", i))
	}
	return dst
}

func appendFields(dst []byte, fields []field, text timeWriter, from *tomlTable) []byte {
	for _, f := range fields {
		dst = appendField(dst, f, text)
	}
	return appendUnknown(dst, from, fields)
}

// tableAt returns the table at key, or the i-th table of the array at key; nil if there is none.
func (t *tomlTable) tableAt(key string, i int) *tomlTable {
	if t == nil || t.values[key] == nil {
		return nil
	}
	v := t.values[key]
	if v.kind == unstable.Array {
		if i >= len(v.items) {
			return nil
		}
		v = v.items[i]
	}
	return v.table
}

// appendField writes a key with its value. A value with a table of its own is left out.
func appendField(dst []byte, f field, text timeWriter) []byte {
	start := len(dst)
	dst = append(append(dst, f.name...), " = "...)
	switch v := f.value(text).(type) {
	case string:
		dst = appendString(dst, v)
	case uint64:
		dst = strconv.AppendUint(dst, v, 10)
	case float32:
		dst = append(dst, floatText(v)...)
	case []string:
		dst = appendStrings(dst, v)
	case []ContextQuery:
		if len(v) > 0 {
			return dst[:start]
		}
		dst = append(dst, "[]"...)
	default:
		return dst[:start]
	}
	return append(dst, '\n')
}

func appendStrings(dst []byte, list []string) []byte {
	switch len(list) {
	case 0:
		return append(dst, "[]"...)
	case 1: // on one line, however long
		return append(appendString(append(dst, '['), list[0]), ']')
	}
	dst = append(dst, "[\n"...)
	for _, text := range list {
		dst = append(appendString(append(dst, "    "...), text), ",\n"...)
	}
	return append(dst, ']')
}

// appendUnknown writes the keys of from that fields do not name. Tables are written inline: the
// value is the same, and no header captures the keys after it.
func appendUnknown(dst []byte, from *tomlTable, fields []field) []byte {
	if from == nil {
		return dst
	}
	for _, key := range from.keys {
		known := slices.ContainsFunc(fields, func(f field) bool { return f.name == key })
		if value := from.values[key]; !known && value.levels() <= maxLevels {
			dst = append(appendKey(dst, key), " = "...)
			dst = append(appendValue(dst, value), '\n')
		}
	}
	return dst
}

// levels counts the arrays and inline tables that appendValue nests. Headers and dotted keys can make
// more of them than can be read as a value.
func (v *tomlValue) levels() int {
	inside := v.items
	switch v.kind {
	case unstable.Table:
		inside = slices.Collect(maps.Values(v.table.values))
	case unstable.Array:
	default:
		return 0
	}
	deepest := 0
	for _, item := range inside {
		deepest = max(deepest, item.levels())
	}
	return 1 + deepest
}

func appendValue(dst []byte, v *tomlValue) []byte {
	switch v.kind {
	case unstable.String:
		return appendString(dst, v.text)
	case unstable.Array:
		dst = append(dst, '[')
		for i, item := range v.items {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendValue(dst, item)
		}
		return append(dst, ']')
	case unstable.Table:
		dst = append(dst, '{')
		for i, key := range v.table.keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendKey(append(dst, ' '), key), " = "...)
			dst = appendValue(dst, v.table.values[key])
		}
		return append(dst, " }"...)
	}
	return append(dst, v.text...)
}

func appendKey(dst []byte, key string) []byte {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if key != "" && strings.Trim(key, bare) == "" {
		return append(dst, key...)
	}
	return appendBasic(dst, key, 0)
}

// appendString chooses between TOML's four kinds of string as the original's library does
// (toml_writer 1, the rules of its as_default): the first that needs no escape, and among those
// with escapes the one with or without line breaks.
func appendString(dst []byte, s string) []byte {
	newline := strings.Contains(s, "\n")
	backslash := strings.Contains(s, `\`)
	control := strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' || r == 0x7f
	})
	double, single := longestRun(s, `"`), longestRun(s, `'`)
	lead := ""
	if newline {
		lead = "\n"
	}
	switch {
	case !control && !backslash && double == 0 && !newline:
		return appendBasic(dst, s, 0)
	case !control && single == 0 && !newline:
		return append(append(append(dst, '\''), s...), '\'')
	case !control && !backslash && double <= 2, newline && (control || single > 2):
		return append(appendEscaped(append(append(dst, `"""`...), lead...), s, 2), `"""`...)
	case !control && single <= 2:
		return append(append(append(append(dst, "'''"...), lead...), s...), "'''"...)
	}
	return appendBasic(dst, s, 0)
}

func appendBasic(dst []byte, s string, quotes int) []byte {
	return append(appendEscaped(append(dst, '"'), s, quotes), '"')
}

// appendEscaped writes the inside of a basic string. quotes is how many double quotes may stand in
// a row unescaped; if it is not 0, the string is a multi-line one.
func appendEscaped(dst []byte, s string, quotes int) []byte {
	short := map[byte]string{'\b': `\b`, '\t': `\t`, '\f': `\f`, '\r': `\r`, '\\': `\\`}
	row := 0
	for i := range len(s) {
		c := s[i]
		if c == '"' {
			row++
			if row > quotes {
				dst, row = append(dst, `\"`...), 0
			} else {
				dst = append(dst, c)
			}
			continue
		}
		row = 0
		switch text, ok := short[c]; {
		case ok:
			dst = append(dst, text...)
		case c == '\n' && quotes == 0:
			dst = append(dst, `\n`...)
		case c < 0x20 && c != '\n' || c == 0x7f:
			dst = fmt.Appendf(dst, `\u%04X`, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// longestRun returns how many c stand in a row, up to three.
func longestRun(s, c string) (n int) {
	for n < 3 && strings.Contains(s, strings.Repeat(c, n+1)) {
		n++
	}
	return n
}

// floatText returns f as the original writes it: positional, in the shortest digits that parse as
// the same float32.
func floatText(f float32) string {
	wide := float64(f)
	switch {
	case math.IsNaN(wide): // whatever its sign
		return "nan"
	case math.IsInf(wide, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(wide, 'f', -1, 32), "+"))
	}
	text := strconv.FormatFloat(wide, 'f', -1, 32)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
