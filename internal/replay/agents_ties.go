package replay

import (
	"math"
	"slices"
	"strings"
	"time"
)

// TiesAs gives list with entries of one start in the order that they have in like, and behind those the others: where
// starts are equal, any order is right. names are the aliases of ids in like.
func TiesAs(list []any, like any, names map[string]string) []any {
	place := map[string]int{}
	if recorded, ok := like.([]any); ok {
		for i, one := range recorded {
			e, _ := one.(map[string]any)
			id := sessionOf(e)
			for alias, value := range names {
				id = strings.ReplaceAll(id, alias, value)
			}
			place[id] = i + 1 - len(recorded)
		}
	}
	at := func(one any) (time.Time, int) {
		e, _ := one.(map[string]any)
		i, ok := place[sessionOf(e)]
		if !ok {
			i = math.MaxInt
		}
		return startOf(e), i
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int {
		startA, placeA := at(a)
		startB, placeB := at(b)
		if order := startB.Compare(startA); order != 0 {
			return order
		}
		switch {
		case placeA < placeB:
			return -1
		case placeA > placeB:
			return 1
		}
		return 0
	})
	return list
}
