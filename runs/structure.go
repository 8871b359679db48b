package runs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"selvedge/internal/serdejson"
)

// How the original's library (serde, with derived readers over a buffered value) reads JSON into
// its types: which shapes it accepts for a struct, an enum and a number, and its errors for all
// others.

// structure is a struct as serde's derived reader sees it.
type structure struct {
	name     string   // its name in error texts
	fields   []string // in order of declaration, which is the order in an array
	required int      // an array must have at least this many elements
}

var (
	startedStructure = structure{
		"struct RunStarted",
		split("run_id agent_id intent outcome_description started_at"), 5,
	}
	turnStructure = structure{
		"struct RunTurn",
		split("index prompt tool parameters output cli_outcome verifier_verdict policy_rejected"), 7,
	}
	endedStructure       = structure{"struct RunEnded", split("run_id agent_id termination ended_at"), 4}
	terminationStructure = structure{"struct variant RunTermination::Outcome", split("status outcome"), 2}
	agentStructure       = structure{
		"struct AgentOutcome",
		split("status summary evidence metrics timestamp"), 1,
	}
	metricsStructure = structure{
		"struct OutcomeMetrics",
		split("turns tool_calls duration_ms retries actions_succeeded actions_failed"), 0,
	}
	evidenceStructure  = structure{"struct Evidence", split("kind description data"), 3}
	exitedStructure    = structure{"struct variant CliOutcome::Exited", split("code"), 1}
	rejectionStructure = structure{"struct PolicyRejection", split("rule param"), 1}
)

func split(list string) []string { return strings.Fields(list) }

// fields are the fields of a structure.
type fields struct{ serdejson.Fields }

func (st *structure) take(c content) (f fields) {
	f.Names = st.fields
	if c.array {
		for i, m := range c.members {
			if i < len(st.fields) {
				f.Values[i] = m.text
			}
		}
		switch n := len(c.members); {
		case n < st.required:
			f.Fail("invalid length %d, expected %s with %s", n, st.name, serdejson.Count(len(st.fields), "element"))
		case n > len(st.fields):
			f.Fail("invalid length %d, expected %s in sequence", n, serdejson.Count(len(st.fields), "element"))
		}
		return f
	}
	next := 0
	for _, m := range c.members {
		// Writers keep the order, so the search continues where the last one ended.
		for range st.fields {
			if next >= len(st.fields) {
				next = 0
			}
			if !serdejson.KeyIs(m.key, st.fields[next]) {
				next++
				continue
			}
			if f.Values[next] != nil {
				f.Fail("duplicate field `%s`", st.fields[next])
			}
			f.Values[next] = m.text
			next++
			break
		}
	}
	return f
}

// takeText reads a structure from a value.
func (st *structure) takeText(text []byte) fields {
	if c := text[0]; c != '{' && c != '[' {
		return fields{serdejson.Fields{
			Names: st.fields,
			Err:   serdejson.Errorf("invalid type: %s, expected %s", serdejson.Unexpected(text), st.name),
		}}
	}
	var few [8]member
	return st.take(contentOf(text, few[:0]))
}

// contentOf returns the content of an accepted object or array.
func contentOf(text []byte, few []member) content {
	s := serdejson.NewScanner(text)
	c := content{members: few, array: s.Peek() == '['}
	for key := range s.Elements() {
		value, _ := s.Value()
		c.members = append(c.members, member{key, value})
	}
	return c
}

// only returns the value of the one member of that name; nil if there is none, or several.
func (c content) only(name string) (text []byte) {
	for _, m := range c.members {
		if c.array || !serdejson.KeyIs(m.key, name) {
			continue
		}
		if text != nil {
			return nil
		}
		text = m.text
	}
	return text
}

func isNull(text []byte) bool { return len(text) == 0 || text[0] == 'n' }

// signed reads an i64.
func (f *fields) signed(i int) int64 {
	text := f.Need(i)
	if text == nil {
		return 0
	}
	if text[0] == '-' {
		if n := serdejson.ParseNumber(text); n.Kind == 'i' {
			return n.Int
		}
	}
	return int64(f.Uint(i, math.MaxInt64, "i64"))
}

