package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// dialect are SQLite's own words and ways, which another engine refuses or takes for something else.
var dialect = regexp.MustCompile(`(?i)\bLIMIT -1\b|\b(INSERT|UPDATE) OR \w+|\bREPLACE INTO\b|` +
	`\biif\(|\bPRAGMA\b|\bsqlite_\w+|\browid\b|\b(NOT )?INDEXED( BY)?\b|\bGLOB\b|` +
	`\bCROSS JOIN\b.*\bON\b|\bjson_\w+\(|\bstrftime\(|\bunixepoch\(|\bjulianday\(|\bAS BLOB\b|` +
	`\bgroup_concat\(|\btypeof\(|\bchanges\(|\blast_insert_rowid\(|` +
	`\btotal\(|\bprintf\(|\bquote\(|\bIS \?|\bAUTOINCREMENT\b|\bATTACH\b|\bVACUUM\b`)

// statement tells SQL from other text.
var statement = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\b`)

// ownWays are the statements above db that may have them, by a piece of their text, and why.
var ownWays = map[string]string{
	"INSERT OR IGNORE INTO run_records": "the hot append: one statement that writes nothing where the run " +
		"isn't this process's own; the slow path is plain SQL",
}

func TestNothingAboveTheEngineNamesItsWays(t *testing.T) {
	used := map[string]bool{}
	for _, room := range []string{
		"agents", "checkpoints", "runs", "state", "workers",
		"legacy", "maintenance", "db",
	} {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && path == filepath.Join("..", "db", "internal") {
				return filepath.SkipDir
			}
			if e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(text), "LastInsertId") {
				t.Errorf("%s: LastInsertId; use RETURNING", path)
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, text, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				sql, err := strconv.Unquote(literal.Value)
				if err != nil || !statement.MatchString(sql) {
					return true
				}
				for piece := range ownWays {
					if strings.Contains(sql, piece) {
						used[piece] = true
						return true
					}
				}
				if found := dialect.FindString(sql); found != "" {
					t.Errorf("%s: %q is SQLite's own way", files.Position(literal.Pos()), found)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for piece := range ownWays {
		if !used[piece] {
			t.Errorf("no statement has %q any more", piece)
		}
	}
	if !dialect.MatchString("SELECT a FROM t ORDER BY a LIMIT -1") ||
		dialect.MatchString("SELECT a FROM t WHERE a IS NOT DISTINCT FROM ? LIMIT ?") {
		t.Error("the test notices nothing, or everything")
	}
}
