package damage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"selvedge/internal/engine"
	"selvedge/migrations"
)

// checksumBatch is how many rows are read in one snapshot: a long-lived reader keeps the WAL from
// restarting.
const checksumBatch = 1000

// Checksums recomputes the checksum of every row of a table. It reports the rows whose checksum
// differs, and counts all rows and those without a checksum.
func Checksums(ctx context.Context, c Conn, sum migrations.Checksum) (found []engine.Problem,
	count engine.Checksums, err error,
) {
	columns, err := Columns(ctx, c, sum.Table)
	if err != nil {
		return nil, engine.Checksums{Table: sum.Table}, err
	}
	return ChecksumsOf(ctx, c, sum, columns)
}

// ChecksumsOf is Checksums for a table with these columns, of any engine.
func ChecksumsOf(ctx context.Context, c Conn, sum migrations.Checksum,
	columns []Column,
) (found []engine.Problem, count engine.Checksums, err error) {
	count.Table = sum.Table
	_, err = each(ctx, c, sum, columns, func(key []any, kept any, covered []any) {
		count.Rows++
		switch {
		case kept == nil:
			count.Without++
		case kept == engine.Checksum(covered...):
		case len(found) < MaxProblems:
			name := RowName(key)
			found = append(found, engine.Problem{
				Check: "checksums", Table: sum.Table, Row: name,
				Detail: fmt.Sprintf("row %s of %s has another checksum than its columns", name, sum.Table),
			})
		}
	})
	return found, count, err
}

// Rows calls row for every row of a table, with its key, its checksum and the columns that the
// checksum covers, and returns the names of the key's columns. row must not keep its arguments.
func Rows(ctx context.Context, c Conn, sum migrations.Checksum,
	row func(key []any, kept any, covered []any),
) ([]string, error) {
	columns, err := Columns(ctx, c, sum.Table)
	if err != nil {
		return nil, err
	}
	return each(ctx, c, sum, columns, row)
}

// each is Rows for a table with these columns.
func each(ctx context.Context, c Conn, sum migrations.Checksum, columns []Column,
	row func(key []any, kept any, covered []any),
) ([]string, error) {
	t := summedTable(sum, columns)
	if t == nil {
		return nil, nil
	}
	for after := []any(nil); ; {
		n := 0
		err := t.batch(ctx, c, after, func(key []any, kept any, covered []any) {
			n++
			after = key
			row(key, kept, covered)
		})
		if err != nil || n < checksumBatch {
			return t.key, err
		}
	}
}

// A summed is a table that is read row by row in the order of its key.
type summed struct {
	key   []string
	order []KeyColumn // the key in the form in which rows are read
	query string      // without its WHERE
}

// summedTable returns nil if the file has no such table or column yet.
func summedTable(sum migrations.Checksum, columns []Column) *summed {
	t := &summed{}
	types := map[string]string{}
	for _, column := range columns {
		types[column.Name] = column.Type
		for len(t.key) < column.Key {
			t.key = append(t.key, "")
		}
		if column.Key > 0 {
			t.key[column.Key-1] = column.Name
		}
	}
	if types[sum.Column] == "" {
		return nil
	}
	if len(t.key) == 0 {
		t.key = []string{"rowid"}
	}
	for _, name := range t.key {
		column := KeyColumn{Name: name}
		if at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name && c.Beginning }); at >= 0 {
			column.Type, column.Beginning = columns[at].Type, true
		}
		t.order = append(t.order, column)
	}
	// The driver does not distinguish an empty BLOB from NULL, nor an empty value of another type
	// that damage made of a BLOB.
	list := append(append([]string{}, t.key...), sum.Column)
	for _, name := range sum.Covered {
		if types[name] == "" {
			continue // the table of an older schema; if this schema's table lacks it, the checksums differ too
		}
		name = `"` + name + `"` // user is an SQL keyword
		list = append(list, name, name+" IS NULL")
	}
	t.query = "SELECT " + strings.Join(list, ", ") + " FROM " + sum.Table
	return t
}

// batch calls row for the rows after a key, at most checksumBatch of them.
func (t *summed) batch(ctx context.Context, c Conn, after []any,
	row func(key []any, kept any, covered []any),
) error {
	if after == nil {
		_, err := t.part(ctx, c, t.query+" ORDER BY "+InOrder(t.order, ""), nil, checksumBatch, row)
		return err
	}
	left := checksumBatch
	for same := len(t.order) - 1; same >= 0 && left > 0; same-- {
		condition, order := Behind(t.order, same)
		n, err := t.part(ctx, c, t.query+" WHERE "+condition+" ORDER BY "+order, after[:same+1], left, row)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// part calls row for the rows of a query, and returns how many they are.
func (t *summed) part(ctx context.Context, c Conn, query string, args []any, limit int,
	row func(key []any, kept any, covered []any),
) (n int, err error) {
	rows, err := c.QueryContext(ctx, fmt.Sprintf("%s LIMIT %d", query, limit), args...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values := make([]any, len(columns))
	dest := make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	keys := len(t.key)
	covered := make([]any, (len(columns)-keys-1)/2)
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return n, err
		}
		n++
		for i := range covered {
			v, isNull := values[keys+1+2*i], values[keys+2+2*i]
			if v == nil && isNull == int64(0) {
				v = []byte{}
			}
			covered[i] = v
		}
		row(append([]any{}, values[:keys]...), values[keys], covered)
	}
	return n, rows.Err()
}

// RowName formats the key of a row for people.
func RowName(key []any) string {
	var parts []string
	for _, v := range key {
		switch v := v.(type) {
		case string, []byte:
			parts = append(parts, fmt.Sprintf("%q", v))
		default:
			parts = append(parts, fmt.Sprint(v))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// A Column is a column of a table. Key is its place in the primary key, from 1, or 0 if it is not
// in the key. Beginning reports that the key's index holds only the beginning of the column; see
// db.Start.
type Column struct {
	Name, Type string
	NotNull    bool
	Key        int
	Beginning  bool
	Default    string
}

// Columns returns the columns of a table; none if there is no such table.
func Columns(ctx context.Context, c Conn, table string) (list []Column, err error) {
	err = c.SelectContext(ctx, &list, `SELECT name, type, "notnull", pk AS key,
		coalesce(dflt_value, '') AS "default" FROM pragma_table_info(?) ORDER BY cid`, table)
	return list, err
}
