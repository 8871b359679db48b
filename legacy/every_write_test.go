package legacy

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/dbtest"
	files "selvedge/internal/live"
	"selvedge/internal/replay"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// A publicWrite is a call of a store.
type publicWrite struct {
	name string
	do   func(ctx context.Context) error
	// touches stands in the path of every file that the write changes.
	touches string
	// says is what a file that changed has then, as the old program writes it; "" where the answers say enough.
	says string
	// silent says why nothing of the write leaves; "" where something does.
	silent string
}

// Why some writes change no file.
const (
	ownership = "who holds something, and for how long, no old file says"
	pinned    = "what is kept against retention no old file says"
	history   = "what is known of a checkpoint that is over no old file says"
	nested    = "it writes what its function writes, and here that is nothing"
	aside     = "what was put aside has left the folder already"
)

// A storeFile is an imported tree that writes are made on.
type storeFile struct {
	t     *testing.T
	d     *db.DB
	path  string
	clock *dbtest.Clock
}

// diesAtWork has another process take up something of the tree's kind, which ends without giving it back.
func (s *storeFile) diesAtWork(kind Kind) func(context.Context) error {
	return func(context.Context) error {
		dbtest.Start(s.t, "die at work", s.path, string(kind)).Wait()
		return nil
	}
}

