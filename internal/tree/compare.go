package tree

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"selvedge/db"
)

// A Thing is what a file became in its store, under its ids and the number of its row.
type Thing struct {
	Entity
	Row int64
}

// OneThing is what a file of a layout became that has one thing a file.
func OneThing(row *Row) []Thing {
	if row.EntityRow == nil {
		return nil
	}
	return []Thing{{row.Entity(), *row.EntityRow}}
}

// A Table is one whose rows belong to things. Two files keep the same thing under other numbers, so
// the rows are named by what an import takes them for.
type Table struct {
	Name string
	Noun string // what people call a row
	// Said has the rows counted in the sentence that a verification ends with: all, or where Kind is
	// set those of this kind.
	Said string
	// Query gives all columns of the rows that belong to the thing whose number is ?1, in the order of Key.
	Query string
	Key   []string // columns that name a row among those of its thing; none: there is one row at most
	// Numbers are columns that count in one file alone, or follow from what is compared, as checksums do.
	Numbers []string
	// Clocks are columns with a time of the import: whether there is one is compared.
	Clocks []string
	// Marks are columns that nothing but a call on the store changes.
	Marks []string
	// Forms are columns that keep the very bytes where the others would not give them back. Something
	// that came from elsewhere with the same text may need them less.
	Forms []string
	// Spare rows are such forms themselves.
	Spare bool
	// Own rows tell where a thing came from: they are not looked at of one that came from elsewhere.
	Own bool
	// Explains says that a column may differ in a row: by what a store does itself or, where ours is
	// alike and came from elsewhere, since it tells from where. Such a difference is none.
	Explains func(column string, theirs, ours map[string]any, alike bool) bool
	// Kind is what the counts of a report call a row; nil: rows are not counted.
	Kind func(row map[string]any) string
}

// A rowSet is the rows of a thing in one of the two files.
type rowSet struct {
	columns []string
	next    func() (*db.Row, error, bool)
	stop    func()
	row     map[string]any // nil: there are no more
}

// columnsOf asks for the columns of a table once.
func (v *verification) columnsOf(rx *db.Rx, t *Table) ([]string, error) {
	if columns, ok := v.columns[t.Name]; ok {
		return columns, nil
	}
	rows, err := rx.QueryContext(v.ctx, t.Query, int64(0))
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns()
	for _, e := range rows.All() { // of number 0, so none
		err = cmp.Or(err, e)
	}
	v.columns[t.Name] = columns
	return columns, err
}

func (v *verification) rowsOf(rx *db.Rx, t *Table, number int64) (*rowSet, error) {
	columns, err := v.columnsOf(rx, t)
	if err != nil {
		return nil, err
	}
	s := &rowSet{columns: columns}
	s.next, s.stop = iter.Pull2(rx.Query(t.Query, number))
	return s, nil
}

func (s *rowSet) step() error {
	r, err, ok := s.next()
	if s.row = nil; !ok || err != nil {
		return err
	}
	values, into := make([]any, len(s.columns)), make([]any, len(s.columns))
	for i := range values {
		into[i] = &values[i]
	}
	if err := r.Scan(into...); err != nil {
		return err
	}
	s.row = make(map[string]any, len(values))
	for i, name := range s.columns {
		s.row[name] = values[i]
	}
	return nil
}

// A difference is how a thing here stands to the same thing as its file gives it.
type difference struct {
	missing, extra, changed map[string]int64 // rows by noun
	columns                 []string         // that differ, each once
	first                   string           // the first row that differs, by its noun and place
	touched                 bool             // a call on the store has written to it
	headless                bool             // it is not here at all
}

func newDifference() *difference {
	return &difference{missing: map[string]int64{}, extra: map[string]int64{}, changed: map[string]int64{}}
}

func (d *difference) none() bool { return len(d.missing)+len(d.extra)+len(d.changed) == 0 }

// compareRows compares a thing in all tables, the derived one first. ours is 0 for one that is not
// here. alike says that ours came from elsewhere, so that it may have other forms of the same text.
// move is the column of the counts for rows that are missing.
func (v *verification) compareRows(theirs, ours int64, alike bool, missing func(*Count) *int64) (*difference,
	error,
) {
	d := newDifference()
	err := v.both(func(derived, here *db.Rx) error {
		for i := range v.tables {
			if alike && v.tables[i].Own {
				continue
			}
			if err := v.table(&v.tables[i], derived, here, theirs, ours, alike, missing, d, i == 0); err != nil {
				return fmt.Errorf("compare %s: %w", v.tables[i].Name, err)
			}
		}
		return nil
	})
	return d, err
}

// both reads in both files.
func (v *verification) both(do func(derived, here *db.Rx) error) error {
	return v.derived.db.Read(v.ctx, "verify", func(derived *db.Rx) error {
		return v.DB.Read(v.ctx, "verify "+v.layout.Name(), func(here *db.Rx) error { return do(derived, here) })
	})
}

