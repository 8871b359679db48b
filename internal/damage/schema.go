package damage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"selvedge/internal/engine"
)

// An Object is an entry of sqlite_schema.
type Object struct {
	Type  string `db:"type"`
	Name  string `db:"name"`
	Table string `db:"tbl_name"`
	SQL   string `db:"sql"`
}

const sqlSchema = `SELECT coalesce(type, '') AS type, coalesce(name, '') AS name,
	coalesce(tbl_name, '') AS tbl_name, coalesce(sql, '') AS sql FROM sqlite_schema ORDER BY rowid`

// Objects reads the schema, including SQLite's own entries.
func Objects(ctx context.Context, c Conn) (list []Object, err error) {
	err = c.SelectContext(ctx, &list, sqlSchema)
	return list, err
}

// Schema compares the schema with what a file of its version should have. All other objects belong
// to the user.
func Schema(ctx context.Context, c Conn, expected []Object) (found []engine.Problem, err error) {
	there, err := Objects(ctx, c)
	for _, want := range expected {
		if len(found) == MaxProblems {
			break
		}
		i := slices.IndexFunc(there, func(o Object) bool { return o.Type == want.Type && o.Name == want.Name })
		is := ""
		switch {
		case i < 0:
			is = "missing"
		case there[i].Table != want.Table:
			is = fmt.Sprintf("of %q, and not of %s", there[i].Table, want.Table)
		case !same(there[i], want):
			is = "not as the program makes it"
		default:
			continue
		}
		found = append(found, engine.Problem{Check: "schema", Detail: want.Type + " " + want.Name + " is " + is})
	}
	return found, err
}

// same reports whether the same statement created both objects. The statement for goose's table is
// goose's, and may change with goose.
func same(a, b Object) bool {
	return a.SQL == b.SQL || b.Name == "goose_db_version" || normal(a.SQL) == normal(b.SQL)
}

// normal returns a statement without its comments and with single spaces outside of quotes. The
// statement ends at a NUL, as SQLite reads it.
func normal(sql string) string {
	sql, _, _ = strings.Cut(sql, "\x00")
	var out strings.Builder
	space := false
	for i := 0; i < len(sql); {
		rest := sql[i:]
		switch c := sql[i]; {
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			i, space = i+n, true
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				n = len(rest) - 4
			}
			i, space = i+n+4, true
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i, space = i+1, true
		default:
			if space && out.Len() > 0 {
				out.WriteByte(' ')
			}
			space = false
			n := 1
			if c == '\'' || c == '"' || c == '`' {
				if end := strings.IndexByte(rest[1:], c); end >= 0 {
					n = end + 2
				}
			}
			out.WriteString(rest[:n])
			i += n
		}
	}
	return out.String()
}
