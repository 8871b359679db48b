package checkpoints_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"selvedge/checkpoints"
)

// sample is the run that the original's own tests use.
func sample(runID string) *checkpoints.PausedWorkflow {
	return &checkpoints.PausedWorkflow{
		RunID:         runID,
		Workflow:      checkpoints.Workflow{ID: "wf", Name: "WF", Start: "gate", MaxIterations: 100},
		PausedStageID: "gate",
		Prompt:        "approve?",
		OutputKey:     "approval",
		Iterations:    1,
		CreatedAt:     time.Date(2026, 5, 2, 10, 0, 0, 500_000_000, time.UTC),
	}
}

// sampleDocument is how the original writes it.
const sampleDocument = `{
  "run_id": "run-1",
  "workflow": {
    "id": "wf",
    "name": "WF",
    "start": "gate",
    "stages": [],
    "edges": [],
    "max_iterations": 100,
    "metadata": {}
  },
  "paused_stage_id": "gate",
  "prompt": "approve?",
  "fields": [],
  "output_key": "approval",
  "wf_state": {},
  "stage_results": [],
  "completed_stage_ids": [],
  "iterations": 1,
  "prior_duration_ms": 0.0,
  "created_at": "2026-05-02T10:00:00.500Z"
}`

func TestEncode_NewWorkflowMatchesOriginal(t *testing.T) {
	document, err := sample("run-1").Document()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleDocument, string(document)); diff != "" {
		t.Errorf("(-original +ours):\n%s", diff)
	}
}

func TestEveryFieldSurvivesWritingAndReading(t *testing.T) {
	goal, failure, timeout := "ship it", "exit 1", uint64(600_000)
	want := sample("full")
	want.Workflow.Goal = &goal
	want.Workflow.Metadata = map[string]json.RawMessage{"team": json.RawMessage(`"a\u2028b"`)}
	want.Workflow.Stages = []checkpoints.Stage{{
		ID: "gate", Name: "Gate", TimeoutMS: &timeout,
		Step:         json.RawMessage(`{"type":"approval","prompt":"p","output_key":"k"}`),
		Compensation: json.RawMessage(`{"type":"stage_ref","stage_id":"undo"}`),
		Metadata:     map[string]json.RawMessage{},
	}}
	want.Workflow.Edges = []checkpoints.Edge{{
		From: "a", To: "b", Label: "then",
		Conditions: []checkpoints.Precondition{
			{Key: "stage.a.succeeded", Operator: "eq", Value: json.RawMessage(`true`), Description: "it worked"},
		},
	}}
	want.Fields = []checkpoints.ApprovalField{{
		Name: "decision", Label: "Decision", FieldType: "options",
		Options: []string{"yes", "no"}, Required: true,
	}}
	want.WFState = map[string]json.RawMessage{
		"n":    json.RawMessage(`1E5`),
		"deep": json.RawMessage(`{"a":[1,{}]}`),
	}
	want.StageResults = []checkpoints.StageResult{{
		StageID: "s", StageName: "S", Status: "failed", Output: json.RawMessage(`{"type":"empty"}`),
		DurationMS: 12.25, Error: &failure,
	}}
	want.CompletedStageIDs = []string{"s", "t"}
	want.PriorDurationMS = 1e21
	document, err := want.Document()
	if err != nil {
		t.Fatal(err)
	}
	got, err := checkpoints.Decode(document)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	read := new(checkpoints.PausedWorkflow)
	if err := json.Unmarshal(again, read); err != nil {
		t.Fatal(err)
	}
	if a, b := canonical(t, document), canonical(t, again); a != b {
		t.Errorf("through encoding/json it says something else:\n%s\n%s", a, b)
	}
	if *read.Workflow.Goal != goal || *read.StageResults[0].Error != failure ||
		*read.Workflow.Stages[0].TimeoutMS != timeout ||
		string(got.WFState["n"]) != "1E5" || !read.CreatedAt.Equal(want.CreatedAt) ||
		read.Fields[0].Options[1] != "no" {
		t.Errorf("read back as %+v", read)
	}
}

func canonical(t *testing.T, document []byte) string {
	t.Helper()
	text, err := checkpoints.Canonical(document)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return string(text)
}

