package moving

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"selvedge/internal/engine"
	"selvedge/migrations"
)

// own are the tables whose rows don't move.
var own = []string{"selvedge_file", "goose_db_version", "moves"}

// ours returns the tables whose rows move.
func ours() []string {
	names := slices.Clone(migrations.NoChecksum)
	for _, sum := range migrations.Checksums {
		names = append(names, sum.Table)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(own, name) })
	slices.Sort(names)
	return names
}

// A plan is what moves, and in which order.
type plan struct {
	// of the source, each after the tables that it refers to; columns are sorted by name
	tables []engine.Table
	there  []engine.Table // of the target, whose keys may be in other indexes
	left   []string       // tables of the source that are not ours
}

// makePlan reads the tables of both databases.
func makePlan(ctx context.Context, from, to engine.Movable) (p plan, err error) {
	if p.there, err = describe(ctx, to); err != nil {
		return p, err
	}
	here, err := describe(ctx, from)
	if err != nil {
		return p, err
	}
	var tables []engine.Table
	for _, name := range ours() {
		a, b := find(here, name), find(p.there, name)
		if a == nil || b == nil || shape(*a) != shape(*b) {
			return p, fmt.Errorf("%w: the table %s is not the same in both", engine.ErrCorrupt, name)
		}
		tables = append(tables, *a)
	}
	for _, t := range here {
		if !slices.Contains(own, t.Name) && find(tables, t.Name) == nil {
			p.left = append(p.left, t.Name)
		}
	}
	p.tables = inOrder(tables)
	return p, nil
}

// describe returns the tables of a database.
func describe(ctx context.Context, d engine.Movable) (tables []engine.Table, err error) {
	err = d.Read(ctx, "look which tables there are", func(x engine.Rx) (err error) {
		tables, err = d.Describe(x)
		return err
	}).Err
	for _, t := range tables {
		slices.SortFunc(t.Columns, func(a, b engine.Column) int { return cmp.Compare(a.Name, b.Name) })
	}
	return tables, err
}

func find(tables []engine.Table, name string) *engine.Table {
	if i := slices.IndexFunc(tables, func(t engine.Table) bool { return t.Name == name }); i >= 0 {
		return &tables[i]
	}
	return nil
}

// shape describes what two tables must have in common.
func shape(t engine.Table) string {
	var b strings.Builder
	for _, c := range t.Columns {
		fmt.Fprintln(&b, c.Name, c.Bytes, c.Text, c.Key)
	}
	return b.String()
}

// inOrder sorts tables after those that they refer to, and the tables that triggers keep after all
// others.
func inOrder(tables []engine.Table) (list []engine.Table) {
	var add func(t engine.Table)
	add = func(t engine.Table) {
		if find(list, t.Name) != nil {
			return
		}
		for _, r := range t.Refers {
			if of := find(tables, r.Table); of != nil && r.Table != t.Name {
				add(*of)
			}
		}
		list = append(list, t)
	}
	for _, kept := range []bool{false, true} {
		for _, t := range tables {
			if isKept(t) == kept {
				add(t)
			}
		}
	}
	return list
}

func isKept(t engine.Table) bool { return slices.Contains(migrations.KeptByTriggers, t.Name) }

// key returns the positions of the columns of a table's key, in the key's order.
func key(t engine.Table) (places []int) {
	for i, c := range t.Columns {
		if c.Key > 0 {
			places = append(places, i)
		}
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(t.Columns[a].Key, t.Columns[b].Key) })
	return places
}

// selfReference returns the position of the column that refers to another row of the same table; -1
// if there is none.
func selfReference(t engine.Table) int {
	for _, r := range t.Refers {
		if r.Table == t.Name {
			return slices.IndexFunc(t.Columns, func(c engine.Column) bool { return c.Name == r.Column })
		}
	}
	return -1
}

func quotedNames(t engine.Table) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, engine.Quoted(c.Name))
	}
	return strings.Join(names, ", ")
}
