package sqlite

import (
	"regexp"

	sqlite3 "modernc.org/sqlite/lib"

	"selvedge/db/internal/engine"
)

const sqlRelations = `
SELECT m.name AS relation, m.type = 'view' AS view, c.name AS "column"
FROM sqlite_schema AS m LEFT JOIN pragma_table_info(m.name) AS c
WHERE m.type IN ('table', 'view')
ORDER BY view DESC, m.name, c.cid`

// Relations are the tables and views, views first, by name.
func (x *rx) Relations() ([]engine.Relation, error) {
	var columns []engine.RelationColumn
	err := x.Select(&columns, sqlRelations, nil)
	return engine.RelationsOf(columns), err
}

// Catalog is the query that shows a person what views there are, or with the name of a table or a view its columns.
func (e *Engine) Catalog(relation string) string {
	if relation == "" {
		return `SELECT name FROM sqlite_schema WHERE type = 'view'`
	}
	return "PRAGMA table_info(" + relation + ")"
}

var absent = regexp.MustCompile(`no such (table|column): (?:\w+\.)?(\w+)`)

// blame says what SQLite finds wrong with a statement (sqlite.org/rescode.html).
func blame(err error) (s engine.Statement) {
	switch primary(err) {
	case sqlite3.SQLITE_READONLY:
		s.Writes = true
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_RANGE:
		s.Wrong = true
		if named := absent.FindStringSubmatch(err.Error()); named != nil && named[1] == "table" {
			s.Table = named[2]
		} else if named != nil {
			s.Column = named[2]
		}
	}
	return s
}
