package migrations_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// madeTwin is the first line of a twin that nobody has to write.
const madeTwin = "-- Made of the step in migrations/sqlite by make generate.\n"

var (
	comment = regexp.MustCompile(`(?m) *--( .*|$)`)
	blank   = regexp.MustCompile(`\n+`)
	marks   = regexp.MustCompile(`(?m)^-- \+goose (Up|Down)$`)
	// What says the same to both, but for the names of types.
	addColumn = regexp.MustCompile(`^ALTER TABLE \w+ ADD COLUMN ("?\w+"?) (INTEGER|TEXT|BLOB|REAL)\b`)
	asItIs    = regexp.MustCompile(`^(ALTER TABLE \w+ DROP COLUMN|CREATE (UNIQUE )?INDEX|DROP INDEX)\b`)
	types     = map[string]string{
		"INTEGER": "BIGINT", "TEXT": `TEXT COLLATE "C"`, "BLOB": "BYTEA",
		"REAL": "DOUBLE PRECISION",
	}
)

// twin is a step of a file as it is for a server; ok is false where it does more than add columns
// and indexes.
func twin(step string) (made string, ok bool) {
	made = madeTwin + "\n"
	for i, half := range marks.Split(step, -1) {
		if i > 0 {
			made += marks.FindAllString(step, -1)[i-1] + "\n"
		}
		for statement := range strings.SplitSeq(comment.ReplaceAllString(half, ""), ";") {
			statement = blank.ReplaceAllString(strings.TrimSpace(statement), "\n")
			if statement == "" {
				continue
			}
			if at := addColumn.FindStringSubmatchIndex(statement); at != nil {
				statement = statement[:at[4]] + types[statement[at[4]:at[5]]] + statement[at[5]:]
			} else if !asItIs.MatchString(statement) {
				return "", false
			}
			made += statement + ";\n"
		}
		if i == 1 {
			made += "\n"
		}
	}
	return made, true
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// writeTwin writes the twin of a step, unless a hand has.
func writeTwin(t *testing.T, name string) {
	t.Helper()
	path := "postgres/" + name
	if there := read(t, path); there != "" && !strings.HasPrefix(there, madeTwin) {
		return
	}
	made, ok := twin(read(t, "sqlite/"+name))
	if !ok {
		return // TestEveryStepHasATwin says what is missing
	}
	if err := os.WriteFile(path, []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTwin_AddOnlyStepIsGenerated(t *testing.T) {
	got, ok := twin(`-- What it is for; and why.

-- +goose Up
ALTER TABLE runs ADD COLUMN cost INTEGER; -- micro-dollars; NULL: not said
ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT ''; -- a word
-- Asked for by lists.
CREATE INDEX runs_by_cost ON runs (scope, cost) WHERE cost IS NOT NULL;

-- +goose Down
DROP INDEX runs_by_cost;
ALTER TABLE runs DROP COLUMN note;
ALTER TABLE runs DROP COLUMN cost;
`)
	const want = madeTwin + `
-- +goose Up
ALTER TABLE runs ADD COLUMN cost BIGINT;
ALTER TABLE runs ADD COLUMN note TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX runs_by_cost ON runs (scope, cost) WHERE cost IS NOT NULL;

-- +goose Down
DROP INDEX runs_by_cost;
ALTER TABLE runs DROP COLUMN note;
ALTER TABLE runs DROP COLUMN cost;
`
	if !ok || got != want {
		t.Errorf("it is\n%s\nnot\n%s", got, want)
	}
	if _, ok := twin("-- +goose Up\nUPDATE runs SET others = 0;\n-- +goose Down\n"); ok {
		t.Error("a step that changes rows is taken for one that only adds")
	}
}
