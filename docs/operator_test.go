package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// A night is a file in which agents worked, and what writes to it.
type night struct {
	t     *testing.T
	path  string
	db    *db.DB
	scope string
	clock *dbtest.Clock
	runs  *runs.Store
	live  *live.Store
	reg   *agents.Registry
	store *checkpoints.Store
}

// atNightsEnd is called with a night that is over, before its file is closed.
var atNightsEnd func(*night)

func newNight(t *testing.T) *night {
	n := &night{t: t, path: dbtest.Path(t), clock: dbtest.NewClock(time.Date(2026, 5, 4, 1, 0, 0, 0, time.UTC))}
	n.db = dbtest.OpenAt(t, n.path, db.Options{Now: n.clock.Now})
	n.in("")
	if atNightsEnd != nil {
		t.Cleanup(func() { atNightsEnd(n) })
	}
	return n
}

// in goes on in another scope.
func (n *night) in(scope string) {
	n.scope = scope
	n.runs, n.live = runs.NewStore(n.db, runs.Options{Scope: scope}),
		live.NewStore(n.db, live.Options{Scope: scope})
	n.reg, n.store = agents.NewRegistry(n.db, agents.Options{Scope: scope}),
		checkpoints.NewStore(n.db, checkpoints.Options{Scope: scope})
}

func (n *night) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *night) append(b runs.Batch, records ...runs.Record) {
	n.t.Helper()
	b.Records = records
	n.must(second(n.runs.Append(n.t.Context(), b)))
}

// event records an event a second after the last.
func (n *night) event(run, text string) {
	n.t.Helper()
	n.clock.Advance(time.Second)
	var e live.Event
	n.must(json.Unmarshal([]byte(text), &e))
	_, _, err := n.live.RecordEvent(n.t.Context(), run, e)
	n.must(err)
}

func (n *night) create(run, session string) {
	n.t.Helper()
	_, err := n.live.CreateRunWithID(n.t.Context(), run, session, "work")
	n.must(err)
}

func (n *night) agent(id string, tokens, micros uint64, ended time.Time) {
	n.t.Helper()
	provider, model, output := "acme", "large-2", tokens/10
	e := agents.Entry{
		SessionID: id, Thread: id, Status: agents.Active, StartedAt: n.clock.Now(), Provider: &provider,
		Model:        &model,
		UsageSummary: agents.UsageSummary{InputTokens: &tokens, OutputTokens: &output, CostMicrosUSD: &micros},
	}
	if !ended.IsZero() {
		e.Status, e.StartedAt, e.CompletedAt = agents.Complete, ended, &ended
	}
	n.must(n.reg.Save(n.t.Context(), e))
}

// usage is what an event says of tokens, as the original writes it.
func usage(prompt, completion int) string {
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
		`"cache_read_tokens":null,"cache_write_tokens":null}`,
		prompt, completion, prompt+completion)
}

func agentEnd(prompt, completion int) string {
	return `{"type":"agent_end","text":"done",` + usage(prompt, completion) +
		`,"verification_summary":{"status":"skipped","report_count":0,` +
		`"required_check_count":0,"pending_required_check_count":0,"failed_check_count":0,` +
		`"residual_risk_count":0},` +
		`"meta":{"provider":"acme","request_model":"small","response_model":"small-1"}}`
}

func turnEnd(turn, prompt, completion int) string {
	return fmt.Sprintf(`{"type":"turn_end","turn":%d,%s}`, turn, usage(prompt, completion))
}

func toolEnd(id, name string, code int) string {
	return fmt.Sprintf(`{"type":"tool_end","id":%q,"name":%q,"output":"","exit_code":%d}`, id, name, code)
}

func (n *night) ask(query string) string {
	n.t.Helper()
	out, err := exec.Command("sqlite3", "-readonly", "-bail", n.path, query).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%v\n%s%s", err, query, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (n *night) pause(run string) {
	n.t.Helper()
	n.must(n.store.Save(n.t.Context(), &checkpoints.PausedWorkflow{
		RunID: run, PausedStageID: "gate",
		Prompt: "Ship it?", CreatedAt: n.clock.Now(),
	}))
}

