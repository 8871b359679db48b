package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Unseen draws a transcript of the store and returns a part of it with changes, so that it was
// never recorded: calls are left out, made twice or reordered, and texts and numbers among their
// arguments are replaced. The recorded answers don't apply to them. Calls for which leave reports
// true are left out.
func Unseen(store string, random *rand.Rand, most int, leave func(op string) bool) (Transcript, error) {
	list, err := Transcripts(store)
	if err != nil {
		return Transcript{}, err
	}
	t := list[random.IntN(len(list))]
	t.Calls = slices.DeleteFunc(slices.Clone(t.Calls), func(c Call) bool { return leave(c.Op) })
	if len(t.Calls) > most {
		t.Calls = t.Calls[:most]
	}
	d := disturber{random: random, pool: map[string][]any{}, renamed: map[string]string{}}
	for _, c := range t.Calls {
		d.collect("", c.Args)
	}
	d.rename()
	var calls []Call
	for _, c := range t.Calls {
		c.Args = d.change("", c.Args)
		switch random.IntN(24) {
		case 0:
			continue
		case 1:
			calls = append(calls, c, c)
		case 2:
			calls = slices.Insert(calls, random.IntN(len(calls)+1), c)
		default:
			calls = append(calls, c)
		}
	}
	t.Calls = calls
	return t, nil
}

// OddTexts are texts that two engines might think of differently.
var OddTexts = []string{
	"", " ", "\x00", "a\x00b", "a\x00", "\xff\xfe", "a\xc3", "\xed\xa0\x80", "\ufffd", "\U0010FFFF",
	"\U0010FFFF0", "\U0010FFFFxff", "\U0010FFFF\U0010FFFF",
	"%", "_", "a%", "a_", "\\", "\\x41", "'", "''", "\"", "$1", "?", "?1", ":x", "::text", "--", "/*",
	"e\u0301", "é", "É", "Zebra", "apple", "ß", "\ufeff", "\u2028", "ﬀ",
	"NULL", "null", "true", "0", "00", "1e3", "-1", "now", "infinity", "2026-05-04T01:02:03Z",
	"0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.5Z",
	"2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z", "1677-09-21T00:12:43.145224191Z",
	"2026-05-04T01:02:03.123456789+05:30",
	strings.Repeat("x", 200), strings.Repeat("x", 201), strings.Repeat("é", 700),
	strings.Repeat("aé😀", 3000), "a/b", "..", "A", "a", "a-b", "z9",
}

var oddNumbers = []json.Number{
	"0", "-0", "1", "2", "3", "-1", "255", "256", "65536", "2147483647", "2147483648", "4294967295",
	"4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
	"18446744073709551615", "18446744073709551616", "-9223372036854775808", "0.5", "1.5", "1.0", "0.1", "1e2",
	"1e300", "-1e300", "1e-320", "0.30000000000000004",
}

// A disturber changes arguments.
type disturber struct {
	random  *rand.Rand
	pool    map[string][]any // the texts and numbers of the transcript, by the name of their member
	renamed map[string]string
}

func (d *disturber) collect(name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(v)) {
			d.collect(member, v[member])
		}
	case []any:
		for _, element := range v {
			d.collect(name, element)
		}
	case string, json.Number:
		d.pool[name] = append(d.pool[name], v)
	}
}

// rename picks ids that are others in the whole transcript.
func (d *disturber) rename() {
	for range d.random.IntN(4) {
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(d.pool)), func(name string) bool {
			return !strings.HasSuffix(name, "id") && !strings.HasSuffix(name, "key") && name != "thread"
		})
		if len(names) == 0 {
			return
		}
		if id, ok := one(d.random, d.pool[one(d.random, names)]).(string); ok && !strings.HasPrefix(id, "$") {
			d.renamed[id] = one(d.random, OddTexts)
		}
	}
}

func (d *disturber) change(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 1 && strings.HasPrefix(slices.Collect(maps.Keys(v))[0], "$") {
			return v // values that the players know by name
		}
		out := map[string]any{}
		for _, member := range slices.Sorted(maps.Keys(v)) {
			if d.random.IntN(200) > 0 {
				out[member] = d.change(member, v[member])
			}
		}
		return out
	case []any:
		var out []any
		for _, element := range v {
			for range []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2}[d.random.IntN(20)] {
				out = append(out, d.change(name, element))
			}
		}
		return append([]any{}, out...)
	case string:
		if other, ok := d.renamed[v]; ok {
			return other
		}
		switch d.random.IntN(20) {
		case 0:
			return one(d.random, OddTexts)
		case 1:
			if text, ok := one(d.random, d.pool[name]).(string); ok {
				return text
			}
		case 2:
			return v + one(d.random, OddTexts)
		}
	case json.Number:
		switch d.random.IntN(12) {
		case 0:
			return one(d.random, oddNumbers)
		case 1:
			if number, ok := one(d.random, d.pool[name]).(json.Number); ok {
				return number
			}
		}
	case bool:
		return v != (d.random.IntN(20) == 0)
	}
	return value
}

func one[T any](random *rand.Rand, list []T) T { return list[random.IntN(len(list))] }

// Answers makes the calls of a transcript, and returns a line for each, with the answer.
func Answers(t Transcript, c Comparison, play func(c *Call) Answer) (lines []string) {
	aliases := Aliases{}
	for _, call := range t.Calls {
		call.Args = aliases.replace(call.Args, c)
		answer := play(&call)
		shown := answer.OK
		if value, err := plain(answer.OK); err == nil {
			shown = value
		}
		if call.Binds != "" {
			value := answer.Bound
			if value == nil {
				value, _ = bound(call.Want.OK, shown, call.Binds)
			}
			if value != nil {
				aliases[call.Binds] = value
			}
		}
		line := fmt.Sprintf("%s(%s): ", call.Op, Encode(call.Args))
		switch {
		case answer.Err != nil:
			line += fmt.Sprint("error ", answer.Kind, " ", *answer.Err)
		case answer.Panic != nil:
			line += "panic " + *answer.Panic
		default:
			line += string(Encode(shown))
		}
		lines = append(lines, line)
	}
	return lines
}
