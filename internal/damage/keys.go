package damage

import (
	"fmt"
	"strings"

	"selvedge/internal/engine"
)

// A KeyColumn is one of the key in whose order the rows of a table are read.
type KeyColumn struct {
	Name      string
	Type      string // that a parameter is cast to, where the index has a beginning
	Beginning bool   // the key's index has but the beginning of it: see db.Start
}

// Behind gives the condition and the order of a part of the rows that come behind a key: those that
// have its first columns, as many as same says, and more in the next one. The parameters are so
// many of the key's values and one. All parts, from the one with the most columns in common down to
// the one with none, are all rows behind it in their order, and each is a range of the key's index.
// A comparison of whole rows would not be: beginnings stand between the columns, and a planner
// judges by the first column alone.
func Behind(key []KeyColumn, same int) (condition, order string) {
	var all []string
	for i, c := range key[:same+1] {
		mark := fmt.Sprintf("?%d", i+1)
		is := " = "
		if i == same {
			is = " > "
		}
		if c.Beginning {
			mark = "CAST(" + mark + " AS " + c.Type + ")"
			all = append(all, engine.Start(c.Name)+strings.ReplaceAll(is, ">", ">=")+engine.Start(mark))
		}
		all = append(all, c.Name+is+mark)
	}
	return strings.Join(all, " AND "), InOrder(key[same:], "")
}

// InOrder is what rows are ordered by to come in the order of a key, or with " DESC" in the other one.
func InOrder(key []KeyColumn, direction string) string {
	var order []string
	for _, c := range key {
		if c.Beginning {
			order = append(order, engine.Start(c.Name)+direction)
		}
		order = append(order, c.Name+direction)
	}
	return strings.Join(order, ", ")
}
