package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/migrations"
)

// placeInKey is a column's position in the key of its table. The key is the primary key, or, if
// it has a long text, the index on the beginning of that text that takes its place: see db.Same.
const placeInKey = `coalesce((SELECT min(n) FROM pg_index AS i, generate_series(1, i.indnkeyatts) AS n
    WHERE i.indrelid = a.attrelid
    AND i.indexrelid = to_regclass(quote_ident((SELECT relname FROM pg_class
    WHERE oid = a.attrelid) || '_pkey'))
    AND pg_get_indexdef(i.indexrelid, n, true) IN (quote_ident(a.attname),
    format('COALESCE(substr(%1$s, 1, 200), %1$s)', a.attname))), 0)`

// beginningInKey reports whether the key is such an index.
const beginningInKey = `EXISTS (SELECT 1 FROM pg_index AS i, generate_series(1, i.indnkeyatts) AS n
    WHERE i.indrelid = a.attrelid
    AND i.indexrelid = to_regclass(quote_ident((SELECT relname FROM pg_class
    WHERE oid = a.attrelid) || '_pkey'))
    AND pg_get_indexdef(i.indexrelid, n, true) = format('COALESCE(substr(%1$s, 1, 200), %1$s)', a.attname))`

// sqlColumns are the columns of a table, with their places in its primary key.
const sqlColumns = `
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS notnull,
       ` + placeInKey + ` AS key, ` + beginningInKey + ` AS beginning
FROM pg_attribute AS a WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

// sqlSchemaTables are the tables of the schema.
const sqlSchemaTables = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()
	ORDER BY tablename COLLATE "C"`

// sqlObjects are what the tables of the schema have: indexes that can be used, triggers that fire, and
// foreign keys. Its names are the same in all versions of the server.
const sqlObjects = `
SELECT kind || ' ' || name || ' of ' || t.relname FROM pg_class AS t JOIN (
    SELECT 'index' AS kind, c.relname AS name, indrelid AS "table"
    FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid WHERE indisvalid
    UNION ALL SELECT 'trigger', tgname, tgrelid FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'
    UNION ALL SELECT 'foreign key', conname, conrelid FROM pg_constraint WHERE contype = 'f'
) AS o ON o."table" = t.oid
WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind = 'r'
ORDER BY t.relname COLLATE "C", kind COLLATE "C", name COLLATE "C"`

// Check checks the invariants of the schema, compares rows with their checksums, and names what the tables
// lack. The server enforces what they have; pg_amcheck checks its pages.
func (e *Engine) Check(ctx context.Context) (c engine.Checked, err error) {
	err = e.during(ctx, "check", false, func(ctx context.Context, s *session) error {
		if err := e.check(s, &c); err == nil || ctx.Err() == nil {
			return err
		}
		return &interruption{context.Cause(ctx)}
	})
	return c, err
}

func (e *Engine) check(s *session, c *engine.Checked) error {
	said := func(format string, args ...any) {
		c.Problems = append(c.Problems, engine.Problem{Check: "versions", Detail: fmt.Sprintf(format, args...)})
	}
	have, err := readVersions(s.get)
	if err != nil {
		return err
	}
	last := ladder().Last()
	switch {
	case have.Schema == 0:
		said("the tables that say which schema the database has are missing")
		return nil
	case have.Schema > last.Version:
		return nil // additions or changes are a newer program's
	}
	if at := ladder().Step(have.Schema); at.Version != have.Schema ||
		(have.MinReader != at.MinReader && !have.ShutToReaders()) ||
		(have.MinWriter != at.MinWriter && !have.Shut()) {
		said("the database has schema %d, for readers from %d and writers from %d on; there is no such schema",
			have.Schema, have.MinReader, have.MinWriter)
	}
	if have.Schema != last.Version {
		return nil // an older one may have other tables
	}
	var tables []string
	if err := s.all(&tables, sqlSchemaTables); err != nil {
		return err
	}
	for _, sum := range migrations.Checksums {
		if !slices.Contains(tables, sum.Table) {
			c.Problems = append(c.Problems, engine.Problem{
				Check: "schema", Table: sum.Table,
				Detail: "the table " + sum.Table + " is missing",
			})
		}
	}
	if len(c.Problems) > 0 {
		return nil
	}
	var objects []string
	if err := s.all(&objects, sqlObjects); err != nil {
		return err
	}
	lacksKey := false
	for _, object := range migrations.PostgresObjects() {
		if !slices.Contains(objects, object) {
			c.Problems = append(c.Problems, engine.Problem{Check: "schema", Detail: object + " is missing"})
			lacksKey = lacksKey || strings.Contains(object, "_pkey of ")
		}
	}
	if lacksKey {
		return nil // the other checks group by primary keys
	}
	pool := sqlx.NewDb(engine.PoolOf(nested{s.wire}), "postgres")
	defer pool.Close() //nolint:errcheck // it leaves the connection open
	for _, invariant := range migrations.PostgresChecks() {
		found, err := damage.Invariant(background, pool, invariant)
		c.Problems = append(c.Problems, found...)
		if err != nil {
			return fmt.Errorf("invariant %s: %w", invariant.Name, err)
		}
	}
	for _, sum := range migrations.Checksums {
		var columns []damage.Column
		if err := s.all(&columns, sqlColumns, sum.Table); err != nil {
			return err
		}
		found, count, err := damage.ChecksumsOf(background, pool, sum, columns)
		c.Problems = append(c.Problems, found...)
		if err != nil {
			return fmt.Errorf("checksums of %s: %w", sum.Table, err)
		}
		if count.Rows > 0 {
			c.Checksums = append(c.Checksums, count)
		}
	}
	return nil
}

// Repair drops the views and makes them again.
func (e *Engine) Repair(ctx context.Context) (done []string, err error) {
	if e.config.ReadOnly {
		return nil, nil
	}
	err = e.during(ctx, "repair", true, func(ctx context.Context, s *session) error {
		before, err := viewsOf(s)
		if err != nil {
			return err
		}
		if _, err := s.wire.simple(ctx, "BEGIN"); err != nil {
			return err
		}
		if err := dropViews(ctx, s); err != nil {
			return err
		}
		if _, err := s.wire.simple(ctx, ladder().Views()); err != nil {
			return err
		}
		after, err := viewsOf(s)
		if err == nil {
			_, err = s.wire.simple(ctx, "COMMIT")
		}
		if err != nil {
			return err
		}
		for name, text := range after {
			if before[name] != text {
				done = append(done, "view "+name)
			}
		}
		slices.Sort(done)
		return nil
	})
	return done, err
}

// viewsOf are the texts of the views, by name.
func viewsOf(s *session) (map[string]string, error) {
	var list []struct {
		Name string `db:"viewname"`
		Text string `db:"definition"`
	}
	err := s.all(&list,
		`SELECT viewname, definition FROM pg_views WHERE schemaname = current_schema()`)
	views := map[string]string{}
	for _, v := range list {
		views[v.Name] = v.Text
	}
	return views, err
}