// dieAtWork is the program of diesAtWork.
func dieAtWork(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{Now: func() time.Time { return backAt }, Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	switch Kind(args[1]) {
	case Runs:
		_, err = tracesOf(d).Begin(ctx, runs.Started{RunID: "m-3", AgentID: "moved", Intent: "go"})
	case Live:
		_, err = sessionsOf(d).Begin(ctx, live.Start{ID: "m-4", SessionID: "moved", Prompt: "go"})
	case Agents:
		_, _, err = registryOf(d).TryLeaseThread(ctx, "lost", db.LeaseTerms{TTL: time.Hour}, func(string) (agents.Entry, error) {
			return agents.Entry{SessionID: "lost", Thread: "lost", BaseState: "b", StartedAt: backAt, Status: agents.Active}, nil
		})
	case Checkpoints:
		_, _, err = pausesOf(d).Claim(ctx, "m-5")
	case Workers: // nobody holds a worker
	}
	return err
}

// An oldProgram has what the model of the old program reads of a folder, what the store answers to the same questions, and the
// writes, in an order in which each finds something to change.
type oldProgram struct {
	kind   Kind
	reads  func(t *testing.T, dir string) any
	ours   func(ctx context.Context, d *db.DB) (any, error)
	writes func(s *storeFile) []publicWrite
}

// TestAfterEveryPublicWriteTheOldProgramAnswersAsTheStoreDoes imports a tree of each kind, makes one public write after another, and exports
// after each: the model of the old program reads the folder and gives the answers that the store gives. Nothing but the files of what
// was written to has other bytes than before the write.
func TestAfterEveryPublicWriteTheOldProgramAnswersAsTheStoreDoes(t *testing.T) {
	t.Parallel()
	for _, old := range []oldProgram{
		{Runs, oldRuns, ourRuns, runWrites},
		{Live, oldLive, ourLive, liveWrites},
		{Agents, oldAgents, ourAgents, agentWrites},
		{Checkpoints, oldCheckpoints, ourCheckpoints, checkpointWrites},
		{Workers, oldWorkers, ourWorkers, workerWrites},
	} {
		trees, err := replay.Trees(string(old.kind))
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, tree := range trees {
			if strings.HasSuffix(tree.Name, "/small") {
				t.Run(tree.Name, func(t *testing.T) { old.follows(t, tree) })
				tried++
			}
		}
		if tried == 0 {
			t.Errorf("there is no small tree of %s", old.kind)
		}
	}
}

// follows has the old program read an export after each write.
func (old *oldProgram) follows(t *testing.T, tree replay.Tree) {
	t.Parallel() // most of it is waiting for the disk
	ctx := t.Context()
	s := &storeFile{t: t, path: dbtest.Path(t), clock: dbtest.NewClock(backAt)}
	s.d = dbtest.OpenAt(t, s.path, db.Options{Now: s.clock.Now, Synchronous: db.SyncNormal})
	if _, err := Import(ctx, s.d, old.kind, treeFolder(t, old.kind, tree), Options{}); err != nil {
		t.Fatal(err)
	}
	before := old.follow(ctx, s, "import")
	for _, w := range old.writes(s) {
		if err := w.do(ctx); err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		after := old.follow(ctx, s, w.name)
		for _, problem := range w.wrong(before, after) {
			t.Errorf("%s: %s", w.name, problem)
		}
		if before = after; t.Failed() {
			t.FailNow() // what follows goes on from here
		}
	}
}

// follow exports what is stored, and compares what the old program reads of it with what the store answers.
func (old *oldProgram) follow(ctx context.Context, s *storeFile, what string) folder {
	s.t.Helper()
	ours, err := old.ours(ctx, s.d)
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	out := filepath.Join(s.t.TempDir(), "out")
	report, err := Export(ctx, s.d, old.kind, out, Options{})
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	for _, r := range report.Readable {
		if !r.Readable {
			s.t.Errorf("%s: the export says that the old program can't read %q: %s", what, r.File, r.Reason)
		}
	}
	files := filesBelow(s.t, out)
	if d := (replay.Comparison{NullIsAbsent: true}).Diff(old.reads(s.t, out), jsonOf(ours)); d != "" {
		s.t.Errorf("%s: the old program and the store answer otherwise: %s", what, d)
	}
	return files
}

// wrong tells what of an export after the write is not as the write says.
func (w *publicWrite) wrong(before, after folder) (problems []string) {
	changed, said := 0, false
	for _, path := range slices.Concat(sortedKeys(before), sortedKeys(after)) {
		was, isOld := before[path]
		is, isNew := after[path]
		if isOld && isNew && was == is {
			continue
		}
		changed++
		said = said || strings.Contains(is, w.says)
		if w.silent != "" || !strings.Contains(path, w.touches) {
			problems = append(problems, fmt.Sprintf("%q is another\n%s", path, firstOther(was, is)))
		}
	}
	if w.silent == "" && changed == 0 {
		problems = append(problems, "no file is another")
	}
	if w.silent == "" && !said {
		problems = append(problems, fmt.Sprintf("no file that is another has %s", w.says))
	}
	return problems
}

// Every public write of every store is among those that the old program follows.
func TestEveryPublicWriteIsReadByTheOldProgram(t *testing.T) {
	const keeping = "Renew, on a timer"
	within := map[string]string{
		"Keep": keeping, "AppendRecords": "AppendTurns", "RepeatAppend": "Append with Repeat", "ImportRecords": "an import", "DeleteImported": "an import",
		"Close": "writes nothing of a store in a file",
	}
	source, err := os.ReadFile("every_write_test.go")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, store := range []struct {
		kind     any
		receiver string // how the writes above write the one whose method is called
	}{
		{(*runs.Store)(nil), `tracesOf\(\w+(\.d)?\)`},
		{(*runs.Run)(nil), `heldTrace`},
		{(*live.Store)(nil), `sessionsOf\(\w+(\.d)?\)`},
		{(*live.Run)(nil), `heldLive`},
		{(*agents.Registry)(nil), `registryOf\(\w+(\.d)?\)`},
		{(*agents.Lease)(nil), `lease`},
		{(*checkpoints.Store)(nil), `pausesOf\(\w+(\.d)?\)`},
		{(*checkpoints.Claim)(nil), `claim`},
		{(*live.RunHandle)(nil), `cancelling\(\w+(\.d)?\)`},
		{(*workers.Runtime)(nil), `runtime`},
		{(*workers.Runtimes)(nil), `runtimesOf\(\w+(\.d)?\)`},
	} {
		for _, name := range dbtest.PublicWrites(store.kind) {
			looked++
			if _, ok := within[name]; !ok && !regexp.MustCompile(`\b`+store.receiver+`\.`+name+`\(ctx`).Match(source) {
				t.Errorf("what the old program makes of %T.%s is not looked at", store.kind, name)
			}
		}
	}
	if looked < 70 {
		t.Errorf("only %d writes were looked for", looked)
	}
}

func tracesOf(d *db.DB) *runs.Store         { return runs.NewStore(d, runs.Options{}) }
func sessionsOf(d *db.DB) *live.Store       { return live.NewStore(d, live.Options{}) }
func registryOf(d *db.DB) *agents.Registry  { return agents.NewRegistry(d, agents.Options{}) }
func pausesOf(d *db.DB) *checkpoints.Store  { return checkpoints.NewStore(d, checkpoints.Options{}) }
func runtimesOf(d *db.DB) *workers.Runtimes { return workers.NewRuntimes(d, "") }

// cancelling is the handle of a live run, which its session is about.
func cancelling(d *db.DB) *live.RunHandle {
	at := &live.Session{}
	at.SetCurrent("m-3")
	at.SetToken(live.NewCancellationToken())
	return live.NewRunHandle("m-3", "moved", sessionsOf(d), at, nil)
}

func oldRuns(t *testing.T, dir string) any {
	m := readTree(t, filepath.Join(dir, "runs"), modelRules{}, backAt)
	lists, traces := m.lists(), map[string]any{}
	for agent, list := range lists {
		if len(list.([]any)) == 0 {
			delete(lists, agent)
		}
	}
	for _, f := range m.files {
		traces[f.path()] = m.records(f)
	}
	return map[string]any{"lists": lists, "traces": traces}
}

func ourRuns(ctx context.Context, d *db.DB) (any, error) {
	lists, traces := map[string]any{}, map[string]any{}
	for run, err := range tracesOf(d).All(ctx, runs.Filter{}) {
		if err != nil {
			return nil, err
		}
		ref := runs.RunRef{AgentID: run.AgentID, RunID: run.RunID}
		path := runPath(ref, seedName)
		agent, _, _ := strings.Cut(path, "/")
		if lists[agent] == nil {
			list, err := tracesOf(d).ListRuns(ctx, run.AgentID)
			if err != nil {
				return nil, err
			}
			as := jsonOf(list).([]any)
			sortList(as)
			lists[agent] = as
		}
		records, _, err := tracesOf(d).GetRunTraceFor(ctx, run.AgentID, run.RunID)
		if err != nil {
			return nil, err
		}
		traces[path] = jsonOf(records)
	}
	return map[string]any{"lists": lists, "traces": traces}, nil
}

func runWrites(s *storeFile) []publicWrite {
	var heldTrace *runs.Run
	text := "go"
	turn := runs.Turn{Index: 1, Prompt: &text, Output: json.RawMessage(`{"a":[1,"é"]}`), VerifierVerdict: runs.VerdictPass}
	started := func(run string) runs.Started {
		return runs.Started{RunID: run, AgentID: "moved", Intent: "go", StartedAt: s.clock.Now()}
	}
	ref := func(run string) runs.RunRef { return runs.RunRef{AgentID: "moved", RunID: run} }
	return []publicWrite{
		{name: "WriteStarted", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error { return tracesOf(s.d).WriteStarted(ctx, started("m-1")) }},
		{name: "AppendTurns", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error {
			return tracesOf(s.d).AppendTurns(ctx, "moved", "m-1", []runs.Turn{turn})
		}},
		{name: "Append", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error {
			return tracesOf(s.d).Append(ctx, runs.Batch{AgentID: "moved", RunID: "m-1", Records: []runs.Record{turn, turn}, Key: "key"})
		}},
		{name: "WriteEnded", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error {
			return tracesOf(s.d).WriteEnded(ctx, runs.Ended{RunID: "m-1", AgentID: "moved"})
		}},
		{name: "Begin", touches: "runs/moved/m-2.jsonl", do: func(ctx context.Context) (err error) {
			heldTrace, err = tracesOf(s.d).Begin(ctx, started("m-2"))
			return err
		}},
		{name: "Run.Append", touches: "runs/moved/m-2.jsonl", do: func(ctx context.Context) error { return heldTrace.Append(ctx, turn) }},
		{name: "Run.Release", silent: ownership, do: func(ctx context.Context) error { return heldTrace.Release(ctx) }},
		{name: "Resume", silent: ownership, do: func(ctx context.Context) (err error) {
			heldTrace, err = tracesOf(s.d).Resume(ctx, ref("m-2"))
			return err
		}},
		{name: "Run.End", touches: "runs/moved/m-2.jsonl", do: func(ctx context.Context) error {
			return heldTrace.End(ctx, runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: s.clock.Now()}})
		}},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error { return tracesOf(s.d).Pin(ctx, ref("m-2")) }},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error { return tracesOf(s.d).Unpin(ctx, ref("m-2")) }},
		{name: "a process dies at work", touches: "runs/moved/m-3.jsonl", do: s.diesAtWork(Runs)},
		{name: "Recover", touches: "runs/moved/m-3.jsonl", do: func(ctx context.Context) error { return one(tracesOf(s.d).Recover(ctx)) }},
		{name: "WriteStarted of another", touches: "runs/moved/m-4.jsonl", do: func(ctx context.Context) error { return tracesOf(s.d).WriteStarted(ctx, started("m-4")) }},
		{name: "AdoptOrphans", touches: "runs/", says: `"termination":{"kind":"incomplete"}`, do: func(ctx context.Context) error { return some(tracesOf(s.d).AdoptOrphans(ctx)) }},
		{name: "GC", touches: "runs/", do: func(ctx context.Context) error { return some(tracesOf(s.d).GC(ctx)) }},
		{name: "Delete", touches: "runs/moved/m-1.jsonl", do: func(ctx context.Context) error { return tracesOf(s.d).Delete(ctx, ref("m-1")) }},
		{name: "Prune", touches: "runs/", do: func(ctx context.Context) error {
			_, err := tracesOf(s.d).Prune(ctx, db.Policy{Count: 1})
			return err
		}},
	}
}

