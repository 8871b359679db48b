package schemadoc

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"selvedge/db"
	"selvedge/migrations"
)

// A Schema is the content of a file, for its documentation.
type Schema struct {
	Version  int64
	Chapters []Chapter
	Views    []View
}

// A Chapter is the tables that one migration made.
type Chapter struct {
	Title  string
	Tables []Table
}

// A Table is one table, with what hangs on it.
type Table struct {
	Name     string
	Purpose  string
	Kind     string // STRICT, WITHOUT ROWID
	Columns  []Column
	Rules    []Rule
	Indexes  []Index
	Triggers []Trigger
}

// A Column is one column of a table or view.
type Column struct {
	Name     string
	Type     string
	Nullable bool
	Default  string // SQL; "" is none
	Key      int    // place in the primary key, from 1; 0 is none
	Refers   string // table and column of a foreign key, and the effect of a deletion there
	Comment  string
}

// A Rule is a CHECK constraint.
type Rule struct{ Check, Comment string }

// An Index is an index, or one that SQLite made for a constraint.
type Index struct {
	Name    string
	Columns []string // "" is an expression
	Unique  bool
	Made    string // "c" by CREATE INDEX, "u" by UNIQUE, "pk" by PRIMARY KEY
	Shown   string // the columns with their order, and the condition of a partial index
	Purpose string
}

// A Trigger is a trigger.
type Trigger struct{ Name, Purpose, SQL string }

// A View is one view.
type View struct {
	Name    string
	Purpose string
	Columns []Column
}

// What explains the one table that is not ours: goose makes it, without comments.
const (
	gooseTable   = "goose_db_version"
	goosePurpose = "The migrations that were applied."
)

var gooseComments = map[string]string{
	"id":         "counts the rows",
	"version_id": "number of a migration",
	"is_applied": "1: it was applied; a migration that is taken back loses its row",
	"tstamp":     "when it was applied: UTC, as YYYY-MM-DD HH:MM:SS; never NULL",
}

// Read describes the file that d has open.
func Read(ctx context.Context, d *db.DB) (Schema, error) {
	return describe(ctx, d, migrations.SQLite())
}

// describe is Read for a file that was made by these migrations.
func describe(ctx context.Context, d *db.DB, files fs.FS) (Schema, error) {
	p, err := readPurposes(files)
	if err != nil {
		return Schema{}, err
	}
	var s Schema
	err = d.Read(ctx, "describe the schema", func(rx *db.Rx) error {
		r := reader{rx: rx, purposes: p}
		s, err = r.schema()
		return err
	})
	return s, err
}

// An object is a row of sqlite_schema.
type object struct {
	Type  string `db:"type"`
	Name  string `db:"name"`
	Table string `db:"tbl_name"`
	SQL   string `db:"sql"`
}

const (
	sqlObjects = `SELECT type, name, tbl_name, sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`
	sqlVersion = `SELECT max(version_id) FROM goose_db_version WHERE is_applied`
	sqlColumns = `SELECT name, type, "notnull" AS required, coalesce(dflt_value, '') AS "default", pk
		FROM pragma_table_info(?) ORDER BY cid`
	sqlForeignKeys = `SELECT "table" AS parent, "from" AS child, coalesce("to", '') AS "to", on_delete
		FROM pragma_foreign_key_list(?)`
	sqlIndexes = `SELECT name, "unique", origin FROM pragma_index_list(?) ORDER BY origin DESC, name`
	sqlIndex   = `SELECT coalesce(name, '') AS name, "desc" AS descending FROM pragma_index_xinfo(?) WHERE key
		ORDER BY seqno`
)

type reader struct {
	rx       *db.Rx
	purposes purposes
	objects  []object
}

func (r *reader) schema() (Schema, error) {
	var s Schema
	if err := r.rx.Get(&s.Version, sqlVersion); err != nil {
		return s, err
	}
	if err := r.rx.Select(&r.objects, sqlObjects); err != nil {
		return s, err
	}
	r.purposes.of[gooseTable] = goosePurpose
	left := map[string]bool{}
	for _, o := range r.objects {
		left[o.Name] = o.Type == "table"
	}
	goose := chapter{title: "Migrations, as goose keeps them.", tables: []string{gooseTable}}
	for _, c := range slices.Concat(r.purposes.chapters, []chapter{goose}) {
		out := Chapter{Title: c.title}
		for _, name := range c.tables {
			if !left[name] { // a later migration dropped it
				continue
			}
			left[name] = false
			table, err := r.table(name)
			if err != nil {
				return s, fmt.Errorf("table %s: %w", name, err)
			}
			out.Tables = append(out.Tables, table)
		}
		s.Chapters = append(s.Chapters, out)
	}
	for name, is := range left {
		if is {
			return s, fmt.Errorf("no migration makes the table %s", name)
		}
	}
	for _, o := range r.objects {
		if o.Type != "view" {
			continue
		}
		view, err := r.view(o)
		if err != nil {
			return s, fmt.Errorf("view %s: %w", o.Name, err)
		}
		s.Views = append(s.Views, view)
	}
	return s, nil
}

