package selvedge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/usage"
	"selvedge/query"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// A bill writes the accounts of runs.
type bill struct {
	t     testing.TB
	s     *selvedge.Store
	runs  *runs.Store
	live  *live.Store
	clock *dbtest.Clock
}

func newBill(t testing.TB) *bill {
	t.Helper()
	clock := dbtest.NewClock(time.Date(2026, 5, 4, 1, 0, 0, 0, time.UTC))
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now})
	return &bill{
		t, selvedge.On(d, selvedge.Options{Agent: "a"}), runs.NewStore(d, runs.Options{}),
		live.NewStore(d, live.Options{}), clock,
	}
}

// trace appends records, each given by its kind and its members.
func (b *bill) trace(agent, run string, parent string, records ...string) {
	b.t.Helper()
	list := []runs.Record{runs.Started{RunID: run, AgentID: agent}}
	for _, text := range records {
		kind, members, _ := strings.Cut(text, " ")
		if kind == "model_turn" {
			list = append(list, runs.Unknown{
				Kind: kind, Raw: json.RawMessage(`{"record":"model_turn",` + members + `}`),
			})
			continue
		}
		var turn runs.Turn
		ok(b.t, json.Unmarshal([]byte(`{"record":"turn","index":0,"verifier_verdict":"not_run",`+members+`}`), &turn))
		list = append(list, turn)
	}
	list = append(list, runs.Ended{
		RunID: run, AgentID: agent,
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess}},
	})
	batch := runs.Batch{AgentID: agent, RunID: run, Records: list}
	if parent != "" {
		batch.Parent = runs.RunRef{AgentID: "a", RunID: parent}
	}
	_, err := b.runs.Append(ctx, batch)
	ok(b.t, err)
}

func (b *bill) watch(run string, events ...live.Event) {
	b.t.Helper()
	_, err := b.live.CreateRunWithID(ctx, run, "session", "p")
	ok(b.t, err)
	_, err = b.live.Append(ctx, run, live.Batch{Events: events})
	ok(b.t, err)
}

