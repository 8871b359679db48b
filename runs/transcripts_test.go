package runs_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/runs"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

func TestTranscripts(t *testing.T) {
	eachTranscript(t, replay.Play)
}

func TestTranscriptsNoticeFalsifiedAnswers(t *testing.T) {
	eachTranscript(t, replay.PlayFalsified)
}

type playing func(replay.Transcript, replay.Player, replay.Comparison) (replay.Tally, error)

func eachTranscript(t *testing.T, play playing) {
	t.Helper()
	all, err := replay.Transcripts("runs")
	must(t, err)
	var total replay.Tally
	for _, script := range all {
		t.Run(script.Name, func(t *testing.T) {
			p := newPlayer(t)
			tally, err := play(script, p, p.compare)
			if err != nil {
				t.Error(err)
			}
			t.Log(tally)
			total.Add(tally)
		})
	}
	t.Logf("%d transcripts: %s", len(all), total)
}

// A player makes each call three times: on the store, on a model of the original, and on the same
// model with our rules. The first must equal the last, and the second what was recorded.
type player struct {
	t       *testing.T
	clock   *dbtest.Clock
	compare replay.Comparison

	car   string // scratch: config.toml and what was exported last
	path  string
	db    *db.DB
	store *runs.Store

	seed, ours *seedModel
	seedCar    string
	limits     *runs.RetentionConfig // of the store; nil: the default
}

func newPlayer(t *testing.T) *player {
	p := &player{t: t, clock: dbtest.NewClock(time.Now().UTC()), car: t.TempDir(), seedCar: t.TempDir()}
	p.compare = replay.Comparison{Now: p.clock.Now}
	p.seed = &seedModel{
		shelf: folder{filepath.Join(p.seedCar, "runs")}, limits: runs.DefaultRetention(),
		now: p.clock.Now,
	}
	p.ours = &seedModel{
		limits: runs.DefaultRetention(), now: p.clock.Now,
		rules: seedRules{on: true, used: map[int]bool{}},
	}
	p.ours.shelf = &table{rows: map[runs.RunRef][]byte{}, rules: &p.ours.rules}
	p.open(dbtest.Path(t))
	return p
}

// open goes on with another file, or with the same one again.
func (p *player) open(path string) {
	if p.db != nil {
		must(p.t, p.db.Close())
	}
	p.path = path
	var err error
	p.db, err = db.Open(p.t.Context(), path, db.Options{Now: p.clock.Now, Synchronous: db.SyncNormal})
	must(p.t, err)
	p.t.Cleanup(func() { must(p.t, p.db.Close()) })
	p.store = runs.NewStore(p.db, runs.Options{Retention: p.limits})
}

// Play makes the call and tells by which rule it is judged: by none where our rules make no difference to it.
func (p *player) Play(c *replay.Call) replay.Answer {
	p.clock.Advance(time.Millisecond)
	seed, ours, store := p.onModel(p.seed, c), p.onModel(p.ours, c), p.onStore(c)
	a := replay.Answer{Outcome: store, Model: &seed}
	if c.Op == "fs.list" {
		return p.judgeList(c, a, ours)
	}
	if p.compare.Agrees(c.Want, ours) && !p.different(seed, ours) {
		return a
	}
	a.Rule, a.Instead = p.rule(c), &ours
	return a
}

// different tells the two models apart where any of several answers was possible.
func (p *player) different(seed, ours replay.Outcome) bool {
	return !p.compare.Agrees(replay.Recorded{Outcome: plain(p.t, seed)}, ours)
}

func plain(t *testing.T, o replay.Outcome) replay.Outcome {
	text, err := json.Marshal(o.OK)
	must(t, err)
	o.OK, err = replay.Decode(text)
	must(t, err)
	return o
}

// rule is the number of the difference that explains this one; the last that came up where there are several.
func (p *player) rule(c *replay.Call) int {
	if c.Op == "gc" && c.Want.Panic != nil {
		return 18
	}
	for _, number := range []int{19, 26, 20, 16, 17} {
		if p.ours.rules.used[number] {
			return number
		}
	}
	return 17
}

// judgeList compares names of trace files only.
func (p *player) judgeList(c *replay.Call, a replay.Answer, ours replay.Outcome) replay.Answer {
	a.Rule, a.Instead = 20, &ours
	if slices.Equal(traceNames(c.Want.OK), traceNames(plain(p.t, *a.Model).OK)) {
		a.Model.OK = c.Want.OK
	}
	return a
}

