package main

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A constant that is made of a mutated text must become a variable, and so must the constants that
// are made of it, in whatever package. All functions that use one of them are asked about its
// mutants: that tells which tests come by.

// A tree is the module's sources, by path.
type tree map[string]*source

func readTree(root string) (tree, error) {
	all := tree{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if below == "." {
				return nil
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") ||
				d.Name() == "testdata" || below == "test/mutants" {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all[filepath.ToSlash(below)], err = parse(filepath.ToSlash(below), string(text))
		return err
	})
	return all, err
}

type constantKey struct{ folder, name string }

// A constant is a declared constant that can be made a variable, or a variable of a package.
type constant struct {
	source  *source
	decl    *ast.GenDecl
	spec    *ast.ValueSpec
	mutants map[*mutant]bool
}

// constants finds those of all packages.
func (t tree) constants() (all []*constant, byName map[constantKey]*constant) {
	byName = map[constantKey]*constant{}
	for _, s := range t {
		ast.Inspect(s.file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST &&
				!(decl.Tok == token.VAR && slices.Contains(s.file.Decls, ast.Decl(decl))) {
				return true
			}
			for _, spec := range decl.Specs {
				c := &constant{source: s, decl: decl, spec: spec.(*ast.ValueSpec), mutants: map[*mutant]bool{}}
				if len(c.spec.Values) == 0 {
					continue
				}
				all = append(all, c)
				for _, name := range c.spec.Names {
					byName[constantKey{s.folder, name.Name}] = c
				}
			}
			return true
		})
	}
	return all, byName
}

// uses returns the names below a node that may be constants.
func (s *source) uses(n ast.Node, found func(constantKey)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if folder, ok := s.imported(x.Name); ok {
					found(constantKey{folder, n.Sel.Name})
				}
			}
		case *ast.Ident:
			found(constantKey{s.folder, n.Name})
		}
		return true
	})
}

// imported is the folder of the package of ours that has this name in the file.
func (s *source) imported(name string) (folder string, ok bool) {
	for _, i := range s.file.Imports {
		at, err := strconv.Unquote(i.Path.Value)
		folder, ours := strings.CutPrefix(at, "selvedge/")
		if err != nil || !ours {
			continue
		}
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(at) == name {
			return folder, true
		}
	}
	return "", false
}

// loosen makes variables of the constants that have mutants, and puts the questions into the
// functions that use them.
func (t tree) loosen(texts map[*ast.BasicLit][]*mutant) {
	all, byName := t.constants()
	for _, c := range all {
		ast.Inspect(c.spec, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok {
				for _, m := range texts[lit] {
					c.mutants[m] = true
				}
			}
			return true
		})
	}
	for again := true; again; {
		again = false
		for _, c := range all {
			c.source.uses(c.spec, func(key constantKey) {
				used := byName[key]
				if used == nil || used == c {
					return
				}
				for m := range used.mutants {
					if !c.mutants[m] {
						c.mutants[m], again = true, true
					}
				}
			})
		}
	}
	for _, c := range all {
		if len(c.mutants) > 0 && c.decl.Tok == token.CONST {
			c.loosen()
		}
	}
	for _, s := range t {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			asked := map[*mutant]bool{}
			s.uses(f.Body, func(key constantKey) {
				if c := byName[key]; c != nil {
					for m := range c.mutants {
						asked[m] = true
					}
				}
			})
			for m := range asked {
				s.insert(f.Body.Lbrace+1, "mutantOn.At("+strconv.Itoa(m.number)+"); ")
			}
		}
	}
}

// loosen makes the constant a variable, at its place.
func (c *constant) loosen() {
	if !c.decl.Lparen.IsValid() {
		c.source.edits = append(c.source.edits, edit{c.source.at(c.decl.Pos()), "var /*"},
			edit{c.source.at(c.decl.Pos()) + len("const"), "*/"})
		return
	}
	// After earlier insertions: the texts of the constant itself.
	c.source.insert(c.spec.Pos(), ");var ")
	c.source.insert(c.spec.End(), ";const (")
}
