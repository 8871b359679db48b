package workers_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"selvedge/db"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

// Every sequence of calls is answered by the runtime as by the model, which gives every recorded
// answer of the original.
func TestTheRuntimeAnswersAsTheModel(t *testing.T) {
	d := dbtest.OpenAt(t, ":memory:", db.Options{})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprint("runtime-", n)
		p := &player{t: t, db: d, tree: &scratch{}, twins: map[string]string{}}
		model := replay.Workers{}
		calls := rapid.IntRange(1, 40).Draw(rt, "calls")
		for i := range calls {
			c := drawCall(rt, id, i == 0)
			want, got := model.Play(c), p.call(c)
			if i == 0 { // the model says fs_store
				continue
			}
			if wrong := (replay.Comparison{}).Diff(decodedAnswer(rt, want), decodedAnswer(rt, got)); wrong != "" {
				rt.Fatalf("%s(%s): %s", c.Op, replay.Encode(c.Args), wrong)
			}
		}
	})
}

func decodedAnswer(rt *rapid.T, o replay.Outcome) any {
	shown := map[string]any{"ok": o.OK}
	if o.Err != nil {
		shown = map[string]any{"kind": o.Kind}
	}
	if s, ok := o.OK.(workers.RuntimeSummary); ok {
		s.Backend = ""
		shown["ok"] = s
	}
	value, err := replay.Decode(replay.Encode(shown))
	if err != nil {
		rt.Fatal(err)
	}
	return value
}

func drawCall(rt *rapid.T, id string, first bool) *replay.Call {
	limits := map[string]any{"max_transcript_projection_items": 4, "max_event_batch_items": 5}
	if first {
		return call("open", map[string]any{"runtime_id": id, "limits": limits})
	}
	runtime := id
	if rapid.IntRange(0, 9).Draw(rt, "foreign") == 0 {
		runtime = "another"
	}
	ref := map[string]any{
		"runtime_id": runtime,
		"worker_id":  fmt.Sprintf("worker-%08x", rapid.IntRange(0, 4).Draw(rt, "worker")),
	}
	number := func(name string, most int) json.Number {
		return json.Number(fmt.Sprint(rapid.IntRange(0, most).Draw(rt, name)))
	}
	text := rapid.SampledFrom([]string{"", " ", "hello", " ü\n"})
	switch op := rapid.SampledFrom([]string{
		"create_worker", "create_worker", "send_input", "send_input", "send_input", "send_input", "stop_worker",
		"cancel_worker",
		"transcript_projection", "read_events", "list_workers", "worker_detail", "summary", "diagnostics",
		"event_cursor_now", "stop_runtime",
	}).Draw(rt, "op"); op {
	case "create_worker":
		request := map[string]any{"intent": map[string]any{
			"kind":      "task",
			"objective": text.Draw(rt, "objective"),
		}, "profile": map[string]any{"kind": "runtime_default"}}
		if rapid.Bool().Draw(rt, "bundle") {
			request["config_bundle"] = map[string]any{"id": "b"}
		}
		return call(op, map[string]any{"request": request})
	case "send_input":
		input := map[string]any{
			"kind":    rapid.SampledFrom([]string{"user", "system"}).Draw(rt, "kind"),
			"content": text.Draw(rt, "content"),
		}
		return call(op, map[string]any{"worker_ref": ref, "input": input})
	case "transcript_projection":
		return call(op, map[string]any{"worker_ref": ref, "start": number("start", 6), "limit": number("limit", 5)})
	case "read_events":
		return call(op, map[string]any{"cursor": map[string]any{
			"runtime_id":    runtime,
			"next_event_id": number("next", 30),
		}, "limit": number("limit", 6)})
	case "stop_runtime":
		if rapid.IntRange(0, 4).Draw(rt, "really") > 0 {
			return call("summary", map[string]any{})
		}
		return call(op, map[string]any{})
	default:
		return call(op, map[string]any{"worker_ref": ref})
	}
}

func call(op string, args map[string]any) *replay.Call {
	value, err := replay.Decode(replay.Encode(args))
	if err != nil {
		panic(err)
	}
	return &replay.Call{Op: op, Args: value}
}
