package runs

import (
	"math"
	"testing"

	"selvedge/internal/chrono"
)

func TestReadLineTellsWhatALineIs(t *testing.T) {
	for text, want := range map[string]lineKind{
		"":                         lineBlank,
		"\x20\t\r":                 lineBlank,
		"\u00a0\u3000\u2028\u0085": lineBlank,
		"\u200b":                   lineUndecodable,
		"\f{}":                     lineUndecodable,
		"\x00\x00":                 lineUndecodable,
		"\xff":                     lineUndecodable,
		`{"record":"turn","index":0,"verifier_verdict":"pass"}`:  lineRecord,
		`{"record":"turn","index":-1,"verifier_verdict":"pass"}`: lineUnknown,
		`{"record":"model_turn"}` + "\r":                         lineUnknown,
		`{"x":1,"record":""}`:                                    lineUnknown,
		`{"record":"a","record":"b"}`:                            lineUndecodable,
		`{"record":1}`:                                           lineUndecodable,
		`{"kind":"turn"}`:                                        lineUndecodable,
		`["model_turn",1]`:                                       lineUndecodable,
		`{"record":"later","x":"\ud800"}`:                        lineUndecodable,
		`{"record":"turn","index":0,"verifier_verdict":"pass"}{"record":"turn"}`: lineUndecodable,
		`{"record":"turn","index":0,"verif`:                                      lineUndecodable,
	} {
		line := readLine([]byte(text))
		if line.kind != want {
			t.Errorf("%q: kind %d, want %d", text, line.kind, want)
		}
		if (line.record != nil) != (want == lineRecord || want == lineUnknown) ||
			(line.err != nil) != (want == lineUnknown || want == lineUndecodable) {
			t.Errorf("%q: record %v, error %v", text, line.record, line.err)
		}
	}
}

