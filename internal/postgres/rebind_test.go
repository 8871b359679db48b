package postgres

import (
	"strings"
	"testing"
)

func TestAQuestionMarkIsAParameterOutsideOfTextAlone(t *testing.T) {
	for query, want := range map[string]string{
		"SELECT ?, ?":                "SELECT $1, $2",
		"SELECT ?2, ?1, ?":           "SELECT $2, $1, $3",
		"SELECT '?', ?":              "SELECT '?', $1",
		"SELECT 'it''s ?', ?":        "SELECT 'it''s ?', $1",
		`SELECT E'\'?', ?`:           `SELECT E'\'?', $1`,
		`SELECT "a?", ?`:             `SELECT "a?", $1`,
		"SELECT ? -- ?\n, ?":         "SELECT $1 -- ?\n, $2",
		"SELECT -- ?\r ?":            "SELECT -- ?\r $1",
		"SELECT /* ? /* ? */ ? */ ?": "SELECT /* ? /* ? */ ? */ $1",
		"SELECT $a$ ? $a$, ?":        "SELECT $a$ ? $a$, $1",
		"SELECT $$ ? $$, $1, ?":      "SELECT $$ ? $$, $1, $1",
		"SELECT '?":                  "SELECT '?",
	} {
		if got, _, _, err := rebind(query); got != want || err != nil {
			t.Errorf("%s became %s: %v", query, got, err)
		}
	}
}

func TestEveryTextComesBackFromItsEscape(t *testing.T) {
	for _, text := range []string{
		"", "a", "\x00", "a\x00b", "\xff", "\xf4\x8f\xbf", "\U0010FFFF",
		"\U0010FFFF0", "\U0010FFFFxff", "x\xffff",
	} {
		kept := encodeText(text)
		if !plain(kept) && !strings.Contains(kept, escape) || strings.IndexByte(kept, 0) >= 0 ||
			decodeText(kept) != text {
			t.Errorf("%q is kept as %q, and comes back as %q", text, kept, decodeText(kept))
		}
	}
}
