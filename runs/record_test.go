package runs

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

var morning = time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC)

func TestEncode_APIRecordsMatchOriginal(t *testing.T) {
	metrics := OutcomeMetrics{
		Turns: 3, ToolCalls: 2, DurationMs: 12.5, Retries: 1, ActionsSucceeded: 4,
		ActionsFailed: math.MaxUint32,
	}
	for _, c := range []struct {
		record Record
		want   string
	}{
		{
			Started{
				RunID: "r", AgentID: "name:a", Intent: "<fix> & \"go\"\n\u2028\x00",
				StartedAt: morning.Add(1500 * time.Microsecond),
			},
			`{"record":"started","run_id":"r","agent_id":"name:a","intent":"<fix> & \"go\"\n` + "\u2028" +
				`\u0000","started_at":"2026-05-04T08:00:00.001500Z"}`,
		},
		{
			Started{OutcomeDescription: new(""), StartedAt: morning.In(time.FixedZone("", 7200))},
			`{"record":"started","run_id":"","agent_id":"","intent":"","outcome_description":"","started_at":"2026-05-04T08:00:00Z"}`,
		},
		{Turn{}, `{"record":"turn","index":0,"verifier_verdict":"not_run"}`},
		{
			Turn{
				Index: math.MaxUint64, Prompt: new(""), Tool: new("t"),
				Parameters: json.RawMessage(" { \"b\" : 1e2 , \"a\" : [ ] } "), Output: json.RawMessage("null"),
				CliOutcome: &CliOutcome{Kind: CliExited, Code: -1}, VerifierVerdict: VerdictPass,
				PolicyRejected: &PolicyRejection{Rule: "r", Param: new("p")},
			},
			`{"record":"turn","index":18446744073709551615,"prompt":"","tool":"t","parameters":{"a":[],"b":100.0},"cli_outcome":{"kind":"exited","code":-1},"verifier_verdict":"pass","policy_rejected":{"rule":"r","param":"p"}}`,
		},
		{
			Turn{
				CliOutcome: &CliOutcome{Kind: CliTimeout, Code: 7}, VerifierVerdict: VerdictFail,
				PolicyRejected: &PolicyRejection{},
			},
			`{"record":"turn","index":0,"cli_outcome":{"kind":"timeout"},"verifier_verdict":"fail","policy_rejected":{"rule":""}}`,
		},
		{
			Ended{RunID: "r", AgentID: "a", EndedAt: morning},
			`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"2026-05-04T08:00:00Z"}`,
		},
		{
			Ended{RunID: "r", AgentID: "a", EndedAt: morning, Termination: Termination{Outcome: &AgentOutcome{
				Status: OutcomeDone, Summary: "s", Metrics: metrics,
				Evidence: []Evidence{
					{Kind: "evaluator", Description: "d"},
					{Kind: "stop_reason", Data: json.RawMessage(`{"b":1,"a":2}`)},
				},
			}}},
			`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"outcome","status":"done","outcome":{"status":"done","summary":"s","evidence":[{"kind":"evaluator","description":"d","data":null},{"kind":"stop_reason","description":"","data":{"a":2,"b":1}}],` +
				`"metrics":{"turns":3,"tool_calls":2,"duration_ms":12.5,"retries":1,"actions_succeeded":4,"actions_failed":4294967295},"timestamp":"2026-05-04T08:00:00Z"}},"ended_at":"2026-05-04T08:00:00Z"}`,
		},
		{
			Unknown{Kind: "model_turn", Raw: json.RawMessage("{\"record\":\"model_turn\",\n \"z\":1,\"a\":2}")},
			`{"record":"model_turn","z":1,"a":2}`,
		},
	} {
		got, err := c.record.MarshalJSON()
		if err != nil {
			t.Errorf("%+v: %v", c.record, err)
		} else if string(got) != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		} else if line := readLine(got); line.record == nil ||
			!sameLine(line.record, c.record) {
			t.Errorf("%s reads back as %+v, %v", got, line.record, line.err)
		}
	}
}

