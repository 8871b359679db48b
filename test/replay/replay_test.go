package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const counterFile = `{"transcript":1,"store":"counters","original":"none","seed":0,"note":"a counter"}
{"op":"new","args":{"from":1},"binds":"$c1","ok":{"id":"counter-$c1","at":{"$time":true}}}
{"op":"add","args":{"id":"$c1","n":2},"ok":3}
{"op":"get","args":{"id":"$c1"},"ok":{"id":"$c1","value":3.0,"since":"2021-03-01T08:00:00Z","note":null}}
{"op":"get","args":{"id":"no such"},"err":"no counter","kind":"NotFound"}
{"op":"order","args":{},"ok":["a","b"],"any_of":[["a","b"],["b","a"]]}
{"op":"odd","args":{},"ok":"as the original"}
{"op":"due","args":{"at":{"$now_ms":1500}},"ok":{"$now_ms":1500}}
`

var counterNow = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

var counterComparison = Comparison{NullIsAbsent: true, Now: func() time.Time { return counterNow }}

// counters answers as the original of counterFile does, but for one difference.
type counters struct {
	value int
	lie   func(c *Call, a *Answer)
}

func (p *counters) Play(c *Call) Answer {
	a := p.answer(c)
	if p.lie != nil {
		p.lie(c, &a)
	}
	return a
}

func (p *counters) answer(c *Call) (a Answer) {
	switch c.Op {
	case "new":
		p.value = 1
		a.OK = map[string]any{"id": "counter-4711", "at": counterNow}
	case "add":
		p.value += 2
		a.OK = p.value
	case "get":
		if c.Text("id") != "4711" {
			a.Outcome = Fails(fmt.Errorf("nothing there"), "NotFound")
			return a
		}
		a.OK = map[string]any{"id": "4711", "value": p.value, "since": "2021-03-01T09:00:00+01:00"}
	case "order":
		a.OK = []string{"b", "a"}
	case "odd":
		a.OK, a.Rule = "as ours", 7
		a.Instead, a.Model = &Outcome{OK: "as ours"}, &Outcome{OK: "as the original"}
	case "due":
		a.OK = c.Text("at")
	}
	return a
}

func counterTranscript(t *testing.T) Transcript {
	t.Helper()
	script, err := Parse("counters/transcripts/counter.jsonl", []byte(counterFile))
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func TestPlayComparesByValueAndCounts(t *testing.T) {
	tally, err := Play(counterTranscript(t), &counters{}, counterComparison)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tally.String(), "6 calls compared, 1 judged by rule 7"; got != want {
		t.Errorf("the tally is %q, not %q", got, want)
	}
}

func TestPlayNoticesWrongAnswers(t *testing.T) {
	lies := map[string]func(a *Answer){
		"new": func(a *Answer) { a.OK = map[string]any{"id": "counter-4711", "at": "soon"} },
		"add": func(a *Answer) { a.OK = 4 },
		"get": func(a *Answer) {
			a.OK = map[string]any{"id": "4711", "value": 3, "since": "2021-03-01T08:00:00.000000001Z"}
			a.Err = nil
		},
		"order": func(a *Answer) { a.OK = []string{"a"} },
		"odd":   func(a *Answer) { a.Model.OK = "as ours" },
		"due":   func(a *Answer) { a.OK = counterNow },
	}
	for op, lie := range lies {
		t.Run(op, func(t *testing.T) {
			player := &counters{lie: func(c *Call, a *Answer) {
				if c.Op == op {
					lie(a)
				}
			}}
			_, err := Play(counterTranscript(t), player, counterComparison)
			if err == nil || !strings.Contains(err.Error(), ": "+op) {
				t.Errorf("the wrong answer to %s was not noticed: %v", op, err)
			}
		})
	}
}

func TestPlayNoticesFalsifiedRecords(t *testing.T) {
	if _, err := PlayFalsified(counterTranscript(t), &counters{}, counterComparison); err != nil {
		t.Error(err)
	}
}

func TestARuleThatForgivesIsNoRule(t *testing.T) {
	for name, lie := range map[string]func(a *Answer){
		"no expected answer": func(a *Answer) { a.Instead = nil },
		"another answer":     func(a *Answer) { a.OK = "as the original" },
		"an error":           func(a *Answer) { a.Outcome = Fails(fmt.Errorf("corrupt"), "Corrupt") },
		"error of other kind": func(a *Answer) {
			a.Outcome = Fails(fmt.Errorf("busy"), "Busy")
			instead := Fails(fmt.Errorf("corrupt"), "Corrupt")
			a.Instead = &instead
		},
	} {
		t.Run(name, func(t *testing.T) {
			player := &counters{lie: func(c *Call, a *Answer) {
				if c.Op == "odd" {
					lie(a)
				}
			}}
			if _, err := Play(counterTranscript(t), player, counterComparison); err == nil ||
				!strings.Contains(err.Error(), "rule 7") {
				t.Errorf("rule 7 forgave it: %v", err)
			}
		})
	}
}

func TestParseRefusesWhatIsNoTranscript(t *testing.T) {
	for _, text := range []string{
		`{}`,
		"{\"transcript\":1}\n{\"op\":\"x\"}",
		"{\"transcript\":1}\n{\"op\":\"x\",\"ok\":1,\"err\":\"e\"}",
		"{\"transcript\":1}\n{\"op\":\"x\",\"ok\":1,\"more\":1}",
		"{\"transcript\":1}\n[]",
	} {
		if _, err := Parse("x", []byte(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func TestNumbersAreComparedAsTheOriginalsHoldThem(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"1", "1.0", true},
		{"1e2", "100", true},
		{"-0.0", "0", true},
		{"18446744073709551615", "18446744073709551614", false},
		{"123456789012345678901234567890", "1.2345678901234568e+29", true},
		{"0.1", "0.10000000000000001", true},
		{"0.1", "0.2", false},
	} {
		want, err := Decode([]byte(c.want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode([]byte(c.got))
		if err != nil {
			t.Fatal(err)
		}
		if d := (Comparison{}).Diff(want, got); (d == "") != c.same {
			t.Errorf("%s and %s: %q", c.want, c.got, d)
		}
	}
}

func TestATreeThatATestDoesNotKnowFailsAlone(t *testing.T) {
	var answers map[string]map[string]int
	if err := guarded(func() { answers["unknown"]["list"]++ }); err == nil ||
		!strings.Contains(err.Error(), "does not know this tree") {
		t.Errorf("it gave %v", err)
	}
	if err := guarded(func() {}); err != nil {
		t.Error(err)
	}
}
