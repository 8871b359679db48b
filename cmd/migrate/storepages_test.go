package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// storePages are the pages of docs/ that show one store in Go, in SQL and on the command line, and
// the folder of its package.
var storePages = map[string]string{
	"runs": "runs", "live": "runs/live", "agents": "agents", "checkpoints": "checkpoints", "workers": "workers",
	"state": "state",
}

// yesterday gives a file with a little of everything that the pages name, whose programs are gone.
func yesterday(t *testing.T) (path string) {
	t.Helper()
	path = dbtest.Path(t)
	d, err := db.Open(t.Context(), path, db.Options{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	ctx, start := t.Context(), time.Now().Add(-time.Hour)

	traces, tool := runs.NewStore(d, runs.Options{}), "shell"
	end := func(run string, status runs.OutcomeStatus, summary string) runs.Ended {
		return runs.Ended{
			RunID: run, AgentID: "agent-a",
			Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: status, Summary: summary}},
		}
	}
	must(traces.AppendRecords(ctx, "agent-a", "run-1", []runs.Record{
		runs.Started{RunID: "run-1", AgentID: "agent-a", Intent: "fix the build", StartedAt: start},
		runs.Turn{Index: 0, Tool: &tool, CliOutcome: &runs.CliOutcome{Kind: runs.CliExited}},
		runs.Unknown{Kind: "model_turn", Raw: []byte(
			`{"record":"model_turn","index":1,"cost_usd":0.25,"token_usage":{"prompt_tokens":100,"completion_tokens":20}}`)},
		end("run-1", runs.OutcomeSuccess, "green again"),
	}))
	must(traces.AppendRecords(ctx, "agent-a", "run-2", []runs.Record{
		runs.Started{
			RunID: "run-2", AgentID: "agent-a", Intent: "make a release",
			StartedAt: start.Add(time.Minute),
		},
		runs.Turn{Index: 0, Tool: &tool, CliOutcome: &runs.CliOutcome{Kind: runs.CliExited, Code: 2}},
		end("run-2", runs.OutcomeFailure, "no space left on the device"),
	}))
	must(traces.WriteStarted(ctx, runs.Started{
		RunID: "run-3", AgentID: "agent-b", Intent: "write docs",
		StartedAt: start.Add(2 * time.Minute),
	}))

	lives := live.NewStore(d, live.Options{})
	for run, events := range map[string][]string{
		"run-1": {
			`{"type":"tool_start","id":"c1","name":"grep"}`,
			`{"type":"tool_end","id":"c1","name":"grep","output":"","exit_code":0}`,
			`{"type":"turn_end","turn":1,"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cache_read_tokens":null,"cache_write_tokens":null}}`,
			string(live.AgentEnd("done").JSON()),
		},
		"run-4": {
			`{"type":"tool_start","id":"c2","name":"rm"}`,
			`{"type":"confirmation_required","tool_id":"c2","tool_name":"rm","args":{"path":"/"},"timeout_ms":1000}`,
		},
	} {
		_, err := lives.CreateRunWithID(ctx, run, "session-1", "work")
		must(err)
		for _, text := range events {
			event, err := live.NewEvent([]byte(text))
			must(err)
			_, _, err = lives.RecordEvent(ctx, run, event)
			must(err)
		}
	}

	registry, used, micros := agents.NewRegistry(d, agents.Options{}), uint64(9000), uint64(5_000_000)
	for _, id := range []string{"agent-a", "agent-b"} {
		must(registry.Save(ctx, agents.Entry{
			SessionID: id, Thread: "feature/" + id[len(id)-1:], BaseState: "hd-0123", StartedAt: start,
			Status:       agents.Active,
			UsageSummary: agents.UsageSummary{InputTokens: &used, CostMicrosUSD: &micros},
		}))
	}

	paused := checkpoints.NewStore(d, checkpoints.Options{})
	for i := range 3 {
		must(paused.Save(ctx, &checkpoints.PausedWorkflow{
			RunID: fmt.Sprint("deploy-", i), PausedStageID: "gate",
			Prompt: "Deploy this build?", CreatedAt: start,
		}))
	}
	claim, _, err := paused.Claim(ctx, "deploy-0")
	must(err)
	must(claim.Decide(ctx, checkpoints.Decision{Decision: "approved", By: "ada"}))

	values := state.NewStore(d, state.Options{})
	for _, ref := range []state.Ref{{Key: "model"}, {Owner: "ada", Key: "theme"}, {Owner: "bob", Key: "theme"}} {
		_, err := values.Set(ctx, ref, []byte(`{"name": "first"}`))
		must(err)
	}

	r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: "build"})
	must(err)
	for range 2 {
		w, err := r.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("fix the build")})
		must(err)
		_, err = r.SendInput(ctx, w.WorkerRef, workers.UserInput("begin with the linter"))
		must(err)
	}
	_, err = r.StopWorker(ctx, workers.NewWorkerRef("build", "worker-00000002"), nil)
	must(err)
	must(r.Close())
	must(d.Close())
	return path
}

