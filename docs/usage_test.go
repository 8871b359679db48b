package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
)

// modelTurn is a record of a later version; members stand in its token_usage.
func modelTurn(members string) runs.Record {
	return modelTurnOf(`"token_usage":{` + members + `}`)
}

// isCounted reports whether there is a count of tokens or a cost.
func isCounted(u db.Usage) bool {
	u.Provider, u.RequestModel, u.ResponseModel, u.CostSource = nil, nil, nil, ""
	return u != db.Usage{}
}

// turnLine is a turn that counts in members of its own.
func turnLine(n *night, members string) runs.Record {
	var turn runs.Turn
	n.must(json.Unmarshal([]byte(`{"record":"turn","index":0,"verifier_verdict":"not_run",`+members+`}`), &turn))
	return turn
}

func TestNoUseIsCountedTwice(t *testing.T) {
	n := newNight(t)
	for name, c := range map[string]struct {
		work func(n *night)
		want string // input and output tokens and dollars; nothing: not counted
	}{
		"nothing counts": {func(n *night) {
			n.create("r", "s")
			n.event("r",
				`{"type":"turn_start","turn":1}`)
		}, "||"},
		"counted, and none": {func(n *night) { n.create("r", "s"); n.event("r", agentEnd(0, 0)) }, "0|0|"},
		"an end alone":      {func(n *night) { n.create("r", "s"); n.event("r", agentEnd(50, 5)) }, "50|5|"},
		"an end that says what its one turn said": {func(n *night) {
			n.create("r", "s")
			n.event("r", turnEnd(1, 50, 5))
			n.event("r", agentEnd(50, 5))
		}, "50|5|"},
		"an end that says what the last of its turns said": {func(n *night) {
			n.create("r", "s")
			n.event("r", turnEnd(1, 10, 5))
			n.event("r", turnEnd(2, 30, 7))
			n.event("r", agentEnd(30, 7))
		}, "40|12|"},
		"an end that sums its turns up": {func(n *night) {
			n.create("r", "s")
			n.event("r", turnEnd(1, 10, 5))
			n.event("r", turnEnd(2, 30, 7))
			n.event("r", agentEnd(40, 12))
		}, "40|12|"},
		"an end that says nothing": {func(n *night) {
			n.create("r", "s")
			n.event("r", turnEnd(1, 10, 5))
			n.event("r", agentEnd(0, 0))
		}, "10|5|"},
		"an end that comes twice": {func(n *night) {
			n.create("r", "s")
			n.event("r", agentEnd(50, 5))
			n.event("r", agentEnd(50, 5))
		}, "50|5|"},
		"turns that a cap took": {func(n *night) {
			n.live = live.NewStore(n.db, live.Options{Scope: n.scope, MaxEventsPerRun: new(uint64(2))})
			n.create("r", "s")
			n.event("r", turnEnd(1, 10, 5))
			n.event("r", turnEnd(2, 30, 7))
			n.event("r", agentEnd(40, 12))
		}, "40|12|"},
		"a run under way": {func(n *night) { n.create("r", "s"); n.event("r", turnEnd(1, 10, 5)) }, "10|5|"},
		"runs of one session": {func(n *night) {
			for _, r := range []string{"r", "q"} {
				n.create(r, "s")
				n.event(r, turnEnd(1, 10, 5))
				n.event(r, agentEnd(10, 5))
			}
		}, "20|10|"},
		"a run that has a trace and is live": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"}, modelTurn(`"prompt_tokens":50,"completion_tokens":5`))
			n.create("r", "s")
			n.event("r", turnEnd(1, 50, 5))
			n.event("r", agentEnd(50, 5))
		}, "50|5|"},
		"a run that is live, and whose trace says another id": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"}, runs.Started{RunID: "another", AgentID: "a"},
				modelTurn(`"prompt_tokens":50,"completion_tokens":5`))
			n.create("r", "s")
			n.event("r", turnEnd(1, 50, 5))
		}, "50|5|"},
		"turns beside model turns": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"}, modelTurn(`"prompt_tokens":50,"completion_tokens":5`),
				turnLine(n, `"usage":{"input_tokens":50,"output_tokens":5}`))
		}, "50|5|"},
		"turns that count": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				turnLine(n, `"usage":{"input_tokens":50,"output_tokens":5},"cost_usd":0.5`), turnLine(n, `"other":1`))
		}, "50|5|0.5"},
		"an agent that sums its runs up": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"}, modelTurn(`"prompt_tokens":60,"completion_tokens":6`))
			n.create("q", "a")
			n.event("q", turnEnd(1, 40, 4))
			n.agent("a", 100, 2_000_000, time.Time{})
		}, "100|10|2.0"},
		"an agent that counts more than its runs": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				modelTurn(`"prompt_tokens":60,"completion_tokens":6,"cost_usd":0.5`))
			n.agent("a", 100, 2_000_000, time.Time{})
		}, "100|10|2.0"},
		"an agent that lags behind its runs": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				modelTurn(`"prompt_tokens":60,"completion_tokens":16,"cost_usd":0.5`))
			n.agent("a", 20, 100_000, time.Time{})
		}, "60|16|0.5"},
		"cached apart": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				modelTurn(`"prompt_tokens":10,"completion_tokens":5,"total_tokens":45,"cache_read_input_tokens":20,`+
					`"cache_creation_input_tokens":10`))
		}, "40|5|"},
		"cached within": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				modelTurn(`"prompt_tokens":40,"completion_tokens":5,"total_tokens":45,"cache_read_input_tokens":20,`+
					`"cache_creation_input_tokens":10`))
		}, "40|5|"},
	} {
		t.Run(name, func(t *testing.T) {
			n.in(name)
			c.work(n)
			of := ` FROM v_usage WHERE scope = '` + name + `'`
			if got := n.ask(`SELECT sum(input_tokens), sum(output_tokens), sum(cost_usd)` + of); got != c.want {
				t.Errorf("%s, want %s\n%s", got, c.want, n.ask(`SELECT *`+of))
			}
		})
	}
}

