package replay

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"selvedge/db"
)

// TiesAs returns list with the entries of one start in the order that they have in like, and behind
// those the others by id: where starts are equal, any order is right. Starts that a column can't
// tell apart count as equal. names are the aliases of ids in like. An entry never moves past one of
// another start: a list in the wrong order stays wrong.
func TiesAs(list []any, like any, names map[string]string) []any {
	place := map[string]int{}
	if recorded, ok := like.([]any); ok {
		for i, one := range recorded {
			e, _ := one.(map[string]any)
			id := sessionOf(e)
			for alias, value := range names {
				id = strings.ReplaceAll(id, alias, value)
			}
			place[id] = i
		}
	}
	idOf := func(one any) string {
		e, _ := one.(map[string]any)
		return sessionOf(e)
	}
	placeOf := func(one any) int {
		if i, ok := place[idOf(one)]; ok {
			return i
		}
		return math.MaxInt
	}
	startAt := func(i int) int64 {
		e, _ := list[i].(map[string]any)
		return db.Nanos(startOf(e))
	}
	list = slices.Clone(list)
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && startAt(to) == startAt(from) {
			to++
		}
		slices.SortStableFunc(list[from:to], func(a, b any) int {
			return cmp.Or(cmp.Compare(placeOf(a), placeOf(b)), strings.Compare(idOf(a), idOf(b)))
		})
		from = to
	}
	return list
}