// work is a night as an operator finds it: a failure, a stalled trace, a hanging tool, questions to
// people, and bills.
func (n *night) work() {
	text := func(s string) *string { return &s }
	n.agent("boss", 9000, 5_000_000, time.Time{})
	n.append(runs.Batch{AgentID: "boss", RunID: "plan"},
		runs.Started{RunID: "plan", AgentID: "boss", Intent: "plan"})
	n.append(runs.Batch{AgentID: "builder", RunID: "build", Parent: runs.RunRef{AgentID: "boss", RunID: "plan"}},
		runs.Started{RunID: "build", AgentID: "builder", Intent: "build"})
	n.clock.Advance(2 * time.Second)
	n.append(runs.Batch{AgentID: "builder", RunID: "build"},
		runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(
			`{"record":"model_turn","index":0,"model_id":"large-2","cost_usd":0.25,` +
				`"token_usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":150,` +
				`"cache_read_input_tokens":30,"cache_creation_input_tokens":0}}`)})
	n.clock.Advance(1500 * time.Millisecond)
	n.append(runs.Batch{AgentID: "builder", RunID: "build"}, runs.Turn{
		Prompt: text("make"), Tool: text("shell"), CliOutcome: &runs.CliOutcome{Kind: runs.CliExited, Code: 2},
	})
	n.append(runs.Batch{AgentID: "builder", RunID: "build"}, runs.Ended{
		RunID: "build", AgentID: "builder",
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{
			Status: runs.OutcomeFailure, Summary: "no space left on the device",
		}},
	})

	n.create("fix", "web-1") // recorded in a trace and live
	n.append(runs.Batch{AgentID: "fixer", RunID: "fix"},
		runs.Started{RunID: "fix", AgentID: "fixer", Intent: "fix"})
	for _, e := range []string{
		`{"type":"turn_start","turn":1}`, `{"type":"tool_start","id":"c1","name":"grep"}`,
		toolEnd("c1", "grep", 0), turnEnd(1, 10, 5),
		`{"type":"tool_start","id":"c2","name":"grep"}`, toolEnd("c2", "grep", 1), turnEnd(2, 30, 7),
		agentEnd(40, 12),
	} {
		n.event("fix", e)
	}
	n.append(runs.Batch{AgentID: "fixer", RunID: "fix"}, runs.Ended{
		RunID: "fix", AgentID: "fixer",
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess}},
	})
	n.pause("fix")
	n.clock.Advance(time.Minute)
	claim, _, err := n.store.Claim(n.t.Context(), "fix")
	n.must(err)
	n.must(claim.Decide(n.t.Context(), checkpoints.Decision{Decision: "approved", By: "ada"}))

	n.create("ask", "web-2")
	n.event("ask", `{"type":"tool_start","id":"c3","name":"rm"}`)
	n.event("ask", `{"type":"confirmation_required","tool_id":"c3","tool_name":"rm","args":{"path":"/"},`+
		`"timeout_ms":1000}`)
	n.create("broken", "web-2")
	n.event("broken", `{"type":"error","message":"the model is gone"}`)
	n.pause("deploy")
}

// The numbers of seconds until now stand as * in an answer.
var operatorAnswers = map[string]string{
	"Why did runs fail": "2026-05-04T01:00:00.000000000Z|builder|build|failure|no space left on " +
		"the device",
	"Why did live runs fail":     "2026-05-04T01:01:14.500000000Z|web-2|broken|failed|the model is gone",
	"What went wrong on the way": "3|shell|exit_code|2||make",
	"Which traces have stalled":  "boss|plan|2026-05-04T01:00:00.000000000Z|0|*",
	"What hangs":                 "web-2|ask|executing|confirmation_required|2026-05-04T01:01:13.500000000Z",
	"Which tool calls never end": "web-2|ask|rm|c3|2026-05-04T01:01:12.500000000Z",
	"How long tools take":        "trace|shell|1|1500.0|1500.0\nlive|grep|2|1000.0|1000.0\nlive|rm|1||",
	"Which tools fail":           "live|grep|exit_code|1\ntrace|shell|exit_code|1",
	"What a run cost":            "build|130|20|0.25\nfix|40|12|",
	"What an agent cost":         "boss|9000|900|5.0\nbuilder|130|20|0.25\nweb-1|40|12|",
	"What each model cost": "2026-05-04|acme|large-2|9000||900|5.0\n2026-05-04||large-2|130|30|20|" +
		"0.25\n2026-05-04|acme|small-1|40||12|",
	"Who waits for a person": `confirmation|ask|rm|{"path":"/"}|*` + "\ncheckpoint|deploy|gate|Ship it?|*",
	"What was approved": "2026-05-04T01:00:11.500000000Z|checkpoint|fix|Ship " +
		"it?|completed|approved|ada|60.0",
	"Where the bytes are": "builder|build|*|1|completed\nfixer|fix|*|0|completed\nboss|plan|*|0|" +
		"in_progress",
	"Who started whom":            "boss|plan|in_progress|builder|build|completed|failure",
	"All there is of one piece o": "fix|fixer||web-1|completed|completed|completed",
}

