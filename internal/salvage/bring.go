package salvage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"selvedge/internal/damage"
	"selvedge/internal/engine"
	"selvedge/internal/pages"
)

// Leftovers is the table of the new file for the rows that could not be inserted into their table.
const Leftovers = "salvage_leftovers"

const sqlMakeLeftovers = `CREATE TABLE IF NOT EXISTS ` + Leftovers + ` (
    id        INTEGER NOT NULL PRIMARY KEY, -- in the order in which they were found
    of_table  TEXT    NOT NULL,             -- where the row was
    reason    TEXT    NOT NULL,             -- why it is here, and not there
    statement TEXT    NOT NULL              -- what would put it there
) STRICT`

// sequences is SQLite's table of the last id of each AUTOINCREMENT table.
const sequences = "sqlite_sequence"

// ours are the tables whose rows the new file already has.
var ours = []string{"selvedge_file", "goose_db_version"}

// A Bringing copies rows from a damaged file to a new one, in the caller's transaction.
type Bringing struct {
	From        *Source
	To          damage.Writer
	KeepSuspect bool

	all   []*table
	notes []string
}

// Bring inserts every row that can be read. Triggers must be dropped and foreign keys off.
func (b *Bringing) Bring(ctx context.Context) (err error) {
	known, err := damage.Objects(ctx, b.To)
	if err != nil {
		return err
	}
	b.From.Known(known)
	for _, e := range b.From.Schema { // the user's tables are copied too
		mine := slices.ContainsFunc(known, func(o damage.Object) bool { return strings.EqualFold(o.Name, e.Name) })
		if e.Type != "table" || e.Root == 0 || mine || strings.HasPrefix(e.Name, "sqlite_") {
			continue
		}
		if _, err := b.To.ExecContext(ctx, e.SQL); err != nil {
			b.notes = append(b.notes, fmt.Sprintf("table %s of the user's: %v", e.Name, err))
		}
	}
	if b.all, err = tables(ctx, b.To); err != nil {
		return err
	}
	byRoot := b.From.assign(b.all)
	for _, t := range b.all {
		t.unknown = t.found == 0 || b.From.broken[t.found]
	}
	// The rows that an earlier salvage put aside come first.
	if slices.ContainsFunc(b.all, func(t *table) bool { return t.name == Leftovers }) {
		if err := b.pages(ctx, byRoot, func(t *table) bool { return t.name == Leftovers }); err != nil {
			return err
		}
	}
	err = b.pages(ctx, byRoot, func(t *table) bool {
		return t.name != Leftovers &&
			!slices.Contains(ours, t.name)
	})
	if err != nil {
		return err
	}
	return b.sequences(ctx)
}

// pages copies the rows of the tables that are wanted.
func (b *Bringing) pages(ctx context.Context, byRoot map[int]*table, wanted func(*table) bool) error {
	f := b.From.file
	tell := engine.Telling(ctx)
	for n := 2; n <= f.Count; n++ {
		if tell != nil {
			tell(engine.Progress{
				Step: "salvage", Done: int64(n) * int64(f.PageSize),
				Total: int64(f.Count) * int64(f.PageSize),
			})
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if b.From.free[n] || b.From.roots[n] == 1 && f.Root(n) == 0 {
			continue
		}
		p, ok := f.Read(n)
		stray := b.From.roots[n] == 0 && b.From.spills[n] == 0 && !f.Reserved(n)
		if !ok || p.Table && !p.Leaf {
			if stray {
				b.missed(byRoot, n)
			}
			continue
		}
		t := b.From.of(p, byRoot, b.all)
		if t == nil {
			if p.Table && len(p.Rows) > 0 && b.From.roots[n] == 0 && b.From.file.Root(n) == 0 {
				b.notes = append(b.notes, fmt.Sprintf("page %d has %d rows of which nobody can say whose they are", n,
					len(p.Rows)))
			}
			if stray {
				b.missed(byRoot, n)
			}
			continue
		}
		if t.rowless == p.Table || !wanted(t) {
			continue
		}
		t.lost += int64(p.Lost)
		t.unknown = t.unknown || stray || !p.Sound || t.foreign(p.Rows)
		spoiled := p.Lost > 0 || t.spoiled(p.Rows)
		for _, r := range p.Rows {
			if err := b.put(ctx, t, r, spoiled); err != nil {
				return err
			}
		}
	}
	return nil
}

// missed records that a page which no tree leads to may have held rows: of the table that the
// pointer map names, or of any. An intact tree lacks no rows.
func (b *Bringing) missed(byRoot map[int]*table, n int) {
	root := b.From.file.Owner(n)
	if b.From.roots[root] == root && root > 0 && !b.From.broken[root] {
		return
	}
	if t := byRoot[root]; t != nil {
		t.unknown = true
		return
	}
	for _, t := range b.all {
		t.unknown = true
	}
}

// foreign reports whether the rows may belong to another table.
func (t *table) foreign(rows []pages.Row) bool {
	fitting, sure := t.fitting(rows)
	return !sure && (fitting < len(rows) || t.spoiled(rows))
}

// spoiled reports whether any of the rows shows that their page is damaged.
func (t *table) spoiled(rows []pages.Row) bool {
	return slices.ContainsFunc(rows, func(r pages.Row) bool {
		values, fits := t.values(r)
		whole, _ := t.whole(values)
		return !fits || !whole
	})
}

// put inserts a row, or puts it aside. On a spoiled page, a row without a checksum may be one that
// lost it.
func (b *Bringing) put(ctx context.Context, t *table, r pages.Row, spoiled bool) error {
	values, fits := t.values(r)
	if !fits {
		t.count.Suspect++
		text := fmt.Sprintf("-- row %d of %s: (%s)", r.Rowid, t.name, literals(r.Values)) // as it was read
		return b.aside(ctx, t, "its columns are not of their types", text)
	}
	whole, summed := t.whole(values)
	if !whole || t.sum != nil && !summed && spoiled {
		t.count.Suspect++
		if !b.KeepSuspect {
			reason := map[bool]string{
				false: "its checksum is another",
				true:  "it has no checksum, and its page is damaged",
			}[whole]
			return b.aside(ctx, t, reason, t.statement(r, values))
		}
		if !whole {
			values[t.column(t.sum.Column)] = nil // the user has decided to keep it
		}
	}
	text, args := t.insert(r, values)
	if _, err := b.To.ExecContext(ctx, text, args...); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return b.aside(ctx, t, err.Error(), t.statement(r, values))
	}
	t.count.Taken++
	return nil
}

