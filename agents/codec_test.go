package agents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"selvedge/agents"
	"selvedge/db"
)

const (
	head = "session_id = \"agent-a\"\nthread = \"t\"\nbase_state = \"b\"\n" +
		"started_at = \"2026-05-20T11:00:00Z\"\n"
	foot = "attach_precedence = []\nstatus = \"active\"\ncontext_queries = []\n\n[usage_summary]\n"
)

func decode(t *testing.T, text string) agents.Entry {
	t.Helper()
	e, err := agents.DecodeTOML([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return e
}

func TestStringsAreWrittenAsTheOriginalWritesThem(t *testing.T) {
	for in, want := range map[string]string{
		`plain`:              `"plain"`,
		``:                   `""`,
		`it's`:               `"it's"`,
		`a "word"`:           `'a "word"'`,
		`back\slash`:         `'back\slash'`,
		"tab\there":          `"tab\there"`,
		"tab\tand \"quote\"": "'tab\tand \"quote\"'",
		`it's "both"`:        `"""it's "both""""`,
		`it's a \`:           `'''it's a \'''`,
		"two\nlines":         "\"\"\"\ntwo\nlines\"\"\"",
		"a\\\nb":             "'''\na\\\nb'''",
		"cr\rhere":           `"cr\rhere"`,
		"\x01\x7f":           `"\u0001\u007F"`,
		"\b\f":               `"\b\f"`,
		"\u0085 é 🎉":         "\"\u0085 é 🎉\"",
		"'''\"\"\"\n":        "\"\"\"\n'''\"\"\\\"\n\"\"\"",
		`'''"""`:             `"'''\"\"\""`,
		`"""`:                `'"""'`,
	} {
		e := decode(t, head+foot)
		e.Model = &in
		wanted := head + "model = " + want + "\n" + foot
		if got := string(e.TOML()); got != wanted {
			t.Errorf("%q is written as\n%s\nwant\n%s", in, got, wanted)
		}
		if back := decode(t, wanted); *back.Model != in {
			t.Errorf("%s is read as %q", want, *back.Model)
		}
	}
}

func TestExport_OneStringListIsOneLine(t *testing.T) {
	for _, test := range []struct {
		list []string
		want string
	}{
		{nil, "[]"},
		{[]string{"a"}, `["a"]`},
		{[]string{"a\nb"}, "[\"\"\"\na\nb\"\"\"]"},
		{[]string{"a", "b"}, "[\n    \"a\",\n    \"b\",\n]"},
	} {
		e := entry("agent-a", agents.Active)
		e.AttachPrecedence = test.list
		if text := string(e.TOML()); !strings.Contains(text, "\nattach_precedence = "+test.want+"\n") {
			t.Errorf("%q is written as\n%s", test.list, text)
		}
	}
}

func TestEncode_FloatsUseShortestFloat32(t *testing.T) {
	for in, want := range map[string]string{
		"0.9": "0.9", "1": "1.0", "0.33333334": "0.33333334", "1e-10": "0.0000000001", "1e10": "10000000000.0",
		"-0.0": "-0.0",
		"nan":  "nan", "-nan": "nan", "inf": "inf", "-inf": "-inf", "1e39": "inf", "0x10": "16.0", "1_0.5": "10.5",
	} {
		e := decode(t, head+"probe_confidence = "+in+"\n"+foot)
		e.SessionID = "agent-b" // so that the document is written again
		if got := string(e.TOML()); !strings.Contains(got, "\nprobe_confidence = "+want+"\n") {
			t.Errorf("%s is written as\n%s", in, got)
		}
	}
	if _, err := agents.DecodeTOML([]byte(head + "probe_confidence = 1e400\n" + foot)); err == nil {
		t.Error("1e400 is read")
	}
}

func TestSpellingsOfTOMLThatTheOriginalReads(t *testing.T) {
	plain := decode(t, head+foot)
	for what, text := range map[string]string{
		"byte order mark": "\ufeff" + head + "status = \"active\"\n",
		"CRLF":            strings.ReplaceAll(head+"status = \"active\"\n", "\n", "\r\n"),
		"enum as a table": head + "[status]\nactive = {}\n",
		"enum as inline":  head + "status = { active = {} }\n",
		"quoted keys": "\"session_id\" = 'agent-a'\n'thread' = \"t\"\nbase_state = '''b'''\n" +
			"started_at = \"2026-05-20 11:00:00z\"\nstatus = \"active\" # so\n",
		"another order":      "status = \"active\"\n" + head,
		"an offset":          strings.Replace(head, "11:00:00Z", "20:00:00+09:00", 1) + "status = \"active\"",
		"dotted keys":        "usage_summary.x = 1\n" + head + "status = \"active\"\n",
		"inline summary":     head + "status = \"active\"\nusage_summary = {}\n",
		"escapes in strings": strings.Replace(head, `"t"`, `"\u0074"`, 1) + "status = \"active\"\n",
	} {
		if got := decode(t, text); !got.Equal(plain) {
			t.Errorf("%s is read as\n%s", what, got.TOML())
		} else if string(got.TOML()) != text {
			t.Errorf("%s leaves as\n%s", what, got.TOML())
		}
	}
	counted := decode(t, head+"status = \"active\"\nusage_summary = { input_tokens = 1_0, tool_calls = 0x0f }\n")
	if *counted.UsageSummary.InputTokens != 10 {
		t.Errorf("1_0 is read as %d", *counted.UsageSummary.InputTokens)
	}
}

func TestDecode_ArrayAsTableLikeSerde(t *testing.T) {
	e := decode(t, head+"status = \"active\"\nusage_summary = [1, 2]\n"+
		"context_queries = [[\"p\", \"s\", \"2026-05-20T11:00:00Z\"]]\n")
	if u := e.UsageSummary; *u.InputTokens != 1 || *u.OutputTokens != 2 || u.ToolCalls != nil {
		t.Errorf("the usage is %+v", u)
	}
	if q := e.ContextQueries; len(q) != 1 || q[0].Path != "p" || *q[0].Scope != "s" ||
		q[0].QueriedAt.Hour() != 11 {
		t.Errorf("the queries are %+v", q)
	}
	e = decode(t, head+"status = \"active\"\nusage_summary = 2026-05-20\n")
	if e.UsageSummary != (agents.UsageSummary{}) {
		t.Errorf("a date is the usage %+v", e.UsageSummary)
	}
	decode(t, head+"status = \"active\"\nlater = [-170141183460469231731687303715884105728, "+
		"0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff]\n")
}

func TestDecode_NoEntryNamesLineAndReason(t *testing.T) {
	whole := head + "status = \"active\"\n"
	for text, want := range map[string]string{
		"":                               "missing field `session_id`",
		head:                             "missing field `status`",
		"\xff":                           "stream did not contain valid UTF-8",
		"not toml":                       "line 1: ",
		whole + "status = \"active\"\n":  "line 6: duplicate key",
		whole + "[status]\n":             "line 6: duplicate key",
		whole + "[a]\n[a]\n":             "line 7: duplicate key",
		whole + "[a]\n[[a]]\n":           "line 7: duplicate key",
		whole + "[[a]]\n[a]\n":           "line 7: duplicate key",
		whole + "a = {}\n[a.b]\n":        "line 7: duplicate key",
		whole + "a = []\n[[a]]\n":        "line 7: duplicate key",
		whole + "a.b = 1\n[a]\n":         "line 7: duplicate key",
		whole + "[a]\nb = 1\n[a.b.c]\n":  "line 8: duplicate key",
		whole + "a = { b = 1, b = 2 }\n": "line 6: duplicate key",
		head + "status = \"Active\"\n": "line 5: unknown variant `Active`, expected one of `active`, " +
			"`abandoned`, `complete`, `merged`",
		head + "status = 1\n":                 "line 5: invalid type: integer `1`, expected string or table",
		head + "status = { active = \"\" }\n": "line 5: expected empty table",
		head + "status = { active = 1 }\n":    "line 5: expected empty table",
		whole + "pid = -1\n":                  "line 6: invalid value: integer `-1`, expected u32",
		whole + "pid = 4294967296\n":          "line 6: invalid value: integer `4294967296`, expected u32",
		whole + "pid = \"12\"\n":              "line 6: invalid type: string \"12\", expected u32",
		whole + "pid = 1.0\n":                 "line 6: invalid type: floating point `1.0`, expected u32",
		whole + "usage_summary = 3\n": "line 6: invalid type: integer `3`, expected struct " +
			"AgentUsageSummary",
		whole + "[usage_summary]\ninput_tokens = 18446744073709551616\n": "line 7: invalid value: integer " +
			"`18446744073709551616`, expected u64",
		whole + "[[context_queries]]\npath = \"a\"\n": "missing field `queried_at`",
		whole + "probe_confidence = -9223372036854775809\n": "line 6: invalid type: integer " +
			"`-9223372036854775809`, expected f32",
		whole + "later = 1e400\n": "line 6: floating-point number " +
			"overflowed",
		whole + "later = [-0x1_ffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff]":       "line 6: ",
		whole + "later = 340282366920938463463374607431768211456\n":            "line 6: integer number overflowed",
		whole + "later = -170141183460469231731687303715884105729\n":           "line 6: integer number overflowed",
		whole + "later = 2026-02-29\n":                                         "line 6: invalid datetime",
		whole + "later = [24:00:00]\n":                                         "line 6: invalid datetime",
		whole + "later = 2026-05-20T11:00:00+0900\n":                           "line 6: invalid datetime",
		whole + "later = " + strings.Repeat("[", 81) + strings.Repeat("]", 81): "line 6: cannot recurse further",
		whole + strings.Repeat("a.", 80) + "b = 1\n":                           "line 6: recursion limit",
		whole + "usage_summary = [\"1\"]\n": "line 6: invalid type: string \"1\", " +
			"expected u64",
		whole + "context_queries = [[\"p\", \"s\"]]\n": "line 6: invalid length 2, expected " +
			"struct ContextQueryEntry with 3 elements",
		whole + "context_queries = [5]\n": "line 6: invalid type: integer `5`, " +
			"expected struct ContextQueryEntry",
		whole + "usage_summary = { tool_calls =\n1 }\n": "line 6: ",
		whole + "model = true\n": "line 6: invalid type: boolean " +
			"`true`, expected a string",
		whole + "attach_precedence = [1]\n": "line 6: invalid type: integer `1`, " +
			"expected a string",
		whole + "heartbeat_at = 2026-05-20T11:00:00Z\n": "line 6: invalid type: map, expected " +
			"an RFC 3339 formatted date and time string",
		whole + "heartbeat_at = \"2026-05-20 11:00\"\n": "line 6: premature end of input",
	} {
		_, err := agents.DecodeTOML([]byte(text))
		var bad *agents.DecodeError
		if !errors.As(err, &bad) || !strings.HasPrefix(bad.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestTOML_DepthLimit changes an entry whose unknown keys are nested by headers and dots as
// deep as can be read, which is too deep for inline tables.
func TestTOML_DepthLimit(t *testing.T) {
	deepest := strings.TrimSuffix(strings.Repeat("a.", 80), ".")
	flat := decode(t, head+"status = \"active\"\nlater = "+strings.Repeat("[", 80)+strings.Repeat("]", 80))
	deep := decode(t, head+"status = \"active\"\nlater = [0000-02-29, 23:59:60, 2026-05-20t08:00z]\n["+
		deepest+"]\n"+deepest+" = 1\n")
	for _, e := range []agents.Entry{flat, deep} {
		e.Thread = "other"
		if back := decode(t, string(e.TOML())); back.Thread != "other" ||
			!strings.Contains(string(back.TOML()), "\nlater = [") {
			t.Errorf("it became %s", back.TOML())
		}
	}
}

func TestANullAmongStringsIsRefused(t *testing.T) {
	text := `{"session_id":"a","thread":"t","base_state":"b","started_at":"2026-05-20T11:00:00Z",` +
		`"status":"active","attach_precedence":["x",null]}`
	var e agents.Entry
	if err := json.Unmarshal([]byte(text), &e); err == nil {
		t.Errorf("it became %q", e.AttachPrecedence)
	}
}

func TestKeysOfLaterVersionsSurviveAChange(t *testing.T) {
	text := "# by hand\n" + head + `status = "active"
task_assignment_id = "task-1"
lease_epoch = 99999999999999999999
"odd key" = [1, { a = 'x' }, 1979-05-27]
[usage_summary]
input_tokens = 1
future = true
[extra]
deep.er = { a = [1, 2] }
[[context_queries]]
path = "a"
queried_at = "2026-05-20T11:00:00Z"
score = 0.5
`
	r := newRegistry(t)
	save(t, r, decode(t, text))
	if got := load(t, r, "agent-a"); string(got.TOML()) != text {
		t.Fatalf("stored as it came it leaves as\n%s", got.TOML())
	}
	if err := r.LogContextQuery(ctx, "agent-a",
		agents.ContextQuery{Path: "b", QueriedAt: time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	want := head + `attach_precedence = []
status = "active"
task_assignment_id = "task-1"
lease_epoch = 99999999999999999999
"odd key" = [1, { a = "x" }, 1979-05-27]
extra = { deep = { er = { a = [1, 2] } } }

[usage_summary]
input_tokens = 1
future = true

[[context_queries]]
path = "a"
queried_at = "2026-05-20T11:00:00Z"
score = 0.5

[[context_queries]]
path = "b"
queried_at = "2026-05-20T12:00:00Z"
`
	if got := string(load(t, r, "agent-a").TOML()); got != want {
		t.Errorf("changed it leaves as\n%s\nwant\n%s", got, want)
	}
}

func TestValuesBeyondTheirColumnsComeBackExactly(t *testing.T) {
	r := newRegistry(t)
	text := `session_id = "agent-a"
thread = "t"
heartbeat_at = "+12026-05-20T11:00:00.000000001Z"
base_state = "b"
started_at = "2026-05-20T11:00:60.500Z"
last_progress_at = "-0044-03-15T12:00:00Z"
attach_precedence = []
probe_confidence = nan
status = "complete"
completed_at = "2300-01-01T00:00:00Z"

[usage_summary]
input_tokens = 18446744073709551615
output_tokens = 9223372036854775808
reasoning_tokens = 9223372036854775807
cost_micros_usd = 0

[[context_queries]]
path = "a"
queried_at = "2026-12-31T23:59:60Z"

[[context_queries]]
path = "b"
queried_at = "+262142-12-31T23:59:59Z"
`
	save(t, r, decode(t, text))
	if got := string(load(t, r, "agent-a").TOML()); got != text {
		t.Errorf("stored and read it is\n%s", got)
	}
	page, err := r.Page(ctx, agents.Filter{}, db.At{Limit: 1})
	if err != nil || len(page.Items) != 1 || string(page.Items[0].TOML()) != text {
		t.Errorf("as a page it is %+v, %v", page, err)
	}
	moved, _, err := r.UpdateEntry(ctx, "agent-a",
		func(e *agents.Entry) { e.StartedAt = e.StartedAt.Add(time.Minute) })
	if err != nil || !strings.Contains(string(moved.TOML()), `started_at = "2026-05-20T11:01:59.999999999Z"`) {
		t.Errorf("moved by a minute it is\n%s%v", moved.TOML(), err)
	}
}

// anEntry draws entries of all kinds of values.
func anEntry(t *rapid.T) agents.Entry {
	text := rapid.OneOf(rapid.SampledFrom([]string{
		"", "a", `"`, `'`, `"""`, `'''`, "\n", "\\", "\r\n", "\x00",
		"\x7f", "ü🎉", "\u2028",
	}), rapid.String())
	at := rapid.Custom(func(t *rapid.T) time.Time {
		seconds := rapid.OneOf(rapid.Int64Range(-8e12, 8e12), rapid.Int64Range(1.7e9, 1.8e9)).Draw(t, "seconds")
		return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")).UTC()
	})
	maybe := rapid.Ptr(text, true)
	count := rapid.Ptr(rapid.OneOf(rapid.Uint64(),
		rapid.SampledFrom([]uint64{0, math.MaxInt64, math.MaxUint64})), true)
	e := agents.Entry{
		SessionID: rapid.StringMatching(`[a-z0-9-]{1,20}`).Draw(t, "id"), Thread: text.Draw(t, "thread"),
		Status: rapid.SampledFrom([]agents.Status{
			agents.Active, agents.Abandoned, agents.Complete,
			agents.Merged,
		}).Draw(t, "status"),
		ClientInstanceID: maybe.Draw(t, "client"), NativeActorKey: maybe.Draw(t, "actor"),
		NativeParentActorKey: maybe.Draw(t, "parent"),
		NativeInstanceKey:    maybe.Draw(t, "instance"), HeddleSessionID: maybe.Draw(t, "session"),
		ThreadID: maybe.Draw(t, "thread id"),
		PID:      rapid.Ptr(rapid.Uint32(), true).Draw(t, "pid"), BootID: maybe.Draw(t, "boot"),
		LivenessPath: maybe.Draw(t, "liveness"),
		HeartbeatAt:  rapid.Ptr(at, true).Draw(t, "heartbeat"), AnchorState: maybe.Draw(t, "anchor"),
		AnchorRoot:       maybe.Draw(t, "root"),
		ReservationToken: maybe.Draw(t, "token"), Path: maybe.Draw(t, "path"), BaseState: text.Draw(t, "base"),
		StartedAt: at.Draw(t, "start"),
		Provider:  maybe.Draw(t, "provider"), Model: maybe.Draw(t, "model"), Harness: maybe.Draw(t, "harness"),
		ThinkingLevel: maybe.Draw(t, "level"),
		UsageSummary: agents.UsageSummary{
			InputTokens: count.Draw(t, "in"), OutputTokens: count.Draw(t, "out"),
			ReasoningTokens: count.Draw(t, "reasoning"),
			ToolCalls:       rapid.Ptr(rapid.Uint32(), true).Draw(t, "calls"), CostMicrosUSD: count.Draw(t, "cost"),
		},
		LastProgressAt: rapid.Ptr(at, true).Draw(t, "progress"), ReportFlushState: maybe.Draw(t, "flush"),
		AttachReason:      maybe.Draw(t, "reason"),
		AttachPrecedence:  rapid.SliceOfN(text, 0, 3).Draw(t, "precedence"),
		WinningAttachRule: maybe.Draw(t, "rule"), ProbeSource: maybe.Draw(t, "source"),
		ProbeConfidence: rapid.Ptr(rapid.Float32(), true).Draw(t, "confidence"),
		CompletedAt:     rapid.Ptr(at, true).Draw(t, "end"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "queries") {
		e.ContextQueries = append(e.ContextQueries,
			agents.ContextQuery{
				Path: text.Draw(t, "file"), Scope: maybe.Draw(t, "scope"),
				QueriedAt: at.Draw(t, "queried"),
			})
	}
	return e
}

func TestEntry_RoundTripsTOMLJSONAndFile(t *testing.T) {
	r := newRegistry(t)
	rapid.Check(t, func(t *rapid.T) {
		e := anEntry(t)
		read, err := agents.DecodeTOML(e.TOML())
		if err != nil || !read.Equal(e) || string(read.TOML()) != string(e.TOML()) {
			t.Fatalf("from TOML: %v\n%s\n%s", err, e.TOML(), read.TOML())
		}
		text, err := json.Marshal(e)
		var fromJSON agents.Entry
		if err == nil {
			err = json.Unmarshal(text, &fromJSON)
		}
		if e.ProbeConfidence != nil && (math.IsInf(float64(*e.ProbeConfidence), 0) ||
			math.IsNaN(float64(*e.ProbeConfidence))) {
			fromJSON.ProbeConfidence = e.ProbeConfidence // which JSON has no word for
		}
		if err != nil || !fromJSON.Equal(e) {
			t.Fatalf("from JSON: %v\n%s\n%s", err, e.TOML(), fromJSON.TOML())
		}
		if err := r.Save(ctx, e); err != nil {
			t.Fatal(err)
		}
		for stored, err := range r.All(ctx, agents.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if stored.SessionID == e.SessionID && !stored.Equal(e) {
				t.Fatalf("from the file:\n%s\n%s", e.TOML(), stored.TOML())
			}
		}
		if err := r.Delete(ctx, e.SessionID); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeTOML(f *testing.F) {
	f.Add([]byte(head + foot))
	f.Add([]byte(head + "status = { active = {} }\n[a.b]\nc = [[1], {d.e = 2}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := agents.DecodeTOML(text)
		if err != nil {
			return
		}
		if string(e.TOML()) != string(text) {
			t.Fatalf("%q leaves as %q", text, e.TOML())
		}
		e.Thread += "x"
		again, err := agents.DecodeTOML(e.TOML())
		if err != nil || !again.Equal(e) {
			t.Fatalf("changed, %q can't be read back: %v\n%s", text, err, fmt.Sprint(again))
		}
	})
}