func TestUsage_StaysWhenAgentPutAside(t *testing.T) {
	n := newNight(t)
	n.agent("ended", 9000, 5_000_000, n.clock.Now())
	for _, view := range []string{"v_agents", "v_usage"} {
		if got := n.ask("SELECT sum(cost_usd) FROM " + view); got != "5.0" {
			t.Errorf("%s: %s", view, got)
		}
	}
	n.clock.Advance(8 * 24 * time.Hour)
	if list, err := n.reg.List(t.Context()); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	n.agent("ended", 1000, 1_000_000, time.Time{}) // the id is free again
	for _, view := range []string{"v_agents", "v_usage"} {
		if got := n.ask("SELECT sum(cost_usd) FROM " + view); got != "6.0" {
			t.Errorf("%s, when it was put aside: %s", view, got)
		}
	}
	if got := n.ask("SELECT session_id, put_aside_at IS NULL FROM v_agents " +
		"ORDER BY agent"); got != "ended|0\nended|1" {
		t.Errorf("put aside: %s", got)
	}
}

func TestViews_TimesSortAndHaveOneWidth(t *testing.T) {
	n := newNight(t)
	n.work()
	for i, nanos := range []int64{
		-1 << 63, -62_000_000_000, -1_000_000_001, -1_000_000_000, -1, 0, 1,
		500_000_000, 999_999_999, 1 << 62, 1<<63 - 1,
	} {
		id := fmt.Sprint("at", i)
		n.append(runs.Batch{AgentID: "old", RunID: id},
			runs.Started{RunID: id, AgentID: "old", StartedAt: db.Time(nanos)})
	}
	if got := n.ask(`SELECT group_concat(substr(started_at, 1, 30), ' ')
		FROM (SELECT * FROM v_runs WHERE agent_id = 'old'
		AND started_at_ns BETWEEN -1000000000000 AND 1000000000000 ORDER BY run)`); got !=
		"1969-12-31T23:58:58.000000000Z 1969-12-31T23:59:58.999999999Z 1969-12-31T23:59:59.000000000Z "+
			"1969-12-31T23:59:59.999999999Z "+
			"1970-01-01T00:00:00.000000000Z 1970-01-01T00:00:00.000000001Z 1970-01-01T00:00:00.500000000Z "+
			"1970-01-01T00:00:00.999999999Z" {
		t.Errorf("around 1970: %s", got)
	}
	seen := 0
	for view := range strings.Lines(n.ask(`SELECT name FROM sqlite_schema WHERE type = 'view'`)) {
		view = strings.TrimSpace(view)
		columns := n.ask(`SELECT group_concat(name, ' ') FROM pragma_table_info('` + view + `')`)
		for name := range strings.FieldsSeq(columns) {
			if !strings.HasSuffix(name, "_at") && !strings.HasSuffix(name, "since") {
				continue
			}
			if !strings.Contains(columns+" ", name+"_ns ") {
				t.Errorf("%s.%s stands alone", view, name)
				continue
			}
			if odd := n.ask(fmt.Sprintf(`SELECT %[1]s, %[1]s_ns FROM %[2]s
			WHERE %[1]s NOT GLOB '????-??-??T??:??:??.?????????Z' OR (%[1]s IS NULL) <> (%[1]s_ns IS NULL)
				OR CAST(strftime('%%s', substr(%[1]s, 1, 19)) AS INTEGER) * 1000000000.0 + substr(%[1]s, 21,
				9) <> %[1]s_ns * 1.0`, name, view)); odd != "" {
				t.Errorf("%s.%s:\n%s", view, name, odd)
			}
			if order := n.ask(fmt.Sprintf(`SELECT count(*) FROM (SELECT %[1]s < lag(%[1]s) OVER (ORDER BY `+
				`%[1]s_ns) AS back FROM %[2]s) WHERE back`, name, view)); order != "0" {
				t.Errorf("%s.%s sorts otherwise", view, name)
			}
			seen++
		}
	}
	if seen < 30 {
		t.Errorf("only %d times", seen)
	}
}

