package runs

import (
	"encoding/json"
	"testing"
)

func TestReadLineTellsWhatALineIs(t *testing.T) {
	for text, want := range map[string]LineKind{
		"":                         LineBlank,
		"\x20\t\r":                 LineBlank,
		"\u00a0\u3000\u2028\u0085": LineBlank,
		"\u200b":                   LineUndecodable,
		"\f{}":                     LineUndecodable,
		"\x00\x00":                 LineUndecodable,
		"\xff":                     LineUndecodable,
		`{"record":"turn","index":0,"verifier_verdict":"pass"}`:  LineRecord,
		`{"record":"turn","index":-1,"verifier_verdict":"pass"}`: LineUnknown,
		`{"record":"model_turn"}` + "\r":                         LineUnknown,
		`{"x":1,"record":""}`:                                    LineUnknown,
		`{"record":"a","record":"b"}`:                            LineUndecodable,
		`{"record":1}`:                                           LineUndecodable,
		`{"kind":"turn"}`:                                        LineUndecodable,
		`["model_turn",1]`:                                       LineUndecodable,
		`{"record":"later","x":"\ud800"}`:                        LineUndecodable,
		`{"record":"turn","index":0,"verifier_verdict":"pass"}{"record":"turn"}`: LineUndecodable,
		`{"record":"turn","index":0,"verif`:                                      LineUndecodable,
	} {
		line := ReadLine([]byte(text))
		if line.Kind != want {
			t.Errorf("%q: kind %d, want %d", text, line.Kind, want)
		}
		if (line.Record != nil) != (want == LineRecord || want == LineUnknown) || (line.Err != nil) != (want == LineUnknown || want == LineUndecodable) {
			t.Errorf("%q: record %v, error %v", text, line.Record, line.Err)
		}
	}
}

func TestAnImportedLineIsKeptOnlyWhereItsColumnsAreNotEnough(t *testing.T) {
	for text, kept := range map[string]bool{
		`{"record":"turn","index":0,"parameters":{"b": 1.10,"a":"\u0041"},"verifier_verdict":"pass"}`:                          false,
		`{"record":"turn","index":9223372036854775807,"verifier_verdict":"pass"}`:                                              false,
		`{"record":"turn","index":9223372036854775808,"verifier_verdict":"pass"}`:                                              true,
		`{"record":"turn","index":0,"prompt":"\/","verifier_verdict":"pass"}`:                                                  true,
		`{"record":"turn","index":0,"verifier_verdict":"pass","prompt":"p"}`:                                                   true,
		`{"record":"turn","index":0,"action_id":"a","verifier_verdict":"pass"}`:                                                true,
		`{"record":"turn","index":0,"output":null,"verifier_verdict":"pass"}`:                                                  true,
		`{"record":"turn","index":0,"verifier_verdict":"pass"}` + "\r":                                                         true,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:00Z"}`:                    false,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:00.000Z"}`:                true,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"2021-03-01T08:00:60Z"}`:                    true,
		`{"record":"started","run_id":"r","agent_id":"a","intent":"i","started_at":"+12345-03-01T08:00:00Z"}`:                  true,
		`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},"ended_at":"2021-03-01T08:00:00Z"}`: false,
	} {
		line := ReadLine([]byte(text))
		if line.Kind != LineRecord {
			t.Errorf("%s: kind %d, %v", text, line.Kind, line.Err)
			continue
		}
		if got := line.raw(); (got != nil) != kept || kept && string(got) != text {
			t.Errorf("%s: kept %q", text, got)
		}
		// Read from one store, appended to another: the line goes along.
		if again, err := keptLine(line.Record); err != nil || string(either(again, line.Record)) != text {
			t.Errorf("%s: kept again %q, %v", text, again, err)
		}
	}
}

func TestALineIsForgottenWhenTheRecordNoLongerSaysIt(t *testing.T) {
	record := ReadLine([]byte(`{"record":"turn","index":0,"action_id":"a","verifier_verdict":"pass"}`)).Record.(Turn)
	record.Index = 1
	if kept, err := keptLine(record); err != nil || kept != nil {
		t.Errorf("kept %s, %v", kept, err)
	}
}

func TestARowOfTheAPIGivesItsBytesBackAndExportsCanonically(t *testing.T) {
	turn := Turn{Parameters: json.RawMessage("{\n\"b\":1,\"a\":\"\\u003c\"}")}
	kept, err := keptLine(turn)
	if want := `{"record":"turn","index":0,"parameters":{"a":"<","b":1},"verifier_verdict":"not_run"}`; err != nil || string(kept) != want {
		t.Fatalf("kept %s, %v", kept, err)
	}
	row := attach(columnsOf(turn), kept).(Turn)
	if string(row.Parameters) != string(turn.Parameters) {
		t.Errorf("read back %s", row.Parameters)
	}
	if again, err := keptLine(row); err != nil || string(again) != string(kept) {
		t.Errorf("kept %s the second time, %v", again, err)
	}
	plain := Turn{Parameters: json.RawMessage(`{"a":1}`)}
	if kept, err := keptLine(plain); err != nil || kept != nil {
		t.Errorf("a canonical row keeps %s beside its columns, %v", kept, err)
	}
	if _, err := keptLine(Turn{Parameters: json.RawMessage(`{`)}); err == nil {
		t.Error("broken JSON is kept")
	}
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
		line := ReadLine([]byte(raw))
		s := line.Record.(Unknown).status()
		got := s.word
		if !s.endedAt.IsZero() {
			got += " " + string(timeText(nil, s.endedAt, s.endedAtText))
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	if s := (Unknown{Kind: "ended", Raw: []byte("{")}).status(); s.word != "" {
		t.Errorf("broken JSON is %q", s.word)
	}
}
