package legacy

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf16"
)

// A novelTree makes the files of a tree that no old program has written. One seed makes one tree.
type novelTree struct {
	*rand.Rand
	rare int // one member in so many is odd; 0: none is
}

func newNovelTree(kind, seed uint64) *novelTree {
	n := &novelTree{Rand: rand.New(rand.NewPCG(seed, kind))}
	n.rare = []int{0, 200, 60, 15}[n.IntN(4)]
	return n
}

// files are the tree's, below the folder that the old program was given.
func (n *novelTree) files(kind Kind) folder {
	files := map[Kind]func() folder{
		Runs: n.runs, Live: n.live, Agents: n.agents, Checkpoints: n.checkpoints, Workers: n.workers,
	}[kind]()
	for path := range files {
		if strings.Contains(path, "\x00") || slices.ContainsFunc(strings.Split(path, "/"),
			func(name string) bool { return len(name) > maxName }) { // no file system has such a name
			delete(files, path)
		}
	}
	return files
}

func (n *novelTree) oneIn(times int) bool { return times > 0 && n.IntN(times) == 0 }

func (n *novelTree) pick(list ...string) string { return list[n.IntN(len(list))] }

// Ids and texts of which programs, file systems and databases think differently.
var (
	novelIDs = []string{
		"a", "A", "a:b", "a_b", "a b", ".a", "a.", "a..b", "x.json", "é", "e\u0301", "İ", "ß", "\u202eab", "👩‍👩‍👧",
		"日本語", "%41", "$1", "'", `"`, "-", "0", "run-1", "\u2028", "\U0010FFFF", "\ufeff", "a\tb", "CON", "~",
		"4f0a1c52-8d1e-4c1e-9a76-0f4a4b0d1c2e", strings.Repeat("é", 60), "a|b", "*", "\u00a0", "Zebra",
	}
	separatedIDs = []string{"a/b", `a\b`, "..", "../x", "", "a\x00b", "a\nb", "/"}
	agentIDs     = []string{"a", "a-1", "0", "-", "agent-mfzwizlnn5xgkllsmvzx", "z9", strings.Repeat("a", 200)}
	novelTexts   = []string{
		"", "go", "fix the tests", "\x00", "line\nline", "\t\"\\/\b\f", "é e\u0301 👩‍👩‍👧 \u202e",
		"…[truncated]", "\u2028\u2029\ufeff", "'''\"\"\"", strings.Repeat("x", 100), strings.Repeat("aé😀", 20),
	}
	goodClocks = []string{
		"2026-05-01T08:00:00Z", "2026-05-01T08:00:00.5Z", "2026-05-01T08:00:00.123456789Z",
		"2026-05-01T08:00:00.000Z", "2026-05-01t08:00:00z", "2026-05-01 08:00:00Z", "2026-05-01T08:00:00+00:00",
		"2026-05-01T08:00:00-00:00", "2026-05-01T23:59:59.999999999+14:00", "2026-05-01T08:00:00-12:34",
		"2016-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1677-09-21T00:12:43Z",
		"2262-04-11T23:47:16.854775808Z", "2024-02-29T00:00:00Z", "1969-12-31T23:59:59.9Z",
	}
	oddClocks = []string{
		"2026-05-01T24:00:00Z", "2026-05-01T08:00:60Z", "2026-02-30T08:00:00Z", "2026-05-01T08:00Z", "2026-05-01",
		"2026-05-01T08:00:00", "2026-05-01T08:00:00,5Z", "20260501T080000Z", "+12026-05-01T08:00:00Z",
		"-0001-05-01T08:00:00Z", "2026-05-01T08:00:00.1234567891234Z", "2026-05-01T08:00:00+24:00",
		"2026-05-01T08:00:00+0900", "2026-W18-5T08:00:00Z", "1780000000", "now", "", "2026-05-01T08:00:00Z ",
		"2026-05-01T8:00:00Z", "２０２６-05-01T08:00:00Z", "2026-05-01T08:00:00.Z", "2026-13-01T08:00:00Z",
	}
	goodNumbers = []string{"0", "1", "2", "7", "255", "65536", "2147483647", "4294967295"}
	oddNumbers  = []string{
		"-1", "-0", "-0.0", "1.0", "0.5", "1e2", "1E+2", "1e400", "-1e400", "1e-400", "4294967296",
		"9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
		"18446744073709551615", "18446744073709551616", "340282366920938463463374607431768211456", "01", "+1",
		"1.", ".5", "0x10", "NaN", "Infinity", "0.1000000000000000055511151231257827", "3.4028236e38",
		strings.Repeat("9", 400), "0." + strings.Repeat("3", 400), "1_000",
	}
	oddValues = []string{
		"null", "true", "[]", "{}", `""`, "0", `"1"`, `[1,"a"]`, `{"a":1,"a":2}`, `"\ud800"`, `"\u0000"`, "\"\xff\"",
		`"\x41"`, "nul", "", "\"\x01\"", "{\"\xff\":1}",
	}
)

