package docs_test

import (
	"go/constant"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/internal/txn"
	"selvedge/runs"
)

// day is 24 hours, as the constants of packages are written.
const day = int64(24 * 3600 * 1e9)

// said are the constants that pages, help texts and comments repeat: in the words that the pattern
// finds, its group is the number. A number is a word up to ten, and has commas in thousands.
var said = []struct {
	what    string
	value   int64
	pattern string
}{
	{"paging.DefaultLimit", paging.DefaultLimit, `limit of 0 means ([\d,]+)`},
	{"db.MaxLimit", db.MaxLimit, `limit above ([\d,]+)`},
	{"paging.MaxBytes in MiB", paging.MaxBytes >> 20, `page also ends when it holds ([\d,]+) MiB`},
	{"txn.MaxID in KiB", txn.MaxID >> 10, `([\d,]+) KiB without NUL`},
	{"runs.DefaultMaxRunsPerAgent", runs.DefaultMaxRunsPerAgent, `([\d,]+) runs (?:of each|per) agent`},
	{"runs.DefaultMaxAgeDays", runs.DefaultMaxAgeDays, `runs (?:of each|per) agent and ([\w,]+) days`},
	{"keysKept in days", written("runs/delete.go", "keysKept") / day, `(?:They go after|For) ([\w,]+) days`},
	{
		"staleAfter in days", written("agents/registry.go", "staleAfter") / day,
		`(?:it|registry,?|that ended|aside|of the) (\w+) days (?:ago|after (?:their|its) end|of an ended)`,
	},
	{
		"walWaitPages in MB", written("internal/sqlite/wal.go", "walWaitPages") * 4096 >> 20,
		`walWaitPages on, which is (\d+) MB`,
	},
}

// written is the value of a constant that no other package sees, as its source has it.
func written(file, name string) int64 {
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
	if err != nil {
		panic(err)
	}
	found := regexp.MustCompile(`(?m)\b` + name + `\s+= (.+)$`).FindSubmatch(text)
	if found == nil {
		panic(name + " is not in " + file)
	}
	expression := strings.ReplaceAll(string(found[1]), "time.Hour", "3600000000000")
	value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
	if err != nil {
		panic(err)
	}
	n, _ := constant.Int64Val(value.Value)
	return n
}

var numbers = strings.Fields("none one two three four five six seven eight nine ten")

func TestConstants_WordsSayTheirValues(t *testing.T) {
	texts := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains([]string{"bench", "testdata", "bin", "decisions"}, name) ||
			len(name) > 2 && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case entry.IsDir() || name == "CHANGELOG.md" || strings.HasSuffix(name, "_test.go"):
			return nil
		case strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".sql"):
			text, err := os.ReadFile(path)
			// A sentence may go on in the next line of a comment.
			joined := regexp.MustCompile(`\n\s*(?://|--)?\s*`).ReplaceAllString(string(text), " ")
			texts[path] = joined
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range said {
		pattern, places := regexp.MustCompile(s.pattern), 0
		for path, text := range texts {
			for _, found := range pattern.FindAllStringSubmatch(text, -1) {
				places++
				n, err := strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
				if word := int64(slices.Index(numbers, found[1])); word >= 0 {
					n, err = word, nil
				}
				if err != nil || n != s.value {
					t.Errorf("%s says %q, and %s is %d", path, found[0], s.what, s.value)
				}
			}
		}
		if places == 0 {
			t.Errorf("nobody says what %s is: take it out of the list, or mend its pattern", s.what)
		}
	}
}
