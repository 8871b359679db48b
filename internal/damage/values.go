package damage

import (
	"context"
	"fmt"
	"strings"
)

// A Current is the current row of a query.
type Current interface {
	Columns() ([]string, error)
	// Declared is the type of the table's column behind a column; "" for an expression.
	Declared(i int) string
	Scan(dest ...any) error
}

// Wrong returns an error that names the column of a row whose value its table does not allow: a
// value of another type, or NULL. It returns nil if the row is right and its reader wanted another
// type.
func Wrong(ctx context.Context, c Conn, query string, row Current) error {
	columns, err := row.Columns()
	if err != nil {
		return nil
	}
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	if row.Scan(dest...) != nil {
		return nil
	}
	for i, column := range columns {
		declared := row.Declared(i)
		if declared == "" || values[i] != nil && isA(values[i], declared) {
			continue
		}
		table, notNull := origin(ctx, c, query, column)
		if table == "" || values[i] == nil && (!notNull || strings.Contains(strings.ToUpper(query), " JOIN ")) {
			continue
		}
		is := map[string]string{
			"<nil>": "NULL", "int64": "an INTEGER", "float64": "a REAL", "string": "a TEXT",
			"[]uint8": "a BLOB",
		}[fmt.Sprintf("%T", values[i])]
		return fmt.Errorf("%s.%s is %s and must be %s, in the row in which %s is %v", table, column, is,
			declared, columns[0], shown(values[0]))
	}
	return nil
}

func isA(v any, declared string) bool {
	switch v.(type) {
	case int64:
		return declared != "TEXT" && declared != "BLOB"
	case float64:
		return declared == "REAL" || declared == "ANY"
	case string:
		return declared == "TEXT" || declared == "ANY"
	case []byte:
		return declared == "BLOB" || declared == "ANY"
	}
	return true
}

func shown(v any) any {
	if b, ok := v.([]byte); ok {
		return fmt.Sprintf("%q", b)
	}
	return v
}

// origin returns the STRICT table, among those of a query, that has the column. In other tables a
// value of any type is right.
func origin(ctx context.Context, c Conn, query, column string) (table string, notNull bool) {
	rows, err := c.QueryContext(ctx, `SELECT t.name, c."notnull" OR c.pk
	FROM pragma_table_list AS t, pragma_table_info(t.name) AS c
WHERE t.schema = 'main' AND t.type = 'table' AND t.strict AND c.name = ? AND instr(?, t.name) > 0
	ORDER BY length(t.name) DESC LIMIT 1`, column, query)
	if err != nil {
		return "", false
	}
	defer rows.Close() //nolint:errcheck // opened for reading only
	if rows.Next() {
		_ = rows.Scan(&table, &notNull)
	}
	return table, notNull
}