// one is the error of a call that should have found one thing.
func one(n int, err error) error {
	if err == nil && n != 1 {
		err = fmt.Errorf("%d were found", n)
	}
	return err
}

// some is the error of a call that should have found something.
func some(n int, err error) error { return one(min(n, 1), err) }

func oldLive(t *testing.T, dir string) any {
	sessions := map[string]any{}
	for path, text := range filesBelow(t, dir) {
		value, err := replay.Decode([]byte(text))
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		list, err := replay.NewLiveModel().ReadRecords(value)
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		sessions[path] = replay.RecordList(list)
	}
	return jsonOf(sessions)
}

func ourLive(ctx context.Context, d *db.DB) (any, error) {
	sessions := map[string][]live.RunRecord{}
	records, err := sessionsOf(d).Records(ctx)
	for _, r := range records {
		path := "runs/" + files.SafeName(r.Snapshot.SessionID) + ".json"
		sessions[path] = append(sessions[path], r)
	}
	return sessions, err
}

func liveWrites(s *storeFile) []publicWrite {
	const moved = "runs/moved.json"
	var heldLive *live.Run
	found := func(_ live.RunSnapshot, found bool, err error) error {
		if err == nil && !found {
			err = errors.New("the run is not there")
		}
		return err
	}
	return []publicWrite{
		{name: "CreateRun", touches: moved, do: func(ctx context.Context) error { _, err := sessionsOf(s.d).CreateRun(ctx, "moved", "go"); return err }},
		{name: "CreateRunWithID", touches: moved, do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).CreateRunWithID(ctx, "m-1", "moved", "go")
			return err
		}},
		{name: "ReserveRunWithID", touches: moved, do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).ReserveRunWithID(ctx, "m-2", "moved", "go")
			return err
		}},
		{name: "RecordEvent", touches: moved, do: func(ctx context.Context) error {
			return found(sessionsOf(s.d).RecordEvent(ctx, "m-1", live.TextDelta("é")))
		}},
		{name: "RecordEvents", touches: moved, do: func(ctx context.Context) error {
			return found(sessionsOf(s.d).RecordEvents(ctx, "m-1", []live.Event{live.TextDelta("a"), live.TextDelta("b")}))
		}},
		{name: "Append", touches: moved, do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).Append(ctx, "m-2", live.Batch{Events: []live.Event{live.AgentEnd("done")}, Key: "key"})
			return err
		}},
		{name: "MarkFailed", touches: moved, says: `"error": "no disk"`, do: func(ctx context.Context) error { return found(sessionsOf(s.d).MarkFailed(ctx, "m-1", "no disk")) }},
		{name: "Begin", touches: moved, do: func(ctx context.Context) (err error) {
			heldLive, err = sessionsOf(s.d).Begin(ctx, live.Start{ID: "m-3", SessionID: "moved", Prompt: "go"})
			return err
		}},
		{name: "Run.Append", touches: moved, do: func(ctx context.Context) error { _, err := heldLive.Append(ctx, live.TextDelta("c")); return err }},
		{name: "Run.Release", silent: ownership, do: func(ctx context.Context) error { return heldLive.Release(ctx) }},
		{name: "Resume", silent: ownership, do: func(ctx context.Context) (err error) {
			heldLive, err = sessionsOf(s.d).Resume(ctx, "m-3")
			return err
		}},
		{name: "Run.End", touches: moved, says: `"status": "completed"`, do: func(ctx context.Context) error { return heldLive.End(ctx, live.AgentEnd("over")) }},
		{name: "a process dies at work", touches: moved, do: s.diesAtWork(Live)},
		{name: "Recover", touches: moved, do: func(ctx context.Context) error { return one(sessionsOf(s.d).Recover(ctx)) }},
		{name: "CreateRunWithID of another", touches: "runs/other.json", do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).CreateRunWithID(ctx, "m-5", "other", "go")
			return err
		}},
		{name: "MarkCancelled", touches: "runs/other.json", says: `"status": "cancelled"`, do: func(ctx context.Context) error { return found(sessionsOf(s.d).MarkCancelled(ctx, "m-5")) }},
		{name: "RunHandle.Cancel", touches: moved, says: `"status": "cancelled"`, do: func(ctx context.Context) error {
			_, err := cancelling(s.d).Cancel(ctx)
			return err
		}},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error { return sessionsOf(s.d).Pin(ctx, "m-1") }},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error { return sessionsOf(s.d).Unpin(ctx, "m-1") }},
		{name: "Delete", touches: moved, do: func(ctx context.Context) error { return sessionsOf(s.d).Delete(ctx, "m-1") }},
		{name: "ReplaceRecords", touches: "runs/other.json", do: func(ctx context.Context) error {
			records, err := sessionsOf(s.d).Records(ctx)
			records = slices.DeleteFunc(records, func(r live.RunRecord) bool { return r.Snapshot.ID == "m-5" })
			return errors.Join(err, sessionsOf(s.d).ReplaceRecords(ctx, records))
		}},
		{name: "Prune", touches: "runs/", do: func(ctx context.Context) error {
			_, err := sessionsOf(s.d).Prune(ctx, db.Policy{Count: 1})
			return err
		}},
	}
}

