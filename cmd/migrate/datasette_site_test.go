//go:build datasette

package main

import (
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
)

// The real program; `make datasette` installs it.
func TestDatasetteLinksRows(t *testing.T) {
	program := os.Getenv("DATASETTE")
	if program == "" {
		t.Fatal("DATASETTE names no program: make datasette")
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
	//nolint:gosec // the path that make datasette installs
	server := exec.CommandContext(t.Context(), program,
		"serve", file, "--metadata", metadata, "--port", fmt.Sprint(port))
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
			answer, err := http.Get(address) //nolint:noctx // a request to our own server
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
		found := regexp.MustCompile(`href="(` + regexp.QuoteMeta(site) + `[^"]*` + pattern +
			`)"`).FindStringSubmatch(page)
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
	if row := follow(latest, `runs/1`); !strings.Contains(row, `href="/night+shift/runs?parent=1"`) ||
		!strings.Contains(row, site+"/night+shift/latest_runs") {
		t.Errorf("the row of a run leads neither to those it started nor on:\n%s", row)
	}
	if table := get(site + "/night+shift/runs"); !regexp.MustCompile(
		`href="/night.shift/runs/1">plan</a>`).MatchString(table) {
		t.Errorf("the table names no parent:\n%s", table)
	}
}
