package agents_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// asked gives the query of docs/queries.md that stands behind a line that begins with question.
func asked(t *testing.T, question string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/queries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, behind, ok := strings.Cut(string(page), "\n"+question)
	_, query, fenced := strings.Cut(behind, "```sql\n")
	query, _, closed := strings.Cut(query, "```")
	if !ok || !fenced || !closed {
		t.Fatalf("docs/queries.md does not ask %q", question)
	}
	return query
}

// sqlite3 asks the program of that name, which is 3.40 on Debian 12.
func sqlite3(t *testing.T, path, query string) string {
	t.Helper()
	program, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("needs sqlite3: apt-get install sqlite3")
	}
	out, err := exec.Command(program, "-readonly", "-bail", path, query).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, query, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func TestTheDailyQuestionsAboutAgentsHaveAnswers(t *testing.T) {
	path := dbtest.Path(t)
	clock := dbtest.NewClock(time.Now().Add(-time.Hour).Truncate(time.Second))
	d := dbtest.OpenAt(t, path, db.Options{Now: clock.Now})
	r := agents.NewRegistry(d, agents.Options{})
	build := func(id, thread string) agents.Builder {
		return func(string) (agents.Entry, error) {
			e := entry(id, agents.Active)
			e.Thread, e.StartedAt, e.Harness, e.AttachReason = thread, clock.Now(), p("codex"), p("fix "+thread)
			e.Provider, e.Model, e.NativeActorKey = p("openai"), p("gpt-5"), p("key:"+id)
			e.UsageSummary = agents.UsageSummary{
				InputTokens: p(uint64(1000)), OutputTokens: p(uint64(100)),
				CostMicrosUSD: p(uint64(1_250_000)),
			}
			return e, nil
		}
	}
	if _, err := r.TryReserveThread(ctx, "main", build("agent-main", "main")); err != nil {
		t.Fatal(err)
	}
	lease, _, err := r.TryLeaseThread(ctx, "docs", db.LeaseTerms{TTL: time.Minute}, build("agent-docs", "docs"))
	if err != nil {
		t.Fatal(err)
	}
	since := clock.Now().UTC().Format("2006-01-02T15:04:05.000000000Z")
	clock.Set(time.Now())
	if err := lease.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	child, err := build("agent-child", "main")("")
	if err != nil {
		t.Fatal(err)
	}
	child.NativeParentActorKey = p("key:agent-main")
	child.ContextQueries = []agents.ContextQuery{
		{Path: "a.go", QueriedAt: clock.Now()},
		{Path: "a.go", Scope: p("symbol:f"), QueriedAt: clock.Now()},
	}
	save(t, r, child)

	for _, c := range []struct{ question, want string }{
		{"All threads", fmt.Sprintf("docs|agent-docs|leased|%[1]s|codex|fix "+
			"docs\nmain|agent-main|reserved|%[1]s|codex|fix main", since)},
		{"Threads with several", "main|2|agent-child agent-main"},
		{"What agents said", "openai|gpt-5|3|3000|300|3.75"},
		{"Which agent started which", "agent-main|agent-child|main|active"},
		{"What agents looked at most", "a.go|2|1"},
	} {
		if got := sqlite3(t, path, asked(t, c.question)); got != c.want {
			t.Errorf("%s: \n%s\nwant\n%s", c.question, got, c.want)
		}
	}
	holds := strings.Split(sqlite3(t, path, asked(t, "Who holds this thread")), "\n")
	if len(holds) != 2 || !strings.Contains(holds[0]+holds[1], "main|agent-main|reserved|"+since+"|36") {
		t.Errorf("who holds main: %q", holds)
	}
	if dead := sqlite3(t, path, asked(t, "Which agents look dead")); !strings.HasPrefix(dead,
		"agent-main|main|36") || strings.Contains(dead, "\n") {
		t.Errorf("who looks dead: %q", dead)
	}
}
