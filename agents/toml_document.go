package agents

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A decodeError reports why a document is no agent entry, in the words of the old registry if it
// has any.
type decodeError struct {
	Line   int    // from 1; 0 if the reason is about the whole document
	Reason string // such as "missing field `status`"
}

func (e *decodeError) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// A tomlTable is a table of a document, with its keys in the order of the document. go-toml parses
// the syntax; the tables are built here, because go-toml's own decoder has no integers above int64,
// ignores the case of keys, and drops unknown keys.
type tomlTable struct {
	keys   []string
	values map[string]*tomlValue
	made   madeBy
}

// madeBy is how a table was made. It decides what may add to it (toml.io/en/v1.0.0#table).
type madeBy int

const (
	byHeader madeBy = iota // [a]
	byPath                 // the a of [a.b]: its own header may still come
	byDots                 // the a of a.b = 1: more such keys may come
	byValue                // a = {…}: closed
)

// A tomlValue is a value; kind decides which of the other fields is set. Array is also the kind of
// an array of tables.
type tomlValue struct {
	kind  unstable.Kind
	line  int
	text  string // of a string: its contents; of other scalars: as written
	items []*tomlValue
	table *tomlTable // of the kinds table and InlineTable
	open  bool       // an array made by [[a]], to which more may be added
}

func newTable(made madeBy) *tomlTable {
	return &tomlTable{values: map[string]*tomlValue{}, made: made}
}

func (t *tomlTable) add(key string, v *tomlValue) {
	t.keys = append(t.keys, key)
	t.values[key] = v
}

var byteOrderMark = []byte("\ufeff")

// parseDocument reads a whole document.
func parseDocument(data []byte) (*tomlTable, error) {
	if !utf8.Valid(data) {
		return nil, &decodeError{Reason: "stream did not contain valid UTF-8"}
	}
	b := documentBuilder{data: bytes.TrimPrefix(data, byteOrderMark), root: newTable(byHeader)}
	b.current = b.root
	b.parser.Reset(b.data)
	for b.parser.NextExpression() {
		if err := b.expression(b.parser.Expression()); err != nil {
			return nil, err
		}
	}
	if err := b.parser.Error(); err != nil {
		if syntax, ok := errors.AsType[*unstable.ParserError](err); ok {
			return nil, &decodeError{Line: b.lineOf(syntax.Highlight), Reason: syntax.Message}
		}
		return nil, &decodeError{Reason: err.Error()}
	}
	return b.root, nil
}

type documentBuilder struct {
	data          []byte
	parser        unstable.Parser
	root, current *tomlTable
	line          int
	depth         int // of the arrays and inline tables around a value
}

func (b *documentBuilder) lineOf(part []byte) int {
	at := int(b.parser.Range(part).Offset)
	return 1 + bytes.Count(b.data[:at], []byte("\n"))
}

func (b *documentBuilder) table(made madeBy) *tomlValue {
	return &tomlValue{kind: unstable.Table, line: b.line, table: newTable(made)}
}

func (b *documentBuilder) fail(reason string) error {
	return &decodeError{Line: b.line, Reason: reason}
}

func (b *documentBuilder) expression(n *unstable.Node) error {
	parts := n.Key()
	key := keyOf(n.Key())
	if parts.Next() {
		b.line = b.lineOf(b.parser.Raw(parts.Node().Raw))
	}
	if n.Kind == unstable.Table || n.Kind == unstable.ArrayTable {
		return b.header(key, n.Kind == unstable.ArrayTable)
	}
	return b.keyValue(b.current, key, n.Value())
}

func keyOf(it unstable.Iterator) []string {
	var parts []string
	for it.Next() {
		parts = append(parts, string(it.Node().Data))
	}
	return parts
}

const (
	duplicateKey = "duplicate key"
	maxLevels    = 80 // of arrays and inline tables around a value, and parts of a key
)

