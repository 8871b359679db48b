package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// A mutant is one change of one file.
type mutant struct {
	number int // from 1
	fence  *fence
	file   string // below the module's root
	line   int
	was    string // source, on one line
	became string
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d\n    - %s\n    + %s", m.file, m.line, m.was, m.became)
}

// A source is a file with all of its mutants in it: each asks whether it is on.
type source struct {
	path   string // below the module's root
	folder string // of its package, as in an import path below the module
	text   string
	file   *ast.File
	fset   *token.FileSet
	edits  []edit
}

// An edit puts text into a source. Those at one place come in the order in which they were made.
type edit struct {
	at   int
	text string
}

func parse(path, text string) (*source, error) {
	s := &source{path: path, text: text, fset: token.NewFileSet()}
	s.folder = path[:max(0, strings.LastIndexByte(path, '/'))]
	var err error
	s.file, err = parser.ParseFile(s.fset, path, text, parser.SkipObjectResolution)
	return s, err
}

func (s *source) at(p token.Pos) int { return s.fset.Position(p).Offset }

func (s *source) of(n ast.Node) string { return s.text[s.at(n.Pos()):s.at(n.End())] }

func (s *source) insert(p token.Pos, text string) { s.edits = append(s.edits, edit{s.at(p), text}) }

// result is the source with its edits.
func (s *source) result() string {
	slices.SortStableFunc(s.edits, func(a, b edit) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	last := 0
	for _, e := range s.edits {
		b.WriteString(s.text[last:e.at])
		b.WriteString(e.text)
		last = e.at
	}
	b.WriteString(s.text[last:])
	return b.String()
}

// askOn imports package on, as mutantOn.
func (s *source) askOn() {
	s.insert(s.file.Name.End(), "; import mutantOn \"selvedge/test/mutants/on\"")
}

// A mutator makes the mutants of a fence's sources.
type mutator struct {
	*source
	fence   *fence
	mutants *[]*mutant
	// texts are the literals of statements that have mutants; literals in constants make those
	// constants variables.
	texts map[*ast.BasicLit][]*mutant
	stack []ast.Node
}

// mutate puts all mutants of a source into it.
func mutate(s *source, f *fence, all *[]*mutant) *mutator {
	m := &mutator{source: s, fence: f, mutants: all, texts: map[*ast.BasicLit][]*mutant{}}
	var closing [][]func()
	ast.Inspect(s.file, func(n ast.Node) bool {
		if n == nil {
			m.stack = m.stack[:len(m.stack)-1]
			last := closing[len(closing)-1]
			closing = closing[:len(closing)-1]
			for _, end := range slices.Backward(last) {
				end()
			}
			return true
		}
		closing = append(closing, m.node(n))
		m.stack = append(m.stack, n)
		return true
	})
	return m
}

func (m *mutator) add(n ast.Node, was, became string) *mutant {
	one := &mutant{
		number: len(*m.mutants) + 1, fence: m.fence, file: m.path, line: m.fset.Position(n.Pos()).Line,
		was: oneLine(was), became: oneLine(became),
	}
	*m.mutants = append(*m.mutants, one)
	return one
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// node makes the mutants of a node; end is called behind its children.
func (m *mutator) node(n ast.Node) (end []func()) {
	wrap := func(e ast.Node, before, after string) {
		m.insert(e.Pos(), before)
		end = append(end, func() { m.insert(e.End(), after) })
	}
	if e, ok := n.(ast.Expr); ok {
		switch m.role(e) {
		case andOperand:
			one := m.add(n, m.line(n), m.with(n, "true"))
			wrap(n, fmt.Sprintf("(mutantOn.At(%d) || ", one.number), ")")
		case orOperand:
			one := m.add(n, m.line(n), m.with(n, "false"))
			wrap(n, fmt.Sprintf("(!mutantOn.At(%d) && (", one.number), "))")
		case condition:
			one := m.add(n, m.line(n), m.with(n, "!("+m.of(n)+")"))
			wrap(n, fmt.Sprintf("(mutantOn.At(%d) != (", one.number), "))")
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		m.bound(n, wrap)
	case *ast.ReturnStmt:
		if m.returnsError(n) {
			one := m.add(n, m.line(n), m.with(n, "return nil"))
			m.insert(n.Pos(), fmt.Sprintf("if mutantOn.At(%d) { return nil }; ", one.number))
		}
	case *ast.BasicLit:
		m.statement(n)
	case ast.Stmt:
		if m.skippable(n) {
			one := m.add(n, m.line(n), m.with(n, ""))
			wrap(n, fmt.Sprintf("if !mutantOn.At(%d) { ", one.number), " }")
		}
	}
	return end
}

// line returns the source around a node: its statement, or its line if that is long.
func (m *mutator) line(n ast.Node) string {
	from, to := m.lineOf(n)
	return m.text[from:to]
}

// with is line with the node replaced.
func (m *mutator) with(n ast.Node, text string) string {
	from, to := m.lineOf(n)
	return m.text[from:m.at(n.Pos())] + text + m.text[m.at(n.End()):to]
}

func (m *mutator) lineOf(n ast.Node) (from, to int) {
	from, to = m.at(n.Pos()), m.at(n.End())
	from = strings.LastIndexByte(m.text[:from], '\n') + 1
	if end := strings.IndexByte(m.text[to:], '\n'); end >= 0 {
		return from, to + end
	}
	return from, len(m.text)
}

type role int

const (
	noRole role = iota
	andOperand
	orOperand
	condition
)

// role is what an expression is to its parent. Clauses about an error have none: that errors are
// handed on is what test/torture and the tests with faults are for.
func (m *mutator) role(e ast.Expr) role {
	if _, nested := e.(*ast.ParenExpr); nested || aboutError(e) || len(m.stack) == 0 {
		return noRole
	}
	parent := m.stack[len(m.stack)-1]
	for i := len(m.stack) - 2; i >= 0; i-- {
		if _, nested := parent.(*ast.ParenExpr); !nested {
			break
		}
		parent = m.stack[i]
	}
	inner, _ := e.(*ast.BinaryExpr)
	switch p := parent.(type) {
	case *ast.BinaryExpr:
		switch {
		case p.Op != token.LAND && p.Op != token.LOR || inner != nil && inner.Op == p.Op:
		case p.Op == token.LAND:
			return andOperand
		default:
			return orOperand
		}
	case *ast.IfStmt:
		if ast.Unparen(p.Cond) == e {
			return condition
		}
	case *ast.CaseClause:
		if s, tagless := m.stack[max(0, len(m.stack)-3)].(*ast.SwitchStmt); tagless && s.Tag == nil {
			return condition
		}
	}
	return noRole
}

// aboutError tells of `err == nil` and its like.
func aboutError(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok || b.Op != token.EQL && b.Op != token.NEQ {
		return false
	}
	x, named := b.X.(*ast.Ident)
	y, isNil := b.Y.(*ast.Ident)
	return named && isNil && y.Name == "nil" &&
		(x.Name == "err" || x.Name == "failed" || x.Name == "stuck" || x.Name == "refused")
}

// bound moves a comparison by one.
func (m *mutator) bound(b *ast.BinaryExpr, wrap func(e ast.Node, before, after string)) {
	equal := fmt.Sprintf("(%s) == (%s)", m.of(b.X), m.of(b.Y))
	if strings.Contains(equal, "func(") || strings.Contains(equal, "time.Since(") {
		return // a moment sooner or later
	}
	other := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[b.Op]
	if other == "" {
		return
	}
	from, to := m.lineOf(b)
	at := m.at(b.OpPos)
	one := m.add(b, m.text[from:to], m.text[from:at]+other+m.text[at+len(b.Op.String()):to])
	if b.Op == token.LSS || b.Op == token.GTR {
		wrap(b, "(", fmt.Sprintf(" || mutantOn.At(%d) && %s)", one.number, equal))
	} else {
		wrap(b, "(", fmt.Sprintf(" && !(mutantOn.At(%d) && %s))", one.number, equal))
	}
}

// returnsError tells of `return f(…)` in a function whose one result is an error.
func (m *mutator) returnsError(r *ast.ReturnStmt) bool {
	if len(r.Results) != 1 {
		return false
	}
	if _, call := r.Results[0].(*ast.CallExpr); !call {
		return false
	}
	for _, n := range slices.Backward(m.stack) {
		var t *ast.FuncType
		switch f := n.(type) {
		case *ast.FuncDecl:
			t = f.Type
		case *ast.FuncLit:
			t = f.Type
		default:
			continue
		}
		if t.Results == nil || len(t.Results.List) != 1 || len(t.Results.List[0].Names) > 1 {
			return false
		}
		id, ok := t.Results.List[0].Type.(*ast.Ident)
		return ok && id.Name == "error"
	}
	return false
}

// skippable tells of a statement that can be left out.
func (m *mutator) skippable(s ast.Stmt) bool {
	switch m.stack[len(m.stack)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause:
	default:
		return false
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fun.(*ast.Ident)
		return !ok || id.Name != "panic"
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE
	}
	return false
}

// statement makes the mutants of a literal of SQL.
func (m *mutator) statement(lit *ast.BasicLit) {
	if lit.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil || !isSQL(text) {
		return
	}
	goesOn := false // something is appended to it
	for _, n := range slices.Backward(m.stack) {
		b, ok := n.(*ast.BinaryExpr)
		if !ok {
			break
		}
		goesOn = goesOn || b.End() > lit.End()
	}
	ask := "mutantOn.Text("
	if slices.ContainsFunc(m.stack, func(n ast.Node) bool {
		_,
			function := n.(*ast.FuncDecl)
		return function
	}) {
		ask = "mutantOn.TextHere("
	}
	var others []string
	first := len(*m.mutants) + 1
	for _, c := range sqlChanges(text, goesOn) {
		others = append(others, c.apply(text))
		one := m.add(lit, c.around(text, text[c.from:c.to]), c.around(text, c.text))
		one.line += strings.Count(text[:c.from], "\n")
		m.texts[lit] = append(m.texts[lit], one)
	}
	if others == nil {
		return
	}
	m.insert(lit.Pos(), ask)
	var b strings.Builder
	fmt.Fprintf(&b, ", %d", first)
	for _, other := range others {
		b.WriteString(", " + strconv.Quote(other))
	}
	m.insert(lit.End(), b.String()+")")
}
