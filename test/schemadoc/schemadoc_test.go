package schemadoc

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestPageIsUpToDate(t *testing.T) {
	want, err := Page(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("docs/SCHEMA.md is out of date; run make generate (-file +schema):\n%s", diff)
	}
}

func TestEverythingIsExplained(t *testing.T) {
	for _, gap := range gaps(readSchema(t)) {
		t.Error(gap)
	}
}

// gaps are the things in a schema that its comments leave open.
func gaps(s Schema) (list []string) {
	say := func(what, why string) { list = append(list, what+" "+why) }
	purpose := func(what, text string) {
		if text == "" {
			say(what, "has no comment above its CREATE statement")
		}
	}
	for _, table := range tables(s) {
		purpose(table.Name, table.Purpose)
		for _, c := range table.Columns {
			name := table.Name + "." + c.Name
			switch {
			case c.Comment == "":
				say(name, "has no comment")
			case c.Nullable && !strings.Contains(c.Comment+table.Purpose, "NULL"):
				say(name, "may be NULL, and its comment does not say what NULL means")
			case c.Type == "INTEGER" && strings.HasSuffix(c.Name, "_at") &&
				!strings.Contains(c.Comment, "nanoseconds") && !strings.Contains(c.Comment, "clock"):
				say(name, "is a time, and its comment does not say in what unit")
			}
		}
		for _, i := range table.Indexes {
			if i.Made == "c" {
				purpose(i.Name, i.Purpose)
			}
		}
		for _, trigger := range table.Triggers {
			purpose(trigger.Name, trigger.Purpose)
		}
	}
	for _, v := range s.Views {
		purpose(v.Name, v.Purpose)
		for _, c := range v.Columns {
			if c.Comment == "" {
				say(v.Name+"."+c.Name, "has no comment")
			}
		}
	}
	return list
}

// A deletion in the parent looks for children: without an index it reads the whole child table (182
// ms a run against 0.08 at 400,000 turns).
func TestEveryForeignKeyHeadsAnIndex(t *testing.T) {
	for _, table := range tables(readSchema(t)) {
		for _, c := range table.Columns {
			if c.Refers != "" && !headsIndex(table, c) {
				t.Errorf("%s.%s refers to %s and heads no index", table.Name, c.Name, c.Refers)
			}
		}
	}
}

func headsIndex(table Table, c Column) bool {
	if c.Key == 1 && c.Type == "INTEGER" {
		return true // the rowid, or the first column of the primary key's index
	}
	for _, i := range table.Indexes {
		if i.Columns[0] == c.Name {
			return true
		}
	}
	return false
}

func TestGapsAreNoticed(t *testing.T) {
	s := Schema{
		Chapters: []Chapter{{Tables: []Table{{
			Name: "pages", Purpose: "the pages of books",
			Columns: []Column{
				{Name: "id", Type: "INTEGER"},
				{Name: "note", Type: "TEXT", Nullable: true, Comment: "what the reader wrote"},
				{Name: "read_at", Type: "INTEGER", Comment: "when"},
				{Name: "text", Type: "TEXT", Comment: "the words"},
			},
			Indexes:  []Index{{Name: "pages_by_time", Made: "c"}, {Name: "sqlite_autoindex_pages_1", Made: "u"}},
			Triggers: []Trigger{{Name: "pages_count"}},
		}}}},
		Views: []View{{Name: "v_pages", Columns: []Column{{Name: "id"}}}},
	}
	want := []string{
		"pages.id has no comment",
		"pages.note may be NULL, and its comment does not say what NULL means",
		"pages.read_at is a time, and its comment does not say in what unit",
		"pages_by_time has no comment above its CREATE statement",
		"pages_count has no comment above its CREATE statement",
		"v_pages has no comment above its CREATE statement",
		"v_pages.id has no comment",
	}
	if diff := cmp.Diff(want, gaps(s)); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

func readSchema(t *testing.T) Schema {
	t.Helper()
	s, err := Read(t.Context(), dbtest.Open(t, db.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tables(s Schema) (list []Table) {
	for _, c := range s.Chapters {
		list = append(list, c.Tables...)
	}
	return list
}
