package legacy

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"selvedge/runs"
)

// TestRandomTrees makes trees of odd names, ids, links and contents, and holds import, export and
// the questions that the recorded trees answer against the models.
func TestRandomTrees(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	limits := []runs.RetentionConfig{{MaxPerAgent: 1, MaxAgeDays: 36500}, {MaxPerAgent: 50, MaxAgeDays: 30}}
	for round := range 12 {
		for _, p := range judgeTree(t, randomTree(t, random), limits) {
			t.Errorf("round %d: %s", round, p)
		}
		if t.Failed() {
			return
		}
	}
}

// judgeTree holds a tree's import, export and answers against the models.
func judgeTree(t *testing.T, dir string, limits []runs.RetentionConfig) (problems []string) {
	root := filepath.Join(dir, "runs")
	v := &verdictList{byRule: map[string]int{}}
	x, report := importTree(t, dir)
	mirror := readTree(t, root, modelRules{ours: true}, treeNow)
	mirror.holders = x.holders()
	ours := x.answers(mirror, limits)
	checkCounts(v, report, mirror)
	original := readTree(t, root, modelRules{}, treeNow)
	compareOurs(v, original.answers(limits), mirror.answers(limits), ours, original)
	checkAgain(t, x)
	checkExport(t, v, x, &recordedTree{})
	return v.problems
}

// One agent has two folders, one name is shown like another, and one link leads nowhere.
func TestModels_KnowTwinsAndBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	trace := func(run string) string {
		return startedLine("a:b", run) + endedLine("a:b", run)
	}
	folder{
		"runs/a:b/z.jsonl": trace("z"), "runs/a_b/a.jsonl": trace("a"),
		"runs/a\xffb/r.jsonl": startedLine("c", "r"), `runs/a\xFFb/r.jsonl`: startedLine("d", "r") + "\xff\n",
	}.below(t, dir)
	if err := os.Symlink("nowhere.jsonl", filepath.Join(dir, "runs/a_b/link.jsonl")); err != nil {
		t.Fatal(err)
	}
	for _, p := range judgeTree(t, dir, []runs.RetentionConfig{{MaxPerAgent: 1, MaxAgeDays: 36500}}) {
		t.Error(p)
	}
}

func randomTree(t *testing.T, random *rand.Rand) string {
	ids := []string{
		"a", "a:b", "a_b", "a/b", "a|b", ".a", "a.", "..", "", " a ", "A", "é", "\x01", "a\nb",
		`a\b`,
	}
	names := append([]string{"a\xffb", `a\xFFb`, "a_b ", "_"}, ids[:3]...)
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	dir := t.TempDir()
	root := filepath.Join(dir, "runs")
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 4 + random.IntN(14) {
		agent, run := pick(ids), pick(ids)
		folder, name := seedName(agent), seedName(run)
		switch random.IntN(5) {
		case 0:
			folder, name = laterName(agent), laterName(run)
		case 1:
			folder, name = pick(names), pick(names)
		}
		if err := os.MkdirAll(below(root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		at := below(root, folder+"/"+name+runExtension)
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		var err error
		switch random.IntN(12) {
		case 0:
			err = os.Symlink(seedName(pick(ids))+runExtension, at)
		case 1:
			err = os.Symlink(folder, below(root, pick(names)+"-link"))
		case 2:
			err = os.WriteFile(at, []byte(endedLine(agent, run)), 0o600)
		default:
			err = os.WriteFile(at, []byte(oddTrace(random, agent, run)), 0o600)
		}
		if err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	return dir
}