// insert returns the statement and the arguments that insert a row. The statement names the
// columns, since a row older than a column lacks it.
func (t *table) insert(r pages.Row, values []any) (string, []any) {
	text, ok := t.inserted[len(values)]
	if !ok {
		text = t.into(len(values)) + "?" + strings.Repeat(", ?", len(t.names(len(values)))-1) + ")"
		if t.name == "scopes" {
			text = strings.Replace(text, "INSERT", "INSERT OR REPLACE", 1) // the new file has the default scope
		}
		t.inserted[len(values)] = text
	}
	if !t.rowless && t.alias < 0 {
		values = append([]any{r.Rowid}, values...)
	}
	return text, values
}

// into returns the beginning of a statement that inserts the first n columns.
func (t *table) into(n int) string {
	return "INSERT INTO " + engine.Quoted(t.name) + " (" + strings.Join(t.names(n), ", ") + ") VALUES ("
}

func (t *table) names(n int) (list []string) {
	if !t.rowless && t.alias < 0 {
		list = append(list, "rowid")
	}
	for _, c := range t.columns[:n] {
		list = append(list, engine.Quoted(c.Name))
	}
	return list
}

// statement is insert with the values in the text.
func (t *table) statement(r pages.Row, values []any) string {
	_, all := t.insert(r, values)
	return t.into(len(values)) + literals(all) + ")"
}

func literals(values []any) string {
	var list []string
	for _, v := range values {
		list = append(list, literal(v))
	}
	return strings.Join(list, ", ")
}

func (b *Bringing) aside(ctx context.Context, t *table, reason, statement string) error {
	if _, err := b.To.ExecContext(ctx, sqlMakeLeftovers); err != nil {
		return err
	}
	t.count.Aside++
	_, err := b.To.ExecContext(ctx, "INSERT INTO "+Leftovers+" (of_table, reason, statement) VALUES (?, ?, ?)",
		t.name, reason, statement)
	return err
}

// sequences restores the counters, so that no number is issued twice.
func (b *Bringing) sequences(ctx context.Context) error {
	if !slices.ContainsFunc(b.From.Schema,
		func(e Entry) bool { return e.Name == sequences && !b.From.broken[e.Root] }) {
		b.notes = append(b.notes, "of the counters of ids some are lost: an id of what was removed may be "+
			"given again")
	}
	for _, row := range b.From.Rows(sequences) {
		if len(row) != 3 {
			continue
		}
		name, isName := row[1].(string)
		seq, isSeq := row[2].(int64)
		if !isName || !isSeq || seq < 0 {
			continue
		}
		if _, err := b.To.ExecContext(ctx, `INSERT INTO sqlite_sequence (name, seq) SELECT ?, 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?)
	AND EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)`,
			name, name, name); err != nil {
			return err
		}
		if _, err := b.To.ExecContext(ctx, `UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?`, seq,
			name); err != nil {
			return err
		}
	}
	return nil
}

// Report returns what became of the rows.
func (b *Bringing) Report() (list []engine.SalvagedTable, notes []string) {
	for _, t := range b.all {
		if !t.unknown {
			t.count.Lost = &t.lost
		}
		if t.unknown || t.count.Taken+t.count.Aside+t.lost > 0 {
			list = append(list, t.count)
		}
	}
	return list, b.notes
}