// shellWords splits a line of shell that has no other quotes than single ones.
func shellWords(line string) (words []string) {
	for i, piece := range strings.Split(strings.TrimSpace(line), "'") {
		if i%2 == 1 {
			words = append(words, piece)
			continue
		}
		words = append(words, strings.Fields(piece)...)
	}
	return words
}

func TestStorePages_EveryCommandAndQueryWorks(t *testing.T) {
	sqlite3, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("needs sqlite3: apt-get install sqlite3")
	}
	made, err := os.ReadFile(yesterday(t)) // closed, so that it is whole without its WAL
	if err != nil {
		t.Fatal(err)
	}
	for name := range storePages {
		t.Run(name, func(t *testing.T) {
			_, blocks := page(t, "docs/"+name+".md")
			t.Chdir(t.TempDir())
			path := dbtest.Path(t)
			if err := os.WriteFile(path, made, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("SELVEDGE_DB", path)
			queries, commands := only(blocks, "sql"), only(blocks, "sh")
			if len(queries) < 3 || len(commands) < 5 || len(only(blocks, "go")) < 5 {
				t.Fatalf("it has %d queries and %d blocks of commands", len(queries), len(commands))
			}
			for _, q := range queries {
				out, err := exec.Command(sqlite3, "-readonly", "-bail", path, q.text).CombinedOutput()
				if err != nil || len(out) == 0 {
					t.Errorf("line %d: %v\n%s%s", q.line, err, q.text, out)
				}
			}
			for _, b := range commands {
				for line := range strings.Lines(b.text) {
					words := shellWords(line)
					if words[0] != "bin/migrate" {
						t.Errorf("line %d begins with %s", b.line, words[0])
					} else if words[2] == "tail" {
						tailOnce(t, words[1:])
					} else if exit, stdout, stderr := call(t, words[1:]...); exit != 0 {
						t.Errorf("%sexit %d\n%s%s", line, exit, stdout, stderr)
					}
				}
			}
		})
	}
}

// tailOnce interrupts a tail that has printed its first item.
func tailOnce(t *testing.T, args []string) {
	t.Helper()
	command := exec.Command("migrate", args...)
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_, missing := bufio.NewReader(out).ReadString('\n')
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	_ = command.Wait() // a signal: the exit code says so
	if exit := command.ProcessState.ExitCode(); missing != nil || exit != kindInterrupted.exit {
		t.Errorf("migrate %s: %v, exit %d", strings.Join(args, " "), missing, exit)
	}
}

// A page's Go is what an example has, so that it is compiled, run, and right.
func TestStorePages_GoIsFromExamples(t *testing.T) {
	for name, folder := range storePages {
		_, blocks := page(t, "docs/"+name+".md")
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "example*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var examples strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			examples.WriteString(unindented(string(text)))
		}
		for _, b := range only(blocks, "go") {
			if !strings.Contains(examples.String(), "\n"+unindented(b.text)) {
				t.Errorf("docs/%s.md:%d is in no example:\n%s", name, b.line, b.text)
			}
		}
	}
}

func unindented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimLeft(line, "\t"))
	}
	return out.String()
}