func oldAgents(t *testing.T, dir string) any {
	var m replay.Agents
	for path, text := range filesBelow(t, dir) {
		name, ok := strings.CutSuffix(filepath.Base(path), ".toml")
		if !ok {
			continue
		}
		entry := map[string]any{}
		if err := toml.Unmarshal([]byte(text), &entry); err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		m.Write(name, jsonOf(entry).(map[string]any), "")
	}
	out := m.Call(&replay.Call{Op: "list"}, backAt, "")
	if out.Err != nil {
		t.Fatal(*out.Err)
	}
	return bySession(jsonOf(out.OK))
}

func ourAgents(ctx context.Context, d *db.DB) (any, error) {
	list, err := registryOf(d).List(ctx)
	return bySession(jsonOf(list)), err
}

// bySession has the entries by their ids, since a folder keeps no order of those that began together.
func bySession(list any) any {
	entries := map[string]any{}
	for _, e := range list.([]any) {
		entry := e.(map[string]any)
		entries[entry["session_id"].(string)] = entry
	}
	return entries
}

func agentWrites(s *storeFile) []publicWrite {
	var lease *agents.Lease
	dead := uint32(1<<22 + 1)
	entry := func(id, thread string) agents.Entry {
		return agents.Entry{SessionID: id, Thread: thread, BaseState: "b", StartedAt: s.clock.Now(), Status: agents.Active}
	}
	build := func(id string) agents.Builder {
		return func(string) (agents.Entry, error) { return entry(id, id), nil }
	}
	killed := func(id string) agents.Entry {
		e := entry(id, id)
		e.PID, e.BootID = &dead, agents.CurrentBootID()
		return e
	}
	save := func(e func() agents.Entry) func(ctx context.Context) error {
		return func(ctx context.Context) error { return registryOf(s.d).Save(ctx, e()) }
	}
	const moved = "agents/moved.toml"
	return []publicWrite{
		{name: "Save", touches: moved, do: save(func() agents.Entry { return entry("moved", "main") })},
		{name: "UpdateEntry", touches: moved, says: `base_state = "é"`, do: func(ctx context.Context) error {
			_, _, err := registryOf(s.d).UpdateEntry(ctx, "moved", func(e *agents.Entry) { e.BaseState = "é" })
			return err
		}},
		{name: "LogContextQuery", touches: moved, do: func(ctx context.Context) error {
			return registryOf(s.d).LogContextQuery(ctx, "moved", agents.ContextQuery{Path: "p", QueriedAt: s.clock.Now()})
		}},
		{name: "UpdateStatus", touches: moved, says: `status = "complete"`, do: func(ctx context.Context) error { return registryOf(s.d).UpdateStatus(ctx, "moved", agents.Complete) }},
		{name: "CreateGeneratedEntry", touches: "agents/made.toml", do: func(ctx context.Context) error {
			_, err := registryOf(s.d).CreateGeneratedEntry(ctx, build("made"))
			return err
		}},
		{name: "CreateGeneratedEntryForThread", touches: "agents/made-2.toml", do: func(ctx context.Context) error {
			_, err := registryOf(s.d).CreateGeneratedEntryForThread(ctx, "made-2", build("made-2"))
			return err
		}},
		{name: "FindOrCreateActiveEntry", touches: "agents/sought.toml", do: func(ctx context.Context) error {
			_, _, err := registryOf(s.d).FindOrCreateActiveEntry(ctx, func(agents.Entry) bool { return false }, func(*agents.Entry) {}, build("sought"))
			return err
		}},
		{name: "TryReserveThread", touches: "agents/reserved.toml", do: func(ctx context.Context) error {
			_, err := registryOf(s.d).TryReserveThread(ctx, "reserved", build("reserved"))
			return err
		}},
		{name: "TryLeaseThread", touches: "agents/leased.toml", do: func(ctx context.Context) (err error) {
			lease, _, err = registryOf(s.d).TryLeaseThread(ctx, "leased", db.LeaseTerms{TTL: time.Hour}, build("leased"))
			return err
		}},
		{name: "Lease.Renew", touches: "agents/leased.toml", says: `heartbeat_at = "2026-11-01T12:00:01Z"`, do: func(ctx context.Context) error {
			s.clock.Advance(time.Second)
			return lease.Renew(ctx)
		}},
		{name: "Lease.Update", touches: "agents/leased.toml", says: `base_state = "c"`, do: func(ctx context.Context) error {
			_, err := lease.Update(ctx, func(e *agents.Entry) { e.BaseState = "c" })
			return err
		}},
		{name: "Lease.LogContextQuery", touches: "agents/leased.toml", says: `path = "q"`, do: func(ctx context.Context) error {
			return lease.LogContextQuery(ctx, agents.ContextQuery{Path: "q", QueriedAt: s.clock.Now()})
		}},
		{name: "Lease.Hold", silent: nested, do: func(ctx context.Context) error {
			return lease.Hold(ctx, "look", func(*db.Tx) error { return nil })
		}},
		{name: "Lease.Release", touches: "agents/leased.toml", says: `status = "merged"`, do: func(ctx context.Context) error { return lease.Release(ctx, agents.Merged) }},
		{name: "Save of a dead one", touches: "agents/dead.toml", do: save(func() agents.Entry { return killed("dead") })},
		{name: "ReapDeadForThread", touches: "agents/dead.toml", do: func(ctx context.Context) error { return one(registryOf(s.d).ReapDeadForThread(ctx, "dead")) }},
		{name: "Save of the next", touches: "agents/dead-2.toml", do: save(func() agents.Entry { return killed("dead-2") })},
		{name: "ReapDead", touches: "agents/", do: func(ctx context.Context) error { return some(registryOf(s.d).ReapDead(ctx)) }},
		{name: "a process dies at work", touches: "agents/lost.toml", do: s.diesAtWork(Agents)},
		{name: "Recover", touches: "agents/lost.toml", do: func(ctx context.Context) error { return one(registryOf(s.d).Recover(ctx)) }},
		{name: "Delete", touches: "agents/made.toml", do: func(ctx context.Context) error { return registryOf(s.d).Delete(ctx, "made") }},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error { return registryOf(s.d).Pin(ctx, "moved") }},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error { return registryOf(s.d).Unpin(ctx, "moved") }},
		{name: "Prune", silent: aside, do: func(ctx context.Context) error {
			pruned, err := registryOf(s.d).Prune(ctx, db.Policy{Age: db.KeepNone})
			return some(pruned.Removed, err)
		}},
		{name: "Save of one that ended long ago", silent: aside, do: save(func() agents.Entry {
			e, then := entry("old", "old"), s.clock.Now().Add(-30*24*time.Hour)
			e.Status, e.StartedAt, e.CompletedAt = agents.Complete, then, &then
			return e
		})},
	}
}

