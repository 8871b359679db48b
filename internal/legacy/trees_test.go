package legacy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/internal/replay"
	"selvedge/runs"
)

// treeNow is the clock of the trees' tests: every finished run in them is older than 30 days then.
var treeNow = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// recordedTree is NAME.expected.json.
type recordedTree struct {
	Retention map[string]any `json:"retention_from_config"`
	Totals    map[string]any
	Agents    []struct {
		Dir      string
		ListRuns []any `json:"list_runs"`
		Symlink  bool
	}
	Runs []struct {
		AgentDir string `json:"agent_dir"`
		File     string
		RunID    string          `json:"run_id"`
		AgentFor []string        `json:"agent_for_run_any_of"`
		Trace    json.RawMessage `json:"trace"`
		Digest   *struct {
			SHA256  *string `json:"canonical_sha256"`
			Records int
		} `json:"trace_digest"`
		Inventory map[string]any
	}
	GC []struct {
		MaxPerAgent uint64 `json:"max_per_agent"`
		MaxAgeDays  int64  `json:"max_age_days"`
		Removed     json.Number
		Remaining   []any
	} `json:"gc_on_a_copy"`
	Adoption struct {
		Adopted json.Number
		Again   json.Number      `json:"adopted_by_a_second_call"`
		Files   []any            `json:"files_after"`
		Lists   map[string][]any `json:"lists_after"`
		Removed json.Number      `json:"then_gc_3_per_agent_removed"`
	} `json:"adopt_orphans_on_a_copy"`
	// A tree of a later version has the seed version's answers, and its own.
	Seed  *recordedTree `json:"answers_of_the_seed_version"`
	Later *struct {
		Agents []struct {
			ListRuns []map[string]any `json:"list_runs"`
		}
	} `json:"answers_of_0.60.0"`
}

func parseRecorded(t testing.TB, text []byte) *recordedTree {
	t.Helper()
	var r recordedTree
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Seed != nil {
		r.Seed.Later = r.Later
		return r.Seed
	}
	return &r
}

func (r *recordedTree) limits() (list []runs.RetentionConfig) {
	for _, g := range r.GC {
		list = append(list, runs.RetentionConfig{MaxPerAgent: g.MaxPerAgent, MaxAgeDays: g.MaxAgeDays})
	}
	return list
}

var exactly = replay.Comparison{NullIsAbsent: true}

// A verdictList collects where answers differ.
type verdictList struct {
	problems []string
	compared int
	byRule   map[string]int
}

func (v *verdictList) same(what string, want, got any) {
	v.compared++
	if d := exactly.Diff(want, got); d != "" {
		v.problems = append(v.problems, what+": "+d)
	}
}

