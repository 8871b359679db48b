package main

import (
	"fmt"
	"slices"
	"strings"

	"selvedge/db"
)

// namedCandidates is how many candidates an ambiguous prefix names.
const namedCandidates = 10

// A candidate is something that an id on the command line may mean.
type candidate[T any] struct {
	id   string
	name string // what to write to mean this one
	item T
}

// unique decides what given means: the one whose id it is, else the one whose id begins with it. candidates are all whose
// ids begin with it, or namedCandidates and one more.
func unique[T any](entity, given string, candidates []candidate[T]) (T, error) {
	var none T
	exact := slices.DeleteFunc(slices.Clone(candidates), func(c candidate[T]) bool { return c.id != given })
	if len(exact) > 0 {
		candidates = exact
	}
	switch len(candidates) {
	case 0:
		return none, &db.Error{Op: "find", Entity: entity, ID: given, Err: db.ErrNotFound, Hint: "see what there is: migrate " + entity + "s list"}
	case 1:
		return candidates[0].item, nil
	}
	var names []string
	for i, c := range candidates {
		if i == namedCandidates {
			names = append(names, "…")
			break
		}
		names = append(names, c.name)
	}
	return none, &fault{
		kind: kindUsage, hint: "write one of: " + strings.Join(names, "; "),
		err: fmt.Errorf("%q is not one %s: several begin so", given, entity),
	}
}
