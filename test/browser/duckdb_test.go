package browser

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
)

const (
	duckVersion = "1.5.6-r.1"
	// parse prints which of the statements of its input DuckDB can't parse.
	parse = `const duck = require("@duckdb/node-api");
(async () => {
	const c = await (await duck.DuckDBInstance.create()).connect();
	for (const [name, sql] of Object.entries(JSON.parse(require("fs").readFileSync(0))))
		try { await c.extractStatements(sql) } catch (e) { console.log(name + ": " + e.message) }
})()`
)

// People read the file with DuckDB too, which parses all views to list one.
func TestViews_DuckDBParsesAll(t *testing.T) {
	dir := t.TempDir()
	install := exec.Command("npm", "install", "--silent", "--prefix", dir, "@duckdb/node-api@"+duckVersion)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v: %s", err, out)
	}
	d, err := db.Open(t.Context(), file, db.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // it only reads
	var views []struct{ Name, SQL string }
	err = d.Read(t.Context(), "list views", func(rx *db.Rx) error {
		return rx.Select(&views, `SELECT name, sql FROM sqlite_schema WHERE type = 'view'`)
	})
	if err != nil || len(views) < 20 {
		t.Fatal(len(views), err)
	}
	statements := map[string]string{"no SQL": "CREATE VIEW x AS SELECT char(0)"}
	for _, v := range views {
		statements[v.Name] = v.SQL
	}
	text, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	node := exec.Command("node", "-e", parse)
	node.Dir, node.Stdin = dir, bytes.NewReader(text)
	out, err := node.CombinedOutput()
	var refused []string // messages may have several lines
	for line := range strings.Lines(string(out)) {
		if name, _, found := strings.Cut(line, ": "); found && statements[name] != "" {
			refused = append(refused, name)
		}
	}
	if err != nil || !slices.Equal(refused, []string{"no SQL"}) {
		t.Errorf("%v, DuckDB refuses %q:\n%s", err, refused, out)
	}
}