func TestRun_EndBelongsToLastStart(t *testing.T) {
	n := newNight(t)
	n.create("r", "s")
	for range 2 {
		for _, e := range []string{
			`{"type":"tool_start","id":"c","name":"grep"}`,
			`{"type":"confirmation_required","tool_id":"c","tool_name":"grep","args":{},"timeout_ms":1000}`,
		} {
			n.event("r", e)
		}
	}
	if got := n.ask(`SELECT count(*) FROM v_waiting`); got != "1" {
		t.Errorf("%s wait", got)
	}
	n.event("r", `{"type":"confirmation_received","tool_id":"c","approved":true}`)
	n.event("r", toolEnd("c", "grep", 0))
	if got := n.ask(`SELECT substr(started_at, 18, 2), substr(ended_at, 18, 2) FROM v_tool_calls
		ORDER BY started_at`); got != "01|\n03|06" {
		t.Errorf("the calls are\n%s", got)
	}
	if got := n.ask(`SELECT substr(asked_at, 18, 2), state, decision, substr(answered_at, 18, 2)
		FROM v_approvals ORDER BY asked_at`); got != "02|superseded||\n04|answered|approved|05" {
		t.Errorf("the confirmations are\n%s", got)
	}
}

// spelled are records that count in every way that the programs know, without their kind.
var spelled = []string{
	`"token_usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":45,"cache_read_input_tokens":20,` +
		`"cache_creation_input_tokens":10}`,
	`"token_usage":{"prompt_tokens":40,"completion_tokens":5,"total_tokens":45,"cache_read_input_tokens":20,` +
		`"cache_creation_input_tokens":10}`,
	`"usage":{"input_tokens":7,"output_tokens":0,"reasoning_tokens":3,"cache_write_tokens":2},"cost_usd":0.5,` +
		`"provider":"acme","model_id":"large-2"`,
	`"usage":{"input_tokens":null,"prompt_tokens":8,"reasoning_output_tokens":1,"cost_usd":2},` +
		`"request_model":"large","response_model":"large-2"`,
	`"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cache_read_tokens":0,` +
		`"cache_write_tokens":null},"meta":{"provider":"acme","request_model":"small","response_model":"small-1"}`,
	`"token_usage":{"prompt_tokens":1e2,"cache_read_tokens":4,"cache_write_input_tokens":1},` +
		`"usage":{"input_tokens":9}`,
	`"cost_usd":0`,
	// The objects of providers, as they are.
	`"model":"claude-3","usage":{"input_tokens":12,"cache_creation_input_tokens":2048,` +
		`"cache_read_input_tokens":18432,"output_tokens":503}`,
	`"model":"claude-3","response_model":"claude-3-1","token_usage":{"input_tokens":500,` +
		`"cache_creation_input_tokens":0,"cache_read_input_tokens":null,"output_tokens":5}`,
	`"model":"gpt-5","usage":{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,` +
		`"prompt_tokens_details":{"cached_tokens":1920},"completion_tokens_details":{"reasoning_tokens":192}}`,
	`"usage":{"input_tokens":12033,"input_tokens_details":{"cached_tokens":11904},"output_tokens":44,` +
		`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12077}`,
	`"usage":{"input_tokens":12,"cache_creation_input_tokens":0,"output_tokens":503,` +
		`"output_tokens_details":{"thinking_tokens":100}}`,
	`"usage":{"prompt_tokens":9657,"completion_tokens":78,"total_tokens":9735,` +
		`"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":9654}}`,
	`"usage":{"input_tokens":9658,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":9655},` +
		`"output_tokens":42,"total_tokens":9700}`,
	`"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":null,` +
		`"completion_tokens_details":7}`,
	`"usageMetadata":{"promptTokenCount":4096,"cachedContentTokenCount":2048,"candidatesTokenCount":359,` +
		`"toolUsePromptTokenCount":100,"thoughtsTokenCount":661,"totalTokenCount":5216}`,
	`"token_usage":{"promptTokenCount":15,"totalTokenCount":80,"thoughtsTokenCount":65}`,
	`"usage":{"promptTokenCount":15,"candidatesTokenCount":4}`,
}

