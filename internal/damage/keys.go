package damage

import (
	"fmt"
	"strings"

	"selvedge/internal/engine"
)

// A KeyColumn is a column of the key in whose order the rows of a table are read.
type KeyColumn struct {
	Name      string
	Type      string // a parameter is cast to it, if the index holds a beginning
	Beginning bool   // the key's index holds only the beginning of it; see db.Start
}

// Behind returns the condition and the order of one part of the rows that come after a key: the
// rows whose first same columns equal the key's, and whose next column is greater. The parameters
// are the first same+1 values of the key. All parts, from the largest same down to 0, are all rows
// after the key in their order, and each part is a range of the key's index. A comparison of whole
// rows would be no range: beginnings stand between the columns, and a planner judges by the first
// column alone.
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

// InOrder returns the ORDER BY terms for the order of a key or, with the direction " DESC", for the
// reverse order.
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
