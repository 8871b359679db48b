package postgres

import (
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"selvedge/internal/engine"
)

const sqlRelations = `
SELECT c.relname::text AS relation, c.relkind = 'v' AS view, a.attname::text AS "column"
FROM pg_class AS c LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
ORDER BY view DESC, c.relname COLLATE "C", a.attnum`

// Relations are the tables and views, views first, by name.
func (x *rx) Relations() ([]engine.Relation, error) {
	var columns []engine.RelationColumn
	err := x.Select(&columns, sqlRelations, nil)
	return engine.RelationsOf(columns), err
}

// Catalog is the query that lists the views, or with the name of a table or a view its columns.
func (e *Engine) Catalog(relation string) string {
	if relation == "" {
		return `SELECT viewname FROM pg_views WHERE schemaname = current_schema() ORDER BY 1`
	}
	return `SELECT column_name, data_type FROM information_schema.columns ` +
		`WHERE table_schema = current_schema() AND table_name = '` + relation + `'`
}

// absent matches, in the server's message about a missing object, the last part of its name: it is
// in quotes or behind a dot, in every language.
var absent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`["«»„“](?:\w+\.)?(\w+)["«»”“]|\w+\.(\w+)`)
})

// blame returns what the server finds wrong with a statement.
func blame(err error) (s engine.Statement) {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return s
	}
	name := func() string {
		if named := absent().FindStringSubmatch(e.Message); named != nil {
			return named[1] + named[2]
		}
		return ""
	}
	switch {
	case e.Code == "25006", e.Code == "25001": // it writes, or would have the transaction write
		s.Writes = true
	case e.Code == "42P01":
		s.Wrong, s.Table = true, name()
	case e.Code == "42703":
		s.Wrong, s.Column = true, name()
	case strings.HasPrefix(e.Code, "42") && e.Code != "42501", strings.HasPrefix(e.Code, "22"),
		strings.HasPrefix(e.Code, "0A"), e.Code == "P0001":
		s.Wrong = true
	}
	return s
}