func TestGoAndTheViewReadUseAlike(t *testing.T) {
	n := newNight(t)
	compare := func(view, record string, u db.Usage) {
		t.Helper()
		got := n.ask(`SELECT json_object('Provider', provider, 'RequestModel', request_model, 'ResponseModel',
		response_model,
			'InputTokens', CAST(input_tokens AS INTEGER), 'CacheReadInputTokens', cache_read_input_tokens,
			'CacheWriteInputTokens', cache_write_input_tokens,
			'OutputTokens', output_tokens, 'ReasoningOutputTokens', reasoning_output_tokens, 'CostUSD', cost_usd,
			'CostSource', coalesce(cost_source, ''))
			FROM ` + view + ` WHERE scope = '` + n.scope + `'`)
		var seen db.Usage
		n.must(json.Unmarshal([]byte(got), &seen))
		if !isCounted(u) || !reflect.DeepEqual(u, seen) {
			said, err := json.Marshal(u)
			t.Errorf("%s\nGo:   %s %v\n%s: %s", record, said, err, view, got)
		}
	}
	for i, members := range spelled {
		n.in(fmt.Sprint("model_turn ", i))
		record := modelTurnOf(members)
		n.append(runs.Batch{AgentID: "a", RunID: "r"}, record)
		said := runs.TraceRecord{Record: record, Line: record.Raw}.Usage()
		compare("v_usage", members, said)
		compare("v_model_turns", members, said)

		n.in(fmt.Sprint("turn ", i))
		n.append(runs.Batch{AgentID: "a", RunID: "r"}, turnLine(n, members))
		for record, err := range n.runs.Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
			n.must(err)
			compare("v_usage", members, record.Usage())
			compare("v_turns", members, record.Usage())
		}
	}
	events, err := os.ReadFile("../testdata/legacy/live/events.jsonl")
	n.must(err)
	for text := range strings.Lines(string(events)) {
		event, err := live.NewEvent([]byte(text))
		n.must(err)
		if u := event.Usage(); isCounted(u) {
			n.in(text)
			n.create("r", "s")
			n.event("r", text)
			compare("v_usage", text, u)
			compare("v_live_events", text, u)
		} else if event.Type() == "turn_end" || event.Type() == "agent_end" {
			t.Errorf("Go sees no use in %s", text)
		}
	}
	for i, u := range []db.Usage{
		{InputTokens: new(uint64(9)), OutputTokens: new(uint64(2)), CacheReadInputTokens: new(uint64(4))},
		{
			InputTokens: new(uint64(9)), OutputTokens: new(uint64(8)), ReasoningOutputTokens: new(uint64(7)),
			Provider: new("acme"), RequestModel: new("large"), ResponseModel: new("large-2"),
			CostUSD: new(0.25), CostSource: "reported",
		},
		{OutputTokens: new(uint64(8)), ReasoningOutputTokens: new(uint64(0))},
		{CostUSD: new(0.5), CostSource: "reported"},
	} {
		for _, event := range []live.Event{live.TurnEnd(1, u), live.EventOf(live.End{Usage: u})} {
			n.in(fmt.Sprint("constructed ", i, event.Type()))
			n.create("r", "s")
			n.event("r", string(event.JSON()))
			compare("v_usage", string(event.JSON()), u)
			compare("v_live_events", string(event.JSON()), u)
		}
	}
	n.in("agent")
	n.agent("a", 9000, 5_000_000, time.Time{})
	e, err := n.reg.Get(t.Context(), "a")
	n.must(err)
	compare("v_usage", "an agent", e.Usage())
	compare("v_agents", "an agent", e.Usage())
}

