package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

// backAt is when the changes are made, and how the old programs write it.
var backAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const backText, backMillis = "2026-11-01T12:00:00Z", "1793534400000"

// A backChange is a public write, and what it makes of the files that came. What it makes is
// written here as the old program writes it, byte for byte; nothing of it comes from our encoders.
// Where the tree has nothing that it could be tried on, want is nil.
type backChange struct {
	name string
	do   func(ctx context.Context, d *db.DB) error
	want func(files folder)
}

// backTried counts, over all trees of a kind, where each write found something to change.
type backTried struct {
	mu    sync.Mutex
	found map[string]int
}

func (b *backTried) add(name string, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found[name] += 0; found {
		b.found[name]++
	}
}

// TestTrees_ThereChangedAndBack imports every recorded tree, changes it through the stores' public
// writes, and exports it: it has every file byte for byte, but for what the writes changed, and
// that in the very bytes of the old program: unknown members and the order of members included. One
// export is enough, since what the writes leave alone is compared with what came.
func TestTrees_ThereChangedAndBack(t *testing.T) {
	for kind, changes := range map[Kind]func(files folder) []backChange{
		Runs: runChanges, Live: liveChanges, Agents: agentChanges, Checkpoints: checkpointChanges,
		Workers: workerChanges,
	} {
		tried := &backTried{found: map[string]int{}}
		t.Run(string(kind), func(t *testing.T) {
			replay.EachTree(t, string(kind), func(t *testing.T, tree replay.Tree) {
				t.Parallel() // most of it is waiting for the disk
				thereAndBack(t, kind, tree, changes, tried)
			})
		})
		for name, n := range tried.found {
			if n == 0 {
				t.Errorf("%s: no tree has anything for: %s", kind, name)
			}
		}
	}
}