func TestImport_LineKeptOnlyIfColumnsDiffer(t *testing.T) {
	for text, kept := range map[string]bool{
		`{"record":"turn","index":0,"parameters":{"b": 1.10,"a":"\u0041"},"verifier_verdict":"pass"}`: false,
		`{"record":"turn","index":9223372036854775807,"verifier_verdict":"pass"}`:                     false,
		`{"record":"turn","index":9223372036854775808,"verifier_verdict":"pass"}`:                     true,
		`{"record":"turn","index":0,"prompt":"\/","verifier_verdict":"pass"}`:                         true,
		`{"record":"turn","index":0,"verifier_verdict":"pass","prompt":"p"}`:                          true,
		`{"record":"turn","index":0,"action_id":"a","verifier_verdict":"pass"}`:                       true,
		`{"record":"turn","index":0,"output":null,"verifier_verdict":"pass"}`:                         true,
		`{"record":"turn","index":0,"verifier_verdict":"pass"}` +
			"\r": true,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:00Z"}`:                    false,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:00.000Z"}`:                true,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:60Z"}`:                    true,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"+12345-03-01T08:00:00Z"}`:                  true,
		`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"2021-03-01T08:00:00Z"}`: false,
	} {
		line := readLine([]byte(text))
		if line.kind != lineRecord {
			t.Errorf("%s: kind %d, %v", text, line.kind, line.err)
			continue
		}
		if got := line.raw(); (got != nil) != kept || kept && string(got) != text {
			t.Errorf("%s: kept %q", text, got)
		}
		// Read from one store, appended to another: the line goes along.
		if again := exported(t, line.record); again != text {
			t.Errorf("%s: exported as %s", text, again)
		}
	}
}

func TestRecord_ForgetsLineItNoLongerSays(t *testing.T) {
	record := readLine([]byte(`{"record":"turn","index":0,"action_id":"a","verifier_verdict":"pass"}`)).record.(Turn)
	record.Index = 1
	row, err := rowOf(record)
	if err != nil || row.raw != nil || row.exact {
		t.Errorf("kept %s (exact: %v), %v", row.raw, row.exact, err)
	}
	if got := exported(t, record); got != `{"record":"turn","index":1,"verifier_verdict":"pass"}` {
		t.Errorf("exported as %s", got)
	}
}

func TestExport_APIRowKeepsBytesCanonically(t *testing.T) {
	turn := Turn{Parameters: []byte("{\n\"b\":1,\"a\":\"\\u003c\"}")}
	row, err := rowOf(turn)
	if err != nil || row.raw != nil {
		t.Fatalf("kept %s, %v", row.raw, err)
	}
	const want = `{"record":"turn","index":0,"parameters":{"a":"<","b":1},"verifier_verdict":"not_run"}`
	if got := exported(t, turn); got != want {
		t.Errorf("exported as %s", got)
	}
	read, err := row.Record()
	if err != nil || string(read.(Turn).Parameters) != string(turn.Parameters) {
		t.Errorf("read back %v, %v", read, err)
	}
	if got := exported(t, read); got != want {
		t.Errorf("exported as %s the second time", got)
	}
	if _, err := rowOf(Turn{Parameters: []byte(`{`)}); err == nil {
		t.Error("broken JSON is kept")
	}
}

func TestEveryRecordComesBackFromItsRow(t *testing.T) {
	leap := readLine([]byte(`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:60Z"}`)).record.(Started)
	leap.Intent = "changed"
	for _, record := range []Record{
		leap,
		Started{RunID: "r", AgentID: "a", StartedAt: morning},
		Turn{Index: math.MaxUint64, Parameters: []byte("[1 ]")},
		Turn{
			Prompt: new("\x00\n"), CliOutcome: &CliOutcome{Kind: CliExited, Code: math.MinInt64},
			PolicyRejected: &PolicyRejection{Rule: ""},
		},
		Turn{
			CliOutcome: &CliOutcome{Kind: "killed"}, VerifierVerdict: VerdictFail,
			PolicyRejected: &PolicyRejection{Rule: "r", Param: new("")},
		},
		Ended{EndedAt: morning},
		Ended{EndedAt: morning, Termination: Termination{Outcome: &AgentOutcome{
			Status:   "done",
			Evidence: []Evidence{{Kind: "tool_result", Data: []byte("{ }")}},
		}}},
		Unknown{Kind: "later", Raw: []byte("{\"record\":\"later\",\n\"b\":1,\"a\":2}")},
	} {
		row, err := rowOf(record)
		if err != nil {
			t.Errorf("%+v: %v", record, err)
			continue
		}
		read, err := row.Record()
		if err != nil || string(appendLine(nil, read, verbatim)) != string(appendLine(nil, record, verbatim)) {
			t.Errorf("%+v was read back as %+v, %v", record, read, err)
		}
		if want, err := encode(record); err != nil || exported(t, record) != string(want) {
			t.Errorf("%+v is exported as %s, not %s, %v", record, exported(t, record), want, err)
		}
	}
}

// exported is the line that an export writes for a record after the store has kept it.
func exported(t testing.TB, r Record) string {
	t.Helper()
	row, err := rowOf(r)
	if err != nil {
		t.Fatal(err)
	}
	line, err := row.Line()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestOnlyEndsThatCanBeReadAreCancelled(t *testing.T) {
	for raw, want := range map[string]string{
		`{"record":"ended","termination":{"kind":"cancelled"},"ended_at":"2026-05-04T11:00:00Z"}`: "cancelled 2026-05-04T11:00:00Z",
		`{"record":"ended","termination":{"kind":"cancelled"},"ended_at":"2016-12-31T23:59:60Z"}`: "cancelled 2016-12-31T23:59:60Z",
		`{"record":"ended","termination":{"kind":"cancelled"},"ended_at":"soon"}`:                 "",
		`{"record":"ended","termination":{"kind":"cancelled"}}`:                                   "",
		`{"record":"ended","termination":{"kind":"aborted"},"ended_at":"2026-05-04T11:00:00Z"}`:   "",
		`{"record":"ended","termination":"cancelled","ended_at":"2026-05-04T11:00:00Z"}`:          "",
		`{"record":"cancellation_requested"}`:                                                     laterCancellationPending,
		`{"record":"cancellation_result"}`:                                                        laterCancellationPending,
		`{"record":"model_turn"}`:                                                                 "",
	} {
		line := readLine([]byte(raw))
		s := line.record.(Unknown).status()
		got := s.word
		if !s.endedAt.IsZero() {
			got += " " + chrono.Text(s.endedAt, s.endedAtText)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	if s := (Unknown{Kind: "ended", Raw: []byte("{")}).status(); s.word != "" {
		t.Errorf("broken JSON is %q", s.word)
	}
}