// check compares the model's answers with the recorded ones.
func (r *recordedTree) check(v *verdictList, seed map[string]any, totals map[string]any, retention runs.RetentionConfig) {
	v.same("retention", r.Retention, map[string]any{"max_per_agent": jsonOf(retention.MaxPerAgent), "max_age_days": jsonOf(retention.MaxAgeDays)})
	v.same("totals", r.Totals, totals)
	lists := seed["lists"].(map[string]any)
	for _, a := range r.Agents {
		if a.ListRuns != nil {
			sortList(a.ListRuns)
			v.same("list of "+a.Dir, a.ListRuns, lists[a.Dir])
		}
	}
	for _, run := range r.Runs {
		r.checkTrace(v, run.AgentDir+"/"+run.File, seed, run.Trace, run.Inventory)
		if run.Digest == nil {
			continue
		}
		trace, _ := seed["traces"].(map[string]any)[run.AgentDir+"/"+run.File].(map[string]any)
		if trace == nil {
			v.problems = append(v.problems, "no trace of "+run.File)
			continue
		}
		v.same("length of "+run.File, jsonOf(run.Digest.Records), jsonOf(len(trace["records"].([]any))))
		if run.Digest.SHA256 != nil {
			v.same("digest of "+run.File, *run.Digest.SHA256, trace["sha256"])
		}
	}
	for _, g := range r.GC {
		got := seed[gcKey(runs.RetentionConfig{MaxPerAgent: g.MaxPerAgent, MaxAgeDays: g.MaxAgeDays})].(map[string]any)
		v.same(fmt.Sprint("gc ", g.MaxPerAgent, g.MaxAgeDays), g.Removed, got["removed"])
		if g.Remaining != nil {
			v.same("left by gc", g.Remaining, got["remaining"])
		}
	}
	v.same("adopted", r.Adoption.Adopted, seed["adopted"])
	v.same("adopted again", r.Adoption.Again, seed["adopted again"])
	v.same("removed after adoption", r.Adoption.Removed, seed["removed after adoption"])
	if r.Adoption.Files != nil {
		v.same("files after adoption", r.Adoption.Files, seed["files after adoption"])
	}
	after := seed["lists after adoption"].(map[string]any)
	for dir, list := range r.Adoption.Lists {
		if reachable(dir) {
			sortAdopted(list)
			got := slices.Clone(after[dir].([]any))
			sortAdopted(got)
			v.same("list of "+dir+" after adoption", orEmpty(list), got)
		}
	}
}

