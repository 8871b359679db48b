package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// public are the packages that programs import.
var public = []string{
	".", "db", "runs", "runs/live", "agents", "checkpoints", "workers", "state", "maintenance", "legacy",
}

// past are words of what was. The calls of the old programs, in seed.go, and their layouts, in
// layout*.go, say whose they are.
var past = regexp.MustCompile(`(?i)\b(originals?|seeds?|used to|previously|formerly|no longer (?:has|have|` +
	`is|are) (?:a|an|the)|in earlier versions)\b`)

// Each of these says a thing of today.
var ofToday = map[string]bool{
	"runs/doc.go": true, "agents/doc.go": true, // where the calls of seed.go are
}

func TestGodocSpeaksOfToday(t *testing.T) {
	looked := 0
	for _, folder := range public {
		files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			short, _ := filepath.Rel("..", name)
			if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "seed.go" ||
				strings.HasPrefix(filepath.Base(name), "layout") || ofToday[short] {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, decl := range file.Decls {
				for _, text := range documented(decl) {
					looked++
					if words := past.FindString(text); words != "" {
						t.Errorf("%s speaks of the past (%q): %s", short, words, text)
					}
				}
			}
		}
	}
	if looked < 500 {
		t.Errorf("only %d comments were found", looked)
	}
}

// documented are the comments of an exported declaration.
func documented(decl ast.Decl) (texts []string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Name.IsExported() && decl.Doc != nil {
			texts = append(texts, decl.Doc.Text())
		}
	case *ast.GenDecl:
		if decl.Doc != nil {
			texts = append(texts, decl.Doc.Text())
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				texts = append(texts, n.Doc.Text(), n.Comment.Text())
			case *ast.ValueSpec:
				texts = append(texts, n.Doc.Text(), n.Comment.Text())
			}
			return true
		})
	}
	return texts
}

// What only an import needs is in internal/: a public name has somebody else who says it.
func TestNoPublicNameIsTheImportersAlone(t *testing.T) {
	said := map[string]map[string]bool{} // words, and the rooms that say them
	declared := map[string]string{}      // exported functions, methods and types, and their room
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bench") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || filepath.Base(name) == "names_test.go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel("..", filepath.Dir(name))
		own := map[*ast.Ident]bool{}
		for _, decl := range file.Decls {
			for _, id := range declaredBy(decl) {
				own[id] = true
				if slices.Contains(public, folder) && !strings.HasSuffix(name, "_test.go") && id.IsExported() &&
					!strings.HasPrefix(folder, "legacy") {
					declared[id.Name] = folder
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !own[id] {
				if said[id.Name] == nil {
					said[id.Name] = map[string]bool{}
				}
				said[id.Name][folder] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, room := range declared {
		others := 0
		for folder := range said[name] {
			if !strings.HasPrefix(folder, "legacy") {
				others++
			}
		}
		if len(said[name]) > 0 && others == 0 {
			t.Errorf("%s of %s is said by imports alone", name, room)
		} else if len(said[name]) == 0 && !calledByItself.MatchString(name) {
			t.Errorf("%s of %s is said by nobody, no test either", name, room)
		}
	}
	if len(declared) < 400 {
		t.Errorf("only %d names were found", len(declared))
	}
}

// calledByItself are the methods that the standard library calls.
var calledByItself = regexp.MustCompile(`^(Marshal|Unmarshal)(JSON|Text)$|^(Unwrap|LogValue|Error|String)$`)

// declaredBy are the functions, methods and types of a declaration.
func declaredBy(decl ast.Decl) (names []*ast.Ident) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		names = append(names, decl.Name)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				names = append(names, spec.Name)
			}
		}
	}
	return names
}
