package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

// writing is SQL that would change something, somewhere, if query let it.
var writing = []string{
	"INSERT INTO scopes (name) VALUES ('x')",
	"UPDATE selvedge_file SET min_writer = 99",
	"DELETE FROM scopes RETURNING id",
	"REPLACE INTO scopes (id, name) VALUES (1, 'x')",
	"WITH x AS (SELECT 1) INSERT INTO scopes (name) SELECT 'x'",
	"WITH x(n) AS (VALUES (1)) UPDATE scopes SET name = 'x' WHERE id IN (SELECT n FROM x) RETURNING name",
	"WITH x AS (SELECT 1) DELETE FROM scopes",
	"CREATE TABLE t (x)",
	"CREATE TEMP TABLE t AS SELECT 1",
	"CREATE TEMP VIEW v AS SELECT 1",
	"CREATE TEMP TRIGGER r AFTER INSERT ON scopes BEGIN SELECT 1; END",
	"CREATE VIRTUAL TABLE t USING fts5(x)",
	"DROP TABLE scopes",
	"ALTER TABLE scopes RENAME TO s",
	"ATTACH 'attached.db' AS other",
	"ATTACH 'file:attached.db?mode=rwc' AS other",
	"DETACH main",
	"VACUUM",
	"VACUUM INTO 'copied.db'",
	"REINDEX",
	"ANALYZE",
	"BEGIN IMMEDIATE",
	"COMMIT",
	"ROLLBACK",
	"END",
	"SAVEPOINT s",
	"PRAGMA user_version = 7",
	"PRAGMA user_version(7)",
	"PRAGMA main.user_version = 7",
	"PRAGMA \"user_version\" = 7",
	"PRAGMA application_id = 7",
	"PRAGMA journal_mode = DELETE",
	"PRAGMA journal_mode(delete)",
	"PRAGMA wal_checkpoint(TRUNCATE)",
	"PRAGMA incremental_vacuum",
	"PRAGMA optimize",
	"PRAGMA query_only = 0",
	"PRAGMA writable_schema = 1",
	"PRAGMA temp_store_directory = '.'",
	"PRAGMA [main].[journal_mode] = delete",
	"EXPLAIN PRAGMA user_version = 7",
	"EXPLAIN QUERY PLAN PRAGMA user_version = 7",
	"EXPLAIN ATTACH 'attached.db' AS other",
	"/* SELECT */ DELETE FROM scopes",
	"-- SELECT\nDELETE FROM scopes",
	";DELETE FROM scopes",
	"SELECT 1; DELETE FROM scopes",
	"SELECT 1;\n-- and\n/* then */ DELETE FROM scopes",
	"SELECT 'a'';'; DELETE FROM scopes",
	"SELECT \"a\"\";\"\"b\" FROM (SELECT 1 AS \"a\"\";\"\"b\"); DELETE FROM scopes",
	"SELECT 1 AS [a;b]; DELETE FROM scopes",
	"SELECT 1 AS `a``;`; DELETE FROM scopes",
	"SELECT x'00'; DELETE FROM scopes",
	"SELECT 1/*/; DELETE FROM scopes /* */; DELETE FROM scopes",
	"SELECT 1 ; \f\r\t DELETE FROM scopes",
	"\ufeffDELETE FROM scopes",
	"SELECT x'ab'''; DELETE FROM scopes; '",
	"SELECT $a(;DELETE FROM scopes)",
	"SELECT load_extension('x')",
	"SELECT writefile('written', 'x')",
	"SELECT edit('x')",
}