func (v *verification) table(
	t *Table, derived, here *db.Rx, theirs, ours int64, alike bool, missing func(*Count) *int64, d *difference,
	head bool,
) error {
	a, err := v.rowsOf(derived, t, theirs)
	if err != nil {
		return err
	}
	defer a.stop()
	b, err := v.rowsOf(here, t, ours)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := cmp.Or(a.step(), b.step()); err != nil {
		return err
	}
	for a.row != nil || b.row != nil {
		var err error
		switch order := t.order(a.row, b.row); {
		case order < 0:
			d.headless = d.headless || head
			d.missing[t.Noun]++
			v.count(t, a.row, missing)
			v.say(t, a.row)
			err = a.step()
		case order > 0:
			if !alike || !t.Spare {
				d.extra[t.Noun]++
				d.touched = true
			}
			err = b.step()
		default:
			v.say(t, a.row)
			if v.row(t, a.row, b.row, alike, d) {
				v.count(t, a.row, Changed)
			}
			err = cmp.Or(a.step(), b.step())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// order compares the names of two rows; no row is behind all.
func (t *Table) order(a, b map[string]any) int {
	if a == nil || b == nil {
		switch {
		case a != nil:
			return -1
		case b != nil:
			return 1
		}
		return 0
	}
	for _, name := range t.Key {
		if n := orderOf(a[name], b[name]); n != 0 {
			return n
		}
	}
	return 0
}

func orderOf(a, b any) int {
	switch a := a.(type) {
	case int64:
		if b, ok := b.(int64); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b)
		}
	case []byte:
		if b, ok := b.([]byte); ok {
			return bytes.Compare(a, b)
		}
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

// row compares the columns of a row, and reports whether any differs.
func (v *verification) row(t *Table, theirs, ours map[string]any, alike bool, d *difference) (differs bool) {
	for _, name := range v.columns[t.Name] {
		a, b := theirs[name], ours[name]
		switch {
		case same(a, b), slices.Contains(t.Numbers, name):
			continue
		case slices.Contains(t.Clocks, name) && (alike || (a == nil) == (b == nil)):
			continue
		case alike && (a == nil && slices.Contains(t.Forms, name) || slices.Contains(t.Marks, name)):
			continue
		case t.Explains != nil && t.Explains(name, theirs, ours, alike):
			continue
		}
		differs = true
		d.touched = d.touched || slices.Contains(t.Marks, name)
		if !slices.Contains(d.columns, name) {
			d.columns = append(d.columns, name)
		}
	}
	if differs {
		d.changed[t.Noun]++
		if d.first == "" && len(t.Key) > 0 {
			d.first = fmt.Sprintf("%s %v", t.Noun, theirs[t.Key[len(t.Key)-1]])
		}
	}
	return differs
}

func same(a, b any) bool {
	x, isBytes := a.([]byte)
	y, areBytes := b.([]byte)
	if isBytes && areBytes {
		return bytes.Equal(x, y)
	}
	return isBytes == areBytes && !isBytes && a == b
}

// count moves a row, which the derivation counted as taken, to another column.
func (v *verification) count(t *Table, row map[string]any, to func(*Count) *int64) {
	if t.Kind == nil {
		return
	}
	v.Report.Count(t.Kind(row), func(c *Count) {
		switch {
		case c.Already > 0:
			c.Already--
		case c.Quarantined > 0:
			c.Quarantined--
		default:
			return
		}
		*to(c)++
	})
}

// say counts a row for the sentence that the verification ends with.
func (v *verification) say(t *Table, row map[string]any) {
	if v.telling && t.Said != "" && (t.Kind == nil || t.Kind(row) == t.Said) {
		v.derived.said[t.Said]++
	}
}

// String says what differs.
func (d *difference) String() string {
	var parts []string
	list := func(of map[string]int64, text string) {
		var nouns []string
		for noun, n := range of {
			nouns = append(nouns, plural(n, noun))
		}
		if slices.Sort(nouns); len(nouns) > 0 {
			parts = append(parts, fmt.Sprintf(text, strings.Join(nouns, ", ")))
		}
	}
	list(d.changed, "%s not as the file gives it")
	if len(d.columns) > 0 {
		last := len(parts) - 1
		if d.first != "" {
			parts[last] += ", the first " + d.first
		}
		parts[last] += " (" + strings.Join(d.columns, ", ") + ")"
	}
	list(d.missing, "%s of the file not here")
	list(d.extra, "%s here that the file does not have")
	return strings.Join(parts, "; ")
}

// grown reports whether the file has more than what is here, and all that is here.
func (d *difference) grown(head string) bool {
	if d.headless || d.touched || len(d.missing) == 0 {
		return false
	}
	for noun := range d.changed {
		if noun != head { // which sums the others up
			return false
		}
	}
	return true
}
