package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestFences_NameExistingSourcesAndSuites(t *testing.T) {
	for _, f := range fences {
		for _, file := range f.files {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: %v", f.name, err)
			}
		}
		for _, suite := range f.suites {
			if tests, err := filepath.Glob(filepath.Join(root, suite, "*_test.go")); err != nil || len(tests) == 0 {
				t.Errorf("%s: %s has no tests, %v", f.name, suite, err)
			}
		}
	}
}

func TestFences_StillApplyWithMutants(t *testing.T) {
	var all []*mutant
	for i := range fences {
		for _, file := range fences[i].files {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			s, err := parse(file, string(text))
			if err != nil {
				t.Fatal(err)
			}
			mutate(s, &fences[i], &all)
			s.askOn()
			if _, err := parser.ParseFile(token.NewFileSet(), file, s.result(), 0); err != nil {
				t.Errorf("with its mutants in it: %v", err)
			}
		}
	}
	if len(all) < 500 {
		t.Errorf("%d mutants", len(all))
	}
}

func TestEachOperatorMakesItsMutants(t *testing.T) {
	const text = `package p

func f(a, b bool, n int, err error) error {
	if err != nil || a && b {
		return g(n)
	}
	for i := 0; i < n; i++ {
		if i >= 3 {
			continue
		}
		x := i
		h(x)
		n = x
	}
	switch {
	case a:
		defer h(1)
	}
	return nil
}
`
	s, err := parse("p.go", text)
	if err != nil {
		t.Fatal(err)
	}
	var all []*mutant
	mutate(s, &fences[0], &all)
	var got []string
	for _, m := range all {
		got = append(got, m.became)
	}
	want := []string{
		"if !(err != nil || a && b) {", "if err != nil || false {", "if err != nil || true && b {",
		"if err != nil || a && true {",
		"return nil", "for i := 0; i <= n; i++ {", "if !(i >= 3) {", "if i > 3 {", "", "", "", "case !(a):", "",
	}
	if !slices.Equal(got, want) {
		t.Errorf("it made\n%s", strings.Join(got, "\n"))
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "p.go", s.result(), 0); err != nil {
		t.Errorf("%v\n%s", err, s.result())
	}
}

func TestStatementsLoseAConditionOrMoveByOne(t *testing.T) {
	const text = `UPDATE t SET n = n + 1 WHERE a = ? AND b IS NOT DISTINCT FROM ? AND (c < ? OR d = 1)
		ORDER BY e DESC LIMIT ?`
	var got []string
	for _, c := range sqlChanges(text, false) {
		got = append(got, c.apply(text))
	}
	replaced := func(old, with string) string { return strings.Replace(text, old, with, 1) }
	want := []string{
		replaced("n + 1", "n + 0"), replaced("a = ?", "(1 OR (a = ?))"),
		replaced("b IS NOT DISTINCT FROM ?", "(1 OR (b IS NOT DISTINCT FROM ?))"),
		replaced("(c < ? OR d = 1)", "(1 OR ((c < ? OR d = 1)))"), replaced("c <", "c <="),
		replaced("DESC", "ASC"), replaced("LIMIT ?", "LIMIT (? - 1)"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("it made\n%s", strings.Join(got, "\n"))
	}
	if changes := sqlChanges(`WHERE a = ? AND b = `, true); len(changes) != 1 {
		t.Errorf("of a condition that goes on behind the text %v was made", changes)
	}
}
