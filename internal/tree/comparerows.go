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

// A Thing is what an import made of a file: an entity, and the number of its row in the store.
type Thing struct {
	Entity
	Row int64
}

// OneThing implements Layout.Things for a layout with one thing in each file.
func OneThing(row *Row) []Thing {
	if row.EntityRow == nil {
		return nil
	}
	return []Thing{{row.Entity(), *row.EntityRow}}
}

// A Table describes a table whose rows belong to things. The numbers of rows differ between
// databases, so a verification matches rows by the columns in Key.
type Table struct {
	Name string
	Noun string // what people call a row
	// Said, if set, is the noun under which the closing sentence of a verification counts the rows:
	// all of them or, if Kind is set, those whose kind it is.
	Said string
	// Query returns all columns of the rows that belong to the thing with the number ?1, by Key.
	Query string
	Key   []string // columns that identify a row of a thing; none: there is at most one row
	// Numbers are columns that count within one database, or follow from others, as checksums do.
	Numbers []string
	// Clocks are columns with the time of the import. Only whether they are NULL is compared.
	Clocks []string
	// Marks are columns that only a call on the store changes.
	Marks []string
	// Forms are columns with the original bytes, for rows whose other columns can't reproduce them.
	// The same text from elsewhere may do without.
	Forms []string
	// Spare: the rows themselves hold original bytes, as Forms do.
	Spare bool
	// Own: the rows record where a thing came from. They are not compared for a thing from
	// elsewhere.
	Own bool
	// Explains reports whether a difference in a column is expected: the store changes the column
	// by itself or, if alike, the column records where the thing came from. See compareRows.
	Explains func(column string, theirs, ours map[string]any, alike bool) bool
	// Kind is the kind of a row in the counts of a report; nil: rows are not counted.
	Kind func(row map[string]any) string
}

// rowsOf returns a function that returns the next row of a thing in t, and nil after the last.
func (v *verification) rowsOf(rx *db.Rx, t *Table, number int64) (next func() (map[string]any, error),
	stop func(),
) {
	pull, stop := iter.Pull2(rx.Store().Query(t.Query, number))
	return func() (map[string]any, error) {
		r, err, ok := pull()
		if ok && err == nil && v.columns[t.Name] == nil {
			v.columns[t.Name], err = r.Columns()
		}
		if !ok || err != nil {
			return nil, err
		}
		columns := v.columns[t.Name]
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := r.Scan(into...); err != nil {
			return nil, err
		}
		row := make(map[string]any, len(values))
		for i, name := range columns {
			row[name] = values[i]
		}
		return row, nil
	}, stop
}

// A difference is how a thing here differs from the same thing in its file.
type difference struct {
	missing, extra, changed map[string]int64 // rows by noun
	columns                 []string         // that differ, each once
	first                   string           // noun and key of the first row that differs
	touched                 bool             // a call on the store has written to it
	absent                  bool             // it is not here at all
}

func newDifference() *difference {
	return &difference{missing: map[string]int64{}, extra: map[string]int64{}, changed: map[string]int64{}}
}

func (d *difference) none() bool { return len(d.missing)+len(d.extra)+len(d.changed) == 0 }

// compareRows compares the rows of a thing in all tables. theirs is its number in the derived
// database, and ours its number here; 0 if it is not here. alike: the thing here came from
// elsewhere, and may store the same text in another form. missing selects the count for missing
// rows.
func (v *verification) compareRows(theirs, ours int64, alike bool,
	missing func(*Count) *int64,
) (*difference, error) {
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

// both runs do in a read transaction of each database.
func (v *verification) both(do func(derived, here *db.Rx) error) error {
	return v.derived.db.Read(v.ctx, "verify", func(derived *db.Rx) error {
		return v.DB.Read(v.ctx, "verify "+v.layout.Name(), func(here *db.Rx) error { return do(derived, here) })
	})
}

func (v *verification) table(
	t *Table, derived, here *db.Rx, theirs, ours int64, alike bool, missing func(*Count) *int64, d *difference,
	head bool,
) error {
	nextTheirs, stop := v.rowsOf(derived, t, theirs)
	defer stop()
	nextOurs, stop := v.rowsOf(here, t, ours)
	defer stop()
	a, err := nextTheirs()
	b, failed := nextOurs()
	for err = cmp.Or(err, failed); err == nil && (a != nil || b != nil); err = cmp.Or(err, failed) {
		order := t.order(a, b)
		switch {
		case order < 0:
			d.absent = d.absent || head
			d.missing[t.Noun]++
			v.count(t, a, missing)
			v.say(t, a)
		case order > 0:
			if !alike || !t.Spare {
				d.extra[t.Noun]++
				d.touched = true
			}
		default:
			v.say(t, a)
			if v.row(t, a, b, alike, d) {
				v.count(t, a, Changed)
			}
		}
		if order <= 0 {
			a, err = nextTheirs()
		}
		if order >= 0 {
			b, failed = nextOurs()
		}
	}
	return err
}

// order compares the keys of two rows; nil sorts last.
func (t *Table) order(a, b map[string]any) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
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

// count moves a row, which the derivation counted as imported, to another column.
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

// String describes the differences.
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

// grown reports whether the file has all that is here, and more.
func (d *difference) grown(head string) bool {
	if d.absent || d.touched || len(d.missing) == 0 {
		return false
	}
	for noun := range d.changed {
		if noun != head { // the head row sums up the others
			return false
		}
	}
	return true
}
