package workers_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"selvedge/internal/serdejson"
	"selvedge/workers"
)

// What the original's library answers on each text was found by asking it.
func TestTexts_ReadAndRefusedLikeOriginal(t *testing.T) {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	const document, line = "runtime.json", "line of an event log"
	for _, c := range []struct{ of, text, refusal string }{
		{"input", `{"kind":{"user":null},"content":"c"}`, ""},
		{"input", `["user","c"]`, ""},
		{"input", `["user"]`, "invalid length 1, expected struct WorkerInput with 2 elements"},
		{"input", `{"kind":{"user":{}},"content":"c"}`, "invalid type: map, expected unit"},
		{
			"input", `{"kind":{"nobody":null},"content":"c"}`,
			"unknown variant `nobody`, expected `user` or `system`",
		},
		{
			"input", `{"kind":{"user":null,"system":null},"content":"c"}`,
			"invalid value: map, expected map with a single key",
		},
		{"input", `{"kind":{},"content":"c"}`, "invalid value: map, expected map with a single key"},
		{"input", `{"kind":"user","content":"c","more":1e999}`, ""},
		{"input", `{"kind":"user","content":"c","more":"\ud800"}`, ""},
		{"input", `{"kind":"user","content":"c","more":` + deep + `}`, ""},
		{"input", `{"kind":"user","content":"\ud800"}`, "unexpected end of hex escape"},

		{"profile", `{"kind":{"named":null},"value":"v"}`, ""},
		{"profile", `["runtime_default",null]`, ""},
		{"profile", `["runtime_default"]`, "invalid length 1, expected adjacently tagged enum ProfileSelector"},
		{"profile", `{"kind":"runtime_default","more":1e999}`, ""},

		{"intent", `["assistant","p"]`, ""},
		{"intent", `["task"]`, "invalid length 0, expected struct variant WorkerIntent::Task with 1 element"},
		{"intent", `["task","o",0]`, "invalid length 2, expected 1 element in sequence"},
		{"intent", `{"kind":{"task":null},"objective":"o"}`, "invalid type: map, expected variant identifier"},
		{"intent", `{"kind":"assistant","more":1e999}`, "number out of range"},
		{"intent", `{"kind":"assistant","more":` + deep + `}`, "recursion limit exceeded"},

		{"request", `{"intent":["assistant"],"profile":["named","v"],"config_bundle":["b"],` +
			`"requested_capabilities":[["read"],{"name":"x","y":1e999}]}`, ""},
		{
			"request", `{"intent":["assistant"],"profile":["named","v"],"config_bundle":[]}`,
			"invalid length 0, expected struct ConfigBundleRef with 1 element",
		},
		{
			"request", `{"intent":["assistant"],"profile":["named","v"],"mount_refs":null}`,
			"invalid type: null, expected a sequence",
		},

		{line, `{"id":1,"kind":["runtime_started"],"message":"m"}`, ""},
		{
			line, `{"id":1,"kind":["runtime_started",null],"message":"m"}`,
			"invalid length 1, expected 0 elements in sequence",
		},
		{line, `{"id":1,"worker_ref":{"runtime_id":"r","worker_id":"w","more":"\udc00"},` +
			`"kind":{"kind":"worker_created"},"message":"m"}`, ""},
		{line, `{"id":1,"kind":{"kind":"runtime_started"},"message":"m","more":[01]}`, "invalid number"},
		{
			line, `{"id":1,"kind":{"kind":"runtime_started","more":"\udc00"},"message":"m"}`,
			"lone leading surrogate in hex escape",
		},

		{document, `{"schema_version":4294967296}`, "invalid value: integer `4294967296`, expected u32"},
		{document, "{\"x\":\"\xff\"}", "stream did not contain valid UTF-8"}, // the original skips this too
		{document, `1`, "invalid type: integer `1`, expected struct RuntimeSnapshot"},
	} {
		var err error
		switch c.of {
		case "input":
			err = json.Unmarshal([]byte(c.text), new(workers.WorkerInput))
		case "profile":
			err = json.Unmarshal([]byte(c.text), new(workers.ProfileSelector))
		case "intent":
			err = json.Unmarshal([]byte(c.text), new(workers.WorkerIntent))
		case "request":
			err = json.Unmarshal([]byte(c.text), new(workers.CreateWorkerRequest))
		case line:
			err = workers.ParseRecord([]byte(c.text), new(workers.RuntimeEvent))
		case document:
			err = workers.ParseRecord([]byte(c.text), new(workers.RuntimeSnapshot))
		}
		var refusal *serdejson.DecodeError
		switch {
		case c.refusal == "" && err != nil:
			t.Errorf("%s %s is refused: %v", c.of, c.text, err)
		case c.refusal != "" && (!errors.As(err, &refusal) || !strings.HasPrefix(refusal.Reason, c.refusal)):
			t.Errorf("%s %s: %v, should be: %s", c.of, c.text, err, c.refusal)
		}
	}
}
