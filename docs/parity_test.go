package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// declarations are the names that the module declares, and those that its tests use.
type declarations struct {
	all   map[string]bool // functions, types, constants and variables, methods as Type.Method too
	funcs map[string]bool // functions and methods, by their last name
	tests map[string]bool // functions of test files
	used  map[string]bool // words in test files
}

var word = regexp.MustCompile(`\w+`)

func readDeclarations(t *testing.T) declarations {
	t.Helper()
	d := declarations{
		all: map[string]bool{}, funcs: map[string]bool{}, tests: map[string]bool{},
		used: map[string]bool{},
	}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bench") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		test := strings.HasSuffix(file, "_test.go")
		if test {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, w := range word.FindAllString(string(text), -1) {
				d.used[w] = true
			}
		}
		for _, decl := range parsed.Decls {
			d.add(decl, test)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *declarations) add(decl ast.Decl, test bool) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := decl.Name.Name
		if test {
			d.tests[name] = true
			return
		}
		d.all[name], d.funcs[name] = true, true
		if decl.Recv != nil {
			d.all[receiver(decl.Recv.List[0].Type)+"."+name] = true
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				d.all[spec.Name.Name] = true
				d.addMembers(spec.Type)
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					d.all[name.Name] = true
				}
			}
		}
	}
}

// addMembers adds the fields of a struct and the methods of an interface.
func (d *declarations) addMembers(of ast.Expr) {
	var members *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		members = of.Fields
	case *ast.InterfaceType:
		members = of.Methods
	default:
		return
	}
	for _, member := range members.List {
		for _, name := range member.Names {
			d.all[name.Name] = true
		}
	}
}

func receiver(of ast.Expr) string {
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	testName   = regexp.MustCompile(`^(Test|Example|Benchmark)\w*`)
	identifier = regexp.MustCompile(`^\*?(?:(?:runs|live|agents|checkpoints|workers|db|legacy)\.)?` +
		`((?:[A-Z]\w*\.)?[A-Z]\w*)(?:\(.*\))?$`)
)

// A counterpart that is not there, or that no test calls, is no parity, and a test that is not
// there shows nothing.
func TestParityNamesFunctionsAndTestsThatAreThere(t *testing.T) {
	d := readDeclarations(t)
	page, err := os.ReadFile("parity.md")
	if err != nil {
		t.Fatal(err)
	}
	counterparts, shown := 0, 0
	functions := false // the table at hand has counterparts
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "|") || len(cells) != 3 {
			continue
		}
		switch strings.TrimSpace(cells[1]) {
		case "Go":
			functions = true
		case "reason":
			functions = false
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if name := testName.FindString(m[1]); name != "" {
				shown++
				if !d.tests[name] {
					t.Errorf("there is no test %s: %s", name, line)
				}
			}
		}
		if !functions {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			parts := identifier.FindStringSubmatch(m[1])
			if parts == nil || parts[1] == "Tx" || parts[1] == "JSON" {
				continue
			}
			counterparts++
			name := parts[1][strings.LastIndexByte(parts[1], '.')+1:]
			switch {
			case !d.all[parts[1]] && !d.all[name]:
				t.Errorf("there is no %s: %s", parts[1], line)
			case d.funcs[name] && !d.used[name]:
				t.Errorf("no test calls %s: %s", parts[1], line)
			}
		}
	}
	if counterparts < 100 || shown < 150 {
		t.Errorf("%d counterparts and %d tests were found", counterparts, shown)
	}
}