func TestEncode_RefusesWhatOriginalCannotRead(t *testing.T) {
	deep := json.RawMessage(strings.Repeat("[", 127) + strings.Repeat("]", 127))
	outcome := func(change func(*AgentOutcome)) Ended {
		o := AgentOutcome{Status: OutcomeDone, Timestamp: morning}
		change(&o)
		return Ended{EndedAt: morning, Termination: Termination{Outcome: &o}}
	}
	for complaint, record := range map[string]Record{
		"run_id is not UTF-8": Started{RunID: "\xff", StartedAt: morning},
		"outcome_description is not UTF-8": Started{
			OutcomeDescription: new("\xff"),
			StartedAt:          morning,
		},
		"started_at is outside the years": Started{StartedAt: time.Date(262143, 1, 1, 0, 0, 0, 0,
			time.UTC)},
		"prompt is not UTF-8":                      Turn{Prompt: new("\xff")},
		"parameters is not JSON":                   Turn{Parameters: json.RawMessage(`{"a":1}{}`)},
		"output is not JSON":                       Turn{Output: json.RawMessage(`"\ud800"`)},
		"parameters is not JSON that the original": Turn{Parameters: deep},
		"cli_outcome.kind \"\" is not":             Turn{CliOutcome: &CliOutcome{}},
		"verifier_verdict \"Verdict(9)\"":          Turn{VerifierVerdict: 9},
		"termination.status is set": Ended{
			EndedAt:     morning,
			Termination: Termination{Status: OutcomeDone},
		},
		"termination.status \"aborted\"": outcome(func(o *AgentOutcome) { o.Status = "aborted" }),
		"metrics.duration_ms is not finite": outcome(
			func(o *AgentOutcome) { o.Metrics.DurationMs = math.NaN() }),
		"evidence.kind \"\" is not": outcome(
			func(o *AgentOutcome) { o.Evidence = []Evidence{{}} }),
		"raw is a turn record": Unknown{
			Kind: "turn",
			Raw:  json.RawMessage(`{"record":"turn","index":0,"verifier_verdict":"pass"}`),
		},
		"raw is not a JSON object": Unknown{Kind: "x", Raw: json.RawMessage(`["x"]`)},
		"kind is \"x\", but the object says \"later\"": Unknown{
			Kind: "x",
			Raw:  json.RawMessage(`{"record":"later"}`),
		},
	} {
		if line, err := record.MarshalJSON(); err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%+v: encoded to %s, %v; want %q", record, line, err, complaint)
		}
	}
}

func TestZeroValuesAreNotRunAndIncomplete(t *testing.T) {
	if v := (Turn{}).VerifierVerdict; v != VerdictNotRun || v.String() != "not_run" {
		t.Errorf("verdict %v", v)
	}
	for _, e := range []Ended{{}, {Termination: Termination{Outcome: &AgentOutcome{Status: OutcomeDone}}}} {
		line, err := e.MarshalJSON()
		incomplete := strings.Contains(string(line), `{"kind":"incomplete"}`)
		if err != nil || incomplete != (e.Termination.Outcome == nil) {
			t.Errorf("incomplete is not the zero Termination alone: %s, %v", line, err)
		}
	}
}

func TestVerdictsAreTheirWordsInText(t *testing.T) {
	for _, word := range []string{"not_run", "pass", "fail"} {
		if v, err := parseVerdict(word); err != nil || v.String() != word {
			t.Errorf("%s became %s, %v", word, v, err)
		}
	}
	if _, err := parseVerdict("NotRun"); err == nil {
		t.Error("NotRun is taken")
	}
	if _, err := (Turn{VerifierVerdict: 3}).MarshalJSON(); err == nil {
		t.Error("a fourth verdict is written")
	}
}

func TestRecordsMarshalToTheirLineAndBack(t *testing.T) {
	const line = `{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2016-12-31T23:59:60.500Z"}`
	var s Started
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(s); err != nil || string(got) != line {
		t.Errorf("got %s, %v", got, err)
	}
	var turn Turn
	if err := json.Unmarshal([]byte(line), &turn); err == nil ||
		!strings.Contains(err.Error(), "is a started record") {
		t.Errorf("a started record is taken for a turn: %v", err)
	}
	var u Unknown
	const later = `{"record":"model_turn","index":1}`
	if err := json.Unmarshal([]byte(later), &u); err != nil || u.Kind != "model_turn" || string(u.Raw) != later {
		t.Errorf("got %+v, %v", u, err)
	}
}

func TestEqualLooksAtWhatARecordSays(t *testing.T) {
	a := Turn{Parameters: json.RawMessage(`{"b":1,"a":2}`)}
	if !sameLine(a, Turn{Parameters: json.RawMessage(`{ "a":2, "b":1 }`), Output: json.RawMessage("null")}) {
		t.Error("key order makes a difference")
	}
	if sameLine(a, Turn{Parameters: json.RawMessage(`{"b":1,"a":3}`)}) ||
		sameLine(Turn{Parameters: json.RawMessage(`"\`)}, a) {
		t.Error("other parameters are equal")
	}
	if !sameLine(Started{StartedAt: morning}, Started{StartedAt: morning.In(time.FixedZone("", 3600))}) ||
		sameLine(Ended{EndedAt: morning}, Ended{}) {
		t.Error("times are not compared as instants")
	}
}