func traceNames(listing any) []string {
	names := []string{}
	entries, _ := listing.([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		path, _ := entry["path"].(string)
		if entry["kind"] != "dir" && strings.HasSuffix(path, ".jsonl") {
			names = append(names, path)
		}
	}
	slices.Sort(names)
	return names
}

func outcome(value any, err error) replay.Outcome {
	if err != nil {
		return replay.Fails(err, "")
	}
	return replay.Outcome{OK: value}
}

// unit is the outcome of a call that gives nothing.
func unit(err error) replay.Outcome { return outcome(nil, err) }

func (p *player) records(c *replay.Call) []runs.Record {
	var raw []json.RawMessage
	must(p.t, c.Unmarshal("records", &raw))
	list := []runs.Record{}
	for _, text := range raw {
		list = append(list, p.decode(text))
	}
	return list
}

// decode reads a record that the harness gave to the original as a value: what its JSON looked like
// is forgotten.
func (p *player) decode(text []byte) runs.Record {
	record, err := runs.DecodeSeed(text)
	must(p.t, err)
	text, err = record.MarshalJSON()
	must(p.t, err)
	record, err = runs.DecodeSeed(text)
	must(p.t, err)
	return record
}

// tagged is a started or ended record, whose tag the harness leaves out.
func (p *player) tagged(c *replay.Call, kind string) runs.Record {
	var members map[string]json.RawMessage
	must(p.t, c.Unmarshal(kind, &members))
	members["record"] = json.RawMessage(strconv.Quote(kind))
	text, err := json.Marshal(members)
	must(p.t, err)
	return p.decode(text)
}

// written gives what a writing call appends, and where.
func (p *player) written(c *replay.Call) (agent, run string, records []runs.Record, ok bool) {
	switch c.Op {
	case "append_records", "append_turns":
		return c.Text("agent_id"), c.Text("run_id"), p.records(c), true
	case "write_started":
		s := p.tagged(c, "started").(runs.Started)
		return s.AgentID, s.RunID, []runs.Record{s}, true
	case "write_ended":
		e := p.tagged(c, "ended").(runs.Ended)
		return e.AgentID, e.RunID, []runs.Record{e}, true
	}
	return "", "", nil, false
}

func limitsOf(t *testing.T, c *replay.Call) runs.RetentionConfig {
	var limits runs.RetentionConfig
	must(t, c.Unmarshal("max_per_agent", &limits.MaxPerAgent))
	must(t, c.Unmarshal("max_age_days", &limits.MaxAgeDays))
	return limits
}

// onModel makes the call on one of the models.
func (p *player) onModel(m *seedModel, c *replay.Call) replay.Outcome {
	if agent, run, records, ok := p.written(c); ok {
		return unit(m.appendRecords(agent, run, records))
	}
	switch c.Op {
	case "get_run_trace":
		return outcome(m.getRunTrace(c.Text("run_id")))
	case "get_run_trace_for":
		return outcome(m.getRunTraceFor(c.Text("agent_id"), c.Text("run_id")), nil)
	case "agent_for_run":
		return outcome(m.agentForRun(c.Text("run_id")))
	case "list_runs":
		return outcome(m.listRuns(c.Text("agent_id")))
	case "gc":
		removed, err := m.gc()
		if errors.Is(err, errOutOfRange) && !m.rules.on {
			return replay.Outcome{Panic: new("")}
		}
		return outcome(removed, err)
	case "adopt_orphans":
		return outcome(m.adoptOrphans())
	case "new":
		m.limits = limitsOf(p.t, c)
		return unit(nil)
	case "from_journal_dir":
		m.limits = runs.FromCarDir(p.seedCar)
		return outcome(map[string]string{"root": "runs"}, nil)
	case "reopen":
		return unit(nil)
	}
	if strings.HasPrefix(c.Op, "fs.") {
		if m.rules.on {
			return p.onTable(m.shelf.(*table), c)
		}
		return p.onDisk(p.seedCar, c)
	}
	return p.config(p.seedCar, c)
}

// config answers what concerns config.toml and the root; both models and the store answer alike.
func (p *player) config(car string, c *replay.Call) replay.Outcome {
	switch c.Op {
	case "retention_from_car_dir":
		limits := runs.FromCarDir(car)
		return outcome(map[string]any{"max_per_agent": limits.MaxPerAgent, "max_age_days": limits.MaxAgeDays}, nil)
	case "root_of_journal_dir":
		return outcome(runs.FromJournalDir(p.db, c.Text("journal_dir"), runs.Options{}).Root(), nil)
	}
	p.t.Fatalf("no player for %s", c.Op)
	return replay.Outcome{}
}

// onStore makes the call on the store, under ids as the original's file names have them (rule 1).
func (p *player) onStore(c *replay.Call) replay.Outcome {
	ctx := p.t.Context()
	agent, run := seedName(c.Text("agent_id")), seedName(c.Text("run_id"))
	if agent, run, records, ok := p.written(c); ok {
		return unit(p.store.AppendRecords(ctx, seedName(agent), seedName(run), records))
	}
	switch c.Op {
	case "get_run_trace":
		return traceOutcome(p.store.GetRunTrace(ctx, run))
	case "get_run_trace_for":
		return traceOutcome(p.store.GetRunTraceFor(ctx, agent, run))
	case "agent_for_run":
		if agent, found, err := p.store.AgentForRun(ctx, run); found || err != nil {
			return outcome(agent, err)
		}
		return unit(nil)
	case "list_runs":
		return p.list(agent)
	case "gc":
		removed, err := p.store.GC(ctx)
		if err != nil && !errors.Is(err, db.ErrInvalid) {
			p.t.Error(err)
		}
		return outcome(removed, err)
	case "adopt_orphans":
		return outcome(p.store.AdoptOrphans(ctx))
	case "new":
		p.limits = new(limitsOf(p.t, c))
		p.store = runs.NewStore(p.db, runs.Options{Retention: p.limits})
		return unit(nil)
	case "from_journal_dir":
		p.store = runs.FromJournalDir(p.db, filepath.Join(p.car, "journals"), runs.Options{})
		p.limits = new(p.store.Retention())
		root, err := filepath.Rel(p.car, p.store.Root())
		return outcome(map[string]string{"root": root}, err)
	case "reopen":
		p.open(p.path)
		return unit(nil)
	}
	if strings.HasPrefix(c.Op, "fs.") {
		return p.onTree(c)
	}
	return p.config(p.car, c)
}

func traceOutcome(records []runs.Record, found bool, err error) replay.Outcome {
	if err == nil && !found {
		return unit(nil)
	}
	return outcome(records, err)
}

// list checks the order of a list, and brings runs that started at once into the models' order.
func (p *player) list(agent string) replay.Outcome {
	all, err := p.store.ListRuns(p.t.Context(), agent)
	if err != nil {
		return unit(err)
	}
	list := []modelSummary{}
	for _, run := range all {
		text, err := json.Marshal(run)
		must(p.t, err)
		var s modelSummary
		must(p.t, json.Unmarshal(text, &s))
		s.started = run.StartedAt
		list = append(list, s)
	}
	if !slices.IsSortedFunc(list, func(a, b modelSummary) int { return b.started.Compare(a.started) }) {
		return unit(fmt.Errorf("the list is not newest first: %v", list))
	}
	slices.SortStableFunc(list, newestFirst)
	return outcome(list, nil)
}

// onTree makes a file operation happen to the store (rule 20): what it looks at is exported before,
// and what it changed is imported into a new file after.
func (p *player) onTree(c *replay.Call) replay.Outcome {
	path := c.Text("path")
	if path != "" && path != "runs" && !strings.HasPrefix(path, "runs/") {
		return p.onDisk(p.car, c)
	}
	must(p.t, os.RemoveAll(filepath.Join(p.car, "runs")))
	exported := filepath.Join(p.t.TempDir(), "car")
	report, err := legacy.Export(p.t.Context(), p.db, legacy.Runs, exported, legacy.Options{})
	must(p.t, err)
	if len(report.Quarantined) > 0 {
		p.t.Fatalf("the export left out %v", report.Quarantined)
	}
	must(p.t, os.Rename(filepath.Join(exported, "runs"), filepath.Join(p.car, "runs")))
	if c.Op == "fs.list" {
		return outcome(recordFiles(p.t, p.car), nil)
	}
	done := p.onDisk(p.car, c)
	if c.Op == "fs.read" {
		return done
	}
	if info, err := os.Stat(filepath.Join(p.car, "runs")); err != nil || !info.IsDir() {
		return done
	}
	p.open(dbtest.Path(p.t))
	_, err = legacy.Import(p.t.Context(), p.db, legacy.Runs, p.car, legacy.Options{})
	must(p.t, err)
	return done
}

// recordFiles are the trace files below a car dir; links to folders are not followed.
func recordFiles(t *testing.T, car string) []string {
	names := []string{}
	err := filepath.WalkDir(filepath.Join(car, "runs"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".jsonl") {
			path, err = filepath.Rel(car, path)
			names = append(names, path)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	slices.Sort(names)
	return names
}

func argument(t *testing.T, c *replay.Call) []byte {
	if !c.Has("hex") {
		return []byte(c.Text("text"))
	}
	text, err := hex.DecodeString(c.Text("hex"))
	must(t, err)
	return text
}

// onDisk makes a file operation in a real folder.
func (p *player) onDisk(car string, c *replay.Call) replay.Outcome {
	path := filepath.Join(car, filepath.FromSlash(c.Text("path")))
	if c.Op != "fs.list" && c.Op != "fs.remove" {
		must(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	}
	switch c.Op {
	case "fs.write":
		return unit(os.WriteFile(path, argument(p.t, c), 0o600))
	case "fs.append":
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unit(err)
		}
		return unit(os.WriteFile(path, append(old, argument(p.t, c)...), 0o600))
	case "fs.truncate":
		old, err := os.ReadFile(path)
		if err != nil {
			return unit(err)
		}
		return unit(os.WriteFile(path, old[:len(old)-dropped(p.t, c, old)], 0o600))
	case "fs.mkdir":
		return unit(os.MkdirAll(path, 0o700))
	case "fs.remove":
		return unit(os.RemoveAll(path))
	case "fs.chmod":
		return unit(nil) // modes have no counterpart
	case "fs.symlink":
		return unit(os.Symlink(c.Text("target"), path))
	case "fs.read":
		text, err := os.ReadFile(path)
		return outcome(strings.ToValidUTF8(string(text), "\ufffd"), err)
	case "fs.list":
		list := []map[string]any{}
		for _, name := range recordFiles(p.t, car) {
			list = append(list, map[string]any{"path": name})
		}
		return outcome(list, nil)
	}
	p.t.Fatalf("no player for %s", c.Op)
	return replay.Outcome{}
}

func dropped(t *testing.T, c *replay.Call, text []byte) int {
	var n int
	must(t, c.Unmarshal("drop_bytes", &n))
	return min(n, len(text))
}

// onTable makes a file operation on the model with our rules: only trace files count, links become
// runs of their own, and what would stand in a file's way is not there.
func (p *player) onTable(s *table, c *replay.Call) replay.Outcome {
	switch c.Op {
	case "fs.list":
		files, err := s.files()
		names := []string{}
		for _, f := range files {
			names = append(names, "runs/"+f.agent+"/"+f.run+".jsonl")
		}
		slices.Sort(names)
		return outcome(names, err)
	case "fs.symlink":
		p.link(s, c.Text("path"), c.Text("target"))
		return unit(nil)
	case "fs.remove":
		for ref := range s.rows {
			path := "runs/" + ref.AgentID + "/" + ref.RunID + ".jsonl"
			if path == c.Text("path") || strings.HasPrefix(path, c.Text("path")+"/") {
				delete(s.rows, ref)
			}
		}
		return unit(nil)
	}
	ref, ok := refOf(c.Text("path"))
	if !ok || c.Op == "fs.mkdir" {
		s.rules.apply(17)
		if c.Op == "fs.read" {
			return p.onDisk(p.seedCar, c)
		}
		return unit(nil)
	}
	text := s.rows[ref]
	switch c.Op {
	case "fs.write":
		s.rows[ref], s.wrote = argument(p.t, c), true
	case "fs.append":
		s.rows[ref], s.wrote = slices.Concat(text, argument(p.t, c)), true
	case "fs.truncate":
		s.rows[ref] = text[:len(text)-dropped(p.t, c, text)]
	case "fs.read":
		return outcome(strings.ToValidUTF8(string(text), "\ufffd"), nil)
	}
	return unit(nil)
}

// refOf reads the path of a trace file.
func refOf(path string) (runs.RunRef, bool) {
	agent, name, ok := strings.Cut(strings.TrimPrefix(path, "runs/"), "/")
	run, isTrace := strings.CutSuffix(name, ".jsonl")
	return runs.RunRef{AgentID: agent, RunID: run}, ok && isTrace && !strings.Contains(run, "/")
}

// link makes copies, as an import of links does.
func (p *player) link(s *table, path, target string) {
	s.rules.apply(20)
	if ref, ok := refOf(path); ok {
		from, ok := refOf(filepath.Join(filepath.Dir(path), target))
		if text, found := s.rows[from]; ok && found {
			s.rows[ref] = slices.Clone(text)
		}
		return
	}
	copied := map[string][]byte{}
	for ref, text := range s.rows {
		if ref.AgentID == filepath.Base(target) {
			copied[ref.RunID] = text
		}
	}
	for run, text := range copied {
		s.rows[runs.RunRef{AgentID: filepath.Base(path), RunID: run}] = slices.Clone(text)
	}
}
