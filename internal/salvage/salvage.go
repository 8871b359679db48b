package salvage

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/pages"
	"selvedge/migrations"
)

// A Source is a damaged file.
type Source struct {
	file  *pages.File
	free  map[int]bool
	roots map[int]int // root of each page that a walk reached
	trees map[int][]int
	bad   map[int]bool
	// roots of trees that are not as SQLite leaves them: some of their rows may be lost unseen
	broken map[int]bool
	spills map[int]int // root of the tree that each overflow page belongs to
	// Schema holds the entries of the file's schema that could be read.
	Schema []Entry
}

// An Entry is an entry of the schema.
type Entry struct {
	damage.Object
	Root int
}

// Open reads the schema and finds the tree of each page.
func Open(path string) (*Source, error) {
	f, err := pages.Open(path)
	if err != nil {
		return nil, err
	}
	s := &Source{
		file: f, free: f.Free(), roots: map[int]int{}, trees: map[int][]int{}, bad: map[int]bool{},
		broken: map[int]bool{}, spills: map[int]int{},
	}
	s.walk(1, 1)
	for n := 1; n <= f.Count; n++ {
		if s.free[n] || s.roots[n] != 0 && s.roots[n] != 1 {
			continue
		}
		p, ok := f.Read(n)
		if !ok || !p.Table || !p.Leaf {
			continue
		}
		for _, row := range p.Rows {
			if e, ok := entryOf(row.Values); ok {
				s.Schema = append(s.Schema, e)
				if s.roots[n] == 0 {
					s.roots[n], s.broken[1] = 1, true
				}
			}
		}
	}
	for _, e := range s.Schema {
		if e.Root > 1 {
			s.walk(e.Root, e.Root)
		}
	}
	for n := 2; n <= f.Count; n++ {
		if f.IsRoot(n) && !s.free[n] && s.roots[n] == 0 {
			s.walk(n, n) // a tree that the schema has lost
		}
	}
	for n := range s.roots {
		s.trees[s.roots[n]] = append(s.trees[s.roots[n]], n)
	}
	return s, nil
}

// Close closes the file.
func (s *Source) Close() error { return s.file.Close() }

// Pages returns the number of pages.
func (s *Source) Pages() int { return s.file.Count }

// Damaged returns the number of pages that can't be read as the kind that the pages above them
// require.
func (s *Source) Damaged() int { return len(s.bad) }

func entryOf(values []any) (e Entry, ok bool) {
	if len(values) != 5 {
		return e, false
	}
	kind, isKind := values[0].(string)
	name, isName := values[1].(string)
	table, isTable := values[2].(string)
	root, isRoot := values[3].(int64)
	if !isKind || !isName || !isTable || !isRoot ||
		!slices.Contains([]string{"table", "index", "view", "trigger"}, kind) {
		return e, false
	}
	text, _ := values[4].(string)
	return Entry{damage.Object{Type: kind, Name: name, Table: table, SQL: text}, int(root)}, true
}

// walk descends a tree. A page that two trees lead to stays with the first one.
func (s *Source) walk(n, root int) {
	w := walking{s, root, math.MinInt64, false}
	w.down(n)
}

// A walking is one walk down the tree of a root.
type walking struct {
	*Source
	root  int
	last  int64 // the last rowid reached
	table bool
}

func (w *walking) down(n int) {
	if other := w.roots[n] + w.spills[n]; other != 0 {
		w.broken[w.root], w.broken[other] = true, true
		return
	}
	p, ok := w.file.Read(n)
	if !ok {
		w.bad[n], w.broken[w.root] = true, true
		return
	}
	if n == w.root {
		w.table = p.Table
	}
	w.roots[n] = w.root
	whole := p.Sound && p.Table == w.table && !w.free[n] && !w.file.Reserved(n)
	for _, spill := range p.Overflow {
		if other := w.roots[spill] + w.spills[spill]; other != 0 {
			w.broken[other], whole = true, false
		}
		whole = whole && !w.free[spill] && !w.file.Reserved(spill)
		w.spills[spill] = w.root
	}
	for i, child := range p.Children {
		w.down(child)
		if i < len(p.Keys) {
			whole = whole && w.reached(p.Keys[i], true)
		}
	}
	for _, r := range p.Rows {
		whole = whole && (!p.Table || w.reached(r.Rowid, w.last == math.MinInt64))
	}
	if !whole {
		w.broken[w.root] = true
	}
}

// reached reports whether a rowid is greater than the last one or, with orSame, equal to it.
func (w *walking) reached(rowid int64, orSame bool) bool {
	if rowid < w.last || rowid == w.last && !orSame {
		return false
	}
	w.last = rowid
	return true
}

