package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"selvedge/migrations"
)

var lockedTable = regexp.MustCompile(`^SELECT [^()]* FROM (\w+)( AS \w+)? WHERE [^()]*$`)

// sqlOf gives the text of a constant, as far as it is written in its place: what others stand for
// in it is ….
func sqlOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return sqlOf(e.X) + sqlOf(e.Y)
	}
	return "…"
}

// On a server a call that loses again and again waits for those that have locked a row first: it
// has to know of which tables.
func TestLint_LocksOnlyOnTablesWithRowLocks(t *testing.T) {
	used := map[string]bool{}
	for _, room := range []string{
		"agents", "checkpoints", "runs", "state", "workers", "internal", "legacy",
		"maintenance", "db",
	} {
		texts, locks := map[string]string{}, map[string]token.Position{} // by the folder and the name of a constant
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, filepath.Join("..", "db", "internal")) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, text, 0)
			if err != nil {
				return err
			}
			named := func(name string) string { return filepath.Dir(path) + " " + name }
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i, value := range n.Values {
						texts[named(n.Names[i].Name)] = sqlOf(value)
					}
				case *ast.CallExpr:
					name := ""
					switch call := n.Fun.(type) {
					case *ast.SelectorExpr:
						name = call.Sel.Name
					case *ast.Ident:
						name = call.Name
					}
					if name == "LockName" && len(n.Args) == 2 {
						if table := sqlOf(n.Args[0]); table != "…" && !slices.Contains(migrations.Locked, table) {
							t.Errorf("%s: a name of %s is locked, which is not in migrations.Locked", files.Position(n.Pos()),
								table)
						}
						return true
					}
					at, locking := map[string]int{
						"Lock": 0, "Hold": 0, "lock": 0, "FindLocked": 1, "FindForInsert": 1, "lockQuery": 1,
					}[name]
					if !locking || len(n.Args) < at+2 {
						return true
					}
					query, ok := n.Args[at].(*ast.Ident)
					// it is handed on, or another call of the name
					if ok && !strings.HasPrefix(strings.ToLower(query.Name), "sql") {
						return true
					}
					if !ok {
						t.Errorf("%s: the text of a lock is a constant of its own", files.Position(n.Pos()))
						return true
					}
					locks[named(query.Name)] = files.Position(n.Pos())
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, at := range locks {
			table := lockedTable.FindStringSubmatch(texts[name])
			if table == nil || !slices.Contains(migrations.Locked, table[1]) {
				t.Errorf("%s: %q locks rows of a table that is not in migrations.Locked", at, texts[name])
				continue
			}
			used[table[1]] = true
		}
	}
	for _, table := range migrations.Locked {
		if !used[table] {
			t.Errorf("nothing locks rows of %s first", table)
		}
	}
}
