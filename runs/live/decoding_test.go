package live_test

import (
	"fmt"
	"strings"
	"testing"

	"selvedge/runs/live"
	"selvedge/test/replay"
)

// What the original made of these events when it was asked: its own text of them, or "" where it read none.
var decodings = []struct{ event, text string }{
	// An element of an array can be left out only where the member has a default; an Option has none of its own.
	{`["tool_end","i","n","o",0]`, ``},
	{`["tool_end","i","n","o",0,null]`, `{"type":"tool_end","id":"i","name":"n","output":"o","exit_code":0}`},
	{`["tool_end","i","n","o",0,[]]`, `{"type":"tool_end","id":"i","name":"n","output":"o","exit_code":0,"metadata":[]}`},
	{`{"type":"turn_end","turn":1,"usage":[1,2,3,null]}`, ``},
	{
		`{"type":"turn_end","turn":1,"usage":[1,2,3,null,4]}`,
		`{"type":"turn_end","turn":1,"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cache_read_tokens":null,"cache_write_tokens":4}}`,
	},
	{
		`{"type":"task_updated","session_id":"s","tasks":[["1","read","pending"],["2","edit","failed","low"]]}`,
		`{"type":"task_updated","session_id":"s","tasks":[{"id":"1","content":"read","status":"pending","priority":"medium"},{"id":"2","content":"edit","status":"failed","priority":"low"}]}`,
	},
	{`{"type":"task_updated","session_id":"s","tasks":[["1","read"]]}`, ``},
	{
		`{"type":"agent_end","text":"t","usage":[1,2,3,4,5],"verification_summary":["passed",0,0,0,0,0],"meta":["p"]}`,
		`{"type":"agent_end","text":"t","usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"cache_read_tokens":4,"cache_write_tokens":5},` +
			`"verification_summary":{"status":"passed","report_count":0,"required_check_count":0,"pending_required_check_count":0,"failed_check_count":0,"residual_risk_count":0},"meta":{"provider":"p"}}`,
	},
	{`["agent_end","t",[1,2,3,4,5],["passed",0,0,0,0,0]]`, ``},
	// A word may be the name in an object.
	{
		`{"type":"step_end","step_id":"s","status":{"completed":null},"step_number":1,"total_steps":2}`,
		`{"type":"step_end","step_id":"s","status":"completed","step_number":1,"total_steps":2}`,
	},
	{
		`{"type":"step_end","step_id":"s","status":{"completed":{ }},"step_number":1,"total_steps":2}`,
		`{"type":"step_end","step_id":"s","status":"completed","step_number":1,"total_steps":2}`,
	},
	{`{"type":"step_end","step_id":"s","status":{"completed":[]},"step_number":1,"total_steps":2}`, ``},
	{`{"type":"step_end","step_id":"s","status":{"completed":null,"failed":null},"step_number":1,"total_steps":2}`, ``},
	{`{"type":"step_end","step_id":"s","status":{},"step_number":1,"total_steps":2}`, ``},
	// Numbers.
	{`{"type":"context_resolved","total_items":-0,"total_tokens":1}`, ``},
	{
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":-0}`,
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":-0.0}`,
	},
	{
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":0.123456789}`,
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":0.12345679}`,
	},
	{
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1e15}`,
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1e+15}`,
	},
	{
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1.1e-7}`,
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1.1e-7}`,
	},
	{
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":4.9365212e-6}`,
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":0.0000049365212}`,
	},
	{
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":1e39}`,
		`{"type":"memory_recalled","memory_id":"m","content":"c","relevance":null}`,
	},
	{
		`{"type":"subagent_progress","task_id":"t","session_id":"s","status":"r","metadata":[1e-50,99999999999999999999999999,1e39,-0,3.40282357e38]}`,
		`{"type":"subagent_progress","task_id":"t","session_id":"s","status":"r","metadata":[9.999999999999999e-51,1e+26,1e+39,-0.0,3.4028235700000002e+38]}`,
	},
	{`{"type":"subagent_progress","task_id":"t","session_id":"s","status":"r","metadata":1e309}`, ``},
}

func TestEventsAreReadAsTheOriginalReadsThem(t *testing.T) {
	for _, d := range decodings {
		_, refused := live.NewEvent([]byte(d.event))
		if isObject := d.event[0] == '{'; (refused == nil) != (isObject && d.text != "") {
			t.Errorf("%s gave %v", d.event, refused)
		}
		file := fmt.Sprintf(`[{"snapshot":["r","s","created","p",1,1,null,null,1],"events":[[0,1,%s]]}]`, d.event)
		elements, damage := live.ParseFile([]byte(file))
		if damage != nil || len(elements) != 1 || (elements[0].Reason == "") != (d.text != "") {
			t.Errorf("a file with %s gave %+v, %v", d.event, elements, damage)
		}
		if strings.Contains(d.event, "1e309") {
			continue // a decoded transcript has none
		}
		value, err := replay.Decode([]byte(d.event))
		if err != nil {
			t.Fatal(err)
		}
		held, _, err := replay.LiveEvent(value)
		text := ""
		if err == nil {
			text = string(replay.LiveEventText(held))
		}
		if text != d.text {
			t.Errorf("the model makes of %s\n%s, not\n%s", d.event, text, d.text)
		}
	}
}

func TestAStatusMayBeTheNameInAnObject(t *testing.T) {
	for status, read := range map[string]bool{
		`{"failed":null}`: true, `{"failed":{}}`: false,
		`{"nope":null}`: false, `"failed"`: true,
	} {
		elements, _ := live.ParseFile(fmt.Appendf(nil,
			`[{"snapshot":["r","s",%s,"p",1,1,null,null,0],"events":[]}]`, status))
		if e := elements[0]; (e.Reason == "") != read || read && e.Record.Snapshot.Status != "failed" {
			t.Errorf("%s was read as %+v", status, e)
		}
	}
}

// The array of the file, the record, its events, an event's record and the event are five of 127 levels.
func TestRead_DepthLimitIsTheOriginals(t *testing.T) {
	for depth, read := range map[int]bool{122: true, 123: false} {
		args := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		elements, _ := live.ParseFile(fmt.Appendf(nil, `[{"snapshot":["r","s","created","p",1,1,null,null,1],
"events":[[0,1,{"type":"subagent_progress","task_id":"t","session_id":"s","status":"r","metadata":%s}]]}]`, args))
		if e := elements[0]; (e.Reason == "") != read {
			t.Errorf("depth %d was read as %q", depth, e.Reason)
		}
	}
}

func TestUnknownMembersAreReadToo(t *testing.T) {
	for member, read := range map[string]bool{
		`1e308`: true, `1e400`: false, `"\ud83d\ude00"`: true,
		`"\ud83d"`: false, strings.Repeat("[", 200) + strings.Repeat("]", 200): false,
	} {
		elements, _ := live.ParseFile(fmt.Appendf(nil,
			`[{"snapshot":["r","s","created","p",1,1,null,null,0],"events":[],"later":%s}]`, member))
		if e := elements[0]; (e.Reason == "") != read {
			t.Errorf("%s was read as %q", member, e.Reason)
		}
	}
}
