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
type candidate struct {
	id   string
	name string // what to write to mean this one
	item thing
}

// unique returns the item that given means: the one with that id, else the only one whose id begins
// with it. candidates are all whose ids begin with it, or namedCandidates+1 of them.
func unique(n noun, given string, candidates []candidate) (thing, error) {
	exact := slices.DeleteFunc(slices.Clone(candidates), func(c candidate) bool { return c.id != given })
	if len(exact) > 0 {
		candidates = exact
	}
	switch len(candidates) {
	case 0:
		return thing{}, &db.Error{
			Op: "find", Entity: n.entity, ID: given, Err: db.ErrNotFound,
			Hint: "see what there is: migrate " + n.store + " list",
		}
	case 1:
		return candidates[0].item, nil
	}
	named := candidates[:min(len(candidates), namedCandidates)]
	return thing{}, &fault{
		kind: kindUsage, given: given, meant: each(named, func(c candidate) string { return c.name }),
		err: fmt.Errorf("%q is not one %s: several begin so", given, n.entity),
	}
}

// meantHint returns the hint for an ambiguous word: the command line of each meaning.
func (a *app) meantHint(word string, meant []string) string {
	lines := []string{"one of these:"}
	for _, words := range meant {
		line := []string{"migrate"}
		found := false
		for _, arg := range a.args {
			if arg == word && !found {
				line, found = append(line, words), true
			} else {
				line = append(line, shellWord(a.withoutSecrets(arg)))
			}
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return strings.Join(lines, "\n")
}
