package replay

import (
	"maps"
	"slices"
	"strings"

	"selvedge/internal/chrono"
)

// Aliases are the values of $run1, $w001 and the like. Most are texts.
type Aliases map[string]any

// replace puts values in the place of aliases, in whole strings and inside strings, and times in
// the place of $now_ms.
func (a Aliases) replace(value any, c Comparison) any {
	names := slices.SortedFunc(maps.Keys(a), longestFirst)
	return walk(value, func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			if ms, ok := v["$now_ms"]; ok && len(v) == 1 {
				return chrono.Format(c.later(ms))
			}
		case string:
			if whole, ok := a[v]; ok {
				return whole
			}
			for _, name := range names {
				if text, ok := a[name].(string); ok {
					v = strings.ReplaceAll(v, name, text)
				}
			}
			return v
		}
		return v
	})
}

// hide puts aliases in the place of values.
func (a Aliases) hide(value any) any {
	names := slices.DeleteFunc(slices.Collect(maps.Keys(a)), func(name string) bool {
		text, ok := a[name].(string)
		return !ok || text == ""
	})
	slices.Sort(names) // where one value has two aliases, answers show the first
	slices.SortStableFunc(names, func(x, y string) int { return longestFirst(a[x].(string), a[y].(string)) })
	return walk(value, func(v any) any {
		if text, ok := v.(string); ok {
			for _, name := range names {
				text = strings.ReplaceAll(text, a[name].(string), name)
			}
			return text
		}
		return v
	})
}

func longestFirst(x, y string) int {
	if len(x) != len(y) {
		return len(y) - len(x)
	}
	return strings.Compare(x, y)
}

// walk returns a copy of value in which each part went through change: first the whole, then, if
// it is still an array or object, its parts.
func walk(value any, change func(any) any) any {
	switch v := change(value).(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = walk(member, change)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = walk(element, change)
		}
		return out
	default:
		return v
	}
}

// bound finds the value in our answer at the place of alias in the recorded one.
func bound(recorded, ours any, alias string) (any, bool) {
	switch recorded := recorded.(type) {
	case string:
		if recorded == alias {
			return ours, ours != nil
		}
		before, after, inside := strings.Cut(recorded, alias)
		text, ok := ours.(string)
		if !inside || !ok || len(text) < len(before)+len(after) || !strings.HasPrefix(text, before) ||
			!strings.HasSuffix(text, after) {
			return nil, false
		}
		return text[len(before) : len(text)-len(after)], true
	case map[string]any:
		members, _ := ours.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(recorded)) {
			if value, ok := bound(recorded[name], members[name], alias); ok {
				return value, true
			}
		}
	case []any:
		elements, _ := ours.([]any)
		for i := range min(len(recorded), len(elements)) {
			if value, ok := bound(recorded[i], elements[i], alias); ok {
				return value, true
			}
		}
	}
	return nil, false
}