// float reads an f64, also from an integer.
func (f *fields) float(i int) float64 {
	text := f.Need(i)
	if text == nil {
		return 0
	}
	if !serdejson.IsNumber(text) {
		f.Fail("invalid type: %s, expected f64", serdejson.Unexpected(text))
		return 0
	}
	// Whole numbers of up to 64 bits become the nearest float too, so that one parse serves all
	// three kinds.
	n, _ := strconv.ParseFloat(string(text), 64)
	return n
}

func (f *fields) word(i int, words []string) int {
	text := f.Need(i)
	if text == nil {
		return 0
	}
	n, err := word(text, words)
	f.Keep(err)
	return n
}

// word reads an enum without data: a string, or an object whose only member has an empty value.
func word(text []byte, words []string) (int, error) {
	if text[0] == '{' {
		var few [2]member
		c := contentOf(text, few[:0])
		if len(c.members) != 1 {
			return 0, serdejson.Errorf("invalid value: map, expected map with a single key")
		}
		i, err := variant(c.members[0].key, words)
		if inner := c.members[0].text; err == nil && !isNull(inner) && !emptyObject(inner) {
			err = serdejson.Errorf("invalid type: %s, expected unit", serdejson.Unexpected(inner))
		}
		return i, err
	}
	if text[0] != '"' {
		return 0, serdejson.Errorf("invalid type: %s, expected string or map", serdejson.Unexpected(text))
	}
	return variant(text, words)
}

func emptyObject(text []byte) bool {
	return text[0] == '{' && len(contentOf(text, nil).members) == 0
}

func variant(text []byte, words []string) (int, error) {
	for i, w := range words {
		if serdejson.KeyIs(text, w) {
			return i, nil
		}
	}
	return 0, serdejson.Errorf("unknown variant `%s`, expected %s", serdejson.Unquote(text),
		serdejson.OneOf(words))
}

// tagged reads an enum whose variant is in a member "kind", or first in an array. In an array it
// may be a number, which counts variants.
func tagged(text []byte, enum string, words []string, few []member) (int, content, error) {
	if text[0] != '{' && text[0] != '[' {
		return 0, content{}, serdejson.Errorf("invalid type: %s, expected internally tagged enum %s",
			serdejson.Unexpected(text), enum)
	}
	c := contentOf(text, few)
	at := -1
	for i, m := range c.members {
		if c.array && i == 0 || !c.array && serdejson.KeyIs(m.key, "kind") {
			if at >= 0 {
				return 0, c, serdejson.Errorf("duplicate field `kind`")
			}
			at = i
		}
	}
	if at < 0 {
		return 0, c, serdejson.Errorf("missing field `kind`")
	}
	tag := c.members[at].text
	c.members = append(c.members[:at], c.members[at+1:]...)
	switch {
	case tag[0] == '"':
		i, err := variant(tag, words)
		return i, c, err
	case serdejson.IsNumber(tag):
		if n := serdejson.ParseNumber(tag); n.Kind == 'u' {
			if n.Uint < uint64(len(words)) {
				return int(n.Uint), c, nil
			}
			return 0, c, serdejson.Errorf("invalid value: %s, expected variant index 0 <= i < %d",
				serdejson.Unexpected(tag), len(words))
		}
	}
	return 0, c, serdejson.Errorf("invalid type: %s, expected variant identifier", serdejson.Unexpected(tag))
}

// unit accepts the content of a variant without data: an object may hold anything, an array must be
// empty.
func (c content) unit() error {
	if c.array && len(c.members) > 0 {
		return serdejson.Errorf("invalid length %d, expected 0 elements in sequence", len(c.members))
	}
	return nil
}

// rawMember returns free-form JSON of the line; nil for null.
func rawMember(text []byte) []byte {
	if isNull(text) {
		return nil
	}
	// Without spare capacity, so that appending to it does not change the line.
	return slices.Clip(text)
}