// A table is a table of the new file.
type table struct {
	name    string
	root    int // root in the new file
	columns []damage.Column
	stored  []int // columns in the order in which a row stores them
	rowless bool  // WITHOUT ROWID
	strict  bool
	alias   int // the column that is the rowid; -1 if there is none
	sum     *migrations.Checksum
	counts
	// root of its tree in the damaged file, by the schema; 0 if the schema does not have it
	found    int
	inserted map[int]string // statements by number of columns
}

// counts are what became of a table's rows.
type counts struct {
	count   engine.SalvagedTable
	lost    int64 // cells that could not be read, on pages that could
	unknown bool  // an unknown number of rows may be gone
}

func tables(ctx context.Context, c damage.Conn) (list []*table, err error) {
	var found []struct {
		Name            string
		Rowless, Strict bool
		Root            int
	}
	err = c.SelectContext(ctx, &found, `SELECT l.name, l.wr AS rowless, l.strict, s.rootpage AS root
FROM pragma_table_list AS l JOIN sqlite_schema AS s ON s.type = 'table' AND s.name = l.name
WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY l.name`)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		t := &table{
			name: f.Name, rowless: f.Rowless, strict: f.Strict, root: f.Root, alias: -1,
			inserted: map[int]string{},
		}
		t.count.Table = t.name
		list = append(list, t)
		if t.columns, err = damage.Columns(ctx, c, t.name); err != nil {
			return nil, err
		}
		t.arrange()
		for i, sum := range migrations.Checksums {
			if sum.Table == t.name && t.column(sum.Column) >= 0 {
				t.sum = &migrations.Checksums[i]
			}
		}
	}
	return list, nil
}

func (t *table) column(name string) int {
	return slices.IndexFunc(t.columns, func(c damage.Column) bool { return c.Name == name })
}

// arrange finds out in which order a row stores its columns. A table without rowids stores those of
// its key first.
func (t *table) arrange() {
	keys := 0
	for _, c := range t.columns {
		if c.Key > 0 {
			keys++
		}
	}
	if t.rowless {
		for k := 1; k <= keys; k++ {
			t.stored = append(t.stored, slices.IndexFunc(t.columns, func(c damage.Column) bool { return c.Key == k }))
		}
	}
	for i, c := range t.columns {
		if !t.rowless || c.Key == 0 {
			t.stored = append(t.stored, i)
		}
		if !t.rowless && keys == 1 && c.Key == 1 && strings.EqualFold(c.Type, "INTEGER") {
			t.alias = i
		}
	}
}

// values returns the values of a row in the order of the columns, as many as it has.
func (t *table) values(r pages.Row) (list []any, fits bool) {
	if len(r.Values) > len(t.columns) || len(r.Values) == 0 {
		return nil, false
	}
	if t.rowless && len(r.Values) != len(t.columns) {
		return nil, false
	}
	list = make([]any, len(r.Values))
	for i, v := range r.Values {
		at := t.stored[i]
		if at == t.alias && v == nil {
			v = r.Rowid
		}
		c := t.columns[at]
		if n, ok := v.(int64); ok && c.Type == "REAL" {
			v = float64(n) // SQLite stores a REAL without a fraction as an integer, which is shorter
		}
		if t.strict && !isOf(v, c) {
			return nil, false
		}
		list[at] = v
	}
	for _, c := range t.columns[len(r.Values):] { // added since the row was written
		if c.NotNull && c.Default == "" {
			return nil, false
		}
	}
	return list, true
}

func isOf(v any, c damage.Column) bool {
	switch v.(type) {
	case nil:
		return !c.NotNull && c.Key == 0
	case int64:
		return c.Type == "INTEGER" || c.Type == "INT" || c.Type == "ANY"
	case float64:
		return c.Type == "REAL" || c.Type == "ANY"
	case string:
		return c.Type == "TEXT" || c.Type == "ANY"
	case []byte:
		return c.Type == "BLOB" || c.Type == "ANY"
	}
	return false
}

// whole reports whether a row matches its checksum; summed, whether it has one. A row without a
// checksum counts as whole.
func (t *table) whole(values []any) (whole, summed bool) {
	if t.sum == nil {
		return true, false
	}
	at := t.column(t.sum.Column)
	if at >= len(values) || values[at] == nil {
		return true, false
	}
	return values[at] == engine.Checksum(t.covered(values)...), true
}

func (t *table) covered(values []any) (list []any) {
	for _, name := range t.sum.Covered {
		var v any
		if i := t.column(name); i >= 0 && i < len(values) {
			v = values[i]
		}
		list = append(list, v)
	}
	return list
}

