package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every function that a program gives to a public package has a row in functions.md, and every name
// there is one's.
func TestFunctions_EachHasARow(t *testing.T) {
	page, err := os.ReadFile("functions.md")
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	name := regexp.MustCompile("`([a-z]+\\.[\\w.()]+)`")
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
				written = append(written, m[1])
			}
		}
	}
	given := functionsOf(t)
	if len(given) < 30 {
		t.Fatalf("only %d functions were found", len(given))
	}
	for _, name := range given {
		if !slices.Contains(written, name) {
			t.Errorf("functions.md has no row for %s", name)
		}
	}
	for _, name := range written {
		if !slices.Contains(given, name) {
			t.Errorf("functions.md names %s, which is no function that a program gives", name)
		}
	}
}

// functionsOf names the parameters, fields and interfaces of the public packages that are the
// user's functions.
func functionsOf(t *testing.T) (names []string) {
	t.Helper()
	exports, paths := map[string]string{}, []string{}
	for _, folder := range public {
		paths = append(paths, path.Join(module, folder))
	}
	paths = append(paths, module+"internal/stores")
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, paths...)
	list := exec.Command("go", args...)
	list.Dir, list.Stderr = "..", os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	read := importer.ForCompiler(token.NewFileSet(), "gc", open)
	for _, name := range paths {
		p, err := read.Import(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() {
				names = append(names, functionsIn(p.Name()+"."+name, o)...)
			}
		}
	}
	return names
}

func functionsIn(name string, o types.Object) (names []string) {
	if f, ok := o.(*types.Func); ok {
		return functionParameters(name, f)
	}
	if _, ok := o.(*types.TypeName); !ok {
		return nil
	}
	named, _ := types.Unalias(o.Type()).(*types.Named)
	if named == nil {
		return nil
	}
	for m := range named.Methods() {
		if m.Exported() {
			names = append(names, functionParameters(name+"."+m.Name(), m)...)
		}
	}
	switch shape := named.Underlying().(type) {
	case *types.Struct:
		for f := range shape.Fields() {
			if f.Exported() && isFunction(f.Type()) {
				names = append(names, name+"."+f.Name())
			}
		}
	case *types.Interface: // that others can implement
		for m := range shape.Methods() {
			if !m.Exported() {
				return nil
			}
		}
		for m := range shape.Methods() {
			names = append(names, name+"."+m.Name())
		}
	}
	return names
}

func functionParameters(name string, f *types.Func) (names []string) {
	for p := range f.Signature().Params().Variables() {
		if isFunction(p.Type()) {
			names = append(names, fmt.Sprintf("%s(%s)", name, p.Name()))
		}
	}
	return names
}

// isFunction reports whether a value of the type is a function, or has some in it.
func isFunction(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Signature:
		return true
	case *types.Slice:
		return isFunction(t.Elem())
	case *types.Map:
		return isFunction(t.Elem())
	}
	return false
}
