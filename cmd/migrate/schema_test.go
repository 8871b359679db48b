package main

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/test/dbtest"
)

// onOldFiles is a call of every command, for a file with an older schema, and whether the command
// works on such a file. The others say what to do.
func onOldFiles(t *testing.T) map[string]struct {
	args  []string
	works bool
} {
	dir, tree := t.TempDir(), unpackTree(t, "small")
	type call = struct {
		args  []string
		works bool
	}
	new := func(name string) string { return filepath.Join(dir, name) }
	return map[string]call{
		"down": {[]string{"--to", "6", "--dry-run"}, true}, "status": {nil, true}, "version": {nil, true},
		"help":   {nil, true},
		"up":     {[]string{"--dry-run"}, true},
		"import": {[]string{"runs", tree}, false}, "verify": {[]string{"runs", tree}, false},
		"export":       {[]string{"runs", new("out")}, false},
		"imports list": {nil, false}, "imports show": {[]string{"1"}, false},
		"imports conflicts": {nil, false}, "imports resolve": {[]string{"1", "--take", "ours"}, false},
		"quarantine list": {nil, false}, "quarantine show": {[]string{"1"}, false},
		"quarantine retry": {[]string{"1"}, false}, "quarantine drop": {[]string{"1", "--yes"}, false},
		"check": {nil, true}, "backup": {[]string{new("copy.db")}, true},
		"salvage": {[]string{new("saved.db")}, true},
		"stats":   {nil, true}, "health": {nil, true}, "doctor": {nil, true},
		"move": {[]string{"--to", new("moved.db")}, false}, "compact": {nil, true},
		"redact":            {[]string{"--pattern", "x", "--yes"}, false},
		"reservations list": {nil, false}, "reservations release": {[]string{"import", "1"}, false},
		"gc": {[]string{"--apply"}, false}, "retention show": {nil, false},
		"retention set": {[]string{"runs", "--keep", "3"}, false},
		"scopes list":   {nil, false}, "delete": {[]string{"runs", "run-1", "--yes"}, false},
		"query": {[]string{"SELECT 1"}, true}, "datasette": {nil, true},
		"runs list": {nil, false}, "runs show": {[]string{"run-1"}, false}, "runs tail": {nil, false},
		"runs pin":   {[]string{"run-1"}, false},
		"runs unpin": {[]string{"run-1"}, false}, "runs adopt": {nil, false},
		"agents list": {nil, false}, "agents show": {[]string{"a"}, false}, "agents reap": {nil, false},
		"agents release":   {[]string{"a"}, false},
		"checkpoints list": {nil, false}, "checkpoints show": {[]string{"a"}, false},
		"checkpoints recover": {nil, false}, "runs recover": {nil, false}, "agents recover": {nil, false},
		"live recover": {nil, false},
		"agents pin":   {[]string{"a"}, false}, "agents unpin": {[]string{"a"}, false},
		"checkpoints pin": {[]string{"a"}, false}, "checkpoints unpin": {[]string{"a"}, false},
		"workers pin": {[]string{"a"}, false}, "workers unpin": {[]string{"a"}, false},
		"live pin": {[]string{"a"}, false}, "live unpin": {[]string{"a"}, false},
		"workers list": {nil, false}, "workers show": {[]string{"a"}, false}, "workers tail": {nil, false},
		"needs": {nil, false}, "answer": {[]string{"run-1", "gate", "approved"}, false}, "failed": {nil, false},
		"effects list": {[]string{"run-1"}, false}, "effects settle": {[]string{"run-1", "push", "done"}, false},
		"cancel":     {[]string{"run-1"}, false},
		"state list": {nil, false}, "state get": {[]string{"k"}, false}, "state set": {[]string{"k", "1"}, false},
		"state pin": {[]string{"k"}, false}, "state unpin": {[]string{"k"}, false},
		"live list": {nil, false}, "live show": {[]string{"a"}, false}, "live tail": {nil, false},
		"cost": {nil, false}, "tonight": {nil, false}, "serve": {nil, false}, "search": {[]string{"x"}, false},
		"report": {[]string{"run-1"}, false},
	}
}

func TestNoCommandButUpChangesAnOldSchema(t *testing.T) {
	const old = 7
	path := dbtest.Path(t)
	if _, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: old}); err != nil {
		t.Fatal(err)
	}
	calls := onOldFiles(t)
	for _, c := range commands(newRootCommand(&app{})) {
		name := commandName(c)
		// they put a file in place of it, or need none
		if name == "restore" || strings.HasPrefix(name, "completion") {
			continue
		}
		with, ok := calls[name]
		if !ok {
			t.Errorf("%s: add its arguments to onOldFiles, and whether it works on an old schema", name)
			continue
		}
		args := append(append([]string{"--db", path, "--json"}, strings.Fields(name)...), with.args...)
		switch exit, stdout, stderr := call(t, args...); {
		case with.works && exit != 0:
			t.Errorf("%s: exit %d, %s", name, exit, stderr)
		case !with.works && (exit != 1 || stdout != "" || !strings.Contains(stderr, "migrate --db "+path+" up")):
			t.Errorf("%s: exit %d, %s%s", name, exit, stdout, stderr)
		}
		if version := schemaOf(t, path); version != old {
			t.Fatalf("%s has brought the file to schema %d", name, version)
		}
	}
	if exit, _, stderr := call(t, "--db", path, "--json", "check", "--deep"); exit != 1 ||
		!strings.Contains(stderr, " up") {
		t.Errorf("check --deep: exit %d, %s", exit, stderr)
	}
}

func TestImport_MigratesOldFileOnlyIfAsked(t *testing.T) {
	const old = 15 // the next step takes rows of run_limits over
	path, tree := dbtest.Path(t), unpackTree(t, "small")
	if _, err := maintenance.Migrate(t.Context(), path, db.Options{SchemaVersion: old}); err != nil {
		t.Fatal(err)
	}
	pool, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pool.Exec(`INSERT INTO import_sources (id, scope, kind, root, first_at)
	VALUES (1, 1, 'runs', x'2f', 1);
INSERT INTO run_limits (scope, source, max_per_agent, max_age_days) VALUES (1, 1, 7, 30)`)
	if err = errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := call(t, "--db", path, "import", "runs", tree); exit != 1 ||
		!strings.Contains(stderr, "--up") {
		t.Errorf("exit %d, %s", exit, stderr)
	}
	if exit, _, stderr := call(t, "--db", path, "import", "runs", tree, "--up"); exit != 0 ||
		schemaOf(t, path) != maintenance.SchemaVersion() {
		t.Errorf("exit %d, %s", exit, stderr)
	}
	copies, err := filepath.Glob(path + ".schema-*.bak")
	if err != nil || len(copies) != 1 || schemaOf(t, copies[0]) != old {
		t.Errorf("copies: %q, %v", copies, err)
	}
}

func schemaOf(t *testing.T, path string) int64 {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	d := dbtest.OpenAt(t, path, db.Options{ReadOnly: true, AnySchema: true})
	s, err := d.Schema(t.Context())
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return s.Version
}
