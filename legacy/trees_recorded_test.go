package legacy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"selvedge/runs"
	"selvedge/test/replay"
)

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
func (r *recordedTree) check(v *verdictList, seed map[string]any, totals map[string]any,
	retention runs.RetentionConfig,
) {
	v.same("retention", r.Retention, map[string]any{
		"max_per_agent": jsonOf(retention.MaxPerAgent),
		"max_age_days":  jsonOf(retention.MaxAgeDays),
	})
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
		records, _ := trace["records"].([]any)
		v.same("length of "+run.File, jsonOf(run.Digest.Records), jsonOf(len(records)))
		if run.Digest.SHA256 != nil {
			v.same("digest of "+run.File, *run.Digest.SHA256, trace["sha256"])
		}
	}
	for _, g := range r.GC {
		key := gcKey(runs.RetentionConfig{MaxPerAgent: g.MaxPerAgent, MaxAgeDays: g.MaxAgeDays})
		got, _ := seed[key].(map[string]any)
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
			left, _ := after[dir].([]any)
			got := slices.Clone(left)
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
		return strings.Compare(fmt.Sprint(x["run_id"], x["agent_id"], x["status"]),
			fmt.Sprint(y["run_id"], y["agent_id"], y["status"]))
	})
}

func (r *recordedTree) checkTrace(v *verdictList, path string, seed map[string]any, recorded json.RawMessage,
	inventory map[string]any,
) {
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
	got, listed := seed["inventories"].(map[string]any)[path].(map[string]any)
	if !listed { // another name, another place: a tree of a kind that the model has not met
		v.problems = append(v.problems, "the model lists no "+path)
		return
	}
	skipped, _ := inventory["skipped"].([]any)
	v.same("inventory of "+path, map[string]any{
		"blank": inventory["blank"], "started": inventory["started"], "turn": inventory["turns"],
		"ended":   inventory["ended"],
		"skipped": jsonOf(len(skipped)),
	}, got)
}
