package salvage

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/migrations"
)

// Orphans puts aside the rows that refer to lost rows, until none are left.
func (b *Bringing) Orphans(ctx context.Context) error {
	for again := true; again; {
		again = false
		for _, t := range b.all {
			var keys []struct{ From, Parent, To string }
			if err := b.To.SelectContext(ctx, &keys, sqlForeignKeys, t.name); err != nil {
				return err
			}
			for _, k := range keys {
				where := fmt.Sprintf("%[1]s IS NOT NULL AND %[1]s NOT IN (SELECT %s FROM %s)",
					engine.Quoted(k.From), engine.Quoted(k.To), engine.Quoted(k.Parent))
				moved, err := b.move(ctx, t, where, "the row of "+k.Parent+" that it refers to is lost", k.Parent)
				if err != nil {
					return err
				}
				again = again || moved > 0
			}
		}
	}
	return nil
}

const sqlForeignKeys = `SELECT "from", "table" AS parent, "to" FROM pragma_foreign_key_list(?)
	WHERE "to" IS NOT NULL`

// move puts aside rows that are already in the new file. The table that lacks what they need may
// have lost more rows than were seen.
func (b *Bringing) move(ctx context.Context, t *table, where, reason, lacks string) (int64, error) {
	counted, err := damage.Integers(ctx, b.To, "SELECT count(*) FROM "+engine.Quoted(t.name)+" WHERE "+where)
	if err != nil || counted[0] == 0 {
		return 0, err
	}
	if _, err := b.To.ExecContext(ctx, sqlMakeLeftovers); err != nil {
		return 0, err
	}
	var values []string
	for _, c := range t.columns {
		values = append(values, "quote("+engine.Quoted(c.Name)+")")
	}
	if len(t.names(len(t.columns))) > len(values) {
		values = append([]string{"quote(rowid)"}, values...)
	}
	text := fmt.Sprintf("INSERT INTO %s (of_table, reason, statement) SELECT ?, ?, ? || %s || ')' FROM "+
		"%s WHERE %s",
		Leftovers, strings.Join(values, " || ', ' || "), engine.Quoted(t.name), where)
	if _, err := b.To.ExecContext(ctx, text, t.name, reason, t.into(len(t.columns))); err != nil {
		return 0, err
	}
	if _, err := b.To.ExecContext(ctx, "DELETE FROM "+engine.Quoted(t.name)+" WHERE "+where); err != nil {
		return 0, err
	}
	t.count.Taken -= counted[0]
	t.count.Aside += counted[0]
	for _, other := range b.all {
		other.unknown = other.unknown || other.name == lacks && other.lost+other.count.Aside == 0
	}
	return counted[0], nil
}

// Mend restores the invariants of the rows copied, and computes new checksums for the rows that it
// changes.
func (b *Bringing) Mend(ctx context.Context) (err error) {
	before := map[string]counts{}
	for _, t := range b.all {
		before[t.name] = t.counts
	}
	if b.all, err = tables(ctx, b.To); err != nil { // a migration may have changed them
		return err
	}
	for _, t := range b.all {
		if c, ok := before[t.name]; ok {
			t.counts = c
		}
	}
	for _, m := range migrations.Mendings() {
		switch {
		case m.Statement != "":
			_, err = b.To.ExecContext(ctx, m.Statement)
		case m.Dense != nil:
			err = b.closeUp(ctx, *m.Dense)
		default:
			where := m.Where
			if m.Sums != "" {
				where, err = b.otherwise(ctx, m.Sums)
			}
			for _, t := range b.all {
				if t.name == m.Table && err == nil {
					_, err = b.move(ctx, t, where, m.Reason, m.Lacks)
				}
			}
			if err == nil {
				err = b.Orphans(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("mend %s%s: %w", m.Table, m.Statement, err)
		}
	}
	for _, t := range b.all {
		if t.sum != nil {
			if err := b.sum(ctx, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherwise takes a query of keys, sums and bytes. It returns the condition for the rows whose
// bytes have another sum.
func (b *Bringing) otherwise(ctx context.Context, query string) (where string, err error) {
	rows, err := b.To.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer rows.Close() //nolint:errcheck // Err returns the error
	var keys []string
	for rows.Next() {
		var key, sum int64
		var content []byte
		if err := rows.Scan(&key, &sum, &content); err != nil {
			return "", err
		}
		if int64(crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli))) != sum {
			keys = append(keys, fmt.Sprint(key))
		}
	}
	return "rowid IN (" + strings.Join(keys, ", ") + ")", rows.Err()
}

// closeUp moves rows down until their places have no gaps, the lowest first, so that no two rows
// have the same place.
func (b *Bringing) closeUp(ctx context.Context, d migrations.Dense) error {
	query := fmt.Sprintf("SELECT %[1]s FROM %[2]s ORDER BY %[1]s", d.Place, d.Table)
	if d.Shift == 0 {
		query = fmt.Sprintf("SELECT %[1]s << 32 | %[2]s FROM %[3]s ORDER BY %[1]s, %[2]s", d.Of, d.Place, d.Table)
	}
	shift := d.Shift
	if shift == 0 {
		shift = 32
	}
	places, err := damage.Integers(ctx, b.To, query)
	if err != nil {
		return err
	}
	of, next := int64(-1), d.First
	for _, at := range places {
		owner, place := at>>shift, at&(1<<shift-1)
		if owner != of {
			of, next = owner, d.First
		}
		if place != next {
			set, where, args := "id = ?", "id = ?", []any{owner<<shift | next, at}
			if d.Kept != "" {
				set = fmt.Sprintf("id = ?, %[1]s = coalesce(%[1]s, %[2]d)", d.Kept, place)
			}
			if d.Shift == 0 {
				set, where, args = d.Place+" = ?", d.Of+" = ? AND "+d.Place+" = ?", []any{next, owner, place}
			}
			if _, err := b.To.ExecContext(ctx, "UPDATE "+d.Table+" SET "+set+" WHERE "+where, args...); err != nil {
				return err
			}
		}
		next++
	}
	return nil
}

// sum stores new checksums for the rows that the mending changed. Rows that came with a wrong
// checksum are not among them.
func (b *Bringing) sum(ctx context.Context, t *table) error {
	type change struct {
		key []any
		sum int64
	}
	var changes []change
	key, err := damage.Rows(ctx, b.To, *t.sum, func(key []any, kept any, covered []any) {
		if sum := engine.Checksum(covered...); kept != nil && kept != sum {
			changes = append(changes, change{key, sum})
		}
	})
	if err != nil {
		return err
	}
	for _, c := range changes {
		text := "UPDATE " + engine.Quoted(t.name) + " SET " + engine.Quoted(t.sum.Column) + " = ? WHERE " +
			strings.Join(key, " = ? AND ") + " = ?"
		if _, err := b.To.ExecContext(ctx, text, append([]any{c.sum}, c.key...)...); err != nil {
			return err
		}
	}
	return nil
}

// Guests recreates the user's views, indexes and triggers. It names those that can't be created.
func (b *Bringing) Guests(ctx context.Context) error {
	there, err := damage.Objects(ctx, b.To)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, o := range there {
		has[o.Name] = true
	}
	for _, kind := range []string{"view", "index", "trigger"} {
		for _, e := range b.From.Schema {
			if e.Type != kind || e.SQL == "" || has[e.Name] {
				continue
			}
			if _, err := b.To.ExecContext(ctx, e.SQL); err != nil {
				b.notes = append(b.notes, fmt.Sprintf("%s %s of the user's: %v", kind, e.Name, err))
			}
		}
	}
	return nil
}