func TestOperator_QuestionsAreShortQueriesWithAnswers(t *testing.T) {
	page, err := os.ReadFile("queries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The questions of an operator\n")
	section, _, _ = strings.Cut(section, "\n## ")
	asked := regexp.MustCompile("(?s)\\*\\*(.*?)\\*\\*[^`]*?```sql\n(.*?)```").FindAllStringSubmatch(section, -1)
	if len(asked) != 16 {
		t.Errorf("there are %d questions", len(asked))
	}
	n := newNight(t)
	n.work()
	for _, q := range asked {
		var want string
		for question, answer := range operatorAnswers {
			if strings.HasPrefix(q[1], question) {
				want = answer
			}
		}
		if lines := strings.Count(q[2], "\n"); lines > 9 || strings.Contains(q[2], "json") ||
			strings.Contains(q[2], "->") {
			t.Errorf("%s: a query of %d lines:\n%s", q[1], lines, q[2])
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\*`, `[0-9.]+`) + "$"
		if got := n.ask(q[2]); want == "" || !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%s:\n%s\nwant\n%s", q[1], got, want)
		}
	}
}

// The page's form of a range keeps every row between its ends, and no other.
func TestQueries_RangesLoseNoTimes(t *testing.T) {
	page, err := os.ReadFile("queries.md")
	if err != nil {
		t.Fatal(err)
	}
	const end = `rtrim\('[^']*', 'Z'\)`
	form := regexp.MustCompile("WHERE (started_at >= " + end + " AND started_at < " + end + ")").
		FindStringSubmatch(string(page))
	if form == nil {
		t.Fatal("docs/queries.md has no range of times")
	}
	literal := regexp.MustCompile(`rtrim\('[^']*'`)
	n := newNight(t)
	for _, c := range []struct{ from, to, last string }{ // last is the last nanosecond before to
		{"2026-05-04T09:00:00", "2026-05-04T09:00:01", "2026-05-04T09:00:00.999999999Z"},
		{"2026-05-05", "2026-05-06", "2026-05-05T23:59:59.999999999Z"},
		{"2027", "2028", "2027-12-31T23:59:59.999999999Z"},
		{"2029-02-03T04:05:06.5", "2029-02-03T04:05:06.6", "2029-02-03T04:05:06.599999999Z"},
	} {
		end, err := time.Parse(time.RFC3339Nano, c.last)
		n.must(err)
		text := c.from + "0000-01-01T00:00:00"[min(len(c.from), 19):] + "Z"
		first, err := time.Parse(time.RFC3339Nano, text)
		n.must(err)
		var want []string
		for _, at := range []time.Time{first.Add(-1), first, first.Add(end.Sub(first) / 2), end, end.Add(1)} {
			n.append(runs.Batch{AgentID: "a", RunID: fmt.Sprint(at.UnixNano())},
				runs.Started{RunID: fmt.Sprint(at.UnixNano()), AgentID: "a", StartedAt: db.Time(at.UnixNano())})
			if !at.Before(first) && !at.After(end) {
				want = append(want, fmt.Sprint(at.UnixNano()))
			}
		}
		for _, z := range []string{"", "Z"} {
			ends := []string{"rtrim('" + c.from + z + "'", "rtrim('" + c.to + z + "'"}
			where := literal.ReplaceAllStringFunc(form[1], func(string) string {
				end := ends[0]
				ends = ends[1:]
				return end
			})
			got := n.ask("SELECT started_at_ns FROM v_runs WHERE " + where + " ORDER BY started_at_ns")
			if got != strings.Join(want, "\n") {
				t.Errorf("%s:\n%s\nwant\n%s", where, got, strings.Join(want, "\n"))
			}
		}
	}
}

// Its cost does not grow with the number of runs.
func TestREADME_FirstQueryReadsAnIndex(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	query := regexp.MustCompile("(?s)```sql\n(.*?)```").FindStringSubmatch(string(readme))[1]
	plan := newNight(t).ask("EXPLAIN QUERY PLAN " + query)
	if !strings.Contains(plan, "INDEX runs_by_start") || strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("not by its index:\n%s\n%s", query, plan)
	}
}