// depths are of nesting: as deep as the old programs read, deeper, and deeper than any stack.
var depths = []int{100, 126, 127, 128, 129, 1000, 20_000}

func (n *novelTree) id() string {
	if n.oneIn(8) {
		return n.pick(separatedIDs...)
	}
	return n.pick(novelIDs...)
}

func (n *novelTree) ids() []string { return []string{n.id(), n.id(), n.id()} }

// quoted is a text in JSON, in one of its spellings.
func (n *novelTree) quoted(text string) string {
	if !n.oneIn(6) {
		return asJSON(text)
	}
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&b, n.pick(`\u%04x`, `\u%04X`), unit)
	}
	return `"` + b.String() + `"`
}

func (n *novelTree) text() string {
	text := n.pick(novelTexts...)
	if n.oneIn(40) {
		text = strings.Repeat(text, 500)
	}
	return n.quoted(text)
}

func (n *novelTree) clock() string {
	if n.oneIn(n.rare) {
		return n.quoted(n.pick(oddClocks...))
	}
	return n.quoted(n.pick(goodClocks...))
}

func (n *novelTree) number() string {
	if n.oneIn(n.rare) {
		return n.pick(oddNumbers...)
	}
	return n.pick(goodNumbers...)
}

// value is any JSON.
func (n *novelTree) value() string {
	switch n.IntN(12) {
	case 0:
		return n.pick(oddNumbers[:18]...)
	case 1:
		return n.deep()
	case 2:
		return n.object(`"a":`+n.text(), n.text()+":"+n.number(), `"b":[1,`+n.text()+`,{}]`)
	case 3:
		return n.pick("null", "true", "false", "[]", "{}", "[ ]", `{ "a" : null }`)
	case 4, 5:
		return n.number()
	}
	return n.text()
}

func (n *novelTree) deep() string {
	depth := depths[n.IntN(len(depths)-1)]
	if n.oneIn(20) {
		depth = depths[len(depths)-1]
	}
	if n.oneIn(2) {
		return strings.Repeat("[", depth) + strings.Repeat("]", depth)
	}
	return strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
}