// with replaces a part of the sample document.
func with(t *testing.T, old, new string) []byte {
	t.Helper()
	if strings.Count(sampleDocument, old) != 1 {
		t.Fatalf("%q is not in the sample once", old)
	}
	return []byte(strings.Replace(sampleDocument, old, new, 1))
}

func TestDecode_RefusesDocumentsInOriginalWords(t *testing.T) {
	step := func(step string) []byte {
		return with(t, `"stages": []`, `"stages": [{"id":"s","name":"S","step":`+step+`}]`)
	}
	result := func(status string) []byte {
		return with(t, `"stage_results": []`,
			`"stage_results": [{"stage_id":"s","stage_name":"S","output":{"type":"empty"},"duration_ms":1,"status":`+
				status+`}]`)
	}
	for want, document := range map[string][]byte{
		"stream did not contain valid UTF-8":         with(t, "approve?", "\xe9"),
		"missing field `prompt` at line 22 column 1": with(t, `"prompt"`, `"Prompt"`),
		"duplicate field `iterations` at line 20 column 14": with(t,
			`"prior_duration_ms": 0.0`, `"iterations": 2`),
		"invalid type: null, expected a sequence at line 14 column 16": with(t, `"fields": []`,
			`"fields": null`),
		"invalid type: floating point `1.0`, expected u32 at line 19 column 19": with(t, `"iterations": 1`,
			`"iterations": 1.0`),
		"invalid value: integer `-1`, expected u32 at line 19 column 18": with(t, `"iterations": 1`,
			`"iterations": -1`),
		"premature end of input at line 21 column 22": with(t,
			`2026-05-02T10:00:00.500Z`, `2026`),
		"invalid type: sequence, expected a map at line 16 column 14": with(t, `"wf_state": {}`,
			`"wf_state": []`),
		"number out of range at line 16 column 24": with(t, `"wf_state": {}`,
			`"wf_state": {"x":1e999}`),
		"unknown variant `deliver`, expected one of `pattern`, `proposal`, `sub_workflow`, `approval`, " +
			"`loop_until`, `for_each`, `dedup` at line 7 column 60": step(`{"type":"deliver"}`),
		"missing field `type` at line 7 column 45":       step(`{}`),
		"missing field `output_key` at line 7 column 76": step(`{"type":"approval","prompt":"p"}`),
		"trailing characters at line 23 column 1":        []byte(sampleDocument + "\n{}"),

		// A list for a struct, or for an enum whose first element is its tag.
		"trailing characters at line 14 column 39": with(t, `"fields": []`,
			`"fields": [["n","l","text",[],false,1]]`),
		"trailing comma at line 14 column 39": with(t, `"fields": []`,
			`"fields": [["n","l","text",[],false,]]`),
		"invalid length 4, expected 3 elements in sequence at line 7 " +
			"column 71": step(`["approval","p",[],"k","x"]`),
		"invalid length 7, expected 5 elements in sequence at line 7 " +
			"column 134": step(`{"type":"approval","prompt":"p","output_key":"k",` +
			`"fields":[["n","l","text",[],false,1,2]]}`),
		"invalid length 1, expected 0 elements in sequence at line 17 column 108": with(t, `"stage_results": []`,
			`"stage_results": [{"stage_id":"s","stage_name":"S","status":"failed","duration_ms":1,`+
				`"output":["empty",1]}]`),

		"invalid length 5, expected struct AgentOutput with 9 elements at line 17 column 162": with(t,
			`"stage_results": []`,
			`"stage_results": [{"stage_id":"s","stage_name":"S","status":"failed","duration_ms":1,`+
				`"output":{"type":"pattern","final_answer":"","outputs":[["a","",1,1,1.5]]}}]`),

		// A word as an object.
		"expected value at line 17 column 118":                           result(`{"failed":null,"x":1}`),
		"invalid type: integer `1`, expected unit at line 17 column 115": result(`{"failed":1}`),
		"key must be a string at line 17 column 106":                     result(`{1}`),

		// A member that is not known, and numbers and times that end too early or too late.
		"key must be a string at line 14 column 33": with(t, `"fields": []`,
			`"fields": [], "later": {"a":1,}`),
		"expected value at line 14 column 29": with(t, `"fields": []`,
			`"fields": [], "later": [1,]`),
		"invalid number at line 14 column 28": with(t, `"fields": []`,
			`"fields": [], "later": 1e`),
		"EOF while parsing an object at line 4 " +
			"column 12": []byte(sampleDocument[:40] + `"x":{"a":1,`),
		"number out of range at line 16 column 31": with(t, `"wf_state": {}`,
			`"wf_state": {"x":1e99999999999}`),
		"input is out of range at line 21 column 27": with(t,
			"2026-05-02T10:00:00.500Z", "2026-00-x"),
		"invalid type: string \"a\\u{301}\", expected a sequence at line 14 column 21": with(t, `"fields": []`,
			`"fields": "a\u0301"`),
	} {
		_, err := checkpoints.Decode(document)
		var reason *checkpoints.DocumentError
		if !errors.As(err, &reason) || reason.Reason != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestDecode_OddSpellingsLikeOriginal(t *testing.T) {
	plain := canonical(t, []byte(sampleDocument))
	list := `["run-1",{"id":"wf","name":"WF","start":"gate","stages":[],"edges":[]},"gate","approve?",[],` +
		`"approval",{},[],[],1,0,"2026-05-02T12:00:00.5+02:00"]`
	for name, document := range map[string]string{
		"a list for a struct": list,
		"unknown members, however deep": string(with(t, `"fields": []`,
			`"fields": [], "later": `+strings.Repeat("[", 300)+strings.Repeat("]", 300))),
		"a member known but for its case":   string(with(t, `"fields": []`, `"fields": [], "PROMPT": "other"`)),
		"a key with an escape":              string(with(t, `"prompt"`, `"\u0070rompt"`)),
		"without prior_duration_ms":         string(with(t, "  \"prior_duration_ms\": 0.0,\n", "")),
		"null for an optional member":       string(with(t, `"start": "gate",`, `"start": "gate", "goal": null,`)),
		"blanks and a line feed at the end": sampleDocument + " \r\n\n",
	} {
		if got := canonical(t, []byte(document)); got != plain {
			t.Errorf("%s: %s", name, got)
		}
		p, err := checkpoints.Decode([]byte(document))
		if err != nil || p.Prompt != "approve?" || p.Workflow.MaxIterations != 100 {
			t.Errorf("%s: decoded as %+v, %v", name, p, err)
		}
	}
}

func TestExport_UnchangedDocumentIsByteForByte(t *testing.T) {
	document := with(t, `"wf_state": {}`, "\"wf_state\" :\t{ \"n\" : 1E5 , \"n\" : 2 } , \"later\": [1,  2]")
	p, err := checkpoints.Decode(document)
	if err != nil {
		t.Fatal(err)
	}
	same, err := p.Document()
	if err != nil || string(same) != string(document) {
		t.Errorf("%v:\n%s", err, same)
	}
}

func TestAChangeKeepsWhatOnlyTheDocumentKnows(t *testing.T) {
	document := with(t, `"stages": []`, `"later_in_workflow": {"x": 1.50}, "stages": [{"id":"s","name":"S",`+
		`"step":{"type":"approval","prompt":"p","output_key":"k","later_in_step":true}}]`)
	document = []byte(strings.Replace(string(document), `"wf_state": {}`,
		`"wf_state": {"n": 1E5}, "owner": "later"`, 1))
	p, err := checkpoints.Decode(document)
	if err != nil {
		t.Fatal(err)
	}
	p.Prompt = "again?"
	p.WFState["m"] = json.RawMessage(`[true]`)
	p.Workflow.Name = "WF2"
	p.StageResults = append(p.StageResults,
		checkpoints.StageResult{Status: "succeeded", Output: json.RawMessage(`{"type":"empty"}`)})
	changed, err := p.Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"later_in_workflow"`, "1.50", `"later_in_step":true`, `"n": 1E5`,
		`"owner": "later"`, `"prompt": "again?"`, `"name": "WF2"`, `"succeeded"`,
	} {
		if !strings.Contains(string(changed), part) {
			t.Errorf("%s is gone from:\n%s", part, changed)
		}
	}
	back, err := checkpoints.Decode(changed)
	if err != nil || back.Prompt != "again?" || string(back.WFState["m"]) == "" {
		t.Errorf("read back as %+v, %v", back, err)
	}
}

func TestDocument_NoticesChangesInPlace(t *testing.T) {
	document := with(t, `"stages": []`, `"goal": "done", "stages": [{"id":"s","name":"S",`+
		`"step":{"type":"approval","prompt":"p","output_key":"k"},"timeout_ms":5,"metadata":{"m":1}}]`)
	document = []byte(strings.NewReplacer(`"wf_state": {}`, `"wf_state": {"n": 1}`,
		`"metadata": {}`, `"metadata": {"k": 1}`,
		`"fields": []`, `"fields": [{"name":"f","label":"F","field_type":"options","options":["a"],`+
			`"required":true}]`,
		`"stage_results": []`, `"stage_results": [{"stage_id":"s","stage_name":"S","status":"failed",`+
			`"output":{"type":"empty"},"duration_ms":1.0,"error":"e"}]`,
		`"completed_stage_ids": []`, `"completed_stage_ids": ["s"]`,
		`"edges": []`, `"edges": [{"from":"s","to":"t","conditions":[{"key":"k","operator":"eq","value":1,`+
			`"description":""}],"label":""}]`).Replace(string(document)))
	for place, change := range map[string]func(*checkpoints.PausedWorkflow){
		"goal":             func(p *checkpoints.PausedWorkflow) { *p.Workflow.Goal = "other" },
		"metadata":         func(p *checkpoints.PausedWorkflow) { p.Workflow.Metadata["k"][0] = '2' },
		"stage":            func(p *checkpoints.PausedWorkflow) { p.Workflow.Stages[0].Name = "T" },
		"step":             func(p *checkpoints.PausedWorkflow) { copy(p.Workflow.Stages[0].Step[29:], "q") },
		"timeout":          func(p *checkpoints.PausedWorkflow) { *p.Workflow.Stages[0].TimeoutMS = 6 },
		"stage's metadata": func(p *checkpoints.PausedWorkflow) { p.Workflow.Stages[0].Metadata["m"][0] = '2' },
		"edge": func(p *checkpoints.PausedWorkflow) {
			p.Workflow.Edges[0].Conditions[0].Value[0] = '2'
		},
		"option":          func(p *checkpoints.PausedWorkflow) { p.Fields[0].Options[0] = "b" },
		"state":           func(p *checkpoints.PausedWorkflow) { p.WFState["n"][0] = '2' },
		"stage's error":   func(p *checkpoints.PausedWorkflow) { *p.StageResults[0].Error = "f" },
		"completed stage": func(p *checkpoints.PausedWorkflow) { p.CompletedStageIDs[0] = "t" },
	} {
		p, err := checkpoints.Decode(document)
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		changed, err := p.Document()
		if err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		back, err := checkpoints.Decode(changed)
		if err != nil {
			t.Fatalf("%s: %v", place, err)
		}
		if same := cmp.Diff(p, back, cmpopts.IgnoreUnexported(checkpoints.PausedWorkflow{})); same != "" ||
			bytes.Equal(changed, document) {
			t.Errorf("%s: the change is not in the document: %s", place, same)
		}
	}
}

// The original only looks for the end of a member that it doesn't know.
func TestChange_KeepsUnknownMembers(t *testing.T) {
	for name, value := range map[string]string{
		"deeper than is read":     strings.Repeat(`[{"a": `, 300) + "1" + strings.Repeat("}]", 300),
		"very deep":               strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20),
		"half a surrogate pair":   `{"\ud800": "\ud800", "x": [1e999]}`,
		"a number beyond a float": "1e999",
	} {
		p, err := checkpoints.Decode(with(t, `"fields": []`, `"fields": [], "later": `+value))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		p.Prompt = "again?"
		changed, err := p.Document()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(changed) > 2*len(value)+200_000 {
			t.Errorf("%s: %d bytes became %d", name, len(value), len(changed))
		}
		blanks := strings.NewReplacer(" ", "", "\n", "")
		if !strings.Contains(blanks.Replace(string(changed)), `"later":`+blanks.Replace(value)) {
			t.Errorf("%s: it is gone", name)
		}
		if back, err := checkpoints.Decode(changed); err != nil || back.Prompt != "again?" {
			t.Errorf("%s: read back with %v", name, err)
		}
	}
}

func TestEncode_RefusesUnreadableByOriginal(t *testing.T) {
	for name, spoil := range map[string]func(*checkpoints.PausedWorkflow){
		"a text that is no UTF-8": func(p *checkpoints.PausedWorkflow) { p.Prompt = "\xff" },
		"a status it does not have": func(p *checkpoints.PausedWorkflow) {
			p.StageResults = []checkpoints.StageResult{{Status: "paused", Output: json.RawMessage(`{"type":"empty"}`)}}
		},
		"a value that is no JSON": func(
			p *checkpoints.PausedWorkflow,
		) {
			p.WFState = map[string]json.RawMessage{"x": json.RawMessage(`{`)}
		},
		"a stage without a step": func(
			p *checkpoints.PausedWorkflow,
		) {
			p.Workflow.Stages = []checkpoints.Stage{{}}
		},
		"a number that JSON can't hold": func(
			p *checkpoints.PausedWorkflow,
		) {
			p.PriorDurationMS = p.PriorDurationMS / p.PriorDurationMS
		},
		"a year beyond its calendar": func(p *checkpoints.PausedWorkflow) {
			p.CreatedAt = time.Date(300_000, 1,
				1, 0, 0, 0, 0, time.UTC)
		},
	} {
		p := sample("x")
		spoil(p)
		if document, err := p.Document(); err == nil {
			t.Errorf("%s was written:\n%s", name, document)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	f.Add([]byte(sampleDocument))
	f.Add([]byte(`["r"]`))
	f.Fuzz(func(t *testing.T, document []byte) {
		text, err := checkpoints.Canonical(document)
		p, other := checkpoints.Decode(document)
		if (err == nil) != (other == nil) {
			t.Fatalf("Canonical says %v, Decode %v", err, other)
		}
		if err != nil {
			return
		}
		if again, err := checkpoints.Canonical(text); err != nil || string(again) != string(text) {
			t.Fatalf("the canonical form %s is read as %s, %v", text, again, err)
		}
		p.Prompt += "x"
		changed, err := p.Document()
		if err != nil {
			t.Fatal(err)
		}
		if q, err := checkpoints.Decode(changed); err != nil || q.Prompt != p.Prompt {
			t.Fatalf("a changed document is read back as %+v, %v", q, err)
		}
	})
}

func TestFreeFormValuesComeBackByteForByte(t *testing.T) {
	values := map[string]json.RawMessage{
		"compact": json.RawMessage(`{"a":[1,{"b":null}],"c":1E5}`), "spaced": json.RawMessage("{ \"a\" :\n\t1 }"),
		"text": json.RawMessage(`"\u00e9\/"`),
	}
	p := sample("run-1")
	p.WFState, p.Workflow.Metadata = values, values
	p.Workflow.Stages = []checkpoints.Stage{{
		ID: "s", Name: "S",
		Step: json.RawMessage(`{"type":"approval", "prompt":"p","output_key":"k"}`), Metadata: values,
	}}
	p.StageResults = []checkpoints.StageResult{{
		Status: "succeeded",
		Output: json.RawMessage(`{ "type":"empty" }`),
	}}
	for _, what := range []string{"written", "changed elsewhere", "changed itself"} {
		document, err := p.Document()
		if err != nil {
			t.Fatal(err)
		}
		back, err := checkpoints.Decode(document)
		if err != nil {
			t.Fatal(err)
		}
		for of, got := range map[string]map[string]json.RawMessage{
			"wf_state": back.WFState, "metadata": back.Workflow.Metadata,
			"metadata of a stage": back.Workflow.Stages[0].Metadata,
		} {
			if diff := cmp.Diff(p.WFState, got); diff != "" {
				t.Errorf("%s, %s (-given +read):\n%s", what, of, diff)
			}
		}
		if got, want := back.Workflow.Stages[0].Step, p.Workflow.Stages[0].Step; string(got) != string(want) {
			t.Errorf("%s, the step is %s, given was %s", what, got, want)
		}
		if got, want := back.StageResults[0].Output, p.StageResults[0].Output; string(got) != string(want) {
			t.Errorf("%s, the output is %s, given was %s", what, got, want)
		}
		p = back
		p.Prompt += "?"
		if what == "changed elsewhere" {
			changed := map[string]json.RawMessage{
				"compact": json.RawMessage(`{ "a" : [ 2 ] }`),
				"new":     json.RawMessage("[\n]"),
			}
			p.WFState, p.Workflow.Metadata, p.Workflow.Stages[0].Metadata = changed, changed, changed
		}
	}
}
