package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs"
	"selvedge/runs/live"
)

// linked makes a file with a run that another started, and a live run of the same id.
func linked(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(filepath.Dir(dbtest.Path(t)), "night shift.db")
	d := dbtest.OpenAt(t, file, db.Options{})
	s, l := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	parent := runs.RunRef{AgentID: "boss", RunID: "plan"}
	tool := "shell"
	for _, b := range []runs.Batch{
		{AgentID: "boss", RunID: "plan", Records: []runs.Record{runs.Started{RunID: "plan", AgentID: "boss", Intent: "plan it"}}},
		{AgentID: "builder", RunID: "build", Parent: parent, Records: []runs.Record{runs.Started{RunID: "build", AgentID: "builder", Intent: "build it"}, runs.Turn{Tool: &tool}}},
	} {
		if err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.CreateRunWithID(t.Context(), "build", "web-1", "build it"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.RecordEvent(t.Context(), "build", live.AgentEnd("built")); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheMetadataForDatasetteFitsTheFile(t *testing.T) {
	file := linked(t)
	exit, stdout, stderr := call(t, "--db", file, "datasette", "--url", "https://example.org/state/")
	if exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	var metadata datasetteAnswer
	if err := json.Unmarshal([]byte(stdout), &metadata); err != nil {
		t.Fatal(err)
	}
	of := metadata.Databases["night shift"]
	ask := func(sql string) string {
		out, err := exec.Command("sqlite3", "-readonly", "-bail", "-cmd", ".parameter set :run 2", "-cmd", ".parameter set :agent 1", file, sql).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s\n%s", err, sql, out)
		}
		return strings.TrimSuffix(string(out), "\n")
	}
	for name, table := range of.Tables {
		if ask(`SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '`+name+`'`) != "1" {
			t.Errorf("there is no table %s", name)
		}
		if table.LabelColumn != "" {
			ask(`SELECT "` + table.LabelColumn + `" FROM ` + name)
		}
	}
	links := 0
	for name, page := range of.Queries {
		if ask(`SELECT count(*) FROM sqlite_schema WHERE name = '`+name+`'`) != "0" {
			t.Errorf("the page %s has the name of a table", name)
		}
		for _, link := range regexp.MustCompile(`https://[^|\n]+`).FindAllString(ask(page.SQL), -1) {
			links++
			to, found := strings.CutPrefix(link, "https://example.org/state/night+shift/")
			if where := regexp.MustCompile(`^\w+`).FindString(to); !found || of.Queries[where].SQL == "" && ask(`SELECT count(*) FROM sqlite_schema WHERE name = '`+where+`'`) != "1" {
				t.Errorf("%s links to %s", name, link)
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d links", links)
	}
	if exit, _, _ := call(t, "--db", file, "datasette", "--url", "localhost"); exit != kindUsage.exit {
		t.Errorf("an address without a scheme: exit %d", exit)
	}
}

// The real program; `make datasette` installs it.
func TestDatasetteLinksRows(t *testing.T) {
	program := os.Getenv("DATASETTE")
	if program == "" {
		t.Skip("run make datasette")
	}
	file := linked(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	site := fmt.Sprintf("http://127.0.0.1:%d", port)
	exit, stdout, stderr := call(t, "--db", file, "datasette", "--url", site)
	metadata := filepath.Join(filepath.Dir(file), "metadata.json")
	if err := os.WriteFile(metadata, []byte(stdout), 0o600); exit != 0 || err != nil {
		t.Fatalf("exit %d: %s, %v", exit, stderr, err)
	}
	server := exec.CommandContext(t.Context(), program, "serve", file, "--metadata", metadata, "--port", fmt.Sprint(port)) //nolint:gosec // what make datasette installed
	var said strings.Builder
	server.Stderr = &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	get := func(address string) string {
		t.Helper()
		for began := time.Now(); ; {
			answer, err := http.Get(address) //nolint:noctx // of our own server
			if err != nil && time.Since(began) < 30*time.Second {
				continue // it is starting
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, said.String())
			}
			body, err := io.ReadAll(answer.Body)
			if answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v\n%s", address, answer.Status, err, body)
			}
			return string(body)
		}
	}
	follow := func(page, pattern string) (next string) {
		t.Helper()
		found := regexp.MustCompile(`href="(` + regexp.QuoteMeta(site) + `[^"]*` + pattern + `)"`).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("no link to %s in\n%s", pattern, page)
		}
		return get(found[1])
	}
	if home := get(site); !strings.Contains(home, "Selvedge: night shift") {
		t.Errorf("the first page:\n%s", home)
	}
	latest := get(site + "/night+shift/latest_runs")
	run := follow(latest, `one_run\?run=2`)
	if !strings.Contains(run, "build it") || !strings.Contains(run, "shell") {
		t.Errorf("the page of a run:\n%s", run)
	}
	follow(run, `run_records/\d+`)
	if events := follow(latest, `one_live_run\?run=1`); !strings.Contains(events, "agent_end") {
		t.Errorf("the page of a live run:\n%s", events)
	}
	if children := follow(latest, `one_run\?run=1`); !strings.Contains(children, "one_run?run=2") {
		t.Errorf("the parent's page leads to no child:\n%s", children)
	}
	if row := follow(latest, `runs/1`); !strings.Contains(row, `href="/night+shift/runs?parent=1"`) || !strings.Contains(row, site+"/night+shift/latest_runs") {
		t.Errorf("the row of a run leads neither to those it started nor on:\n%s", row)
	}
	if table := get(site + "/night+shift/runs"); !regexp.MustCompile(`href="/night.shift/runs/1">plan</a>`).MatchString(table) {
		t.Errorf("the table names no parent:\n%s", table)
	}
}