func oldCheckpoints(t *testing.T, dir string) any {
	m := replay.Checkpoints{Read: func(document []byte) (json.RawMessage, error) {
		value, err := replay.Decode(document)
		if err != nil {
			return nil, err
		}
		return replay.Encode(value), nil
	}}
	claimed := []string{}
	play := func(op string, args map[string]any) any {
		out := m.Play(&replay.Call{Op: op, Args: args})
		if out.Err != nil {
			t.Fatalf("%s %v: %s", op, args, *out.Err)
		}
		return jsonOf(out.OK)
	}
	for path, text := range filesBelow(t, dir) {
		play("fs.write", map[string]any{"path": path, "hex": hex.EncodeToString([]byte(text))})
		if id, ok := strings.CutSuffix(path, ".inflight"); ok {
			claimed = append(claimed, id)
		}
	}
	slices.Sort(claimed)
	waiting := map[string]any{}
	for _, id := range play("list", nil).([]any) {
		waiting[id.(string)] = play("load", map[string]any{"run_id": id})
	}
	return jsonOf(map[string]any{"waiting": waiting, "claimed": claimed})
}

func ourCheckpoints(ctx context.Context, d *db.DB) (any, error) {
	waiting, claimed := map[string]any{}, []string{}
	ids, err := pausesOf(d).List(ctx)
	for _, id := range ids {
		p, _, err := pausesOf(d).Load(ctx, id)
		if err != nil {
			return nil, err
		}
		waiting[id] = p
	}
	for c, err := range pausesOf(d).All(ctx, checkpoints.Filter{}) {
		if err != nil {
			return nil, err
		}
		if c.State == checkpoints.Claimed {
			claimed = append(claimed, c.RunID)
		}
	}
	slices.Sort(claimed)
	return map[string]any{"waiting": waiting, "claimed": claimed}, err
}

