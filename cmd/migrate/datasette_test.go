package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
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
		{AgentID: "boss", RunID: "plan", Records: []runs.Record{runs.Started{
			RunID: "plan", AgentID: "boss",
			Intent: "plan it",
		}}},
		{
			AgentID: "builder", RunID: "build", Parent: parent,
			Records: []runs.Record{
				runs.Started{RunID: "build", AgentID: "builder", Intent: "build it"},
				runs.Turn{Tool: &tool},
			},
		},
	} {
		if _, err := s.Append(t.Context(), b); err != nil {
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
		out, err := exec.Command("sqlite3", "-readonly", "-bail", "-cmd", ".parameter set :run 2", "-cmd",
			".parameter set :agent 1", file, sql).CombinedOutput()
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
			if where := regexp.MustCompile(`^\w+`).FindString(to); !found || of.Queries[where].SQL == "" &&
				ask(`SELECT count(*) FROM sqlite_schema WHERE name = '`+where+`'`) != "1" {
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