// counts are the sums of rows of v_usage: input, cache read, cache write, output, reasoning, dollars.
func (b *bill) counts(where string, args ...any) string {
	b.t.Helper()
	var sums struct {
		In    *float64 `db:"i"`
		Read  *float64 `db:"r"`
		Write *float64 `db:"w"`
		Out   *float64 `db:"o"`
		Think *float64 `db:"t"`
		Cost  *float64 `db:"c"`
	}
	ok(b.t, b.s.DB().Read(ctx, "sum", func(rx *db.Rx) error {
		return rx.Get(&sums, `SELECT sum(input_tokens) AS i, sum(cache_read_input_tokens) AS r,
			sum(cache_write_input_tokens) AS w, sum(output_tokens) AS o, sum(reasoning_output_tokens) AS t,
			sum(cost_nanos) AS c FROM v_usage WHERE `+where, args...)
	}))
	var words []string
	for _, n := range []*float64{sums.In, sums.Read, sums.Write, sums.Out, sums.Think, sums.Cost} {
		word := "-"
		if n != nil {
			word = fmt.Sprint(*n)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func turnEnd(u selvedge.Usage) live.Event { return live.TurnEnd(0, u) }

func agentEnd(u selvedge.Usage) live.Event { return live.EventOf(live.End{Usage: u}) }

func in(n uint64) selvedge.Usage { return selvedge.Usage{InputTokens: &n} }

// Of several accounts of the same work the largest counts, field by field.
func TestUsage_LargestAccountByField(t *testing.T) {
	b := newBill(t)
	for name, c := range map[string]struct {
		write func(run string)
		want  string
	}{
		"trace behind live": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"input_tokens":3}`)
			b.watch(run, turnEnd(in(3)), turnEnd(in(4)), turnEnd(in(5)), agentEnd(in(12)))
		}, "12 - - - - -"},
		"cost in one, tokens in the other": {func(run string) {
			b.trace("a", run, "", `turn "cost_usd":0.25`)
			b.watch(run, turnEnd(in(40)), agentEnd(in(40)))
		}, "40 - - - - 2.5e+08"},
		"turns beyond model turns": {func(run string) {
			b.trace("a", run, "", `turn "usage":{"input_tokens":100}`, `turn "usage":{"input_tokens":100}`,
				`model_turn "usage":{"input_tokens":50}`)
		}, "200 - - - - -"},
		"cache reads": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"input_tokens":50,"cache_read_input_tokens":10}`)
			b.watch(run, turnEnd(selvedge.Usage{InputTokens: count(40), CacheReadInputTokens: count(30)}))
		}, "50 30 0 0 - -"},
		"cache writes": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"input_tokens":50,"cache_write_input_tokens":10}`)
			b.watch(run, turnEnd(selvedge.Usage{InputTokens: count(40), CacheWriteInputTokens: count(30)}))
		}, "50 0 30 0 - -"},
		"reasoning": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"output_tokens":50,"reasoning_output_tokens":10}`)
			b.watch(run, turnEnd(selvedge.Usage{OutputTokens: count(40), ReasoningOutputTokens: count(30)}))
		}, "0 0 0 50 30 -"},
		"two agents with one run": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"input_tokens":10}`)
			b.trace("b", run, "", `model_turn "usage":{"input_tokens":20}`)
			b.watch(run, turnEnd(in(10)), turnEnd(in(20)), agentEnd(in(30)))
		}, "30 - - - - -"},
		"two agents with one run, in other accounts": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"input_tokens":20,"output_tokens":1}`)
			b.trace("b", run, "", `turn "usage":{"input_tokens":10}`, `turn "usage":{"input_tokens":5}`)
		}, "35 - - 1 - -"},
		"two agents with one run, and live": {func(run string) {
			b.trace("a", run, "", `model_turn "usage":{"input_tokens":20}`)
			b.trace("b", run, "", `turn "usage":{"input_tokens":10}`, `model_turn "usage":{"input_tokens":3}`)
			b.watch(run, turnEnd(in(7)), turnEnd(in(21)), agentEnd(in(34)))
		}, "34 - - - - -"},
		"resumed live run": {func(run string) {
			b.watch(run, turnEnd(in(5)), agentEnd(in(5)), turnEnd(in(7)), agentEnd(in(7)))
		}, "12 - - - - -"},
		"trace that counts nothing": {func(run string) {
			b.trace("a", run, "", `turn "other":1`)
			b.watch(run, turnEnd(in(9)))
		}, "9 - - - - -"},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			c.write(name)
			if got := b.counts("run_id = ?", name); !same(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got := b.counted(name); !same(got, c.want) {
				t.Errorf("Go: %s, want %s", got, c.want)
			}
		})
		b.clock.Advance(10 * time.Hour)
	}
	b.t = t
	b.watch("models",
		turnEnd(in(1)), turnEnd(selvedge.Usage{InputTokens: count(1), Provider: new("p")}),
		agentEnd(selvedge.Usage{InputTokens: count(3), Provider: new("q"), RequestModel: new("m")}))
	ok(t, agents.NewRegistry(b.s.DB(), agents.Options{}).Save(ctx, agents.Entry{
		SessionID: "agent-0", Thread: "t", BaseState: "x", StartedAt: b.clock.Now(), Status: agents.Active,
		UsageSummary: agents.UsageSummary{InputTokens: count(7)},
	}))
	start := time.Date(2026, 5, 4, 1, 0, 0, 0, time.UTC)
	for _, bounds := range [][2]time.Time{
		{}, {start}, {{}, b.clock.Now()}, {start.Add(20 * time.Hour), start.Add(70 * time.Hour)},
	} {
		b.usedAsTheView(bounds[0], bounds[1])
	}
}

// usedAsTheView compares a call of query with the sums of the view.
func (b *bill) usedAsTheView(since, until time.Time) {
	b.t.Helper()
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !since.IsZero() {
		from = since.UnixNano()
	}
	if !until.IsZero() {
		to = until.UnixNano()
	}
	var want []string
	ok(b.t, b.s.DB().Read(ctx, "sum", func(rx *db.Rx) error {
		want = nil
		return rx.Select(&want, `SELECT substr(recorded_at, 1, 10) || ' ' || coalesce(agent_id, session_id)
			|| ' ' || coalesce(provider, '') || ' ' || coalesce(response_model, request_model, '') || ' ' ||
			coalesce(CAST(sum(input_tokens) AS TEXT), '-') || ' ' || coalesce(CAST(sum(cost_nanos) AS TEXT), '-')
			FROM v_usage WHERE recorded_at_ns BETWEEN ? AND ? GROUP BY substr(recorded_at, 1, 10),
			coalesce(agent_id, session_id), coalesce(provider, ''), coalesce(response_model, request_model, '')`,
			from, to-1)
	}))
	list, err := query.On(b.s.DB(), "").Used(ctx, since, until)
	ok(b.t, err)
	var got []string
	for _, u := range list {
		input, cost := "-", "-"
		if u.Usage.InputTokens != nil {
			input = fmt.Sprint(*u.Usage.InputTokens)
		}
		if u.Usage.CostUSD != nil {
			cost = fmt.Sprint(int64(*u.Usage.CostUSD * 1e9))
		}
		got = append(got, strings.Join([]string{u.Day, u.Agent, u.Provider, u.Model, input, cost}, " "))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		b.t.Errorf("from %v to %v: %q, want %q", since, until, got, want)
	}
}