func thereAndBack(t *testing.T, kind Kind, tree replay.Tree, changes func(folder) []backChange,
	tried *backTried,
) {
	ctx, clock := context.Background(), dbtest.NewClock(backAt)
	d := dbtest.OpenAt(t, dbtest.Path(t), db.Options{Now: clock.Now, Synchronous: db.SyncNormal})
	dir := treeFolder(t, kind, tree)
	imported, err := Import(ctx, d, kind, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	given := filesBelow(t, dir)
	want := maps.Clone(given)
	for _, c := range changes(want) {
		if tried.add(c.name, c.want != nil); c.want == nil {
			continue
		}
		if err := c.do(ctx, d); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		c.want(want)
	}
	left, report := exportedFiles(t, d, kind)
	for path, text := range left {
		was, came := given[path]
		is, stays := want[path]
		switch {
		case came && !stays:
			t.Errorf("%q is there still", path)
		// what an import named leaves under names of its own
		case !stays, came && was == is && refused(kind, &imported, path):
		case came && plainly(kind, path, text) != plainly(kind, path, is), !came && text != is:
			t.Errorf("%q left as\n%s", path, firstOther(is, text))
		}
		if strings.HasSuffix(path, ".json") && was != text && !json.Valid([]byte(text)) {
			t.Errorf("%q is no JSON", path)
		}
	}
	for path, text := range want {
		if _, ok := left[path]; !ok && isRecord(kind, path) && !refused(kind, &imported, path) &&
			plainly(kind, path, text) != "[]" {
			t.Errorf("%q did not leave", path)
		}
		if given[path] == text {
			continue // as readable as it was
		}
		for _, r := range report.Readable {
			if !r.Readable && strings.HasSuffix(path, r.File) {
				t.Errorf("the old program can't read %q any more: %s", r.File, r.Reason)
			}
		}
	}
}

// isRecord reports whether the old program keeps its records in files of such names.
func isRecord(kind Kind, path string) bool {
	pattern := map[Kind]string{
		Runs: "runs/*/[^.]*.jsonl", Live: "runs/[^.]*.json", Agents: "agents/[^.]*.toml", Checkpoints: "[^.]*.json",
		Workers: "runtimes/id-*/workers/id-*/worker.json",
	}[kind]
	is, err := filepath.Match(pattern, path)
	return is && err == nil
}

// firstOther shows two texts around their first difference.
func firstOther(want, got string) string {
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	from := max(0, at-150)
	return fmt.Sprintf("…%.300q\nwant\n…%.300q", got[from:], want[from:])
}

// plainly is a text without what the old program neither reads nor writes: of a session the blanks
// between its parts, of a worker's logs blank lines and how the last one ends. All else stays as it
// is, in its order.
func plainly(kind Kind, path, text string) string {
	switch {
	case kind == Live: // bare records, which later versions alone read, leave as an array
		var list []string
		for in := json.NewDecoder(strings.NewReader(text)); ; {
			var value json.RawMessage
			if in.Decode(&value) != nil {
				break
			}
			var plain bytes.Buffer
			if json.Compact(&plain, value) == nil {
				list = append(list, plain.String())
			}
		}
		if one := strings.Join(list, ","); !strings.HasPrefix(one, "[") {
			return "[" + one + "]"
		}
		return strings.Join(list, "")
	case kind == Workers && strings.HasSuffix(path, ".jsonl"):
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	return text
}

// refused reports whether the old program refuses the file, or the runtime that it is of: something
// of it is in quarantine.
func refused(kind Kind, imported *Report, path string) bool {
	return slices.ContainsFunc(imported.Quarantined, func(q Quarantined) bool {
		at, _, _ := strings.Cut(q.File, "/")
		return strings.HasSuffix(path, q.File) || kind == Workers && strings.HasPrefix(path, "runtimes/"+at+"/")
	})
}

// treeFolder unpacks a tree and gives what its old program was given.
func treeFolder(t *testing.T, kind Kind, tree replay.Tree) string {
	t.Helper()
	dir := unpackTree(t, tree)
	switch kind {
	case Live:
		return onlyFolder(t, dir)
	case Workers:
		return filepath.Join(dir, "store")
	case Agents:
		return filepath.Join(dir, "heddle")
	case Runs, Checkpoints:
	}
	return dir
}

func exportedFiles(t *testing.T, d *db.DB, kind Kind) (folder, Report) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	report, err := Export(context.Background(), d, kind, out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return filesBelow(t, out), report
}

func filesBelow(t *testing.T, dir string) folder {
	t.Helper()
	files := folder{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrPermission) {
			err = nil
		}
		files[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// richestFile is the file with the longest text of those that are as wanted; "" if there is none.
func richestFile(files folder, wanted func(path, text string) bool) (richest string) {
	for path, text := range files {
		if (len(text) > len(files[richest]) || len(text) == len(files[richest]) && path < richest) &&
			wanted(path, text) {
			richest = path
		}
	}
	return richest
}

// where gives want where there is something to change.
func where(path string, want func(files folder)) func(files folder) {
	if path == "" {
		return nil
	}
	return want
}

func runChanges(files folder) []backChange {
	turn := `{"record":"turn","index":7,"prompt":"go \"on\"","tool":"sh","parameters":{"a":1,"b":[true,null]},"output":"é","cli_outcome":{"kind":"exited","code":3},"verifier_verdict":"pass"}` + "\n"
	prompt, tool := `go "on"`, "sh"
	written := runs.Turn{
		Index: 7, Prompt: &prompt, Tool: &tool, Parameters: json.RawMessage(`{"b":[true, null],"a":1}`),
		Output:     json.RawMessage(`"é"`),
		CliOutcome: &runs.CliOutcome{Kind: runs.CliExited, Code: 3}, VerifierVerdict: runs.VerdictPass,
	}
	const path = "runs/moved/m-1.jsonl"
	// One that begins as its file is called, is open and whole.
	open := richestFile(files, func(path, text string) bool {
		ref := refOf(path)
		return strings.HasPrefix(path, "runs/") && strings.HasSuffix(text, "}\n") &&
			strings.HasPrefix(text, `{"record":"started"`) && !strings.Contains(text, `"ended"`) &&
			strings.Contains(text, `"run_id":"`+ref.RunID+`","agent_id":"`+ref.AgentID+`"`)
	})
	over := richestFile(files, func(path, text string) bool {
		ref := refOf(path)
		return strings.HasSuffix(text, "}\n") &&
			strings.Contains(text, `"run_id":"`+ref.RunID+`","agent_id":"`+ref.AgentID+`"`) &&
			strings.Contains(text, `"ended"`)
	})
	store := func(d *db.DB) *runs.Store { return runs.NewStore(d, runs.Options{}) }
	return []backChange{
		{
			"a run is started", func(ctx context.Context, d *db.DB) error {
				return store(d).WriteStarted(ctx, runs.Started{
					RunID: "m-1", AgentID: "moved", Intent: "go",
					StartedAt: backAt,
				})
			}, func(files folder) {
				files[path] = `{"record":"started","run_id":"m-1","agent_id":"moved","intent":"go","started_at":"` +
					backText + `"}` + "\n"
			},
		},
		{
			"turns are appended to it", func(ctx context.Context, d *db.DB) error {
				return store(d).AppendTurns(ctx, "moved", "m-1", []runs.Turn{written})
			}, func(files folder) { files[path] += turn },
		},
		{
			"it ends", func(ctx context.Context, d *db.DB) error {
				return store(d).WriteEnded(ctx, runs.Ended{RunID: "m-1", AgentID: "moved", EndedAt: backAt})
			}, func(files folder) {
				files[path] += `{"record":"ended","run_id":"m-1","agent_id":"moved","termination":{"kind":"incomplete"},"ended_at":"` + backText + `"}` + "\n"
			},
		},
		{
			"turns are appended to one that came", func(ctx context.Context, d *db.DB) error {
				ref := refOf(open)
				return store(d).AppendTurns(ctx, ref.AgentID, ref.RunID, []runs.Turn{written})
			}, where(open, func(files folder) { files[open] += turn }),
		},
		{
			"one that came is removed", func(ctx context.Context,
				d *db.DB,
			) error {
				return store(d).Delete(ctx, refOf(over))
			},
			where(over, func(files folder) { delete(files, over) }),
		},
	}
}

func refOf(path string) runs.RunRef {
	agent, run, _ := strings.Cut(strings.TrimPrefix(path, "runs/"), "/")
	return runs.RunRef{AgentID: agent, RunID: strings.TrimSuffix(run, ".jsonl")}
}

func liveChanges(files folder) []backChange {
	store := func(d *db.DB) *live.Store { return live.NewStore(d, live.Options{}) }
	const path = "runs/moved.json"
	record := func(status, updated, more, events string, count int) string {
		return fmt.Sprintf("[\n  {\n    \"snapshot\": {\n      \"id\": \"m-1\",\n      \"session_id\": "+
			"\"moved\",\n      \"status\": %q,\n      \"prompt\": \"go\",\n"+
			"      \"created_at_ms\": %s,\n      \"updated_at_ms\": %s,\n%s      \"event_count\": %d\n    },\n    "+
			"\"events\": %s\n  }\n]", status, backMillis, updated, more, count, events)
	}
	event := "[\n      {\n        \"sequence\": 0,\n        \"timestamp_ms\": " + backMillis +
		",\n        \"event\": {\n          \"type\": \"text_delta\",\n          \"text\": \"hi\"\n        }\n  " +
		"    }\n    ]"
	// A file whose last run is at work and says what the old program says, and nothing else.
	running := richestFile(files, func(_, text string) bool { return runningIn(text) != "" })
	id := runningIn(files[running])
	return []backChange{
		{
			"a run is created", func(ctx context.Context, d *db.DB) error {
				_, err := store(d).CreateRunWithID(ctx, "m-1", "moved", "go")
				return err
			}, func(files folder) { files[path] = record("created", backMillis, "", "[]", 0) },
		},
		{
			"an event is recorded", func(ctx context.Context, d *db.DB) error {
				_, _, err := store(d).RecordEvent(ctx, "m-1", live.TextDelta("hi"))
				return err
			}, func(files folder) { files[path] = record("created", backMillis, "", event, 1) },
		},
		{
			"it fails", func(ctx context.Context, d *db.DB) error {
				_, _, err := store(d).MarkFailed(ctx, "m-1", "no disk")
				return err
			}, func(files folder) {
				files[path] = record("failed", backMillis, "      \"error\": \"no disk\",\n", event, 1)
			},
		},
		{
			"one that came is cancelled", func(ctx context.Context, d *db.DB) error {
				_, _, err := store(d).MarkCancelled(ctx, id)
				return err
			}, where(running, func(files folder) {
				head, tail, _ := strings.Cut(files[running], `"id": "`+id+`"`)
				tail = strings.Replace(tail, `"status": "executing"`, `"status": "cancelled"`, 1)
				before, after, _ := strings.Cut(tail, `"updated_at_ms": `)
				_, after, _ = strings.Cut(after, ",")
				files[running] = head + `"id": "` + id + `"` + before + `"updated_at_ms": ` + backMillis + "," + after
			}),
		},
	}
}

// runningIn is a run in a session's file that is at work, as the old program writes it; "" if there is none.
func runningIn(text string) string {
	var list []struct {
		Snapshot struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		} `json:"snapshot"`
	}
	if json.Unmarshal([]byte(text), &list) != nil {
		return ""
	}
	for _, r := range list {
		if r.Snapshot.Status == "executing" && strings.Count(text, `"id": "`+r.Snapshot.ID+`"`) == 1 &&
			strings.Contains(text, "\n  {\n    \"snapshot\": {\n      \"id\": \""+r.Snapshot.ID+`"`) {
			return r.Snapshot.ID
		}
	}
	return ""
}

func agentChanges(files folder) []backChange {
	registry := func(d *db.DB) *agents.Registry { return agents.NewRegistry(d, agents.Options{}) }
	const path = "agents/moved.toml"
	idOf := func(path string) string { return strings.TrimSuffix(filepath.Base(path), ".toml") }
	named := func(path, text string) bool { return strings.Contains(text, `session_id = "`+idOf(path)+`"`) }
	// One that is active and young, with every other member whatever it is.
	active := richestFile(files, func(path, text string) bool {
		return named(path, text) && strings.Contains(text, "\nstatus = \"active\"\n") &&
			strings.Contains(text, "\ncontext_queries = []\n")
	})
	gone := richestFile(files, func(path, text string) bool {
		return named(path, text) && path != active && strings.Contains(text, `status = "merged"`)
	})
	entry := "session_id = \"moved\"\nthread = \"main\"\nbase_state = \"b\"\nstarted_at = \"" + backText +
		"\"\nattach_precedence = []\nstatus = \"active\"\ncontext_queries = []\n\n[usage_summary]\n"
	return []backChange{
		{
			"an entry is saved", func(ctx context.Context, d *db.DB) error {
				return registry(d).Save(ctx, agents.Entry{
					SessionID: "moved", Thread: "main", BaseState: "b",
					StartedAt: backAt, Status: agents.Active,
				})
			}, func(files folder) { files[path] = entry },
		},
		{
			"a look at context is noted of one that came", func(ctx context.Context, d *db.DB) error {
				return registry(d).LogContextQuery(ctx, idOf(active), agents.ContextQuery{Path: "p", QueriedAt: backAt})
			}, where(active, func(files folder) {
				text := unknownLast(strings.Replace(files[active], "context_queries = []\n", "", 1))
				files[active] = strings.TrimSuffix(text, "\n") +
					"\n\n[[context_queries]]\npath = \"p\"\nqueried_at = \"" + backText + "\"\n"
			}),
		},
		{
			"one that came is removed", func(ctx context.Context,
				d *db.DB,
			) error {
				return registry(d).Delete(ctx, idOf(gone))
			},
			where(gone, func(files folder) { delete(files, gone) }),
		},
	}
}

const knownOfAgents = ` session_id client_instance_id native_actor_key native_parent_actor_key
native_instance_key heddle_session_id thread_id thread pid boot_id liveness_path heartbeat_at anchor_state
anchor_root reservation_token path base_state started_at provider model harness thinking_level
last_progress_at report_flush_state attach_reason attach_precedence winning_attach_rule probe_source
probe_confidence status completed_at context_queries `

// unknownLast is an entry whose members of later versions stand behind those that the old program
// knows: it would write those alone.
func unknownLast(text string) string {
	head, tables, _ := strings.Cut(text, "\n\n")
	var known, unknown string
	into := &known
	for line := range strings.Lines(head + "\n") {
		switch name, _, _ := strings.Cut(line, " "); {
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "]"): // the line before goes on
		case slices.Contains(strings.Fields(knownOfAgents), name):
			into = &known
		default:
			into = &unknown
		}
		*into += line
	}
	return known + unknown + "\n" + tables
}

func checkpointChanges(files folder) []backChange {
	store := func(d *db.DB) *checkpoints.Store { return checkpoints.NewStore(d, checkpoints.Options{}) }
	waiting := richestFile(files, func(path, text string) bool {
		run, ok := strings.CutSuffix(path, ".json")
		_, claimed := files[run+".inflight"]
		return ok && !claimed && strings.HasPrefix(text, "{\n  \"run_id\": \""+run+"\",\n  \"workflow\"") &&
			json.Valid([]byte(text)) && run != ""
	})
	run := strings.TrimSuffix(waiting, ".json")
	var held *checkpoints.Claim
	return []backChange{
		{
			"a run that came is claimed", func(ctx context.Context, d *db.DB) (err error) {
				held, _, err = store(d).Claim(ctx, run)
				if err == nil && held == nil {
					err = errors.New("it does not wait")
				}
				return err
			}, where(waiting, func(files folder) { files[run+".inflight"] = files[waiting]; delete(files, waiting) }),
		},
		{
			"the claim is released", func(ctx context.Context, _ *db.DB) error { return held.Release(ctx) },
			where(waiting, func(files folder) {
				files[waiting] = files[run+".inflight"]
				delete(files,
					run+".inflight")
			}),
		},
		{
			"it is completed", func(ctx context.Context, d *db.DB) error {
				again, _, err := store(d).Claim(ctx, run)
				if err == nil {
					err = again.Complete(ctx)
				}
				return err
			}, where(waiting, func(files folder) { delete(files, waiting) }),
		},
	}
}

func workerChanges(files folder) []backChange {
	// A runtime that runs, with a worker that runs, as the old program wrote them.
	path := richestFile(files, func(path, text string) bool {
		runtime, worker := workerIn(text)
		root := strings.Join(strings.Split(path, "/")[:2], "/")
		return strings.HasSuffix(path, "/worker.json") &&
			strings.Contains(text, "\n  \"status\": \"running\",\n") &&
			strings.Contains(files[root+"/runtime.json"], "\n  \"status\": \"running\",\n") &&
			root == "runtimes/"+idName(runtime) && strings.Contains(path, idName(worker))
	})
	runtime, worker := workerIn(files[path])
	at := ""
	if path != "" {
		at = "runtimes/" + idName(runtime)
	}
	ref := fmt.Sprintf(`{"runtime_id":%s,"worker_id":%s}`, asJSON(runtime), asJSON(worker))
	number := func(text, name string) (n uint64, next string) {
		before, after, _ := strings.Cut(text, `"`+name+`": `)
		_, err := fmt.Sscan(after, &n)
		if err != nil {
			return 0, text
		}
		return n, before + `"` + name + `": ` + strings.Replace(after, fmt.Sprint(n), fmt.Sprint(n+1), 1)
	}
	event := func(files folder, kind, message string) (id uint64) {
		id, files[at+"/runtime.json"] = number(files[at+"/runtime.json"], "next_event_id")
		files[at+"/events.jsonl"] += fmt.Sprintf(`{"id":%d,"worker_ref":%s,"kind":{"kind":%q},"message":%q}`+"\n",
			id, ref, kind, message)
		_, rest, _ := strings.Cut(files[path], `"last_event_id": `)
		var last uint64
		if _, err := fmt.Sscan(rest, &last); err == nil {
			files[path] = strings.Replace(files[path], fmt.Sprintf(`"last_event_id": %d`, last),
				fmt.Sprintf(`"last_event_id": %d`, id), 1)
		}
		return id
	}
	open := func(ctx context.Context, d *db.DB, do func(r *workers.Runtime, w workers.WorkerRef) error) error {
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{
			RuntimeID: workers.RuntimeID(runtime),
			MustExist: true,
		})
		if err != nil {
			return err
		}
		return do(r, workers.WorkerRef{RuntimeID: workers.RuntimeID(runtime), WorkerID: workers.WorkerID(worker)})
	}
	return []backChange{
		{
			"input is sent to a worker that came", func(ctx context.Context, d *db.DB) error {
				return open(ctx, d, func(r *workers.Runtime, w workers.WorkerRef) error {
					_, err := r.SendInput(ctx, w, workers.UserInput("go on"))
					return err
				})
			}, where(at, func(files folder) {
				id := event(files, "worker_input_accepted", "worker input accepted")
				log := strings.TrimSuffix(path, "worker.json") + "transcript.jsonl"
				var sequence uint64
				sequence, files[path] = number(files[path], "next_transcript_sequence")
				files[log] += fmt.Sprintf(`{"sequence":%d,"worker_ref":%s,"role":"user","content":"go on","event_id":%d}`+
					"\n", sequence, ref, id)
			}),
		},
		{
			"it is stopped", func(ctx context.Context, d *db.DB) error {
				return open(ctx, d, func(r *workers.Runtime, w workers.WorkerRef) error {
					reason := "moved"
					_, err := r.StopWorker(ctx, w, &reason)
					return err
				})
			}, where(at, func(files folder) {
				files[path] = strings.Replace(files[path], `"status": "running"`, `"status": "stopped"`, 1)
				event(files, "worker_stopped", "moved")
			}),
		},
	}
}

// workerIn is whose a worker.json is.
func workerIn(text string) (runtime, worker string) {
	var w struct {
		Ref struct {
			Runtime string `json:"runtime_id"`
			Worker  string `json:"worker_id"`
		} `json:"worker_ref"`
	}
	if json.Unmarshal([]byte(text), &w) != nil {
		return "", ""
	}
	return w.Ref.Runtime, w.Ref.Worker
}

// asJSON is a text as serde_json writes it.
func asJSON(text string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)
	return strings.TrimSuffix(out.String(), "\n")
}
