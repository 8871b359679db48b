package schemadoc

import (
	"context"
	"fmt"
	"strings"

	"selvedge/db"
)

const intro = `# The schema

<!-- Made by "make generate" from the live schema and the comments in migrations/sqlite. Don't edit. -->

What is in a Selvedge file, table by table, at schema version %d. ` +
	`The views at the end are for people: they are a
contract, show times as UTC text and need nothing newer than sqlite3 3.40. ` +
	`The tables are for those who want to know more; they may
change with the schema version.

- Tables are STRICT. A column may be NULL only where its type says so, and then the text says what NULL means.
- Times are Unix nanoseconds (INTEGER) in tables.
- Every key begins with a scope, or leads to a row that has one: ` +
	`several old homes share a file under several scopes.
- Read a file that is in use with ` + "`sqlite3 -readonly FILE`" + ` or ` + "`migrate query`" +
	`; let the program alone write it.
`

// Page is docs/SCHEMA.md for this program's schema.
func Page(ctx context.Context) (string, error) {
	d, err := db.Open(ctx, ":memory:", db.Options{})
	if err != nil {
		return "", err
	}
	s, err := Read(ctx, d)
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", err
	}
	return s.page(), nil
}

func (s Schema) page() string {
	p := &page{}
	p.linef(intro, s.Version)
	p.contents(s)
	for _, c := range s.Chapters {
		if len(c.Tables) == 0 {
			continue
		}
		p.linef("## %s\n", strings.TrimSuffix(c.Title, "."))
		for _, t := range c.Tables {
			p.table(t)
		}
	}
	p.linef("## Views\n")
	for _, v := range s.Views {
		p.view(v)
	}
	return strings.TrimRight(p.b.String(), "\n") + "\n"
}

type page struct{ b strings.Builder }

func (p *page) linef(format string, args ...any) {
	fmt.Fprintf(&p.b, format+"\n", args...)
}

func (p *page) contents(s Schema) {
	p.linef("| table or view | what it holds |\n| --- | --- |")
	for _, c := range s.Chapters {
		for _, t := range c.Tables {
			p.linef("| [%s](#%s) | %s |", t.Name, t.Name, cell(t.Purpose))
		}
	}
	for _, v := range s.Views {
		p.linef("| [%s](#%s) | %s |", v.Name, v.Name, cell(v.Purpose))
	}
	p.linef("")
}

func (p *page) table(t Table) {
	p.linef("### %s\n", t.Name)
	if t.Purpose != "" {
		p.linef("%s\n", t.Purpose)
	}
	p.linef("| column | type | key | meaning |\n| --- | --- | --- | --- |")
	for _, c := range t.Columns {
		p.linef("| %s | %s | %s | %s |", c.Name, c.typeText(), c.keyText(), cell(c.Comment))
	}
	p.linef("")
	if kind := strings.TrimPrefix(t.Kind, "STRICT, "); kind != "STRICT" && kind != "" {
		p.linef("%s.\n", kind)
	}
	if len(t.Rules) > 0 {
		p.linef("Rules:\n")
		for _, r := range t.Rules {
			p.linef("- `%s`%s", r.Check, after(": ", r.Comment))
		}
		p.linef("")
	}
	if len(t.Indexes) > 0 {
		p.linef("Indexes:\n")
		for _, i := range t.Indexes {
			p.linef("- %s", i.text())
		}
		p.linef("")
	}
	for _, trigger := range t.Triggers {
		p.linef("Trigger %s%s\n\n```sql\n%s;\n```\n", trigger.Name,
			after(": ", strings.TrimSuffix(trigger.Purpose, ".")), trigger.SQL)
	}
}

func (p *page) view(v View) {
	p.linef("### %s\n", v.Name)
	if v.Purpose != "" {
		p.linef("%s\n", v.Purpose)
	}
	p.linef("| column | meaning |\n| --- | --- |")
	for _, c := range v.Columns {
		p.linef("| %s | %s |", c.Name, cell(c.Comment))
	}
	p.linef("")
}

func (c Column) typeText() string {
	s := c.Type
	if c.Nullable {
		s += " or NULL"
	}
	return cell(s + after(", default ", c.Default))
}

func (c Column) keyText() string {
	var parts []string
	if c.Key > 0 {
		parts = append(parts, "primary")
	}
	if c.Refers != "" {
		parts = append(parts, "→ "+c.Refers)
	}
	return cell(strings.Join(parts, "; "))
}

func (i Index) text() string {
	columns := "(" + i.Shown + ")"
	if before, condition, partial := strings.Cut(i.Shown, " WHERE "); partial {
		columns = "(" + before + ") where " + condition
	}
	name := i.Name
	switch i.Made {
	case "pk":
		name = "primary key"
	case "u":
		name = "unique"
	default:
		if i.Unique {
			name += ", unique"
		}
	}
	return name + " `" + columns + "`" + after(": ", strings.TrimSuffix(i.Purpose, "."))
}

// after returns s with what leads to it, or nothing.
func after(lead, s string) string {
	if s == "" {
		return ""
	}
	return lead + s
}

// cell makes s fit for a cell of a Markdown table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
