package runs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"selvedge/internal/serdejson"
)

// recordedLine is a line of testdata/legacy/runs/decode/lines.jsonl: what the original would write
// for Line, or why it skips it.
type recordedLine struct {
	Line string
	OK   string
	Err  string
}

func recordedLines(tb testing.TB) []recordedLine {
	tb.Helper()
	file, err := os.Open("../testdata/legacy/runs/decode/lines.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var lines []recordedLine
	for in := bufio.NewScanner(file); in.Scan(); {
		var l recordedLine
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 220 {
		tb.Fatalf("%d recorded lines, want 220", len(lines))
	}
	return lines
}

func TestDecode_MatchesOriginalOnRecordedLines(t *testing.T) {
	for _, recorded := range recordedLines(t) {
		record, err := decodeSeed([]byte(recorded.Line))
		if recorded.Err != "" {
			if err == nil {
				t.Errorf("%s\ndecodes; the original says %q", recorded.Line, recorded.Err)
			} else if err.Error() != recorded.Err {
				t.Errorf("%s\ngave %q\nwant %q", recorded.Line, err, recorded.Err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s\ngave %q, the original reads it", recorded.Line, err)
			continue
		}
		got, err := encode(record)
		if err != nil {
			t.Errorf("%s\nis not encoded: %v", recorded.Line, err)
			continue
		}
		// The one line without a timestamp: the original takes the clock, here it is the end's own time.
		want := strings.Replace(recorded.OK, "$time", "2021-03-01T08:00:00Z", 1)
		if string(got) != want {
			t.Errorf("%s\nencodes to %s\nwant       %s", recorded.Line, got, want)
		}
	}
}

func TestDecodeErrorIsTyped(t *testing.T) {
	_, err := decodeSeed([]byte(`{"record":"turn","index":0}`))
	var typed *serdejson.DecodeError
	if !errors.As(err, &typed) || typed.Reason != "missing field `verifier_verdict`" {
		t.Fatalf("got %#v", err)
	}
}

func TestDecodeRefusesInvalidUTF8(t *testing.T) {
	_, err := decodeSeed([]byte("{\"record\":\"turn\",\"index\":0,\"prompt\":\"caf\xe9\",\"verifier_verdict\":\"pass\"}"))
	if err == nil || err.Error() != serdejson.NotUTF8 {
		t.Fatalf("got %v", err)
	}
}

func TestDecodeKeepsNoReferenceToItsLine(t *testing.T) {
	line := []byte(`{"record":"turn","index":0,"parameters":{"b":1,"a":[2]},"output":"x","verifier_verdict":"pass","later":1}`)
	record, err := decodeSeed(line)
	if err != nil {
		t.Fatal(err)
	}
	want := string(line)
	clear(line)
	if got := exported(t, record); got != want {
		t.Fatalf("exported as %s", got)
	}
	if turn := record.(Turn); string(turn.Parameters) != `{"b":1,"a":[2]}` || string(turn.Output) != `"x"` {
		t.Fatalf("parameters %s, output %s", turn.Parameters, turn.Output)
	}
}

func TestDecodeHandsOutFreeFormJSONAsWritten(t *testing.T) {
	record, err := decodeSeed([]byte(`{"record":"turn","index":0,"parameters":{ "b":1.10, "a":"\u0041" },"verifier_verdict":"pass"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(record.(Turn).Parameters); got != `{ "b":1.10, "a":"\u0041" }` {
		t.Fatalf("parameters %s", got)
	}
	encoded, err := encode(record)
	want := `{"record":"turn","index":0,"parameters":{"a":"A","b":1.1},"verifier_verdict":"pass"}`
	if err != nil || string(encoded) != want {
		t.Fatalf("encoded %s, %v", encoded, err)
	}
}

// The original's reader of enums inside a record is laxer than its writer. Ran against car-proto 0.27.0.
func TestDecodeTakesWhatSerdeTakes(t *testing.T) {
	const end = `"ended_at":"2020-01-01T00:00:00Z"`
	for line, want := range map[string]string{
		`{"record":"turn","index":0,"cli_outcome":{"kind":0,"code":1},"verifier_verdict":{"pass":{}}}`: `{"record":"turn","index":0,"cli_outcome":{"kind":"exited","code":1},"verifier_verdict":"pass"}`,
		`["turn",0,null,null,null,null,["exited",3],"pass"]`:                                           `{"record":"turn","index":0,"cli_outcome":{"kind":"exited","code":3},"verifier_verdict":"pass"}`,
		`["turn",0,null,null,null,null,["killed"],{"fail":null},["r"]]`:                                `{"record":"turn","index":0,"cli_outcome":{"kind":"killed"},"verifier_verdict":"fail","policy_rejected":{"rule":"r"}}`,
		`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":1},` + end +
			`}`: `{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"incomplete"},` + end +
			`}`,
		`{"rec\u006frd":"tu\u0072n","ind\u0065x":7,"verifier_verdict":"p\u0061ss"}`: `{"record":"turn","index":7,"verifier_verdict":"pass"}`,
	} {
		record, err := decodeSeed([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got, err := encode(record); err != nil || string(got) != want {
			t.Errorf("%s\nencodes to %s, %v\nwant       %s", line, got, err, want)
		}
	}
	for _, line := range []string{
		`{"record":"turn","index":0,"cli_outcome":{"kind":3},"verifier_verdict":"pass"}`,
		`["turn",0,null,null,null,null,["killed",9],"pass"]`,
		`["turn",0,null,null,null,null,null,"pass",null,null]`,
		`["turn",0,null,null,null,null,null]`,
		`{"record":"turn","index":0,"verifier_verdict":{"pass":[]}}`,
		`{"record":"turn","index":0,"verifier_verdict":{"pass":null,"fail":null}}`,
	} {
		if record, err := decodeSeed([]byte(line)); err == nil {
			t.Errorf("%s decodes to %+v", line, record)
		}
	}
}

func TestOutcome_WithoutTimestampGetsEndTime(t *testing.T) {
	read := func(timestamp string) Ended {
		record, err := decodeSeed([]byte(`{"record":"ended","run_id":"r","agent_id":"a","termination":{"kind":"outcome","status":"done",` +
			`"outcome":{"status":"done"` + timestamp + `}},"ended_at":"2016-12-31T23:59:60.5Z"}`))
		if err != nil {
			t.Fatal(err)
		}
		return record.(Ended)
	}
	absent := read("")
	if got := absent.Termination.Outcome.Timestamp; !got.Equal(absent.EndedAt) {
		t.Errorf("absent timestamp reads %v", got)
	}
	if line, err := encode(absent); err != nil || bytes.Count(line, []byte("2016-12-31T23:59:60.500Z")) != 2 {
		t.Errorf("encodes to %s, %v", line, err)
	}
	zero := read(`,"timestamp":"0001-01-01T00:00:00Z"`)
	if line, err := encode(zero); err != nil ||
		!bytes.Contains(line, []byte(`"timestamp":"0001-01-01T00:00:00Z"`)) {
		t.Errorf("Go's zero time is taken for an absent one: %s, %v", line, err)
	}
	if !absent.EndedAt.Equal(time.Date(2016, 12, 31, 23, 59, 59, 999999999, time.UTC)) {
		t.Errorf("a leap second reads %v", absent.EndedAt)
	}
}