func checkpointWrites(s *storeFile) []publicWrite {
	var claim *checkpoints.Claim
	workflow := func(id, prompt string) *checkpoints.PausedWorkflow {
		return &checkpoints.PausedWorkflow{
			RunID: id, Workflow: checkpoints.Workflow{ID: "w", Name: "W", Start: "gate", MaxIterations: 3},
			PausedStageID: "gate", Prompt: prompt, OutputKey: "approval", CreatedAt: s.clock.Now(),
		}
	}
	save := func(id, prompt string) func(context.Context) error {
		return func(ctx context.Context) error { return pausesOf(s.d).Save(ctx, workflow(id, prompt)) }
	}
	take := func(id string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			var ok bool
			if claim, ok, err = pausesOf(s.d).Claim(ctx, id); err == nil && !ok {
				err = errors.New("it does not wait")
			}
			return err
		}
	}
	return []publicWrite{
		{name: "Save", touches: "m-1.", do: save("m-1", "é?")},
		{name: "Save again", touches: "m-1.", do: save("m-1", "go on?")},
		{name: "SaveDocument", touches: "m-2.", do: func(ctx context.Context) error {
			text, err := workflow("m-2", "go?").Document()
			return errors.Join(err, pausesOf(s.d).SaveDocument(ctx, "m-2", text))
		}},
		{name: "Claim", touches: "m-1.", do: take("m-1")},
		{name: "Claim.Renew", silent: ownership, do: func(ctx context.Context) error { return claim.Renew(ctx) }},
		{name: "Claim.Hold", silent: nested, do: func(ctx context.Context) error { return claim.Hold(ctx, "look", func(*db.Tx) error { return nil }) }},
		{name: "Claim.Release", touches: "m-1.", do: func(ctx context.Context) error { return claim.Release(ctx) }},
		{name: "Claim again", touches: "m-1.", do: take("m-1")},
		{name: "Claim.Complete", touches: "m-1.", do: func(ctx context.Context) error { return claim.Complete(ctx) }},
		{name: "Save the decided one", touches: "m-6.", do: save("m-6", "go?")},
		{name: "Claim of the decided one", touches: "m-6.", do: take("m-6")},
		{name: "Claim.Decide", touches: "m-6.", do: func(ctx context.Context) error { return claim.Decide(ctx, checkpoints.Decision{Decision: "yes"}) }},
		{name: "Claim of the next", touches: "m-2.", do: take("m-2")},
		{name: "Complete", touches: "m-2.", do: func(ctx context.Context) error { return pausesOf(s.d).Complete(ctx, "m-2") }},
		{name: "Save a third", touches: "m-3.", do: save("m-3", "go?")},
		{name: "Remove", touches: "m-3.", do: func(ctx context.Context) error { return pausesOf(s.d).Remove(ctx, "m-3") }},
		{name: "Save a fourth", touches: "m-4.", do: save("m-4", "go?")},
		{name: "Delete", touches: "m-4.", do: func(ctx context.Context) error {
			return pausesOf(s.d).Delete(ctx, checkpoints.Ref{RunID: "m-4", State: checkpoints.Paused})
		}},
		{name: "Save a fifth", touches: "m-5.", do: save("m-5", "go?")},
		{name: "a process dies at work", touches: "m-5.", do: s.diesAtWork(Checkpoints)},
		{name: "Recover", touches: "m-5.", do: func(ctx context.Context) error { return one(pausesOf(s.d).Recover(ctx)) }},
		{name: "RecoverOrphaned", touches: "", do: func(ctx context.Context) error { return some(pausesOf(s.d).RecoverOrphaned(ctx)) }},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error { return pausesOf(s.d).Pin(ctx, "m-1") }},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error { return pausesOf(s.d).Unpin(ctx, "m-1") }},
		{name: "Prune", silent: history, do: func(ctx context.Context) error {
			_, err := pausesOf(s.d).Prune(ctx, db.Policy{Age: db.KeepNone})
			return err
		}},
	}
}