// of returns the table of a page's rows. The pointer map, or the tree that leads to the page, names
// it. Both may be damaged, so the rows decide. If neither names the table, it is the only table
// that the rows fit.
func (s *Source) of(p pages.Page, byRoot map[int]*table, all []*table) *table {
	var said *table
	for _, root := range []int{s.file.Root(p.Number), s.roots[p.Number]} {
		t := byRoot[root]
		if t == nil {
			continue
		}
		if n, _ := t.fitting(p.Rows); 2*n >= len(p.Rows) && t.rowless != p.Table {
			return t
		}
		said = t
	}
	if !p.Table { // it may lie where a page of an index should
		for _, t := range all {
			if _, sure := t.fitting(p.Rows); t.rowless && sure {
				return t
			}
		}
		if said != nil && said.rowless {
			return said
		}
		return nil
	}
	if len(p.Rows) == 0 {
		return nil
	}
	var found *table
	for _, t := range all {
		if t.rowless {
			continue
		}
		switch n, sure := t.fitting(p.Rows); {
		case n < len(p.Rows):
		case sure:
			return t
		case found != nil:
			return said
		default:
			found = t
		}
	}
	if found == nil && said != nil && said.rowless != p.Table {
		return said
	}
	return found
}

// fitting counts the rows that fit the table. sure reports that one of them matches its checksum.
func (t *table) fitting(rows []pages.Row) (n int, sure bool) {
	for _, r := range rows {
		values, ok := t.values(r)
		if !ok {
			continue
		}
		n++
		whole, summed := t.whole(values)
		sure = sure || whole && summed
	}
	return n, sure
}

// sample returns some rows of a tree, if it can be the table's.
func (s *Source) sample(root int, t *table) (rows []pages.Row, can bool) {
	const enough = 40
	for _, n := range s.trees[root] {
		p, ok := s.file.Read(n)
		if !ok {
			continue
		}
		if p.Table == t.rowless {
			return nil, false
		}
		if rows = append(rows, p.Rows...); len(rows) >= enough {
			break
		}
	}
	return rows, true
}

// assign finds the tree of each table. It compares the schema with the rows in the trees. A table
// that the schema has lost gets the one unassigned tree that its rows fit.
func (s *Source) assign(all []*table) map[int]*table {
	byRoot, has, indexes := map[int]*table{}, map[*table]bool{}, map[int]bool{}
	for _, e := range s.Schema {
		if e.Type == "index" {
			indexes[e.Root] = true
		}
		for _, t := range all {
			if e.Type != "table" || e.Name != t.name || has[t] || e.Root < 2 || byRoot[e.Root] != nil {
				continue
			}
			rows, can := s.sample(e.Root, t)
			if n, _ := t.fitting(rows); can && 2*n >= len(rows) {
				byRoot[e.Root], has[t], t.found = t, true, e.Root
			}
		}
	}
	for _, t := range all {
		if !has[t] && s.roots[t.root] == 0 && !s.free[t.root] { // the pointer map may be lost too
			s.walk(t.root, t.root)
			for n, root := range s.roots {
				if root == t.root {
					s.trees[root] = append(s.trees[root], n)
				}
			}
		}
	}
	// First the trees that a checksum proves, then trees whose root is where a new file has it,
	// then the rest.
	for pass := range 3 {
		for _, t := range all {
			if has[t] {
				continue
			}
			var found []int
			for root := range s.trees {
				if root < 2 || byRoot[root] != nil || indexes[root] || pass == 1 && root != t.root {
					continue
				}
				rows, can := s.sample(root, t)
				n, sure := t.fitting(rows)
				if can && n > 0 && 2*n >= len(rows) && (sure || pass > 0) {
					found = append(found, root)
				}
			}
			if len(found) == 1 {
				byRoot[found[0]], has[t] = t, true
			}
		}
	}
	return byRoot
}

// Known restores schema entries in which a few bytes are wrong.
func (s *Source) Known(expected []damage.Object) {
	has := map[string]bool{}
	for _, e := range s.Schema {
		has[e.Type+" "+e.Name] = true
	}
	for _, want := range expected {
		if has[want.Type+" "+want.Name] {
			continue
		}
		for i, e := range s.Schema {
			known := slices.ContainsFunc(expected,
				func(o damage.Object) bool { return o.Type == e.Type && o.Name == e.Name })
			if !known && e.Type == want.Type && damage.Alike(e.SQL, want.SQL) {
				s.Schema[i].Object = want
				break
			}
		}
	}
}

// Rows returns the rows of one table that are in its own tree.
func (s *Source) Rows(name string) (list [][]any) {
	for _, e := range s.Schema {
		if e.Type != "table" || e.Name != name {
			continue
		}
		for n := 1; n <= s.file.Count; n++ {
			if s.roots[n] != e.Root {
				continue
			}
			p, _ := s.file.Read(n)
			for _, r := range p.Rows {
				list = append(list, append([]any{r.Rowid}, r.Values...))
			}
		}
	}
	return list
}

func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		if strings.Contains(v, "\x00") {
			return fmt.Sprintf("CAST(x'%x' AS TEXT)", v)
		}
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case []byte:
		return fmt.Sprintf("x'%x'", v)
	}
	return fmt.Sprint(v)
}
