package replay

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"selvedge/internal/chrono"
)

// maxLies bounds the falsified answers tried at one call: answers with thousands of leaves are spread over.
const maxLies = 24

// falsified returns answers that are wrong where want is right: another outcome, and the value with
// one leaf changed or one element or member gone.
func falsified(want Recorded) []Recorded {
	text := "falsified"
	var lies []Recorded
	if want.Err == nil {
		lies = append(lies, Recorded{Outcome: Outcome{Err: &text}})
	}
	if want.Panic == nil {
		lies = append(lies, Recorded{Outcome: Outcome{Panic: &text}})
	}
	if want.Err != nil || want.Panic != nil {
		return append(lies, Recorded{Outcome: Outcome{OK: json.Number("1")}}, Recorded{})
	}
	if len(want.AnyOf) > 0 {
		return lies // a lie about one of them may be the truth about another
	}
	changed := mutations(want.OK)
	step := max(1, len(changed)/maxLies)
	for i := 0; i < len(changed); i += step {
		lies = append(lies, Recorded{Outcome: Outcome{OK: changed[i]}})
	}
	return lies
}

// mutations are copies of value with one change each.
func mutations(value any) []any {
	switch v := value.(type) {
	case nil:
		return []any{json.Number("7")}
	case bool:
		return []any{!v}
	case json.Number:
		if digits, negative := strings.CutPrefix(string(v), "-"); negative {
			return []any{json.Number("-1" + digits)}
		}
		return []any{"1" + v}
	case string:
		if t, _, err := chrono.Parse(v); err == nil {
			return []any{chrono.Format(t.Add(time.Nanosecond)), "falsified"}
		}
		return []any{v + "x"}
	case []any:
		out := []any{append(slices.Clone(v), json.Number("7"))}
		for i, element := range v {
			out = append(out, slices.Delete(slices.Clone(v), i, i+1))
			for _, m := range mutations(element) {
				other := slices.Clone(v)
				other[i] = m
				out = append(out, other)
			}
		}
		return out
	case map[string]any:
		if _, ok := v["$time"]; ok {
			return []any{json.Number("7"), "falsified"}
		}
		var out []any
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for _, m := range mutations(v[name]) {
				other := maps.Clone(v)
				other[name] = m
				out = append(out, other)
			}
		}
		return out
	}
	return nil
}