func TestUsage_ChangedTurnCountsNothing(t *testing.T) {
	n := newNight(t)
	n.in("turn")
	turn := turnLine(n, `"cost_usd":1`).(runs.Turn)
	other := turn
	other.Index = 7
	n.append(runs.Batch{AgentID: "a", RunID: "r"}, turn, other)
	for record, err := range n.runs.Trace(t.Context(), runs.RunRef{AgentID: "a", RunID: "r"}) {
		n.must(err)
		if counted := isCounted(record.Usage()); counted != (record.Record.(runs.Turn).Index != 7) {
			t.Errorf("turn %s: counted is %v", record.Line, counted)
		}
	}
}

func modelTurnOf(members string) runs.Unknown {
	return runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(`{"record":"model_turn",` + members + `}`)}
}

// recordColumns are those that each view of records with tokens or tools has, under one name.
const recordColumns = `provider, request_model, response_model, input_tokens, cache_read_input_tokens,
	cache_write_input_tokens,
	output_tokens, reasoning_output_tokens, cost_usd, cost_source`

func TestUsage_TokensToolsAndErrorsAreColumns(t *testing.T) {
	n := newNight(t)
	const ofTools = `, tool_name, tool_call_id, error_type`
	nothing := strings.Repeat("|", strings.Count(recordColumns, ","))
	for name, c := range map[string]struct {
		work func(n *night)
		ask  string
		want string
	}{
		"a model turn": {
			func(n *night) {
				n.append(runs.Batch{AgentID: "a", RunID: "r"},
					modelTurnOf(`"provider":"acme","model_id":"large-2","error_type":"overloaded","cost_usd":0.25,`+
						`"token_usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":150,`+
						`"cache_read_input_tokens":30,"cache_creation_input_tokens":0}`))
			}, `SELECT ` + recordColumns + ofTools + ` FROM v_model_turns`,
			"acme||large-2|130|30|0|20||0.25|reported|||overloaded",
		},
		"a turn that counts nothing": {func(n *night) {
			tool := "shell"
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				runs.Turn{Tool: &tool, CliOutcome: &runs.CliOutcome{Kind: runs.CliExited, Code: 2}})
		}, `SELECT ` + recordColumns + ofTools + ` FROM v_turns`, nothing + "|shell||exit_code"},
		"a turn that counted none": {func(n *night) {
			n.append(runs.Batch{AgentID: "a", RunID: "r"},
				turnLine(n, `"action_id":"act-1","usage":{"input_tokens":0,"output_tokens":0},"cost_usd":0`))
		}, `SELECT ` + recordColumns + ofTools + ` FROM v_turns`, "|||0|||0||0|reported||act-1|"},
		"the end of a turn, and one of the run": {
			func(n *night) {
				n.create("r", "s")
				n.event("r", turnEnd(1, 40, 12))
				n.event("r", agentEnd(40, 12))
			}, `SELECT type, ` + recordColumns + ofTools + ` FROM v_live_events ORDER BY sequence`,
			"turn_end||||40|||12||||||\nagent_end|acme|small|small-1|40|||12||||||",
		},
		"tools that failed": {
			func(n *night) {
				n.create("r", "s")
				for _, e := range []string{
					toolEnd("c1", "grep", 0), toolEnd("c2", "grep", 3),
					`{"type":"tool_end","id":"c3","name":"rm","output":"","exit_code":0,"error_kind":{"type":"not_found"}}`,
					`{"type":"permission_denied","tool_id":"c4","tool_name":"rm","args":{},"reason":"no"}`,
					`{"type":"error","message":"gone"}`,
					`{"type":"subagent_end","task_id":"t","session_id":"s","agent":"a","output":"","success":false}`,
				} {
					n.event("r", e)
				}
			}, `SELECT type, tool_name, tool_call_id, error_type, input_tokens FROM v_live_events ORDER BY sequence`,
			"tool_end|grep|c1||\ntool_end|grep|c2|exit_code|\ntool_end|rm|c3|not_found|\npermission_denied|rm|c4|" +
				"permission_denied|\nerror|||error|\nsubagent_end|||failed|",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.in(name)
			c.work(n)
			ask, order, _ := strings.Cut(c.ask, ` ORDER BY `)
			if order != "" {
				order = ` ORDER BY ` + order
			}
			if got := n.ask(ask + ` WHERE scope = '` + name + `'` + order); got != c.want {
				t.Errorf("\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// usageRows are the rows that records have for what they count, without their numbers and checksums.
const usageRows = `SELECT w.scope, w.run_id, coalesce(w.agent_id, ''), coalesce(w.session_id, ''), u.account,
	u.sequence, u.recorded_at, coalesce(u.provider, ''), coalesce(u.request_model, ''),
	coalesce(u.response_model, ''), coalesce(u.input_tokens, -1), coalesce(u.cache_read_input_tokens, -1),
	coalesce(u.cache_write_input_tokens, -1), coalesce(u.output_tokens, -1),
	coalesce(u.reasoning_output_tokens, -1), coalesce(u.cost_nanos, -1)
FROM usage_runs AS w JOIN usage_records AS u ON u.usage_run = w.id
ORDER BY w.scope, w.run_id, u.account, u.sequence`

// countedNight has a run for each way to count, as a trace and live.
func countedNight(t *testing.T) *night {
	n := newNight(t)
	for i, members := range append(spelled, `"cost_usd":-1`, `"cost_usd":"1","usage":{"input_tokens":1.5,"output_tokens":"7"}`) {
		run := fmt.Sprint("r", i)
		n.append(runs.Batch{AgentID: "a", RunID: run}, runs.Started{RunID: run, AgentID: "a"}, modelTurnOf(members),
			turnLine(n, members))
		n.create(run, "s")
		n.event(run, turnEnd(1, 5, 7))
		n.event(run, agentEnd(5, 7))
	}
	n.create("alone", "s")
	n.event("alone", turnEnd(1, 5, 7))
	return n
}

func TestUsage_StepReadsWhatIsThere(t *testing.T) {
	n := countedNight(t)
	want := n.ask(usageRows)
	n.must(n.db.Close())
	for _, version := range []int64{22, 0} {
		_, err := maintenance.Migrate(t.Context(), n.path, db.Options{SchemaVersion: version})
		n.must(err)
	}
	if got := n.ask(usageRows); got != want || want == "" {
		t.Errorf("the step read\n%s\nwant\n%s", got, want)
	}
}
