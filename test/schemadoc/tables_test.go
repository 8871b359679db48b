package schemadoc

import (
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"selvedge/db"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// books has a table constraint behind its last column and shelves none: SQLite puts a new column
// into the text of each at another place.
const books = `-- Books.

-- +goose Up

-- What stands on the shelves.
CREATE TABLE books (
    id    INTEGER PRIMARY KEY, -- counts
    title TEXT NOT NULL,       -- as printed
    CHECK (title <> '') -- a book has one
) STRICT;

-- Where they stand.
CREATE TABLE shelves (
    id   INTEGER PRIMARY KEY, -- counts, too
    room TEXT NOT NULL        -- its name
) STRICT;

-- +goose Down
DROP TABLE shelves;
DROP TABLE books;
`

func TestAddedColumnsKeepTheirOwnComments(t *testing.T) {
	got := columnsOf(t, books, `-- More of them.

-- +goose Up

ALTER TABLE books ADD COLUMN pages INTEGER; -- how many; NULL: not counted
ALTER TABLE books ADD COLUMN price INTEGER -- in cents,
    CHECK (price > 0); -- never a gift;
                       -- NULL: not for sale
-- The room's colour.
-- NULL: white.
ALTER TABLE shelves ADD colour TEXT;

-- Nothing to do with the columns above.
CREATE INDEX books_by_title ON books (title);

-- +goose Down
ALTER TABLE shelves DROP COLUMN colour;
`, `-- Later still.

-- +goose Up
ALTER TABLE books ADD COLUMN "kept since" INTEGER NOT NULL DEFAULT 0; -- Unix nanoseconds
-- +goose StatementBegin
CREATE TRIGGER books_go AFTER DELETE ON books BEGIN
    DELETE FROM shelves; -- no statement of the script's
END;
-- +goose StatementEnd
`)
	want := map[string]string{
		"books.id":         "counts",
		"books.title":      "as printed",
		"books.pages":      "how many; NULL: not counted",
		"books.price":      "in cents, never a gift; NULL: not for sale",
		"books.kept since": "Unix nanoseconds",
		"shelves.id":       "counts, too",
		"shelves.room":     "its name",
		"shelves.colour":   "The room's colour. NULL: white.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
}

func TestCommentsFollowATableThatChanges(t *testing.T) {
	for name, one := range map[string]struct {
		change string
		want   map[string]string
	}{
		"renamed column": {
			`ALTER TABLE books RENAME COLUMN title TO name;`,
			map[string]string{
				"books.id": "counts", "books.name": "as printed", "shelves.id": "counts, too",
				"shelves.room": "its name",
			},
		},
		"column that means something else": {
			"-- +goose Up\n-- books.title: as spoken\nCREATE INDEX by_title ON books (title);",
			map[string]string{
				"books.id": "counts", "books.title": "as spoken", "shelves.id": "counts, too",
				"shelves.room": "its name",
			},
		},
		"dropped column": {
			`ALTER TABLE shelves DROP COLUMN room;`,
			map[string]string{"books.id": "counts", "books.title": "as printed", "shelves.id": "counts, too"},
		},
		"dropped table": {
			`DROP TABLE shelves;`,
			map[string]string{"books.id": "counts", "books.title": "as printed"},
		},
		"rebuilt table": {
			`ALTER TABLE shelves ADD COLUMN colour TEXT; -- as before
CREATE TABLE shelves_new (
    id     INTEGER PRIMARY KEY, -- still counts
    colour TEXT                 -- NULL: white
) STRICT;
DROP TABLE shelves;
ALTER TABLE shelves_new RENAME TO shelves;`,
			map[string]string{
				"books.id": "counts", "books.title": "as printed", "shelves.id": "still counts",
				"shelves.colour": "NULL: white",
			},
		},
		"table of another name": {
			`ALTER TABLE shelves RENAME TO racks;`,
			map[string]string{
				"books.id": "counts", "books.title": "as printed", "racks.id": "counts, too",
				"racks.room": "its name",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(one.want, columnsOf(t, books,
				"-- A change.\n\n-- +goose Up\n"+one.change)); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
}

// columnsOf runs these migrations on top of the program's and returns the comments of the columns
// of the tables they made.
func columnsOf(t *testing.T, scripts ...string) map[string]string {
	t.Helper()
	files := fstest.MapFS{}
	for _, pattern := range []string{"*.sql", "views/*.sql"} {
		names, err := fs.Glob(migrations.SQLite(), pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			script, err := fs.ReadFile(migrations.SQLite(), name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: script}
		}
	}
	d := dbtest.Open(t, db.Options{})
	before := maps.Clone(comments(t, d, files))
	for i, script := range scripts {
		up, _, _ := strings.Cut(script, "-- +goose Down")
		err := d.Write(t.Context(), "migrate", func(tx *db.Tx) error {
			_, err := tx.Exec(up)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		files["9000"+string(rune('0'+i))+"_test.sql"] = &fstest.MapFile{Data: []byte(script)}
	}
	after := comments(t, d, files)
	maps.DeleteFunc(after, func(column, _ string) bool { _, old := before[column]; return old })
	return after
}

func comments(t *testing.T, d *db.DB, files fs.FS) map[string]string {
	t.Helper()
	s, err := describe(t.Context(), d, files)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, table := range tables(s) {
		for _, c := range table.Columns {
			list[table.Name+"."+c.Name] = c.Comment
		}
	}
	return list
}
