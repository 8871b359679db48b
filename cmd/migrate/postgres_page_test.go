//go:build postgres

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/test/dbtest"
)

func TestPostgresTheCommandsOfThePageWork(t *testing.T) {
	address := dbtest.Postgres(t)
	_, blocks := page(t, "docs/postgres.md")
	_, more := page(t, "docs/operating.md")
	blocks = append(blocks, more...)
	packed, err := filepath.Abs("../../testdata/legacy/runs/small.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("old", 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xzf", packed, "-C", "old").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	ran := 0
	for _, b := range only(blocks, "sh") {
		for line := range strings.Lines(b.text) {
			words := shellWords(line)
			for i, word := range words {
				if strings.HasPrefix(word, "postgres://") {
					words[i] = address
				}
			}
			ran++
			if words[0] != "bin/migrate" {
				t.Errorf("line %d begins with %s", b.line, words[0])
			} else if strings.Contains(line, " tail ") {
				tailOnce(t, words[1:])
			} else if exit, stdout, stderr := call(t, words[1:]...); exit != 0 {
				t.Errorf("%sexit %d\n%s%s", line, exit, stdout, stderr)
			}
		}
	}
	if ran < 10 {
		t.Errorf("the page has %d commands", ran)
	}
}

// writingOnServers is SQL that would change something if query let it.
var writingOnServers = []string{
	"INSERT INTO scopes (name) VALUES ('x')",
	"UPDATE selvedge_file SET min_writer = 99",
	"WITH x AS (INSERT INTO scopes (name) VALUES ('x') RETURNING id) SELECT * FROM x",
	"WITH x AS (DELETE FROM scopes RETURNING id) SELECT * FROM x",
	"EXPLAIN ANALYZE DELETE FROM scopes",
	"EXPLAIN (ANALYZE) INSERT INTO scopes (name) VALUES ('x')",
	"SELECT 1; DELETE FROM scopes",
	"SELECT $$a$$; DELETE FROM scopes",
	"SELECT E'a\\'; DELETE FROM scopes; --'; DELETE FROM scopes",
	"/* SELECT /* */ */ DELETE FROM scopes",
	"-- SELECT\rDELETE FROM scopes",
	"SELECT 1 INTO t",
	"SELECT * FROM scopes FOR UPDATE",
	"SELECT nextval('scopes_id_seq')",
	"SELECT set_config('transaction_read_only', 'off', true)",
	"CREATE TABLE t (x int)",
	"CREATE TEMP TABLE t AS SELECT 1",
	"TRUNCATE scopes CASCADE",
	"COPY scopes TO STDOUT",
	"COPY (SELECT 1) TO PROGRAM 'cat'",
	"DO $$ BEGIN DELETE FROM scopes; END $$",
	"CALL p()",
	"SET transaction_read_only = off",
	"BEGIN READ WRITE",
	"COMMIT",
	"PREPARE p AS DELETE FROM scopes",
	"LISTEN x",
	"NOTIFY x",
	"VACUUM",
	"LOCK TABLE scopes",
}

func TestPostgresQueryWritesNothing(t *testing.T) {
	address := dbtest.Postgres(t)
	if exit, _, stderr := call(t, "--db", address, "up"); exit != 0 {
		t.Fatal(stderr)
	}
	state := func() string {
		return fmt.Sprintf("%q", dbtest.PostgresExec(t, address, `
SELECT (SELECT string_agg(s::text, ' ') FROM selvedge.scopes s),
	(SELECT string_agg(f::text, ' ') FROM selvedge.selvedge_file f),
       (SELECT count(*) FROM pg_class), (SELECT last_value FROM selvedge.scopes_id_seq),
       (SELECT count(*) FROM pg_largeobject_metadata)`))
	}
	before := state()
	for _, sql := range writingOnServers {
		if exit, stdout, _ := call(t, "--db", address, "query", sql); exit != kindUsage.exit || stdout != "" {
			t.Errorf("%q: exit %d, %q", sql, exit, stdout)
		}
	}
	// the server lets it, and it is rolled back
	if exit, _, stderr := call(t, "--db", address, "query", "SELECT lo_create(7)"); exit != 0 {
		t.Error(stderr)
	}
	if after := state(); after != before {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
}

func TestPostgresNoAnswerHasAPasswordInIt(t *testing.T) {
	const secret = "s3cret-word"
	address := dbtest.Postgres(t)
	dir := t.TempDir()
	t.Setenv("PGPASSWORD", secret)
	tree := unpackTree(t, "small")
	for _, held := range []string{
		strings.Replace(address, "selvedge@", "selvedge:"+secret+"@", 1), address + "&password=" + secret,
		strings.Replace(address, "selvedge@", "nobody:"+secret+"@", 1), // a user that the server refuses
		strings.Replace(address, "/selvedge_", "/none:"+secret+"@_", 1),
	} {
		t.Setenv("SELVEDGE_DB", held)
		for _, args := range [][]string{
			{"status"},
			{"up"},
			{"import", "runs", tree},
			{"imports", "list"},
			{"verify", "runs", tree},
			{"export", "runs", filepath.Join(dir, fmt.Sprint(len(held)))},
			{"runs", "list", "--limit", "1"},
			{"runs", "list", "--outcom", "x"},
			{"runs", "show", "none"},
			{"agents", "list", "--scope", "none"},
			{"gc"},
			{"check"},
			{"doctor"},
			{"health"},
			{"stats"},
			{"scopes", "list"},
			{"retention", "show"},
			{"reservations", "list"},
			{"quarantine", "list"},
			{"query", "SELECT * FROM v_run"},
			{"query", "SELECT zork FROM v_runs"},
			{"backup", "x"},
			{"restore", "x"},
			{"compact"},
			{"salvage", "x"},
			{"down", "--to", "1", "--yes"},
			{"datasette"},
			{"up", "--rehearse"},
			{"zork"},
			{"--db", held, "status"},
			{"--db=" + held, "zork"},
		} {
			for _, form := range [][]string{nil, {"--json"}} {
				_, stdout, stderr := call(t, append(args, form...)...)
				if strings.Contains(stdout+stderr, secret) {
					t.Errorf("%v says\n%s%s", args, stdout, stderr)
				}
			}
		}
	}
	if _, err := os.Stat(secret); err == nil {
		t.Error("a file is called so")
	}
}
