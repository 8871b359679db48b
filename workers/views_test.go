package workers_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

// asked gives the query of docs/queries.md that stands behind a line that begins with question.
func asked(t *testing.T, question string) string {
	t.Helper()
	page := string(must(os.ReadFile("../docs/queries.md"))(t))
	_, behind, ok := strings.Cut(page, "\n"+question)
	_, query, fenced := strings.Cut(behind, "```sql\n")
	query, _, closed := strings.Cut(query, "```")
	if !ok || !fenced || !closed {
		t.Fatalf("docs/queries.md does not ask %q", question)
	}
	return query
}

func TestTheDailyQuestionsAboutWorkersHaveAnswers(t *testing.T) {
	path := dbtest.Path(t)
	clock := dbtest.NewClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	ctx, d := t.Context(), dbtest.OpenAt(t, path, db.Options{Now: clock.Now})
	r := open(t, d, workers.RuntimeOptions{RuntimeID: "build"})
	first := must(r.CreateWorker(ctx, taskRequest("fix the build")))(t).WorkerRef
	second := must(r.CreateWorker(ctx, workers.ToolsLess(workers.RoleIntent("reviewer"),
		workers.NamedProfile("team:reviewer"))))(t).WorkerRef
	clock.Advance(time.Minute)
	must(r.SendInput(ctx, first, workers.UserInput("begin")))(t)
	must(r.SendInput(ctx, first, workers.SystemInput("go on")))(t)
	must(r.CancelWorker(ctx, second, nil))(t)
	for question, want := range map[string]string{
		"Which workers run": "build|worker-00000001|task|fix the " +
			"build|builtin:coder|2|2026-05-04T12:01:00.000000000Z",
		"The last thing that each": "build|worker-00000001|2026-05-04T12:01:00.000000000Z|system|go on",
		"How the runtimes stand":   "build||running|2|1|0|1|6|2",
		"What happened last": "" +
			"build|6|2026-05-04T12:01:00.000000000Z|worker_cancelled|worker-00000002|worker cancelled\n" +
			"build|5|2026-05-04T12:01:00.000000000Z|worker_input_accepted|worker-00000001|worker input accepted",
		"What is wrong, and what an im": "",
	} {
		out, err := exec.Command("sqlite3", "-readonly", "-bail", path, asked(t, question)).CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || !strings.HasPrefix(got, want) ||
			want == "" && got != "" {
			t.Errorf("%s: %v\n%s", question, err, got)
		}
	}
}
