//go:build postgres

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rogpeppe/go-internal/testscript"

	"selvedge/test/dbtest"
)

func init() {
	onServers["server"] = runOnDatabase
	programs["migrate"] = func() {
		if server := os.Getenv(scriptServer); server != "" {
			os.Exit(runOnServer(server))
		}
		main()
	}
	programs["record"] = func() {
		if server := os.Getenv(scriptServer); server != "" {
			os.Args[1] = (&renamer{}).place(server, os.Args[1])
		}
		record()
	}
}

// runOnDatabase is the command of scripts: server FILE STATEMENT runs SQL as another program would.
func runOnDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("use: server FILE STATEMENT")
	}
	conn, err := pgconn.Connect(context.Background(), (&renamer{}).place(ts.Getenv(scriptServer), args[0]))
	ts.Check(err)
	_, err = conn.Exec(context.Background(), args[1]).ReadAll()
	ts.Check(errors.Join(err, conn.Close(context.Background())))
}

// runOnServer is the program with each file of its command line, and of SELVEDGE_DB, in a schema of
// its own on the server. In what it says the file's name stands again.
func runOnServer(server string) int {
	names := &renamer{}
	place := func(path string) string {
		if path == "" || path == ":memory:" || strings.Contains(path, "://") {
			return path
		}
		return names.place(server, path)
	}
	args := slices.Clone(os.Args[1:])
	named := false
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--db="); ok {
			args[i], named = "--db="+place(value), true
		} else if arg == "--db" && i+1 < len(args) {
			args[i+1], named = place(args[i+1]), true
		}
	}
	if path := os.Getenv("SELVEDGE_DB"); path != "" || !named {
		if path == "" {
			names.stdout = append(names.stdout, " --db "+shellWord(names.place(server, defaultPath)), "")
			names.stderr = slices.Clone(names.stdout)
			path = defaultPath
		}
		os.Setenv("SELVEDGE_DB", place(path)) //nolint:errcheck // it has no NUL
	}
	var stdout, stderr io.Writer = os.Stdout, os.Stderr
	if !isTerminal(stdout) {
		stdout = &renaming{&names.stdout, stdout}
	}
	if !isTerminal(stderr) {
		stderr = &renaming{&names.stderr, stderr}
	}
	return run(args, os.Stdin, stdout, stderr)
}

// A renamer knows which address stands for which file: answers name it by its absolute path, and
// errors as it was given.
type renamer struct{ stdout, stderr []string }

func (r *renamer) place(server, path string) string {
	at, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	schema := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToLower(filepath.Base(path)))
	u, err := url.Parse(server)
	if err != nil {
		panic(err)
	}
	address := server + "&search_path=" + schema
	host := u.Query().Get("host")
	opened := "postgres://" + u.User.Username() + "@" + u.Path + "?host=" + url.QueryEscape(host) +
		"&port=5432&search_path=" + schema // as DB.Path has it
	r.stdout = append(r.stdout, shellWord(address), shellWord(path), address, at, opened, at)
	r.stderr = append(r.stderr, shellWord(address), shellWord(path), address, path, opened, at)
	return address
}

// renaming is an output in which files stand for addresses.
type renaming struct {
	pairs *[]string
	to    io.Writer
}

func (r *renaming) Write(text []byte) (int, error) {
	escaped := bytes.ReplaceAll(text, []byte(`\u0026`), []byte("&"))
	if _, err := r.to.Write([]byte(strings.NewReplacer(*r.pairs...).Replace(string(escaped)))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// scriptsOfFiles are those about what only a file has, or that ask in SQLite's SQL. What servers
// have of it is in testdata/postgres.
var scriptsOfFiles = []string{
	"backup", "compact", "doctor", "down", "move", "near", "progress", "query", "restore", "salvage", "server",
	"up",
}

// TestPostgresScripts plays the scripts of files with a schema of a server in place of each file.
func TestPostgresScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	more, err := filepath.Glob("testdata/postgres/*.txtar")
	if err != nil || len(more) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	scripts = slices.DeleteFunc(scripts, func(script string) bool {
		return slices.Contains(scriptsOfFiles, strings.TrimSuffix(filepath.Base(script), ".txtar"))
	})
	scripts = append(scripts, more...)
	for _, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".txtar")
		t.Run(name, func(t *testing.T) {
			address := dbtest.Postgres(t)
			play(t, script, address)
		})
	}
}