// object is one of members such as `"a":1`, some of which may be odd.
func (n *novelTree) object(members ...string) string {
	var list []string
	for _, m := range members {
		switch {
		case n.oneIn(n.rare) && n.oneIn(2):
			continue
		case n.oneIn(n.rare):
			key, _, _ := strings.Cut(m, ":")
			m = key + ":" + n.pick(append(oddNumbers, oddValues...)...)
		case n.oneIn(n.rare):
			list = append(list, m)
		}
		list = append(list, m)
	}
	if n.oneIn(8) {
		list = append(list, n.quoted(n.pick("x", "later", "é", "", "Record", "client_id"))+":"+n.value())
	}
	if n.oneIn(6) {
		n.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	blank := ""
	if n.oneIn(8) {
		blank = n.pick(" ", "\t", "  ")
	}
	return "{" + blank + strings.Join(list, blank+","+blank) + blank + "}"
}

// some keeps each member with the odds of one in two.
func (n *novelTree) some(members ...string) (list []string) {
	for _, m := range members {
		if n.oneIn(2) {
			list = append(list, m)
		}
	}
	return list
}

// finish is a file as a crash, another system or an editor leaves it.
func (n *novelTree) finish(text string) string {
	if n.rare == 0 || !n.oneIn(6) {
		return text
	}
	cut := n.IntN(len(text) + 1)
	switch n.IntN(10) {
	case 0:
		return text[:cut]
	case 1:
		return text + strings.Repeat("\x00", 1+n.IntN(5000))
	case 2:
		return text[:cut] + strings.Repeat("\x00", len(text)-cut)
	case 3:
		return strings.ReplaceAll(text, "\n", "\r\n")
	case 4:
		return "\ufeff" + text
	case 5:
		return ""
	case 6:
		return strings.TrimRight(text, "\n")
	case 7:
		return text + n.pick("\n", " \n", "\r\n", "\xff", "}", "]", ",", "\x1a")
	case 8:
		return text[:cut] + n.pick("\x00", "\xff", "\n", "\"", "\xed\xa0\x80", "\r", "\u2028") + text[cut:]
	}
	return text[:cut] + text[n.IntN(len(text)+1):]
}

// lines are the file of several writers that append to it at once: each writes its lines in its
// order, at times a line in two halves.
func (n *novelTree) lines(writers ...[]string) string {
	var b strings.Builder
	for {
		writers = slices.DeleteFunc(writers, func(left []string) bool { return len(left) == 0 })
		if len(writers) == 0 {
			return n.finish(b.String())
		}
		w := n.IntN(len(writers))
		line := writers[w][0] + "\n"
		writers[w] = writers[w][1:]
		if len(writers) > 1 && n.oneIn(n.rare) {
			half := n.IntN(len(line))
			b.WriteString(line[:half])
			writers[w] = append([]string{line[half : len(line)-1]}, writers[w]...)
			continue
		}
		b.WriteString(line)
		if n.oneIn(40) {
			b.WriteString(n.pick("\n", " \t\n", "\r\n", "\x0c\n"))
		}
	}
}

// name is a file's name: that of an id, or another one.
func (n *novelTree) name(id string) string {
	if n.oneIn(12) {
		return n.pick("a\xffb", `a\xFFb`, "_", "a ", " a", "id-zz", "copy of a", "..a", "ａ")
	}
	if n.oneIn(5) {
		return laterName(id)
	}
	return seedName(id)
}

func (n *novelTree) runs() folder {
	files := folder{}
	agents, ids := n.ids(), n.ids()
	for range 1 + n.IntN(6) {
		agent, run := n.pick(agents...), n.pick(ids...)
		writers := [][]string{n.trace(agent, run, true)}
		if n.oneIn(4) {
			writers = append(writers, n.trace(agent, n.pick(ids...), n.oneIn(3)))
		}
		files["runs/"+n.name(agent)+"/"+n.name(run)+runExtension] = n.lines(writers...)
	}
	if n.oneIn(3) {
		files["config.toml"] = n.finish(n.pick("[runs]\nmax_per_agent = 7\n", "runs.max_age_days = -1\n",
			"runs = { max_per_agent = 0x10, max_age_days = 1_0 }", "[runs]\nmax_per_agent = 18446744073709551615\n",
			"[runs]\nmax_age_days = 106752\n", "[runs]\nmax_per_agent = 1\nmax_per_agent = 2\n", "[key]\na = 'é'\n",
			"[runs]\nmax_per_agent = 9223372036854775807 # most\n[runs.x]\n", "runs = 7",
			"[runs]\nmax_age_days = 1.5"))
	}
	if n.oneIn(4) {
		files[n.pick("runs/.nobackup", "runs/a/notes.txt", "runs/a/r.jsonl.tmp", "runs/stray.jsonl", "notes",
			"journals/1.log")] = "x"
	}
	return files
}

func (n *novelTree) trace(agent, run string, whole bool) (lines []string) {
	if n.oneIn(n.rare) {
		agent = n.id()
	}
	ids := []string{`"run_id":` + n.quoted(run), `"agent_id":` + n.quoted(agent)}
	record := func(kind string, members ...string) {
		lines = append(lines, n.object(append([]string{`"record":"` + kind + `"`}, members...)...))
	}
	if whole && !n.oneIn(10) {
		record("started", slices.Concat(ids, []string{`"intent":` + n.text(), `"started_at":` + n.clock()},
			n.some(`"outcome_description":`+n.pick("null", n.text()), `"client_id":"c"`))...)
	}
	for i := range n.IntN(6) {
		switch {
		case n.oneIn(8):
			record("model_turn", slices.Concat(ids, n.some(
				`"token_usage":`+n.object(`"prompt_tokens":`+n.number(), `"completion_tokens":`+n.number()),
				`"cost_usd":`+n.pick(n.number(), n.pick(oddNumbers...)), `"model":`+n.text(),
				`"recorded_at":`+n.clock()))...)
		case n.oneIn(10):
			record(n.pick("cancellation_requested", "proposal_receipt", "Started", ""), ids...)
		default:
			record("turn", append(n.some(`"prompt":`+n.text(), `"tool":`+n.text(), `"parameters":`+n.value(),
				`"output":`+n.value(), `"cli_outcome":`+n.object(`"kind":"exited"`, `"code":`+n.number()),
				`"verifier_verdict":`+n.pick(`"not_run"`, `"pass"`, `"fail"`), `"policy_rejected":`+n.value()),
				fmt.Sprintf(`"index":%d`, i))...)
		}
	}
	if n.oneIn(2) {
		outcome := n.object(`"status":"`+n.pick("success", "partial_success", "give_up", "done")+`"`,
			`"summary":`+n.text(), `"evidence":[]`, `"timestamp":`+n.clock(),
			`"metrics":`+n.object(`"turns":`+n.number(), `"duration_ms":`+n.pick("0.0", "12.5", n.number())))
		record("ended", append(slices.Clone(ids), `"ended_at":`+n.clock(), `"termination":`+n.pick(
			`{"kind":"incomplete"}`, `{"kind":"outcome","status":"success","outcome":`+outcome+`}`, `"incomplete"`,
			`{"Incomplete":{}}`, `{"Outcome":`+outcome+`}`, n.value()))...)
	}
	return lines
}

func (n *novelTree) live() folder {
	files := folder{}
	sessions := n.ids()
	for range 1 + n.IntN(4) {
		session := n.pick(sessions...)
		var records []string
		for range n.IntN(4) {
			said := session
			if n.oneIn(8) {
				said = n.pick(sessions...)
			}
			records = append(records, n.liveRecord(said))
		}
		text := "[" + strings.Join(records, n.pick(",", ",\n  ")) + "]"
		encoded := "id_" + base64.RawURLEncoding.EncodeToString([]byte(session)) + sessionEnding
		switch n.IntN(6) {
		case 0:
			files["v1/sessions/"+encoded] = n.finish(n.object(`"schema_version":1`, `"session":`+n.value(),
				`"run_records":`+text, `"trace_events":[]`))
		case 1:
			files["v1/runs/"+encoded] = n.finish(n.pick(text, strings.Join(records, "\n")))
		case 2:
			files["runs/"+n.pick("copy of a", "a\xffb", "x", " ")+sessionEnding] = n.finish(text)
		default:
			files["runs/"+sessionFile(session)] = n.finish(text)
		}
	}
	if n.oneIn(4) {
		files[n.pick("a.json", "notes", "runs/notes.txt", "v1/wal/1", "traces/a/1.json")] = "{}"
	}
	return files
}

const sessionEnding = ".json"

func (n *novelTree) liveRecord(session string) string {
	var events []string
	for i := range n.IntN(5) {
		usage := n.object(`"prompt_tokens":`+n.number(), `"completion_tokens":`+n.number(),
			`"total_tokens":`+n.number(), `"cache_read_tokens":null`, `"cache_write_tokens":null`)
		event := n.pick(`{"type":"agent_start","prompt":`+n.text()+`}`, `{"type":"text_delta","text":`+n.text()+`}`,
			`{"type":"turn_end","turn":`+n.number()+`,"usage":`+usage+`}`, n.object(`"type":"later"`, `"x":`+n.value()),
			`{"type":"tool_start","id":`+n.text()+`,"name":"sh"}`,
			`{"type":"memory_stored","memory_id":"m","memory_type":"t","importance":`+n.pick("0.1", n.number())+`,"tags":[]}`,
			`{"type":"permission_denied","tool_id":"t","tool_name":"n","args":`+n.value()+`,"reason":"r"}`,
			`{"type":"error","message":`+n.text()+`}`)
		events = append(events, n.object(fmt.Sprintf(`"sequence":%d`, i),
			`"timestamp_ms":`+n.pick("1793534400000", n.number()), `"event":`+event))
	}
	snapshot := n.object(slices.Concat([]string{
		`"id":` + n.quoted(n.pick("run-1", "run-2", "run-3", n.id())), `"session_id":` + n.quoted(session),
		`"status":"` + n.pick("created", "planning", "executing", "completed", "failed", "cancelled", "verifying") + `"`,
		`"prompt":` + n.text(), `"created_at_ms":` + n.pick("1793534400000", n.number()),
		`"updated_at_ms":` + n.pick("1793534400000", n.number()),
		fmt.Sprintf(`"event_count":%d`, len(events)+n.IntN(2)*n.IntN(5)),
	}, n.some(`"result_text":`+n.text(), `"error":`+n.text(), `"workspace_change_set":`+n.value()))...)
	return n.object(`"snapshot":`+snapshot, `"events":[`+strings.Join(events, ",")+"]")
}

func (n *novelTree) checkpoints() folder {
	files := folder{}
	ids := n.ids()
	for range 1 + n.IntN(5) {
		id := n.pick(ids...)
		said := id
		if n.oneIn(6) {
			said = n.id()
		}
		stage := n.object(`"id":"gate"`, `"name":`+n.text(), `"step":`+n.object(`"type":"approval"`,
			`"prompt":`+n.text(), `"fields":[]`, `"output_key":"approval"`), `"metadata":{}`)
		workflow := n.object(`"id":"wf"`, `"name":`+n.text(), `"start":"gate"`, `"stages":[`+stage+`]`, `"edges":[]`,
			`"max_iterations":`+n.number(), `"metadata":{"x":`+n.value()+`}`)
		text := n.object(`"run_id":`+n.quoted(said), `"workflow":`+workflow, `"paused_stage_id":`+n.text(),
			`"prompt":`+n.text(), `"fields":[]`, `"output_key":"approval"`, `"wf_state":{"v":`+n.value()+`}`,
			`"stage_results":[]`, `"completed_stage_ids":[`+n.text()+`]`, `"iterations":`+n.number(),
			`"prior_duration_ms":`+n.pick("0.0", "1.5e-7", n.number()), `"created_at":`+n.clock())
		name := n.name(id)
		if n.oneIn(20) {
			name = ""
		}
		files[name+n.pick(".json", ".json", ".inflight")] = n.finish(text)
	}
	if n.oneIn(4) {
		files[n.pick("notes", ".a.json.tmp-1-2", ".json", "a.JSON", "x/y.json")] = n.pick("{}", "[]", "", "x")
	}
	return files
}

func (n *novelTree) workers() folder {
	files := folder{}
	for range 1 + n.IntN(2) {
		runtime := n.id()
		at := "runtimes/" + idName(runtime) + "/"
		if n.oneIn(10) {
			at = "runtimes/" + n.pick("id-zz", "id-7", "x", "id-6161") + "/"
		}
		n.runtime(files, at, runtime, false)
	}
	if n.oneIn(8) { // a later version's: the folder is the runtime
		files = folder{}
		n.runtime(files, "", "", true)
	}
	return files
}

func (n *novelTree) runtime(files folder, at, runtime string, alone bool) {
	ref := func(worker string) string {
		if alone {
			return `{"worker_id":` + worker + "}"
		}
		return n.object(`"runtime_id":`+n.quoted(runtime), `"worker_id":`+n.quoted(worker))
	}
	var list []string
	for i := range n.IntN(4) {
		switch {
		case alone:
			list = append(list, fmt.Sprint(i+1))
		default:
			list = append(list, n.pick(fmt.Sprintf("worker-%08x", i+1), n.id()))
		}
	}
	id := func(worker string) string {
		if alone {
			return worker
		}
		return n.quoted(worker)
	}
	last := 1
	events := []string{`{"id":1,"kind":{"kind":"runtime_started"},"message":"runtime started"}`}
	for range n.IntN(5) {
		last++
		about := n.some(`"worker_ref":` + ref(n.pick(append(list, "gone-9")...)))
		if alone {
			about = nil
		}
		events = append(events, n.object(append(about, fmt.Sprintf(`"id":%d`, last), `"kind":{"kind":"`+
			n.pick("worker_created", "worker_stopped", "worker_input_accepted", "worker_cancelled", "worker_deleted")+
			`"}`, `"message":`+n.text())...))
	}
	files[at+"events.jsonl"] = n.lines(events)
	members := []string{
		`"schema_version":` + n.pick("1", "1", "1", "2"), `"display_name":` + n.pick("null", n.text()),
		`"backend":"fs_store"`,
		`"status":"` + n.pick("running", "stopped") + `"`, `"limits":` + n.object(
			`"max_transcript_projection_items":`+n.number(), `"max_event_batch_items":`+n.number()),
		fmt.Sprintf(`"next_worker_sequence":%d`, len(list)+1), fmt.Sprintf(`"next_event_id":%d`, last+1),
		`"next_diagnostic_id":` + n.pick("1", "2", n.number()), `"diagnostics":[` + n.pick("", n.object(`"id":1`,
			`"severity":"`+n.pick("info", "warning", "error")+`"`, `"code":"c"`, `"message":`+n.text())) + `]`,
	}
	if !alone {
		members = append(members, `"runtime_id":`+n.quoted(runtime))
	}
	files[at+"runtime.json"] = n.finish(n.object(members...) + "\n")
	for _, worker := range list {
		under := at + "workers/" + idName(worker) + "/"
		if alone {
			under = at + "workers/" + worker + "/"
		}
		request := n.object(append(n.some(`"config_bundle":{"id":`+n.text()+`}`,
			`"workspace_refs":[{"name":`+n.text()+`,"reference":"r"}]`), `"intent":`+n.pick(`{"kind":"assistant"}`,
			`{"kind":"task","objective":`+n.text()+`}`, `{"kind":"role","role":"r","purpose":null}`),
			`"profile":`+n.pick(`{"kind":"runtime_default"}`, `{"kind":"named","value":`+n.text()+`}`))...)
		var entries []string
		for i := range n.IntN(5) {
			entries = append(entries, n.object(fmt.Sprintf(`"sequence":%d`, i+1), `"worker_ref":`+ref(worker),
				`"role":"`+n.pick("user", "assistant", "system", "tool")+`"`, `"content":`+n.text(),
				fmt.Sprintf(`"event_id":%d`, 1+n.IntN(last))))
		}
		files[under+"worker.json"] = n.finish(n.object(`"schema_version":1`, `"worker_ref":`+ref(worker),
			`"worker_id":`+id(worker), `"status":"`+n.pick("running", "stopped", "cancelled")+`"`, `"request":`+request,
			fmt.Sprintf(`"next_transcript_sequence":%d`, len(entries)+1),
			fmt.Sprintf(`"last_event_id":%d`, 1+n.IntN(last))) + "\n")
		if !n.oneIn(12) {
			files[under+"transcript.jsonl"] = n.lines(entries)
		}
		if n.oneIn(12) {
			more := n.pick("observations.jsonl", ".worker.json.tmp-1-1", "notes", "metadata.json")
			files[under+more] = n.pick(observationLine(1), "{")
		}
	}
}

func (n *novelTree) agents() folder {
	files := folder{}
	for range 1 + n.IntN(4) {
		id := n.pick(agentIDs...)
		said := id
		if n.oneIn(6) {
			said = n.pick(append(agentIDs, novelIDs...)...)
		}
		name := id
		if n.oneIn(6) {
			name = n.name(n.id())
		}
		files["agents/"+name+".toml"] = n.finish(n.entry(said))
	}
	if n.oneIn(4) {
		more := n.pick(".lock", "a.live", ".a.toml.tmp-1-2-3", "notes", ".toml", "a.TOML")
		files["agents/"+more] = n.pick("", "x")
	}
	return files
}

// entry is one in a dialect of TOML.
func (n *novelTree) entry(id string) string {
	equals := n.pick(" = ", "=", "\t=\t")
	pair := func(key, value string) string {
		switch {
		case n.oneIn(n.rare):
			value = n.pick("1", "true", "[]", "{}", "2026-05-01T08:00:00Z", "2026-05-01", "1.5", "''", "-1", "0x",
				"18446744073709551616", "{a=1}", "[[1],[2]]", "\"\\x\"", "\"\\UFFFFFFFF\"", "\"\\ud800\"", "\"a")
		case n.oneIn(n.rare):
			key = n.pick("\"", "'", "") + key
		case n.oneIn(10):
			key = n.pick(`"`+key+`"`, "'"+key+"'")
		}
		return key + equals + value + n.pick("", "", "", " ", " # é")
	}
	whole := func() string { // in the spellings of TOML
		return n.pick("0", "1", "+7", "1_000", "0xff", "0o17", "0b101", "9223372036854775807", n.number())
	}
	lines := []string{
		pair("session_id", n.toml(id)), pair("thread", n.toml(n.pick(novelTexts...))),
		pair("base_state", n.toml("hd-1")), pair("started_at", n.tomlClock()),
		pair("status", n.pick(`"active"`, `"complete"`, `'merged'`, `"abandoned"`, "{ active = {} }")),
	}
	lines = append(lines, n.some(pair("pid", n.pick("4242", whole())), pair("boot_id", n.toml("b")),
		pair("heartbeat_at", n.tomlClock()), pair("path", n.toml(n.pick(novelTexts...))),
		pair("provider", n.toml(n.pick(novelTexts...))), pair("model", n.toml(n.pick(novelTexts...))),
		pair("completed_at", n.tomlClock()), pair("task_assignment_id", n.toml("t")),
		pair("probe_confidence", n.pick("1.0", "1", "0.33333334", "1e10", "inf", "-inf", "nan", "+nan", "1e400",
			"9_0.5", "-0.0", "3.5e38", "1.e1")),
		pair("attach_precedence", n.pick("[]", `["a", 'b']`, "[\n  'a', # one\n  \"\"\"b\"\"\",\n]", "[ 1 ]")),
		pair("native_actor_key", n.toml(n.id())), pair("later", n.pick("1979-05-27", "07:32:00", "[1, 'a', {b=2}]",
			"1979-05-27T07:32:00", "{ a.b = 1 }", "nan", strings.Repeat("[", 200)+strings.Repeat("]", 200))))...)
	n.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	usage := n.some(pair("input_tokens", whole()), pair("output_tokens", whole()), pair("tool_calls", whole()),
		pair("cost_micros_usd", whole()), pair("later", "'x'"))
	query := []string{pair("path", n.toml(n.pick(novelTexts...))), pair("queried_at", n.tomlClock())}
	inline := func(list []string) string {
		for i := range list {
			list[i], _, _ = strings.Cut(list[i], " #")
		}
		return strings.Join(list, ", ")
	}
	switch n.IntN(5) {
	case 0:
		lines = append(lines, "usage_summary"+equals+"{"+inline(usage)+"}",
			"context_queries"+equals+"[{"+inline(query)+"}]")
	case 1:
		for _, u := range usage {
			lines = append(lines, "usage_summary"+n.pick(".", " . ")+u)
		}
	case 2:
		lines = append(lines, "", "[[context_queries]]")
		lines = append(append(lines, query...), "[ usage_summary ]")
		lines = append(lines, usage...)
		lines = append(lines, n.some("[[context_queries]]", "[usage_summary]", "[later.'x y']",
			"[usage_summary.x]")...)
	default:
		lines = append(append(lines, "context_queries"+equals+"[]", "", "[usage_summary]"), usage...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// toml is a text in one of the spellings of TOML.
func (n *novelTree) toml(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			escaped.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f || n.oneIn(30):
			fmt.Fprintf(&escaped, n.pick(`\u%04X`, `\U%08X`), r)
		default:
			escaped.WriteRune(r)
		}
	}
	spelled := strings.ReplaceAll(escaped.String(), `\u1F`, `\U0001F`) // a rune beyond four digits
	switch {
	case n.oneIn(5) && !strings.ContainsAny(text, "'\x00\n\b\f\r"):
		return "'" + text + "'"
	case n.oneIn(5):
		return `"""` + n.pick("", "\n", "\\\n   ") + spelled + `"""`
	case n.oneIn(8) && !strings.ContainsAny(text, "'\x00\b\f\r"):
		return "'''\n" + text + "'''"
	}
	return `"` + spelled + `"`
}

func (n *novelTree) tomlClock() string {
	text := n.pick(goodClocks...)
	if n.oneIn(n.rare) {
		text = n.pick(oddClocks...)
	}
	return n.toml(text)
}
