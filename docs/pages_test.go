package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// A link of Markdown, without the place on the page.
	link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	// A file of ours that prose or a comment names: pages, and what stands in testdata.
	cited = regexp.MustCompile(`\b(?:docs|testdata|bench|examples|tools)/[\w./-]*\w\.(?:md|go|jsonl|gz)\b`)
)

func TestWhatPagesAndCommentsPointToIsThere(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == ".git" || name == "bin" || name == "demo" || name == "testdata" &&
				file != filepath.Join("..", "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		page := strings.HasSuffix(file, ".md")
		if !page && !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if page {
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				seen++
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
					t.Errorf("%s links to %s, which is not there", file, m[1])
				}
			}
		}
		for _, name := range cited.FindAllString(string(text), -1) {
			if isPattern(name) {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join("..", name)); err != nil {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("only %d names were looked at", seen)
	}
}

// isPattern reports whether a name stands for many, as in testdata/legacy/TREE.tar.gz.
func isPattern(name string) bool {
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '.' }) {
		if part == strings.ToUpper(part) && part != strings.ToLower(part) && part != "CLI" && part != "SCHEMA" &&
			part != "README" {
			return true
		}
	}
	return false
}

func TestTheREADMESaysUnderWhichLicence(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(readme), "\n## Licence\n")
	if _, err := os.Stat("../LICENSE"); err != nil && !strings.Contains(section, "has not chosen") || !found {
		t.Error("README.md has to say that the owner has not chosen a licence, as long as there is no LICENSE")
	}
}