func orEmpty(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

// sortAdopted is sortList without the times that come from a clock.
func sortAdopted(list []any) {
	slices.SortStableFunc(list, func(a, b any) int {
		x, y := a.(map[string]any), b.(map[string]any)
		if c := startOf(y).Compare(startOf(x)); c != 0 {
			return c
		}
		return strings.Compare(fmt.Sprint(x["run_id"], x["agent_id"], x["status"]), fmt.Sprint(y["run_id"], y["agent_id"], y["status"]))
	})
}

func (r *recordedTree) checkTrace(v *verdictList, path string, seed map[string]any, recorded json.RawMessage, inventory map[string]any) {
	trace, _ := seed["traces"].(map[string]any)[path].(map[string]any)
	switch {
	case recorded == nil: // too long to be recorded
	case string(recorded) == "null":
		if trace != nil {
			v.problems = append(v.problems, "a trace of "+path)
		}
		v.compared++
	case trace == nil:
		v.problems = append(v.problems, "no trace of "+path)
	default:
		want, err := replay.Decode(recorded)
		if err != nil {
			v.problems = append(v.problems, path+": "+err.Error())
			return
		}
		v.same("trace of "+path, want, trace["records"])
	}
	if inventory["unreadable"] == true {
		return
	}
	got := seed["inventories"].(map[string]any)[path].(map[string]any)
	skipped, _ := inventory["skipped"].([]any)
	v.same("inventory of "+path, map[string]any{
		"blank": inventory["blank"], "started": inventory["started"], "turn": inventory["turns"], "ended": inventory["ended"],
		"skipped": jsonOf(len(skipped)),
	}, got)
}

// An importedTree is a tree in a file.
type importedTree struct {
	t    testing.TB
	d    *db.DB
	path string
	dir  string // the car dir
	root string
}

func unpackTree(t testing.TB, tree replay.Tree) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "car")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := tree.Unpack(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func importTree(t testing.TB, dir string) (*importedTree, Report) {
	t.Helper()
	clock := dbtest.NewClock(treeNow)
	path := dbtest.Path(t)
	d := dbtest.OpenAt(t, path, db.Options{Now: clock.Now, Synchronous: db.SyncNormal})
	x := &importedTree{t: t, d: d, path: path, dir: dir, root: realPath(t, filepath.Join(dir, "runs"))}
	return x, x.again()
}

func realPath(t testing.TB, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func (x *importedTree) again() Report {
	x.t.Helper()
	report, err := Runs{}.Import(context.Background(), x.d, "", x.dir, Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	return report
}

// holders are the runs that the files became, by the files' paths.
func (x *importedTree) holders() map[string]entity {
	x.t.Helper()
	held := map[string]entity{}
	err := x.d.Read(context.Background(), "test", func(rx *db.Rx) error {
		var rows []ledgerRow
		err := rx.Select(&rows, `SELECT `+ledgerColumns+` FROM import_files WHERE state <> 'refused'`)
		for _, r := range rows {
			held[string(r.Path)] = r.entity()
		}
		return err
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return held
}

// answers asks the store what the model was asked. Adoption and retention are tried on copies of the file.
func (x *importedTree) answers(m *treeModel, limits []runs.RetentionConfig) map[string]any {
	x.t.Helper()
	ctx := context.Background()
	store := runs.NewStore(x.d, runs.Options{})
	all := map[string]any{"lists": x.lists(x.d, m)}
	traces, inventories := map[string]any{}, map[string]any{}
	for _, f := range m.files {
		held, ok := m.holders[f.path()]
		traces[f.path()] = nil
		inventories[f.path()] = jsonOf(map[string]int64{"blank": 0, "started": 0, "turn": 0, "ended": 0, "skipped": 0})
		if !ok {
			continue
		}
		records, found, err := store.GetRunTraceFor(ctx, held.group, held.id)
		if err != nil {
			x.t.Fatal(err)
		}
		if found {
			list := []any{}
			for _, r := range records {
				list = append(list, jsonOf(r))
			}
			traces[f.path()] = map[string]any{"records": list, "sha256": digestOf(records)}
		}
		inventories[f.path()] = x.inventory(f.path())
	}
	all["traces"], all["inventories"] = traces, inventories
	// On one copy for each age, the largest number first: what a smaller one removes, it also removes after a larger one.
	byAge := map[int64][]runs.RetentionConfig{}
	for _, c := range limits {
		byAge[c.MaxAgeDays] = append(byAge[c.MaxAgeDays], c)
	}
	for _, list := range byAge {
		slices.SortFunc(list, func(a, b runs.RetentionConfig) int { return cmp.Compare(b.MaxPerAgent, a.MaxPerAgent) })
		x.onCopy(func(d *db.DB) {
			removed := 0
			for _, c := range list {
				answer := x.gc(d, c)
				n, _ := answer["removed"].(json.Number).Int64()
				removed += int(n)
				answer["removed"] = jsonOf(removed)
				all[gcKey(c)] = answer
			}
		})
	}
	x.onCopy(func(d *db.DB) {
		store := runs.NewStore(d, runs.Options{})
		adopt := func() any {
			n, err := store.AdoptOrphans(ctx)
			if err != nil {
				x.t.Fatal(err)
			}
			return jsonOf(n)
		}
		all["adopted"] = adopt()
		all["lists after adoption"] = x.lists(d, m)
		all["adopted again"] = adopt()
		after := x.gc(d, runs.RetentionConfig{MaxPerAgent: 3, MaxAgeDays: 36500})
		all["removed after adoption"], all["files after adoption"] = after["removed"], after["remaining"]
	})
	return all
}

func (x *importedTree) onCopy(use func(d *db.DB)) {
	x.t.Helper()
	path := dbtest.Path(x.t)
	if err := x.d.Backup(context.Background(), path); err != nil {
		x.t.Fatal(err)
	}
	d, err := db.Open(context.Background(), path, db.Options{Now: func() time.Time { return treeNow }, Synchronous: db.SyncNormal})
	if err != nil {
		x.t.Fatal(err)
	}
	defer d.Close()
	use(d)
}

func (x *importedTree) gc(d *db.DB, c runs.RetentionConfig) map[string]any {
	x.t.Helper()
	removed, err := runs.NewStore(d, runs.Options{Retention: &c}).GC(context.Background())
	if err != nil {
		x.t.Fatal(err)
	}
	return map[string]any{"removed": jsonOf(removed), "remaining": anyList(x.left(d))}
}

// left are the files whose runs are still there.
func (x *importedTree) left(d *db.DB) []string {
	x.t.Helper()
	var paths []string
	err := d.Read(context.Background(), "test", func(rx *db.Rx) error {
		return rx.Select(&paths, `SELECT CAST(path AS TEXT) FROM import_files JOIN runs ON runs.key = entity_row ORDER BY path`)
	})
	if err != nil {
		x.t.Fatal(err)
	}
	slices.Sort(paths)
	return paths
}

// lists are the runs by the folder that they came from.
func (x *importedTree) lists(d *db.DB, m *treeModel) map[string]any {
	x.t.Helper()
	store := runs.NewStore(d, runs.Options{})
	lists, dirOf, agents := map[string]any{}, map[entity]string{}, map[string]bool{}
	for _, dir := range m.dirs {
		lists[dir] = []any{}
	}
	for path, e := range m.holders {
		dirOf[e], _, _ = strings.Cut(path, "/")
		agents[e.group] = true
	}
	for _, agent := range sortedKeys(agents) {
		summaries, err := store.ListRuns(context.Background(), agent)
		if err != nil {
			x.t.Fatal(err)
		}
		for _, s := range summaries {
			dir, ok := dirOf[entity{s.Ref.AgentID, s.Ref.RunID}]
			if !ok {
				x.t.Errorf("run %v came from no file", s.Ref)
				continue
			}
			lists[dir] = append(lists[dir].([]any), jsonOf(s))
		}
	}
	for _, list := range lists {
		sortList(list.([]any))
	}
	return lists
}

// inventory is the ledger's count of a file, torn tail included, with what the original skips as one number.
func (x *importedTree) inventory(path string) any {
	x.t.Helper()
	var row ledgerRow
	err := x.d.Read(context.Background(), "test", func(rx *db.Rx) error {
		return rx.Get(&row, `SELECT `+ledgerColumns+` FROM import_files WHERE path = ?`, []byte(path))
	})
	if err != nil {
		x.t.Fatal(err)
	}
	known, err := parseTally(row.Records)
	if err != nil {
		x.t.Fatal(err)
	}
	if len(row.Tail) > 0 {
		kind, _, _ := runsLayout{}.decode(row.Tail)
		known[kind]++
	}
	return jsonOf(map[string]int64{
		"blank": known["blank"], "started": known["started"], "turn": known["turn"], "ended": known["ended"],
		"skipped": known["unknown"] + known["undecodable"],
	})
}

// rules says why ours differs from the original in an answer.
func rules(what string, m *treeModel) string {
	for _, f := range m.files {
		if strings.Contains(what, f.path()) && f.folder {
			return "17"
		}
	}
	switch {
	case strings.Contains(what, "adopt"):
		return "19, 26, 27 and lines that are not UTF-8"
	case strings.Contains(what, "remaining"), strings.Contains(what, "gc"):
		return "17, 27"
	}
	return "26, 27 and lines that are not UTF-8"
}

// compareOurs compares the store with the model of it, and counts the answers that differ from the original's by a rule.
func compareOurs(v *verdictList, seed, model, ours map[string]any, seedTree *treeModel) {
	for _, what := range sortedKeys(model) {
		parts, ok := model[what].(map[string]any)
		if !ok {
			parts = map[string]any{"": model[what]}
			ours[what] = map[string]any{"": ours[what]}
			seed[what] = map[string]any{"": seed[what]}
		}
		for _, part := range sortedKeys(parts) {
			got := ours[what].(map[string]any)[part]
			v.same("ours: "+what+" "+part, parts[part], got)
			if exactly.Diff(seed[what].(map[string]any)[part], got) != "" {
				v.byRule[rules(what+" "+part, seedTree)]++
			}
		}
	}
}

func TestTrees(t *testing.T) {
	trees, err := replay.Trees("runs")
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		t.Run(tree.Name, func(t *testing.T) { testTree(t, tree) })
	}
}

func testTree(t *testing.T, tree replay.Tree) {
	recorded := parseRecorded(t, tree.Expected)
	dir := unpackTree(t, tree)
	root := filepath.Join(dir, "runs")
	v := &verdictList{byRule: map[string]int{}}

	original := readTree(t, root, modelRules{}, treeNow)
	totals := original.totals()
	seed := original.answers(recorded.limits())
	recorded.check(v, seed, totals, runs.FromCarDir(dir))

	x, report := importTree(t, dir)
	mirror := readTree(t, root, modelRules{ours: true}, treeNow)
	mirror.holders = x.holders()
	ours := x.answers(mirror, recorded.limits())
	checkLater(v, recorded, x)
	checkAgentForRun(v, recorded, x, mirror)
	checkCounts(v, report, mirror)
	compareOurs(v, seed, mirror.answers(recorded.limits()), ours, original)

	checkAgain(t, x)
	checkExport(t, v, x, recorded)
	for _, p := range v.problems {
		t.Error(p)
	}
	t.Logf("%d answers compared; judged by rules: %v", v.compared, v.byRule)
}

// checkLater compares statuses with the answers of a later version, where those are recorded.
func checkLater(v *verdictList, recorded *recordedTree, x *importedTree) {
	if recorded.Later == nil {
		return
	}
	store := runs.NewStore(x.d, runs.Options{})
	for _, agent := range recorded.Later.Agents {
		for _, want := range agent.ListRuns {
			s, found, err := store.Summary(context.Background(), want["agent_id"].(string), want["run_id"].(string))
			if err != nil || !found {
				v.problems = append(v.problems, fmt.Sprintf("%v: found %v, %v", want, found, err))
				continue
			}
			got := jsonOf(s).(map[string]any)
			for _, name := range []string{"status", "ended_at", "started_at", "intent", "agent_id", "run_id"} {
				v.same("later: "+name, want[name], got[name])
			}
		}
	}
}

// checkAgentForRun asks for the agents of runs whose ids the file names have; the original answers with a folder.
func checkAgentForRun(v *verdictList, recorded *recordedTree, x *importedTree, mirror *treeModel) {
	dirOf := map[entity]string{}
	for path, e := range mirror.holders {
		dirOf[e], _, _ = strings.Cut(path, "/")
	}
	store := runs.NewStore(x.d, runs.Options{})
	for _, run := range recorded.Runs {
		if len(run.AgentFor) == 0 || mirror.holders[run.AgentDir+"/"+run.File].id != run.RunID {
			continue
		}
		agent, found, err := store.AgentForRun(context.Background(), run.RunID)
		v.compared++
		if err != nil || !found || !slices.Contains(run.AgentFor, dirOf[entity{agent, run.RunID}]) {
			v.problems = append(v.problems, fmt.Sprintf("the agent of run %q is %q (%v, %v), recorded is one of %q", run.RunID, agent, found, err, run.AgentFor))
		}
	}
}

// checkCounts compares the report with the inventory of the files.
func checkCounts(v *verdictList, report Report, mirror *treeModel) {
	want := map[string]int64{}
	readable := int64(0)
	for _, f := range mirror.files {
		if f.real == nil {
			continue
		}
		readable++
		lines, _ := mirror.lines(f)
		for _, line := range lines {
			want[countedAs(line)]++
		}
	}
	read := map[string]int64{}
	for kind, c := range report.Counts {
		read[kind] = c.Read
		v.same("sum of "+kind, jsonOf(c.Read), jsonOf(c.New+c.Already+c.Changed+c.Quarantined))
	}
	v.same("records read", jsonOf(want), jsonOf(read))
	v.same("undecodable lines in quarantine", jsonOf(want[kindUndecodable]), jsonOf(report.Counts[kindUndecodable].Quarantined))
	v.same("files", jsonOf(int64(len(mirror.files))), jsonOf(report.Files.Found))
	v.same("files read", jsonOf(readable), jsonOf(report.Files.New+report.Files.Refused))
	v.same("files not read", jsonOf(int64(len(mirror.files))-readable), jsonOf(report.Files.Unreadable))
}

func countedAs(line runs.Line) string {
	switch line.Kind {
	case runs.LineRecord:
		return line.Record.RecordKind()
	case runs.LineUnknown:
		return "unknown"
	case runs.LineUndecodable:
		return "undecodable"
	case runs.LineBlank:
	}
	return "blank"
}

// checkAgain imports and verifies once more: nothing is new, nothing differs, and not a row changes.
func checkAgain(t *testing.T, x *importedTree) {
	before := dump(t, x.d)
	report := x.again()
	for kind, c := range report.Counts {
		if c.New+c.Changed != 0 || kind != kindUndecodable && c.Quarantined != 0 {
			t.Errorf("the second import counts %s as %+v", kind, c)
		}
	}
	if diff := firstDifference(before, dump(t, x.d)); diff != "" {
		t.Errorf("the second import changed the file: %s", diff)
	}
	verified, err := Runs{}.Verify(context.Background(), x.d, "", x.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range verified.Counts {
		if c.Read != c.Already {
			t.Errorf("verify counts %s as %+v", kind, c)
		}
	}
	if verified.Files.Already+verified.Files.Unreadable != verified.Files.Found || len(verified.Differs) != int(verified.Files.Unreadable) {
		t.Errorf("verify finds differences: %+v %v", verified.Files, verified.Differs)
	}
}

// checkExport exports, and sees that every file is there byte for byte, that the original's reader gives the recorded
// answers on it, and that importing it brings nothing.
func checkExport(t *testing.T, v *verdictList, x *importedTree, recorded *recordedTree) {
	ctx := context.Background()
	out := filepath.Join(t.TempDir(), "out")
	report, err := Runs{}.Export(ctx, x.d, "", out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.LeftOut) != 0 {
		t.Errorf("the export left out %v", report.LeftOut)
	}
	outRoot := filepath.Join(out, "runs")
	exported := readTree(t, outRoot, modelRules{}, treeNow)
	original := readTree(t, x.root, modelRules{}, treeNow)
	files := map[string][]byte{}
	for _, f := range exported.files {
		files[f.path()] = f.real.bytes
	}
	for _, f := range original.files {
		if f.real == nil {
			continue
		}
		if !bytes.Equal(files[f.path()], f.real.bytes) {
			t.Errorf("%s did not leave byte for byte", f.path())
		}
		delete(files, f.path())
	}
	for path := range files {
		t.Errorf("the export made %s", path)
	}
	lists, traces := exported.lists(), exported.answers(nil)["traces"].(map[string]any)
	for _, a := range recorded.Agents {
		if a.ListRuns != nil {
			got, _ := lists[a.Dir].([]any)
			v.same("export: list of "+a.Dir, a.ListRuns, orEmpty(got))
		}
	}
	for _, run := range recorded.Runs {
		trace, _ := traces[run.AgentDir+"/"+run.File].(map[string]any)
		if run.Digest == nil || run.Digest.SHA256 == nil || trace == nil {
			continue
		}
		v.same("export: digest of "+run.File, *run.Digest.SHA256, trace["sha256"])
	}
	checkModes(t, out)

	before := dump(t, x.d, "import_files", "import_sources", "quarantine", "quarantine_parts")
	again, err := Runs{}.Import(ctx, x.d, "", out, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range again.Counts {
		if c.Already != c.Read {
			t.Errorf("importing the export counts %s as %+v", kind, c)
		}
	}
	if diff := firstDifference(before, dump(t, x.d, "import_files", "import_sources", "quarantine", "quarantine_parts")); diff != "" {
		t.Errorf("importing the export changed the file: %s", diff)
	}
}

func checkModes(t *testing.T, dir string) {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = os.ModeDir | 0o700
		}
		if err == nil && info.Mode() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
