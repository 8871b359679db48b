package db_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strconv"
	"strings"
	"testing"
)

// The database below is an engine's own matter: a signature, a field or a variable that named its
// driver's types would be a promise to keep them.
func TestAPI_ExposesNoDriverType(t *testing.T) {
	files := token.NewFileSet()
	untested := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	packages, err := parser.ParseDir(files, ".", untested, 0) //nolint:staticcheck // no build tags here
	if err != nil {
		t.Fatal(err)
	}
	exported := 0
	for _, file := range packages["db"].Files {
		below := map[string]bool{} // names under which this file knows packages that must not be seen
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			name := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			if strings.HasPrefix(path, "database/sql") || strings.Contains(path, "sqlx") ||
				strings.Contains(path, "modernc.org") || strings.Contains(path, "internal/sqlite") {
				below[name] = true
			}
		}
		for _, decl := range file.Decls {
			for _, public := range publicParts(decl) {
				exported++
				ast.Inspect(public, func(n ast.Node) bool {
					if x, ok := n.(*ast.SelectorExpr); ok {
						if p, ok := x.X.(*ast.Ident); ok && below[p.Name] {
							t.Errorf("%s: %s.%s is in the API", files.Position(x.Pos()), p.Name, x.Sel.Name)
						}
					}
					return true
				})
			}
		}
	}
	if exported < 100 {
		t.Errorf("only %d parts of the API were seen", exported)
	}
}

// publicParts gives the types that a declaration shows to users.
func publicParts(decl ast.Decl) (parts []ast.Node) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			parts = append(parts, d.Type)
			if d.Type.TypeParams != nil {
				parts = append(parts, d.Type.TypeParams)
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && s.Type != nil {
						parts = append(parts, s.Type)
					}
				}
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				shape, ok := s.Type.(*ast.StructType)
				if !ok {
					parts = append(parts, s.Type)
					continue
				}
				for _, field := range shape.Fields.List {
					public := len(field.Names) == 0
					for _, name := range field.Names {
						public = public || name.IsExported()
					}
					if public {
						parts = append(parts, field.Type)
					}
				}
			}
		}
	}
	return parts
}