func TestQueryWritesNothingWhateverTheSQLSays(t *testing.T) {
	for _, use := range []string{"at rest", "in use"} {
		t.Run(use, func(t *testing.T) {
			path := dbtest.Path(t)
			d, err := db.Open(context.Background(), path, db.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if use == "at rest" {
				err = d.Close()
			} else {
				defer d.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(filepath.Dir(path))
			if exit, _, stderr := call(t, "--db", path, "query", "SELECT 1"); exit != 0 { // makes -wal and -shm
				t.Fatal(stderr)
			}
			before := contents(t, ".")
			for _, sql := range writing {
				if exit, stdout, stderr := call(t, "--db", path, "query", sql); exit != kindUsage.exit || stdout != "" {
					t.Errorf("%q: exit %d, %q, %s", sql, exit, stdout, stderr)
				}
			}
			if after := contents(t, "."); !maps.Equal(before, after) {
				t.Errorf("files before: %v, after: %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

// contents are the hashes of the files of a folder, but for SQLite's shared memory, which readers
// use for their locks.
func contents(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	files := map[string][32]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		// another process: ours has the file open
		content, err := exec.Command("cat", filepath.Join(dir, path)).Output()
		if strings.HasSuffix(path, "-shm") {
			content = nil
		}
		files[path] = sha256.Sum256(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Functions over PRAGMAs are SELECTs to every lexer; what holds here is the connection.
func TestQueryWritesNothingThroughFunctions(t *testing.T) {
	path := dbtest.Path(t)
	if exit, _, stderr := call(t, "--db", path, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	t.Chdir(filepath.Dir(path))
	if exit, _, stderr := call(t, "--db", path, "query", "SELECT 1"); exit != 0 { // makes -wal and -shm
		t.Fatal(stderr)
	}
	before := contents(t, ".")
	for _, sql := range []string{
		"SELECT * FROM pragma_optimize(-1)", "SELECT * FROM pragma_journal_mode",
		"SELECT * FROM pragma_user_version(7)",
		"SELECT * FROM pragma_wal_checkpoint('TRUNCATE')", "SELECT * FROM pragma_incremental_vacuum",
		"SELECT * FROM pragma_query_only(0)",
	} {
		call(t, "--db", path, "query", sql)
		if after := contents(t, "."); !maps.Equal(before, after) {
			t.Errorf("%q changed something", sql)
		}
	}
}

func TestQueryAnswersWhileAnotherHandleWrites(t *testing.T) {
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{})
	store := runs.NewStore(d, runs.Options{})
	for i, id := range []string{"one", "two"} {
		if err := store.WriteStarted(context.Background(), runs.Started{RunID: id, AgentID: "a"}); err != nil {
			t.Fatal(err)
		}
		exit, stdout, stderr := call(t, "--db", path, "--json", "query", "SELECT count(*) FROM v_runs")
		if want := `"rows":[[` + string(rune('1'+i)) + `]]`; exit != 0 || !strings.Contains(stdout, want) {
			t.Errorf("after %d runs: exit %d, %s%s", i+1, exit, stdout, stderr)
		}
	}
}

func TestTokensEndWhereTheyDoInSQLite(t *testing.T) {
	for text, want := range map[string][]string{
		"SELECT a.b, 1.5e3, x'00', 'it''s'": {
			"SELECT", "A", ".", "B", ",", "1", ".", "5E3", ",", "'", ",",
			"'",
		},
		"select :a, @b, $c::d, ?12, ?": {
			"SELECT", ":A", ",", "@B", ",", "$C", ":", ":D", ",", "?12",
			",", "?",
		},
		"select[a;b]`c;`\"d;\"":     {"SELECT", "'", "'", "'"},
		"select/**/1--x\n+2/* open": {"SELECT", "1", "+", "2"},
		"select 'open":              {"SELECT", "'"},
		"SELECT größe FROM t":       {"SELECT", "GRÖSSE", "FROM", "T"},
		"select a->>'$.b', x, X, xx'a' from t": {
			"SELECT", "A", "-", ">", ">", "'", ",", "X", ",", "X", ",",
			"XX", "'", "FROM", "T",
		},
		"\ufeffSELECT 2": {"SELECT", "2"},
		"SELECT 1 -- trailing ; comment\n;\n;;  ": {"SELECT", "1"},
	} {
		s, err := readStatement(text, ofFiles)
		if want[len(want)-1] == "T" && want[1] == "GRÖSSE" {
			want[1] = strings.ToUpper("größe")
		}
		if err != nil || !slices.Equal(s.words, want) {
			t.Errorf("%q: %q, %v; want %q", text, s.words, err, want)
		}
	}
}

func TestASignalEndsAQueryWithCode130(t *testing.T) {
	path := dbtest.Path(t)
	if exit, _, stderr := call(t, "--db", path, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP) // or the command would inherit that nohup ignores it
	defer signal.Stop(heard)
	for _, how := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		// A first row that fills every buffer shows that the query runs; the second never comes.
		const endless = `SELECT hex(zeroblob(100000)) UNION ALL
			SELECT max(i) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n)`
		command := exec.Command("migrate", "--db", path, "--nl", "query", endless)
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		command.Stderr = &stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadByte(); err != nil {
			t.Fatal(err)
		}
		if err := command.Process.Signal(how); err != nil {
			t.Fatal(err)
		}
		err = command.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != kindInterrupted.exit ||
			!strings.Contains(stderr.String(), "interrupted by signal") {
			t.Errorf("%v: %v\n%s", how, err, stderr.String())
		}
	}
}