func (r *reader) object(name string) object {
	for _, o := range r.objects {
		if o.Name == name {
			return o
		}
	}
	return object{}
}

func (r *reader) table(name string) (Table, error) {
	notes := r.purposes.notes[name]
	t := Table{Name: name, Purpose: join(r.purposes.of[name], notes.intro)}
	t.Rules, t.Kind = readTable(r.object(name).SQL)
	var err error
	if t.Columns, err = r.columns(name); err != nil {
		return t, err
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		c.Comment = notes.columns[c.Name]
		if name == gooseTable {
			c.Comment = gooseComments[c.Name]
		}
	}
	if t.Indexes, err = r.indexes(name); err != nil {
		return t, err
	}
	for _, o := range r.objects {
		if o.Type == "trigger" && o.Table == name {
			t.Triggers = append(t.Triggers, Trigger{Name: o.Name, Purpose: r.purposes.of[o.Name], SQL: o.SQL})
		}
	}
	return t, nil
}

func (r *reader) columns(table string) ([]Column, error) {
	var rows []struct {
		Name     string `db:"name"`
		Type     string `db:"type"`
		Required bool   `db:"required"`
		Default  string `db:"default"`
		Key      int    `db:"pk"`
	}
	if err := r.rx.Select(&rows, sqlColumns, table); err != nil {
		return nil, err
	}
	var keys []struct {
		Parent   string `db:"parent"`
		Child    string `db:"child"`
		To       string `db:"to"`
		OnDelete string `db:"on_delete"`
	}
	if err := r.rx.Select(&keys, sqlForeignKeys, table); err != nil {
		return nil, err
	}
	refers := map[string]string{}
	for _, k := range keys {
		refers[k.Child] = k.Parent + "." + k.To
		if k.OnDelete != "NO ACTION" {
			refers[k.Child] += ", on delete " + strings.ToLower(k.OnDelete)
		}
	}
	var list []Column
	for _, row := range rows {
		list = append(list, Column{
			Name: row.Name, Type: row.Type, Nullable: !row.Required && row.Key == 0,
			Default: row.Default, Key: row.Key, Refers: refers[row.Name],
		})
	}
	return list, nil
}

func (r *reader) indexes(table string) ([]Index, error) {
	var rows []struct {
		Name   string `db:"name"`
		Unique bool   `db:"unique"`
		Origin string `db:"origin"`
	}
	if err := r.rx.Select(&rows, sqlIndexes, table); err != nil {
		return nil, err
	}
	var list []Index
	for _, row := range rows {
		var columns []struct {
			Name       string `db:"name"`
			Descending bool   `db:"descending"`
		}
		if err := r.rx.Select(&columns, sqlIndex, row.Name); err != nil {
			return nil, err
		}
		index := Index{Name: row.Name, Unique: row.Unique, Made: row.Origin, Purpose: r.purposes.of[row.Name]}
		var shown []string
		for _, c := range columns {
			index.Columns = append(index.Columns, c.Name)
			if c.Descending {
				c.Name += " DESC"
			}
			shown = append(shown, c.Name)
		}
		index.Shown = strings.Join(shown, ", ")
		if written := r.object(row.Name).SQL; written != "" {
			inside, rest := inParentheses(tokens(written))
			index.Shown = join(text(inside), text(rest))
		}
		list = append(list, index)
	}
	return list, nil
}

func (r *reader) view(o object) (View, error) {
	intro, comments := readView(o.SQL)
	v := View{Name: o.Name, Purpose: join(r.purposes.of[o.Name], intro)}
	var err error
	if v.Columns, err = r.columns(o.Name); err != nil {
		return v, err
	}
	if len(comments) != len(v.Columns) {
		return v, fmt.Errorf("%d columns, of which the text shows %d: name each in the outermost SELECT",
			len(v.Columns), len(comments))
	}
	for i := range v.Columns {
		v.Columns[i].Comment = comments[i]
	}
	return v, nil
}
