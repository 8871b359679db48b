package workers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/legacy"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
	"selvedge/workers"
)

// A seenTree is what there is to compare with what is expected of a tree.
type seenTree struct {
	inventory any
	runtimes  map[string]*seenRuntime // by id
	opening   int                     // how many of them the original opens
}

// A seenRuntime is a runtime of a tree after the import, and as a model of the original finds it.
type seenRuntime struct {
	original    replay.Outcome // of opening it
	cursor      any            // event_cursor_now of the original, and as it is meant here: rule 22
	cursorMeant any
	ours        map[string]any // answers; nil where it can't be opened
	err         error
	named       bool // in quarantine
	workers     any  // list_workers, of one that the original refuses: what is meant to be salvaged
}

func lookAtWorkers(t *testing.T, tree replay.Tree, d *db.DB, report legacy.Report) *seenTree {
	t.Helper()
	dir := unpackWorkers(t, tree) // the original may make a folder in it
	s := &seenTree{inventory: inventory(t, dir), runtimes: map[string]*seenRuntime{}}
	for _, entry := range must(os.ReadDir(filepath.Join(dir, "runtimes")))(t) {
		id, ok := idOf(entry.Name())
		if !ok {
			continue
		}
		r := &seenRuntime{}
		s.runtimes[id] = r
		original, meant := replay.Workers{Dir: dir}, replay.Workers{Dir: dir, Counted: true, Salvaging: true}
		open := &replay.Call{Op: "open", Args: map[string]any{"runtime_id": id}}
		if r.original = original.Play(open); r.original.Err == nil {
			s.opening++
			meant.Play(open)
			now := &replay.Call{Op: "event_cursor_now"}
			r.cursor, r.cursorMeant = decoded(t, original.Play(now).OK), decoded(t, meant.Play(now).OK)
		} else {
			r.workers = []any{} // where nothing is left of it
			if meant.Play(open).Err == nil {
				r.workers = decoded(t, meant.Play(&replay.Call{Op: "list_workers"}).OK)
			}
		}
		opened, err := workers.Open(t.Context(), d,
			workers.RuntimeOptions{RuntimeID: workers.RuntimeID(id), MustExist: r.original.Err == nil})
		if err == nil {
			r.ours, err = workersAnswers(t.Context(), opened)
		}
		if err == nil {
			r.ours, _ = decoded(t, r.ours).(map[string]any)
		}
		r.err = err
		for _, q := range report.Quarantined {
			r.named = r.named || strings.HasPrefix(q.File, entry.Name())
		}
	}
	return s
}

func decoded(t *testing.T, value any) any {
	t.Helper()
	return must(replay.Decode(replay.Encode(value)))(t)
}

func idOf(name string) (string, bool) {
	id := []byte{}
	_, err := fmt.Sscanf(name, "id-%x", &id)
	return string(id), err == nil && replay.IDName(string(id)) == name
}

// inventory counts what lies in a tree; links count with their own size.
func inventory(t *testing.T, dir string) any {
	t.Helper()
	type count struct {
		Files     int `json:"files"`
		Bytes     int `json:"bytes"`
		LineFeeds int `json:"line_feeds"`
	}
	all, byName := count{}, map[string]*count{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := entry.Name()
		if !slices.Contains([]string{"runtime.json", "events.jsonl", "worker.json", "transcript.jsonl"}, name) {
			name = "other"
		}
		if byName[name] == nil {
			byName[name] = &count{}
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			byName[name].LineFeeds += bytes.Count(text, []byte("\n"))
		}
		for _, c := range []*count{&all, byName[name]} {
			c.Files++
			c.Bytes += int(info.Size())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, map[string]any{"files": all.Files, "bytes": all.Bytes, "by_name": byName})
}

// compare says where what is expected is not what was seen.
func (s *seenTree) compare(expected map[string]any) (problems []string) {
	differs := func(what string, want, got any) {
		if diff := (replay.Comparison{}).Diff(want, got); diff != "" {
			problems = append(problems, what+": "+diff)
		}
	}
	differs("inventory", expected["inventory"], s.inventory)
	differs("runtimes", expected["runtimes"], json.Number(fmt.Sprint(len(s.runtimes))))
	differs("runtimes_that_open", expected["runtimes_that_open"], json.Number(fmt.Sprint(s.opening)))
	answers, _ := expected["answers"].(map[string]any)
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		want, _ := answers[id].(map[string]any)
		r := s.runtimes[id]
		if r == nil {
			problems = append(problems, fmt.Sprintf("%s: there is no such runtime in the tree", id))
			continue
		}
		for _, p := range r.compare(want) {
			problems = append(problems, id+": "+p)
		}
	}
	return problems
}

func (r *seenRuntime) compare(want map[string]any) (problems []string) {
	open, _ := want["open"].(map[string]any)
	if r.original.Err != nil {
		if open["kind"] != r.original.Kind || open["err"] == nil || len(want) != 1 {
			problems = append(problems, fmt.Sprintf("the model of the original does not open it: %s: %s",
				r.original.Kind, *r.original.Err))
		}
		if !r.named { // rule 21
			problems = append(problems, "nothing in quarantine names its damage")
		}
		if r.err != nil {
			return append(problems, r.err.Error())
		}
		if diff := (replay.Comparison{}).Diff(r.workers, r.ours["list_workers"]); diff != "" {
			problems = append(problems, "list_workers by rule 21: "+diff)
		}
		return problems
	}
	if r.err != nil {
		return []string{r.err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(r.ours)) {
		theirs := r.ours[name]
		if name == "event_cursor_now" { // rule 22
			theirs = r.cursor
			if diff := (replay.Comparison{}).Diff(r.cursorMeant, r.ours[name]); diff != "" {
				problems = append(problems, name+" by rule 22: "+diff)
			}
		}
		if diff := (replay.Comparison{}).Diff(want[name], theirs); diff != "" {
			problems = append(problems, name+": "+diff)
		}
	}
	return problems
}

func TestTheTreesNoticeFalsifiedAnswers(t *testing.T) {
	for _, tree := range must(replay.Trees("workers"))(t) {
		if strings.HasPrefix(tree.Name, "more/") || len(tree.Expected) > 1<<20 {
			continue // the others say it all
		}
		d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
		seen := lookAtWorkers(t, tree, d, importWorkers(t, d, unpackWorkers(t, tree)))
		expected := decodedTree(t, tree)
		falsify := func(where string, object map[string]any, name string, compare func(map[string]any) []string) {
			truth := object[name]
			object[name] = otherwise(truth)
			if len(compare(object)) == 0 {
				t.Errorf("%s: falsified %s%s passes", tree.Name, where, name)
			}
			object[name] = truth
		}
		for _, name := range []string{"inventory", "runtimes", "runtimes_that_open"} {
			falsify("", expected, name, seen.compare)
		}
		answers, _ := expected["answers"].(map[string]any)
		for id, of := range answers {
			members, _ := of.(map[string]any)
			for name := range members {
				falsify(id+" ", members, name, seen.runtimes[id].compare)
			}
		}
	}
}

// otherwise is a copy of a value with another last leaf, or with one where there is none.
func otherwise(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case json.Number:
		return "1" + v
	case string:
		return v + "x"
	case []any:
		if len(v) == 0 {
			return []any{nil}
		}
		v = slices.Clone(v)
		v[len(v)-1] = otherwise(v[len(v)-1])
		return v
	case map[string]any:
		v = maps.Clone(v)
		if len(v) == 0 {
			return nil
		}
		name := slices.Max(slices.Collect(maps.Keys(v)))
		v[name] = otherwise(v[name])
		return v
	}
	return true
}
