package schemadoc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommentBelongsToTheColumnBeforeIt(t *testing.T) {
	sql := `CREATE TABLE "odd, name" (
    -- what it holds,
    -- in two lines
    id      INTEGER NOT NULL PRIMARY KEY CHECK (id > 0), -- counts, from 1
    "a -- b" TEXT DEFAULT 'it''s, (', -- no comment inside the name
    price   INTEGER /* in cents */ NOT NULL,
    late    INTEGER -- the last one has no comma,
                    -- and goes on
    , CHECK (late > price -- never before
    ),
    UNIQUE (price, late)
) STRICT, WITHOUT ROWID`
	body, _ := inParentheses(tokens(sql))
	notes := tableNotes{
		intro: "what it holds, in two lines",
		columns: map[string]string{
			"id":     "counts, from 1",
			"a -- b": "no comment inside the name",
			"price":  "in cents",
			"late":   "the last one has no comma, and goes on",
		},
	}
	if diff := cmp.Diff(notes, notesOf(body), cmp.AllowUnexported(tableNotes{})); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	rules, suffix := readTable(sql)
	if diff := cmp.Diff([]Rule{{Check: "id > 0"}, {Check: "late > price", Comment: "never before"}},
		rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if suffix != "STRICT, WITHOUT ROWID" {
		t.Errorf("behind the table stands %q", suffix)
	}
}

func TestCommentsOfViews(t *testing.T) {
	want := []string{"first", "second"}
	for name, sql := range map[string]string{
		"select list": `CREATE VIEW v AS SELECT
			(SELECT max(x) FROM t) AS a, -- first
			coalesce(b, 1) AS b -- second
			FROM t -- not a column's`,
		"column list": `CREATE VIEW v (
			a, -- first
			b  -- second
		) AS SELECT 1, 2 FROM t`,
		"common table expression": `CREATE VIEW v AS
			WITH w (n) AS (SELECT 1 AS n FROM t)
			SELECT w.n AS a, -- first
				2 AS b -- second
			FROM w`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := readView(sql); !cmp.Equal(want, got) {
				t.Errorf("comments %q, want %q", got, want)
			}
		})
	}
}

func TestTextOfRules(t *testing.T) {
	for _, sql := range []string{
		"status IN ('open', 'done')",
		"length(token) = 16",
		"key BETWEEN 1 AND 549755813887",
		"(intent IS NULL) = (started_at IS NULL)",
		"id & 16777215 > 0",
		"a <> b OR a >= 3 AND coalesce(a, -1) < 2",
	} {
		if got := text(tokens(sql)); got != sql {
			t.Errorf("%q is shown as %q", sql, got)
		}
	}
}
