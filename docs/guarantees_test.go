package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`([\\w/]+)\\.((?:Test|Fuzz)\\w+)`")
	namedTarget = regexp.MustCompile("`make ([a-z-]+)`")
)

// A promise without a test is a hope: every row of the tables of promises names what shows it. What they
// and the other pages of a server name is there.
func TestWhatIsPromisedIsShown(t *testing.T) {
	read := func(names ...string) (page string) {
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			page += string(text)
		}
		return page
	}
	promised, others := read("guarantees.md", "postgres.md"), read("operating.md", "tenants.md")
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	promises := 0
	for line := range strings.Lines(promised + strings.ReplaceAll(others, "\n|", "\n")) {
		tests, targets := namedTest.FindAllStringSubmatch(line, -1), namedTarget.FindAllStringSubmatch(line, -1)
		if row := strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "| ---") &&
			!strings.HasPrefix(line, "| promised"); row {
			promises++
			if len(tests)+len(targets) == 0 {
				t.Errorf("nothing shows this: %s", line)
			}
		}
		for _, m := range tests {
			if !declared(t, m[1], m[2]) {
				t.Errorf("%s has no test %s", m[1], m[2])
			}
		}
		for _, m := range targets {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("there is no make %s", m[1])
			}
		}
	}
	if promises < 20 {
		t.Errorf("only %d promises were found", promises)
	}
}

func declared(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", strings.TrimSuffix(folder, "selvedge"), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return true
		}
	}
	return false
}