// counted is counts of a run, as Go sums them up.
func (b *bill) counted(run string) string {
	b.t.Helper()
	var sum usage.Numbers
	ok(b.t, b.s.DB().Read(ctx, "sum", func(rx *db.Rx) error {
		sum = usage.Numbers{}
		rows, err := usage.OfRun(rx, 1, run)
		for _, r := range rows {
			sum.Add(r.Numbers)
		}
		return err
	}))
	var words []string
	for _, n := range []*int64{
		sum.Input, sum.CacheRead, sum.CacheWrite, sum.Output, sum.Reasoning, sum.CostNanos,
	} {
		word := "-"
		if n != nil {
			word = fmt.Sprint(float64(*n))
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// same compares counts: an event has 0 where its program counted nothing.
func same(got, want string) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	for i := range g {
		if g[i] != w[i] && (g[i] != "0" || w[i] != "-") && (g[i] != "-" || w[i] != "0") {
			return false
		}
	}
	return len(g) == len(w)
}

func TestUsage_StaysWhenRunsAreRemoved(t *testing.T) {
	b := newBill(t)
	for i := range 30 {
		run, agent := fmt.Sprint("r", i), fmt.Sprint("agent-", i%3)
		b.clock.Advance(2 * time.Hour)
		b.trace(agent, run, "", `model_turn "model":"large","usage":{"input_tokens":100,"output_tokens":7},"cost_usd":0.1`,
			`model_turn "model":"small","usage":{"input_tokens":3,"cache_read_input_tokens":1},"cost_usd":0.000000001`)
		if i%2 == 0 {
			b.watch(run, turnEnd(in(150)), agentEnd(selvedge.Usage{InputTokens: count(160), CostUSD: new(0.5)}))
		}
	}
	b.watch("alone", turnEnd(in(5)), agentEnd(in(6)))
	input := uint64(1100)
	entry := agents.Entry{
		SessionID: "agent-0", Thread: "t", BaseState: "x", StartedAt: b.clock.Now(), Status: agents.Active,
		UsageSummary: agents.UsageSummary{InputTokens: &input},
	}
	ok(t, agents.NewRegistry(b.s.DB(), agents.Options{}).Save(ctx, entry))
	want := b.counts("true")
	perAgent := b.counts("agent_id = 'agent-1'")
	if _, err := b.runs.Prune(ctx, db.Policy{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if got := b.counts("true"); got != want {
		t.Errorf("without traces: %s, want %s", got, want)
	}
	for _, run := range []string{"alone", "r0", "r2", "r28"} {
		ok(t, b.live.Delete(ctx, run))
	}
	if _, err := b.live.Prune(ctx, db.Policy{Count: db.KeepNone}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.runs.Prune(ctx, db.Policy{Count: db.KeepNone}); err != nil {
		t.Fatal(err)
	}
	if got := b.counts("true"); got != want {
		t.Errorf("without runs: %s, want %s", got, want)
	}
	if got := b.counts("agent_id = 'agent-1'"); got != perAgent {
		t.Errorf("of an agent: %s, want %s", got, perAgent)
	}
	var rows int
	ok(t, b.s.DB().Read(ctx, "count", func(rx *db.Rx) error {
		return rx.Get(&rows, `SELECT count(*) FROM usage_days`)
	}))
	if rows == 0 || rows > 3*4*4 {
		t.Errorf("%d rows for 3 agents, 3 days and 2 models", rows)
	}
}

// A count beyond 2^53-1 is exact in the views of records, and unknown where counts are summed up.
func TestUsage_HugeCountsAreUnknown(t *testing.T) {
	b := newBill(t)
	b.trace("a", "r", "", `model_turn "usage":{"input_tokens":9007199254740993,"output_tokens":9007199254740991}`)
	var said struct {
		In  int64 `db:"input_tokens"`
		Out int64 `db:"output_tokens"`
	}
	ok(t, b.s.DB().Read(ctx, "look", func(rx *db.Rx) error {
		return rx.Get(&said, `SELECT input_tokens, output_tokens FROM v_model_turns`)
	}))
	if said.In != 1<<53+1 || said.Out != 1<<53-1 {
		t.Errorf("the record: %+v", said)
	}
	if got := b.counts("run_id = 'r'"); got != "- - - 9.007199254740991e+15 - -" {
		t.Error(got)
	}
	b.trace("a", "sum", "", `model_turn "usage":{"input_tokens":18446744073709551615,"output_tokens":1,
		"cache_creation_input_tokens":7}`)
	if got := b.counts("run_id = 'sum'"); got != "- - 7 1 - -" {
		t.Error(got)
	}
}

func TestUsage_ReplacedRunsCountOnce(t *testing.T) {
	b := newBill(t)
	b.watch("r", turnEnd(in(5)), agentEnd(in(5)))
	b.watch("q", turnEnd(in(7)))
	records, err := b.live.Records(ctx)
	ok(t, err)
	ok(t, b.live.ReplaceRecords(ctx, records))
	for i := range records {
		records[i].Snapshot.Prompt = "another"
	}
	ok(t, b.live.ReplaceRecords(ctx, records))
	if got := b.counts("true"); !same(got, "12 - - - - -") {
		t.Errorf("replaced: %s", got)
	}
	ok(t, b.live.ReplaceRecords(ctx, records[:1]))
	if got := b.counts("true"); !same(got, "12 - - - - -") {
		t.Errorf("one was removed: %s", got)
	}
}

func TestCost_TreeAndModels(t *testing.T) {
	b := newBill(t)
	b.trace("a", "root", "", `model_turn "model":"large","usage":{"input_tokens":10},"cost_usd":0.1`)
	b.trace("a", "child", "root", `model_turn "model":"small","usage":{"input_tokens":20},"cost_usd":0.2`)
	b.trace("a", "grandchild", "child", `model_turn "model":"large","usage":{"output_tokens":3}`)
	b.trace("a", "stranger", "", `model_turn "model":"large","usage":{"input_tokens":1000},"cost_usd":9`)
	cost, err := b.s.Cost(ctx, selvedge.Ref{RunID: "root"})
	ok(t, err)
	if cost.Runs != 3 || *cost.Own.InputTokens != 10 || *cost.Own.CostUSD != 0.1 ||
		cost.Own.OutputTokens != nil ||
		*cost.Tree.InputTokens != 30 || *cost.Tree.OutputTokens != 3 || *cost.Tree.CostUSD != 0.3 {
		t.Errorf("%+v", cost)
	}
	if len(cost.ByModel) != 2 || *cost.ByModel[0].ResponseModel != "small" || len(cost.OwnByModel) != 1 {
		t.Errorf("by model: %+v", cost.ByModel)
	}
	var tree struct {
		Own  int64 `db:"cost_nanos"`
		Tree int64 `db:"tree_cost_nanos"`
	}
	ok(t, b.s.DB().Read(ctx, "look", func(rx *db.Rx) error {
		return rx.Get(&tree, `SELECT cost_nanos, tree_cost_nanos FROM v_usage_tree WHERE run_id = 'root'`)
	}))
	if tree.Own != 100_000_000 || tree.Tree != 300_000_000 {
		t.Errorf("the view: %+v", tree)
	}
	_, err = b.s.Cost(ctx, selvedge.Ref{RunID: "nobody"})
	is(t, err, db.ErrNotFound)
}

func TestCost_ReplyAndItsTurnCountOnce(t *testing.T) {
	s := open(t)
	r := take(t, s, "r")
	reply, err := r.Reply("plan", func(context.Context) (selvedge.Reply, error) {
		return selvedge.Reply{Text: "x", Usage: selvedge.Usage{InputTokens: count(7), CostUSD: new(0.07)}}, nil
	})
	ok(t, err)
	ok(t, r.Turn(selvedge.Turn{Reply: reply}))
	cost, err := s.Cost(ctx, selvedge.Ref{RunID: "r"})
	ok(t, err)
	if *cost.Own.InputTokens != 7 || *cost.Own.CostUSD != 0.07 {
		t.Errorf("%+v", cost.Own)
	}
}

func TestFork_CountsNothingAgain(t *testing.T) {
	b := newBill(t)
	b.trace("a", "r", "", `turn "cost_usd":0.25,"token_usage":{"input_tokens":7},"note":"mine"`,
		`turn "usage":{"input_tokens":3}`)
	want := b.counts("true")
	ref, err := b.s.Fork(ctx, selvedge.Ref{RunID: "r"}, 2, "f")
	ok(t, err)
	if got := b.counts("true"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	page, err := b.runs.TracePage(ctx, ref, db.At{})
	ok(t, err)
	if line := string(page.Items[1].Item.Line); !strings.Contains(line, `"note":"mine"`) {
		t.Error(line)
	}
}

// A query for one run, agent or day reads the rows of that run, agent or day.
func TestUsage_OneRunIsReadByIndex(t *testing.T) {
	b := newBill(t)
	for _, where := range []string{
		"run_id = 'r'", "scope = '' AND run_id = 'r'", "agent_id = 'a'",
		"recorded_at_ns BETWEEN 7 AND 9",
	} {
		plan := dbtest.Plan(t, b.s.DB(), `SELECT sum(cost_nanos) FROM v_usage WHERE `+where)
		grouped := 0 // SCAN w, of the rows beyond records
		for step := range strings.Lines(plan) {
			step = strings.TrimSpace(step)
			if step == "SCAN w" && grouped == 0 {
				grouped++
				continue
			}
			if strings.HasPrefix(step, "SCAN") && step != "SCAN a" && step != "SCAN m" && step != "SCAN u" &&
				step != "SCAN agents" && step != "SCAN d" && !strings.HasPrefix(step, "SCAN CONSTANT") {
				t.Errorf("%s: %s", where, step)
			}
		}
	}
}

// BenchmarkUsage_OfOne compares v_usage with the rows that it reads, and with the run's own model turns, at
// 100,000 runs of 10 model turns.
func BenchmarkUsage_OfOne(b *testing.B) {
	x := newBill(b)
	x.trace("a", "real", "", slices.Repeat([]string{
		`model_turn "usage":{"input_tokens":1000,"output_tokens":10},"cost_usd":0.1`,
	}, 10)...)
	const numbers = `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?) `
	ok(b, x.s.DB().Write(ctx, "fill", func(tx *db.Tx) error {
		_, err := tx.Exec(numbers+`INSERT INTO usage_runs (id, scope, run_id, agent_id, recorded_at)
SELECT n * 2 + 2000, 1, 'run-' || n, 'agent-' || (n % 200), n * 60000000000 FROM n`, 100_000)
		if err == nil {
			_, err = tx.Exec(numbers+`INSERT INTO usage_records (usage_run, account, sequence, recorded_at, provider,
	response_model, input_tokens, output_tokens, cost_nanos)
SELECT w.id, 'model_turn', n, w.recorded_at + n, 'acme', 'large', 1000, 10, 1 FROM usage_runs AS w, n
WHERE w.id > 2000`, 10)
		}
		return err
	}))
	const sums = `SELECT sum(input_tokens) + sum(output_tokens) FROM `
	for _, c := range []struct{ name, query string }{
		{"run/rows", `usage_records WHERE usage_run = (SELECT id FROM usage_runs WHERE run_id = 'real')`},
		{"run/turns", `v_model_turns WHERE run_id = 'real'`},
		{"run/view", `v_usage WHERE run_id = 'real'`},
		{"agent/rows", `usage_records WHERE usage_run IN (SELECT id FROM usage_runs WHERE agent_id = 'agent-7')`},
		{"agent/view", `v_usage WHERE agent_id = 'agent-7'`},
		{"day/rows", `usage_records WHERE recorded_at BETWEEN 172800000000000 AND 259199999999999`},
		{"day/view", `v_usage WHERE recorded_at_ns BETWEEN 172800000000000 AND 259199999999999`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				ok(b, x.s.DB().Read(ctx, "sum", func(rx *db.Rx) error { return rx.Get(new(int64), sums+c.query) }))
			}
		})
	}
}
