package legacy

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/replay"
)

// notCompared are members of the recorded answers that tell about the old files and their names,
// not about records.
var notCompared = map[string]bool{
	"files": true, "original": true, "root": true, "symlink": true, "reachable_by_agent_id": true,
	"reachable_by_run_id": true,
	"run_id in runs":      true, "agent_for_run": true, "agent_for_run_any_of": true, "bytes": true,
	"sha256": true, "line_feeds": true,
	"ends_with_line_feed": true, "stopped": true, "skipped": true, "max_per_agent": true, "max_age_days": true,
	"dir": true, "agent_dir": true, "file": true,
}

// TestFalsifiedAnswersOfATreeAreNoticed changes every recorded answer of a tree, one at a time.
func TestFalsifiedAnswersOfATreeAreNoticed(t *testing.T) {
	trees, err := replay.Trees("runs")
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Name != "runs/small" {
			continue
		}
		dir := unpackTree(t, tree)
		original := readTree(t, filepath.Join(dir, "runs"), modelRules{}, treeNow)
		totals, retention := original.totals(), runs.FromCarDir(dir)
		seed := original.answers(parseRecorded(t, tree.Expected).limits())
		honest, err := replay.Decode(tree.Expected)
		if err != nil {
			t.Fatal(err)
		}
		lies := 0
		eachLie(honest, "", func(what string) {
			lies++
			v := &verdictList{byRule: map[string]int{}}
			parseRecorded(t, replay.Encode(honest)).check(v, seed, totals, retention)
			if len(v.problems) == 0 {
				t.Errorf("nobody noticed that %s is false", what)
			}
		})
		v := &verdictList{byRule: map[string]int{}}
		parseRecorded(t, replay.Encode(honest)).check(v, seed, totals, retention)
		if lies < 300 || len(v.problems) > 0 {
			t.Errorf("%d lies; without them: %v", lies, v.problems)
		}
		t.Logf("%d lies noticed", lies)
	}
}

// A recorded answer about a place that the model does not list is a finding about the model, and
// the test goes on.
func TestReplay_UnknownTreeIsItsOwnProblem(t *testing.T) {
	trees, err := replay.Trees("runs")
	if err != nil {
		t.Fatal(err)
	}
	small := trees[slices.IndexFunc(trees, func(tree replay.Tree) bool { return tree.Name == "runs/small" })]
	dir := unpackTree(t, small)
	original := readTree(t, filepath.Join(dir, "runs"), modelRules{}, treeNow)
	totals, retention := original.totals(), runs.FromCarDir(dir)
	seed := original.answers(parseRecorded(t, small.Expected).limits())
	for name, change := range map[string]func(*recordedTree){
		"another file":  func(r *recordedTree) { r.Runs[0].File = "elsewhere.jsonl" },
		"another agent": func(r *recordedTree) { r.Agents[0].Dir = "nobody" },
		"other limits":  func(r *recordedTree) { r.GC[0].MaxPerAgent = 4711 },
		"another list": func(r *recordedTree) {
			r.Adoption.Lists = map[string][]any{"nobody": {map[string]any{}}}
		},
		"a trace gained": func(r *recordedTree) {
			r.Runs[0].AgentDir, r.Runs[0].Trace = "nobody",
				json.RawMessage("[]")
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := parseRecorded(t, small.Expected)
			change(recorded)
			v := &verdictList{byRule: map[string]int{}}
			recorded.check(v, seed, totals, retention)
			if len(v.problems) == 0 {
				t.Error("nobody noticed")
			}
		})
	}
}

// eachLie changes one leaf of value after the other, calls look and puts it back.
func eachLie(value any, at string, look func(what string)) {
	lie := func(leaf any, put func(any), what string) {
		switch was := leaf.(type) {
		case string:
			put(was + "x")
		case json.Number:
			put("1" + was)
		case bool:
			put(!was)
		default:
			return
		}
		look(what)
		put(leaf)
	}
	switch value := value.(type) {
	case map[string]any:
		if value["$time"] == true {
			return
		}
		for _, name := range sortedKeys(value) {
			key := name
			if name == "run_id" && value["file"] != nil {
				key = "run_id in runs"
			}
			if notCompared[key] && (name != "max_per_agent" && name != "max_age_days" || value["removed"] != nil) &&
				(name != "bytes" || value["files"] == nil) {
				continue
			}
			what := at + "." + name
			lie(value[name], func(v any) { value[name] = v }, what)
			eachLie(value[name], what, look)
		}
	case []any:
		for i := range value {
			what := fmt.Sprintf("%s[%d]", at, i)
			lie(value[i], func(v any) { value[i] = v }, what)
			eachLie(value[i], what, look)
		}
	}
}

// TestADamagedImportIsNoticed changes the imported file behind the store's back, as who sets the
// checksums aside.
func TestADamagedImportIsNoticed(t *testing.T) {
	trees, err := replay.Trees("runs")
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range trees {
		if tree.Name != "runs/small" {
			continue
		}
		for _, damage := range []string{
			`UPDATE run_records SET prompt = 'falsified', checksum = NULL
				WHERE id = (SELECT max(id) FROM run_records WHERE kind = 'turn')`,
			`UPDATE runs SET intent = 'falsified', checksum = NULL WHERE key = 2`,
			`UPDATE runs SET started_at = started_at + 1, checksum = NULL WHERE key = 3`,
			`UPDATE run_records SET raw = CAST(replace(raw, 'success', 'failure') AS BLOB), checksum = NULL
				WHERE kind = 'ended'`,
		} {
			limits := parseRecorded(t, tree.Expected).limits()
			dir := unpackTree(t, tree)
			x, _ := importTree(t, dir)
			mirror := readTree(t, filepath.Join(dir, "runs"), modelRules{ours: true}, treeNow)
			mirror.holders = x.holders()
			err := x.d.Write(context.Background(), "damage", func(tx *db.Tx) error {
				n, err := tx.Exec(damage)
				if err == nil && n == 0 {
					err = fmt.Errorf("%s changed nothing", damage)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			v := &verdictList{byRule: map[string]int{}}
			ours := x.answers(mirror, limits)
			seed := readTree(t, filepath.Join(dir, "runs"), modelRules{}, treeNow)
			compareOurs(v, seed.answers(limits), mirror.answers(limits), ours, seed)
			if len(v.problems) == 0 {
				t.Errorf("nobody noticed: %s", damage)
			}
			if verified, err := Verify(context.Background(), x.d, Runs, dir, Options{}); err != nil ||
				strings.Contains(damage, "run_records") && !verified.Partial() {
				t.Errorf("verify did not notice: %s (%v)", damage, err)
			}
		}
	}
}
