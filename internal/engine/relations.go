package engine

import (
	"strings"
	"time"
)

// A RelationColumn is a column with its table or view, as an engine reads it. A relation without
// columns has one without a name.
type RelationColumn struct {
	Relation string  `db:"relation"`
	View     bool    `db:"view"`
	Column   *string `db:"column"`
}

// RelationsOf groups columns by relation. The columns of a relation must be adjacent.
func RelationsOf(columns []RelationColumn) []Relation {
	var all []Relation
	for _, c := range columns {
		last := len(all) - 1
		if last < 0 || all[last].Name != c.Relation {
			all = append(all, Relation{Name: c.Relation, View: c.View})
			last++
		}
		if c.Column != nil {
			all[last].Columns = append(all[last].Columns, *c.Column)
		}
	}
	return all
}

// ReadTables reads when the database was made, if it has a schema, and counts the rows of the tables
// that a query names.
func (s *Stats) ReadTables(x Rx, query string) error {
	if s.Schema > 0 {
		var created int64
		if err := x.Get(&created, "SELECT created_at FROM selvedge_file", nil); err != nil {
			return err
		}
		s.CreatedAt = time.Unix(0, created).UTC()
	}
	var tables []string
	if err := x.Select(&tables, query, nil); err != nil {
		return err
	}
	s.Tables = nil // a read may run again
	for _, name := range tables {
		t := TableStats{Name: name}
		if err := x.Get(&t.Rows, "SELECT count(*) FROM "+Quoted(name), nil); err != nil {
			return err
		}
		s.Tables = append(s.Tables, t)
	}
	return nil
}

// Quoted returns a name quoted for SQL.
func Quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Words returns the set of the words of a text.
func Words(text string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(text) {
		all[word] = true
	}
	return all
}
