package legacy

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/runs"
	"selvedge/test/dbtest"
	"selvedge/test/replay"
)

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
	report, err := Import(context.Background(), x.d, Runs, x.dir, Options{})
	if err != nil {
		x.t.Fatal(err)
	}
	return report
}

// holders are the runs that the files became, by the files' paths.
func (x *importedTree) holders() map[string]runs.RunRef {
	x.t.Helper()
	held := map[string]runs.RunRef{}
	err := x.d.Read(context.Background(), "test", func(rx *db.Rx) error {
		var rows []struct {
			Path  []byte `db:"path"`
			Agent string `db:"entity_group"`
			Run   string `db:"entity_id"`
		}
		err := rx.Select(&rows, `SELECT path, entity_group, entity_id FROM import_files WHERE state <> 'refused'`)
		for _, r := range rows {
			held[string(r.Path)] = runs.RunRef{AgentID: r.Agent, RunID: r.Run}
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
		inventories[f.path()] = jsonOf(map[string]int64{
			"blank": 0, "started": 0, "turn": 0, "ended": 0,
			"skipped": 0,
		})
		if !ok {
			continue
		}
		records, found, err := store.GetRunTraceFor(ctx, held.AgentID, held.RunID)
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
	// On one copy for each age, the largest number first: what a smaller one removes, it also removes
	// after a larger one.
	byAge := map[int64][]runs.RetentionConfig{}
	for _, c := range limits {
		byAge[c.MaxAgeDays] = append(byAge[c.MaxAgeDays], c)
	}
	for _, list := range byAge {
		slices.SortFunc(list, func(a, b runs.RetentionConfig) int {
			return cmp.Compare(b.MaxPerAgent,
				a.MaxPerAgent)
		})
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
	d, err := db.Open(context.Background(), path,
		db.Options{Now: func() time.Time { return treeNow }, Synchronous: db.SyncNormal})
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
		return rx.Select(&paths, `SELECT CAST(path AS TEXT) FROM import_files JOIN runs ON runs.key = entity_row
			ORDER BY path`)
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
	lists, dirOf, agents := map[string]any{}, map[runs.RunRef]string{}, map[string]bool{}
	for _, dir := range m.dirs {
		lists[dir] = []any{}
	}
	for path, e := range m.holders {
		dirOf[e], _, _ = strings.Cut(path, "/")
		agents[e.AgentID] = true
	}
	for _, agent := range sortedKeys(agents) {
		summaries, err := store.ListRuns(context.Background(), agent)
		if err != nil {
			x.t.Fatal(err)
		}
		for _, s := range summaries {
			dir, ok := dirOf[runs.RunRef{AgentID: s.Ref.AgentID, RunID: s.Ref.RunID}]
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
	var row struct {
		Records string `db:"records"`
		Tail    []byte `db:"tail"`
	}
	err := x.d.Read(context.Background(), "test", func(rx *db.Rx) error {
		return rx.Get(&row, `SELECT records, tail FROM import_files WHERE path = ?`, []byte(path))
	})
	if err != nil {
		x.t.Fatal(err)
	}
	known, err := tree.ParseTally(row.Records)
	if err != nil {
		x.t.Fatal(err)
	}
	if len(row.Tail) > 0 {
		known[countedAs(readLine(row.Tail))]++
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

// compareOurs compares the store with the model of it, and counts the answers that differ from the
// original's by a rule.
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
