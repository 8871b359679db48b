package db

import (
	"errors"

	"selvedge/db/internal/engine"
)

// A Misstatement is what an error says of a statement that is itself at fault.
type Misstatement struct {
	Writes bool   // it would change something, and only reads are allowed
	Table  string // a table or view that it names and that isn't there; "" where it is something else
	Column string // the same of a column
}

// Misstated reports whether err blames the statement, as somebody has written it: it can't be compiled, names what isn't there, fails as
// it runs, or would write.
func Misstated(err error) (m Misstatement, blamed bool) {
	f, ok := errors.AsType[*engine.Failure](err)
	if !ok || !f.Statement.Wrong && !f.Statement.Writes {
		return m, false
	}
	return Misstatement{Writes: f.Statement.Writes, Table: f.Statement.Table, Column: f.Statement.Column}, true
}

// A Relation is a table or a view.
type Relation struct {
	Name    string
	View    bool
	Columns []string // in their order
}

// Relations are the tables and views of the file, views first, by name.
func (rx *Rx) Relations() ([]Relation, error) {
	if err := rx.enter(); err != nil {
		return nil, err
	}
	defer rx.leave()
	found, err := rx.engine.Relations()
	var all []Relation
	for _, r := range found {
		all = append(all, Relation(r))
	}
	return all, err
}

// Catalog is the SQL of a query that shows a person what views there are or, with the name of a table or a view, its columns.
func (d *DB) Catalog(relation string) string {
	if d.engine == nil {
		return ""
	}
	return d.engine.Catalog(relation)
}