// walk follows the path of a header or, byDots, of a key, and makes the tables that are missing.
func (b *documentBuilder) walk(at *tomlTable, path []string, made madeBy) (*tomlTable, error) {
	if len(path) >= maxLevels {
		return nil, b.fail("recursion limit")
	}
	for _, key := range path {
		v := at.values[key]
		switch {
		case v == nil:
			v = b.table(made)
			at.add(key, v)
		case v.open && made == byPath:
			v = v.items[len(v.items)-1]
		}
		if v.kind != unstable.Table || v.table.made == byValue || made == byDots && v.table.made != byDots {
			return nil, b.fail(duplicateKey)
		}
		at = v.table
	}
	return at, nil
}

// header begins the table of [path], or another one of the array [[path]].
func (b *documentBuilder) header(path []string, array bool) error {
	above, last := path[:len(path)-1], path[len(path)-1]
	parent, err := b.walk(b.root, above, byPath)
	if err != nil {
		return err
	}
	v := parent.values[last]
	switch {
	case v == nil && array:
		v = &tomlValue{kind: unstable.Array, line: b.line, open: true}
		parent.add(last, v)
	case v == nil:
		v = b.table(byHeader)
		parent.add(last, v)
	case !array && v.kind == unstable.Table && v.table.made == byPath:
		v.table.made = byHeader
	case !array || !v.open:
		return b.fail(duplicateKey)
	}
	if array {
		item := b.table(byHeader)
		v.items = append(v.items, item)
		v = item
	}
	b.current = v.table
	return nil
}

func (b *documentBuilder) keyValue(at *tomlTable, path []string, n *unstable.Node) error {
	above, last := path[:len(path)-1], path[len(path)-1]
	at, err := b.walk(at, above, byDots)
	if err == nil && at.values[last] != nil {
		err = b.fail(duplicateKey)
	}
	if err != nil {
		return err
	}
	v, err := b.value(n)
	if err != nil {
		return err
	}
	at.add(last, v)
	return nil
}

func (b *documentBuilder) value(n *unstable.Node) (*tomlValue, error) {
	v := &tomlValue{kind: n.Kind, line: b.line, text: string(n.Data)}
	if n.Kind == unstable.Array || n.Kind == unstable.InlineTable {
		b.depth++
		defer func() { b.depth-- }()
	}
	if b.depth > maxLevels {
		return nil, b.fail("cannot recurse further; max recursion depth met")
	}
	switch n.Kind { // the original checks each value, also those of keys that it does not know
	case unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		if !isTime(v.text) {
			return nil, b.fail("invalid datetime")
		}
	case unstable.Float:
		if _, err := parseFloat32(strings.ReplaceAll(v.text, "_", "")); err != nil {
			return nil, b.fail("floating-point number overflowed")
		}
	case unstable.Integer:
		if !fits128(v.text) {
			return nil, b.fail("integer number overflowed")
		}
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			item, err := b.value(it.Node())
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, item)
		}
	case unstable.InlineTable:
		v.kind, v.table = unstable.Table, newTable(byHeader)
		for it := n.Children(); it.Next(); {
			if err := b.keyValue(v.table, keyOf(it.Node().Key()), it.Node().Value()); err != nil {
				return nil, err
			}
		}
		v.table.made = byValue
	}
	return v, nil
}

const (
	literalMinute = `(?:[01]\d|2[0-3]):[0-5]\d`
	literalClock  = literalMinute + `(?::(?:[0-5]\d|60)(?:\.\d+)?)?`
)

// literalTime matches a date, a clock time, or both, and captures the date.
var literalTime = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` + literalClock + `|(\d{4}-\d\d-\d\d)(?:[Tt ]` + literalClock +
		`(?:[Zz]|[+-]` + literalMinute + `)?)?)$`)
})

// isTime reports whether the original reads a literal that looks like a date or a time.
func isTime(text string) bool {
	parts := literalTime().FindStringSubmatch(text)
	if parts == nil || parts[1] == "" {
		return parts != nil
	}
	_, err := time.Parse(time.DateOnly, parts[1])
	return err == nil
}

// fits128 reports whether an integer fits in Rust's i128 or u128.
func fits128(text string) bool {
	if len(text) < len("0x00000000000000000000000000000000") { // the shortest spelling of 128 bits
		return true
	}
	n, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 0)
	if ok && n.Sign() < 0 {
		return n.Not(n).BitLen() < 128
	}
	return ok && n.BitLen() <= 128
}
