//go:build postgres

package migrations_test

import (
	"context"
	"database/sql"
	"io/fs"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"selvedge/db"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// serversOwn are the tables of the engine that PostgreSQL is: a file knows by locks what they say.
var serversOwn = []string{"owner_beats", "sessions"}

const (
	// uniqueKeys are the unique indexes that stand for a key of columns which may be longer than an
	// index takes: over the beginning of the column and, behind all, a digest of it.
	uniqueKeys = `(SELECT i.indrelid, i.indexrelid, c.relname, c.relname LIKE '%\_pkey' AS first, ARRAY(
    SELECT (regexp_match(pg_get_indexdef(i.indexrelid, n::int, true),
    '^(?:COALESCE\(substr\(|digest_of\()?(\w+)(?:, 1, 200\), \w+)?\)?$'))[1]
    FROM generate_series(1, i.indnkeyatts) AS n) AS columns
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'selvedge'::regnamespace AND i.indisunique AND i.indpred IS NULL
	AND pg_get_indexdef(i.indexrelid) ~ 'sha256|digest_of')`
	// columnsOf are those of one of them, without the digests.
	columnsOf = `(SELECT string_agg(name, ', ' ORDER BY at)
		FROM (SELECT name, min(at) AS at FROM unnest(u.columns) WITH ORDINALITY AS c (name, at)
		WHERE name IS NOT NULL GROUP BY name) AS own)`
)

// inAFileAlone are the texts that an index of a file has beside what it finds by, so that no row is read.
var inAFileAlone = strings.NewReplacer(",path,native_instance_key,put_aside_at where", ",put_aside_at where",
	"changes,thread,started_at,put_aside_at where", "changes,started_at,put_aside_at where")

func TestPostgresHasTheTablesOfTheFile(t *testing.T) {
	s := dbtest.PostgresSchema(t)
	d := dbtest.OpenAt(t, ":memory:", db.Options{})
	same(t, "tables and columns", ofFile(t, d, `
SELECT t.name || '.' || c.name || ' ' || CASE c.type WHEN 'INTEGER' THEN 'bigint' WHEN 'TEXT' THEN 'text C'
	WHEN 'BLOB' THEN 'bytea' WHEN 'REAL' THEN 'double precision' END
    || CASE WHEN c."notnull" OR c.pk > 0 THEN '' ELSE ' or NULL' END || CASE WHEN c.pk > 0
    THEN ' key ' || c.pk ELSE '' END
    || CASE WHEN c.dflt_value IS NULL THEN '' ELSE ' default ' || c.dflt_value END
FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'goose_db_version'`),
		ofServer(t, s, `
SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE
	WHEN a.attcollation <> 0 THEN ' ' || l.collname ELSE '' END
    || CASE WHEN a.attnotnull THEN '' ELSE ' or NULL' END
    || coalesce(' key ' || coalesce((SELECT array_position(k.conkey, a.attnum) FROM pg_constraint AS k
    WHERE k.conrelid = c.oid AND k.contype = 'p' AND a.attnum = ANY (k.conkey)),
        (SELECT array_position(u.columns, a.attname::text) FROM `+uniqueKeys+` AS u
        WHERE u.indrelid = c.oid AND u.first)), '')
    || coalesce(' default ' || regexp_replace(pg_get_expr(f.adbin, c.oid), '::\w+', ''), '')
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_collation AS l ON l.oid = a.attcollation LEFT JOIN pg_attrdef AS f ON f.adrelid = c.oid
	AND f.adnum = a.attnum
WHERE c.relkind = 'r' AND c.relnamespace = 'selvedge'::regnamespace AND c.relname <> ALL ($1)
	AND a.attidentity <> 'a'`, serversOwn)) // which a server has beside a key of long texts

	same(t, "foreign keys", ofFile(t, d, `
SELECT t.name || '.' || f."from" || ' ' || f."table" || '.' || f."to" || ' ' || f.on_delete
FROM sqlite_schema AS t JOIN pragma_foreign_key_list(t.name) AS f WHERE t.type = 'table'`),
		ofServer(t, s, `
SELECT k.conrelid::regclass || '.' || a.attname || ' ' || k.confrelid::regclass || '.' || b.attname
    || ' ' || CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' ELSE 'NO ACTION' END
FROM pg_constraint AS k JOIN pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
	JOIN pg_attribute AS b ON b.attrelid = k.confrelid AND b.attnum = k.confkey[1]
WHERE k.contype = 'f' AND k.connamespace = 'selvedge'::regnamespace
	AND k.conrelid::regclass::text <> ALL ($1)`, serversOwn))

	same(t, "unique keys", ofFile(t, d, `
SELECT t.name || ' ' || (SELECT group_concat(name, ', ')
	FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
FROM sqlite_schema AS t JOIN pragma_index_list(t.name) AS i WHERE t.type = 'table' AND i.origin = 'u'`),
		ofServer(t, s, `
SELECT k.conrelid::regclass || ' ' || (SELECT string_agg(a.attname, ', '
	ORDER BY array_position(k.conkey, a.attnum)) FROM pg_attribute AS a WHERE a.attrelid = k.conrelid
	AND a.attnum = ANY (k.conkey))
FROM pg_constraint AS k WHERE k.contype = 'u' AND k.connamespace = 'selvedge'::regnamespace
	AND k.conrelid::regclass::text <> ALL ($1)
UNION ALL
SELECT u.indrelid::regclass || ' ' || `+columnsOf+` FROM `+uniqueKeys+` AS u WHERE NOT u.first`, serversOwn))

	var indexes []string
	for _, text := range plain(ofFile(t, d,
		`SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL`)) {
		indexes = append(indexes, inAFileAlone.Replace(text))
	}
	same(t, "indexes", indexes, plain(ofServer(t, s, `
SELECT indexdef FROM pg_indexes AS i WHERE schemaname = 'selvedge' AND tablename <> ALL ($1)
    AND NOT EXISTS (SELECT 1 FROM pg_constraint AS k
    WHERE k.conindid = (quote_ident(i.schemaname) || '.' || quote_ident(i.indexname))::regclass)
    AND NOT EXISTS (SELECT 1 FROM `+uniqueKeys+` AS u WHERE u.relname = i.indexname)`, serversOwn)))

	checks := func(list []string) (found []string) {
		for _, text := range list {
			table, rest, _ := strings.Cut(text, "|")
			for _, check := range checksOf(rest) {
				found = append(found, table+" "+check)
			}
		}
		return plain(found)
	}
	same(t, "CHECKs", checks(ofFile(t, d, `SELECT name || '|' || sql FROM sqlite_schema WHERE type = 'table'`)),
		checks(ofServer(t, s, `SELECT conrelid::regclass || '|' || pg_get_constraintdef(oid) FROM pg_constraint
			WHERE contype = 'c' AND connamespace = 'selvedge'::regnamespace
			AND conrelid::regclass::text <> ALL ($1)`, serversOwn)))
}

// Logical replication, and tools that show or change single rows, need one.
func TestPostgres_EveryTableHasPrimaryKey(t *testing.T) {
	address := dbtest.Postgres(t)
	dbtest.OpenAt(t, address, db.Options{})
	for _, row := range dbtest.PostgresExec(t, address, `SELECT relname FROM pg_class AS c
WHERE relkind IN ('r', 'p') AND relnamespace = 'selvedge'::regnamespace
	AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p')`) {
		t.Errorf("%s has no primary key", row[0])
	}
}

// The rows of before are numbered, those of programs from before too, and a snapshot of before sees them all.
func TestPostgres_RowIDsComeBesidePrograms(t *testing.T) {
	s := dbtest.PostgresSchema(t)
	step := func(half int) string {
		text, err := fs.ReadFile(migrations.Postgres(), "00026_row_ids.sql")
		if err != nil {
			t.Fatal(err)
		}
		return "SET search_path = selvedge;" + strings.Split(string(text), "-- +goose Down")[half]
	}
	dbtest.PostgresScript(t, s, step(1))
	add := func(key string) {
		dbtest.PostgresScript(t, s, `INSERT INTO selvedge.run_spent_keys (scope, run_id, agent_id, append_key,
	digest, removed_at) SELECT id, 'r', 'a', '`+key+`', sha256(''), 1 FROM selvedge.scopes`)
	}
	add("first")
	add("second")
	snapshot, err := s.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Rollback() //nolint:errcheck // it has changed nothing
	count := func(query string) (n int) {
		t.Helper()
		if err := snapshot.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	count("SELECT count(*) FROM selvedge.scopes")
	dbtest.PostgresScript(t, s, step(0))
	add("third")
	if n := count("SELECT count(*) FROM selvedge.run_spent_keys"); n != 2 {
		t.Errorf("a snapshot of before sees %d of 2 rows", n)
	}
	got := ofServer(t, s, `SELECT append_key || row_id FROM selvedge.run_spent_keys ORDER BY row_id`)
	if want := []string{"first1", "second2", "third3"}; !slices.Equal(got, want) {
		t.Errorf("the rows are %q", got)
	}
}

func TestPostgresHasTheViewsOfTheFile(t *testing.T) {
	same(t, "views", ofFile(t, dbtest.OpenAt(t, ":memory:", db.Options{}), `
SELECT t.name || '.' || c.name || ' ' || c.cid FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
	WHERE t.type = 'view'`),
		ofServer(t, dbtest.PostgresSchema(t), `
SELECT c.relname || '.' || a.attname || ' ' || (a.attnum - 1) FROM pg_class AS c
	JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relkind = 'v' AND c.relnamespace = 'selvedge'::regnamespace`))
}

// A database has a collation of its own for what has none, such as what a function gives.
func TestPostgresTextsOfViewsSortByTheirBytes(t *testing.T) {
	if others := ofServer(t, dbtest.PostgresSchema(t), `
SELECT c.relname || '.' || a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
	AND a.attnum > 0
WHERE c.relkind = 'v' AND c.relnamespace = 'selvedge'::regnamespace
	AND a.attcollation NOT IN (0, '"C"'::regcollation)`); len(others) > 0 {
		t.Errorf("columns of views with another collation: %q", others)
	}
}

// Bytes that are no UTF-8 are shown one by one, in a time that grows with the text.
func TestPostgresTextOf_InvalidBytesShown(t *testing.T) {
	s := dbtest.PostgresSchema(t)
	shown := func(raw []byte) string {
		var text strings.Builder
		for len(raw) > 0 {
			r, size := utf8.DecodeRune(raw)
			switch {
			case r == 0:
				r = utf8.RuneError
			case r == utf8.MaxRune:
				text.WriteRune(r) // which stands there twice
			}
			text.WriteRune(r)
			raw = raw[size:]
		}
		return text.String()
	}
	long := []byte(strings.Repeat("é", 320_000))
	long[300_001] = 0xff
	list := [][]byte{
		long, {0}, []byte(strings.Repeat("\x80", 1000)), []byte(strings.Repeat("\xf0\x9f\x98", 200)),
	}
	parts := []string{
		"a", "\x00", "é", "€", "😀", "\U0010FFFF", "\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98",
		"\xff", "\xed\xa0\x80",
	}
	for n := range 200 {
		var text []byte
		for range rand.IntN(2*n+1) + 1 {
			text = append(text, parts[rand.IntN(len(parts))]...)
		}
		list = append(list, text)
	}
	for _, raw := range list {
		var got string
		err := s.QueryRowContext(t.Context(), "SELECT selvedge.text_of($1)", raw).Scan(&got)
		if want := shown(raw); err != nil || got != want {
			t.Errorf("of %d bytes, %.40q: %d bytes, %.40q, %v", len(raw), raw, len(got), got, err)
		}
	}
}

func TestPostgresChecksFindNothingInANewDatabase(t *testing.T) {
	s := dbtest.PostgresSchema(t)
	for _, check := range migrations.PostgresChecks() {
		for _, found := range ofServer(t, s, check.Query) {
			t.Errorf("%s: %s", check.Name, found)
		}
	}
}

func TestPostgresStepsGoDown(t *testing.T) {
	s := dbtest.PostgresSchema(t)
	for _, drop := range ofServer(t, s, `
SELECT 'DROP VIEW IF EXISTS ' || viewname || ' CASCADE' FROM pg_views WHERE schemaname = 'selvedge'
UNION ALL
SELECT 'DROP FUNCTION IF EXISTS ' || oid::regprocedure || ' CASCADE' FROM pg_proc
	WHERE pronamespace = 'selvedge'::regnamespace AND prorettype <> 'trigger'::regtype
	AND proname NOT IN ('runs_counted', 'server_nanos', 'digest_of')`) {
		dbtest.PostgresScript(t, s, drop)
	}
	names := steps(t, migrations.Postgres())
	slices.Reverse(names)
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Postgres(), name)
		if err != nil {
			t.Fatal(err)
		}
		_, down, _ := strings.Cut(string(text), "-- +goose Down")
		dbtest.PostgresScript(t, s, down)
	}
	if left := ofServer(t, s, `SELECT relname FROM pg_class WHERE relnamespace = 'selvedge'::regnamespace
		UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'selvedge'::regnamespace`); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

func ofFile(t *testing.T, d *db.DB, query string) (list []string) {
	t.Helper()
	if err := d.Read(t.Context(), "read the schema",
		func(rx *db.Rx) error { return rx.Select(&list, query) }); err != nil {
		t.Fatal(err)
	}
	return list
}

func ofServer(t *testing.T, d *sql.DB, query string, args ...any) (list []string) {
	t.Helper()
	rows, err := d.QueryContext(context.Background(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

func same(t *testing.T, what string, file, server []string) {
	t.Helper()
	slices.Sort(file)
	slices.Sort(server)
	if len(file) == 0 {
		t.Errorf("there are no %s", what)
	}
	for _, text := range file {
		if !slices.Contains(server, text) {
			t.Errorf("%s: only a file has %s", what, text)
		}
	}
	for _, text := range server {
		if !slices.Contains(file, text) {
			t.Errorf("%s: only a server has %s", what, text)
		}
	}
	if len(file) != len(server) {
		t.Errorf("%s: a file has %d, a server %d", what, len(file), len(server))
	}
}

// checksOf gives what stands in the parentheses behind each CHECK.
func checksOf(text string) (list []string) {
	text = regexp.MustCompile(`--[^\n]*`).ReplaceAllString(text, "")
	for {
		at := strings.Index(text, "CHECK (")
		if at < 0 {
			return list
		}
		text = text[at+len("CHECK "):]
		depth, end := 0, 0
		for i, c := range text {
			if c == '(' {
				depth++
			}
			if c == ')' {
				if depth--; depth == 0 {
					end = i + 1
					break
				}
			}
		}
		list = append(list, text[:end])
		text = text[end:]
	}
}

var (
	cast    = regexp.MustCompile(`::(text|bigint|numeric|double precision)(\[\])?`)
	anyOf   = regexp.MustCompile(`= any array\[([^\]]*)\]`)
	between = regexp.MustCompile(`([\w&]+) between (\d+) and (\w+)`)
	glob    = regexp.MustCompile(`not glob '\*(\[\^[^]]*\])\*'`)
	quoted  = regexp.MustCompile(`'(\d+)'`)
	start   = regexp.MustCompile(`coalesce\(substr\((\w+), 1, 200\), \w+\)`)
	spaces  = regexp.MustCompile(`\s+`)
)

// plain writes what both engines say of one thing the same way: what they add and the choice of
// words are gone, and parentheses too, which PostgreSQL sets everywhere.
func plain(list []string) []string {
	var out []string
	for _, text := range list {
		text = strings.ToLower(spaces.ReplaceAllString(text, " "))
		text = strings.NewReplacer(`"`, "", "selvedge.", "", " using btree", "", " collate c", "").Replace(text)
		text = start.ReplaceAllString(text, "$1") // of a long text an index of a server has the beginning
		text = glob.ReplaceAllString(text, "!~ '$1'")
		text = cast.ReplaceAllString(text, "")
		text = strings.NewReplacer("(", " ", ")", " ").Replace(text)
		text = strings.TrimSpace(spaces.ReplaceAllString(text, " "))
		text = anyOf.ReplaceAllString(text, "in $1")
		text = quoted.ReplaceAllString(text, "$1")
		text = between.ReplaceAllString(text, "$1 >= $2 and $1 <= $3")
		text = strings.NewReplacer(" , ", ",", " ,", ",", ", ", ",").Replace(spaces.ReplaceAllString(text, " "))
		out = append(out, strings.TrimSpace(text))
	}
	return out
}
