package legacy

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/runs"
	"selvedge/test/replay"
)

// treeNow is the clock of the trees' tests: every finished run in them is older than 30 days then.
var treeNow = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestTrees(t *testing.T) { replay.EachTree(t, "runs", testTree) }

func TestTreesOfLiveRuns(t *testing.T) { replay.EachTree(t, "live", testLiveTree) }

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
			s, err := store.Get(context.Background(),
				runs.RunRef{AgentID: want["agent_id"].(string), RunID: want["run_id"].(string)})
			if err != nil {
				v.problems = append(v.problems, fmt.Sprintf("%v: %v", want, err))
				continue
			}
			got := jsonOf(s).(map[string]any)
			for _, name := range []string{"status", "ended_at", "started_at", "intent", "agent_id", "run_id"} {
				v.same("later: "+name, want[name], got[name])
			}
		}
	}
}

// checkAgentForRun asks for the agents of runs whose ids the file names have; the original answers
// with a folder.
func checkAgentForRun(v *verdictList, recorded *recordedTree, x *importedTree, mirror *treeModel) {
	dirOf := map[runs.RunRef]string{}
	for path, e := range mirror.holders {
		dirOf[e], _, _ = strings.Cut(path, "/")
	}
	store := runs.NewStore(x.d, runs.Options{})
	for _, run := range recorded.Runs {
		if len(run.AgentFor) == 0 || mirror.holders[run.AgentDir+"/"+run.File].RunID != run.RunID {
			continue
		}
		agent, found, err := store.AgentForRun(context.Background(), run.RunID)
		v.compared++
		if err != nil || !found || !slices.Contains(run.AgentFor,
			dirOf[runs.RunRef{AgentID: agent, RunID: run.RunID}]) {
			v.problems = append(v.problems, fmt.Sprintf("the agent of run %q is %q (%v, %v), recorded is one of %q",
				run.RunID, agent, found, err, run.AgentFor))
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
	v.same("undecodable lines in quarantine", jsonOf(want["undecodable"]),
		jsonOf(report.Counts["undecodable"].Quarantined))
	v.same("files", jsonOf(int64(len(mirror.files))), jsonOf(report.Files.Found))
	v.same("files read", jsonOf(readable), jsonOf(report.Files.New+report.Files.Refused))
	v.same("files not read", jsonOf(int64(len(mirror.files))-readable), jsonOf(report.Files.Unreadable))
}

func countedAs(line modelLine) string {
	switch {
	case line.known:
		return line.record.RecordKind()
	case line.record != nil:
		return "unknown"
	case line.blank:
		return "blank"
	}
	return "undecodable"
}

// checkAgain imports and verifies once more: nothing is new, nothing differs, and not a row changes.
func checkAgain(t *testing.T, x *importedTree) {
	before := dump(t, x.d)
	report := x.again()
	for kind, c := range report.Counts {
		if c.New+c.Changed != 0 || kind != "undecodable" && c.Quarantined != 0 {
			t.Errorf("the second import counts %s as %+v", kind, c)
		}
	}
	if diff := firstDifference(before, dump(t, x.d)); diff != "" {
		t.Errorf("the second import changed the file: %s", diff)
	}
	verified, err := Verify(context.Background(), x.d, Runs, x.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range verified.Counts {
		if c.Read != c.Already && (kind != "undecodable" || c.Read != c.Already+c.Quarantined) {
			t.Errorf("verify counts %s as %+v", kind, c)
		}
	}
	if verified.Files.Already+verified.Files.Unreadable != verified.Files.Found || len(verified.Differs) > 0 ||
		len(verified.Quarantined) < int(verified.Files.Unreadable) {
		t.Errorf("verify finds differences: %+v %v", verified.Files, verified.Differs)
	}
}