func oldWorkers(t *testing.T, dir string) any {
	runtimes := map[string]any{}
	names, err := os.ReadDir(filepath.Join(dir, "runtimes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		id, err := hex.DecodeString(strings.TrimPrefix(n.Name(), "id-"))
		if err != nil {
			t.Fatal(err)
		}
		m := replay.Workers{Dir: dir}
		play := func(op string, args map[string]any) any {
			call := jsonOf(args)
			out := m.Play(&replay.Call{Op: op, Args: call})
			if out.Err != nil {
				t.Fatalf("runtime %q: %s: %s", id, op, *out.Err)
			}
			return jsonOf(out.OK)
		}
		play("open", map[string]any{"runtime_id": string(id)})
		start, summary := play("event_cursor_from_start", nil), play("summary", nil)
		most := summary.(map[string]any)["limits"].(map[string]any)
		all := map[string]any{
			"summary": summary, "diagnostics": play("diagnostics", nil), "workers": play("list_workers", nil),
			"now": play("event_cursor_now", nil), "events": play("read_events", map[string]any{"cursor": start, "limit": most["max_event_batch_items"]}),
		}
		for _, w := range all["workers"].([]any) {
			ref := w.(map[string]any)["worker_ref"]
			name := w.(map[string]any)["worker_id"].(string)
			all["detail "+name] = play("worker_detail", map[string]any{"worker_ref": ref})
			all["transcript "+name] = play("transcript_projection", map[string]any{"worker_ref": ref, "start": 0, "limit": most["max_transcript_projection_items"]})
		}
		runtimes[string(id)] = all
	}
	return runtimes
}

func ourWorkers(ctx context.Context, d *db.DB) (any, error) {
	runtimes := map[string]any{}
	for summary, err := range runtimesOf(d).All(ctx, workers.RuntimeFilter{}) {
		if err != nil {
			return nil, err
		}
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: summary.RuntimeID, MustExist: true})
		if err != nil {
			return nil, err
		}
		all := map[string]any{"summary": summary}
		var errs [5]error
		all["diagnostics"], errs[0] = r.Diagnostics(ctx)
		list, err := r.ListWorkers(ctx)
		all["workers"] = list
		all["now"], errs[1] = r.EventCursorNow(ctx)
		start, startErr := r.EventCursorFromStart(ctx)
		all["events"], errs[2] = r.ReadEvents(ctx, start, summary.Limits.MaxEventBatchItems)
		for _, w := range list {
			all["detail "+string(w.WorkerID)], errs[3] = r.WorkerDetail(ctx, w.WorkerRef)
			all["transcript "+string(w.WorkerID)], errs[4] = r.TranscriptProjection(ctx, w.WorkerRef, workers.NewTranscriptQuery(0, summary.Limits.MaxTranscriptProjectionItems))
		}
		if err := errors.Join(append(errs[:], err, startErr)...); err != nil {
			return nil, err
		}
		runtimes[string(summary.RuntimeID)] = all
	}
	return runtimes, nil
}

func workerWrites(s *storeFile) []publicWrite {
	var runtime *workers.Runtime
	var first, second, third workers.WorkerRef
	reason := "é"
	dir := "runtimes/" + idName("moved") + "/"
	open := func(id workers.RuntimeID) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			runtime, err = workers.Open(ctx, s.d, workers.RuntimeOptions{RuntimeID: id})
			return err
		}
	}
	create := func(ref *workers.WorkerRef) func(context.Context) error {
		return func(ctx context.Context) error {
			w, err := runtime.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent("go")})
			*ref = w.WorkerRef
			return err
		}
	}
	return []publicWrite{
		{name: "Open", touches: dir, do: open("moved")},
		{name: "CreateWorker", touches: dir, do: create(&first)},
		{name: "CreateWorker again", touches: dir, do: create(&second)},
		{name: "CreateWorker a third time", touches: dir, do: create(&third)},
		{name: "SendInput", touches: dir, do: func(ctx context.Context) error {
			_, err := runtime.SendInput(ctx, first, workers.UserInput("é"))
			return err
		}},
		{name: "RepeatInput", touches: dir, do: func(ctx context.Context) error {
			_, err := runtime.RepeatInput(ctx, first, workers.SystemInput("again"), 1<<40)
			return err
		}},
		{name: "StopWorker", touches: dir, says: `"status": "stopped"`, do: func(ctx context.Context) error { _, err := runtime.StopWorker(ctx, first, &reason); return err }},
		{name: "CancelWorker", touches: dir, says: `"status": "cancelled"`, do: func(ctx context.Context) error { _, err := runtime.CancelWorker(ctx, second, nil); return err }},
		{name: "PruneEvents", touches: dir, do: func(ctx context.Context) error {
			n, err := runtime.PruneEvents(ctx, workers.EventCursor{RuntimeID: "moved", NextEventID: 3})
			return one(int(n)-1, err)
		}},
		{name: "Pin", silent: pinned, do: func(ctx context.Context) error { return runtimesOf(s.d).Pin(ctx, first) }},
		{name: "Unpin", silent: pinned, do: func(ctx context.Context) error { return runtimesOf(s.d).Unpin(ctx, first) }},
		{name: "Delete", touches: dir, do: func(ctx context.Context) error { return runtime.Delete(ctx, first) }},
		{name: "Prune", touches: "runtimes/", do: func(ctx context.Context) error {
			_, err := runtimesOf(s.d).Prune(ctx, db.Policy{Age: db.KeepNone})
			return err
		}},
		{name: "StopRuntime", touches: dir, says: `"runtime_stopped"`, do: func(ctx context.Context) error { _, err := runtime.StopRuntime(ctx); return err }},
		{name: "Runtimes.Delete", touches: dir, do: func(ctx context.Context) error { return runtimesOf(s.d).Delete(ctx, "moved") }},
	}
}
