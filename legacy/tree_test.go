package legacy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/internal/tree"
	"selvedge/test/dbtest"
)

// Lines of a run, as the original writes them.

func startedLine(agent, run string) string {
	return fmt.Sprintf(`{"record":"started","run_id":%q,"agent_id":%q,"intent":"i",`+
		`"started_at":"2026-05-01T08:00:00Z"}`+"\n", run, agent)
}

func turnLine(index int) string {
	return fmt.Sprintf(`{"record":"turn","index":%d,"prompt":"p%d","verifier_verdict":"not_run"}`+"\n", index,
		index)
}

func endedLine(agent, run string) string {
	return fmt.Sprintf(`{"record":"ended","run_id":%q,"agent_id":%q,"termination":{"kind":"incomplete"},`+
		`"ended_at":"2026-05-01T09:00:00Z"}`+"\n", run, agent)
}

// A tree is the files of a folder runs/, by their paths.
type folder map[string]string

func (files folder) in(t testing.TB, dir string) string {
	t.Helper()
	files.below(t, filepath.Join(dir, "runs"))
	return dir
}

// below writes the files of any tree.
func (files folder) below(t testing.TB, dir string) {
	t.Helper()
	for path, text := range files {
		at := filepath.Join(dir, filepath.Dir(path), filepath.Base(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (files folder) make(t testing.TB) string {
	t.Helper()
	return files.in(t, t.TempDir())
}

// readFiles gives the files below a folder runs/ as a tree.
func readFiles(t testing.TB, dir string) folder {
	t.Helper()
	files := folder{}
	root := filepath.Join(dir, "runs")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == ".nobackup" {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func emptyFile(t testing.TB) *db.DB {
	t.Helper()
	return dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
}

// fileAt is an empty file whose clock stands.
func fileAt(t *testing.T) (*db.DB, *dbtest.Clock) {
	t.Helper()
	clock := dbtest.NewClock(backAt)
	return dbtest.Open(t, db.Options{Synchronous: db.SyncNormal, Now: clock.Now}), clock
}

func importInto(t testing.TB, d *db.DB, scope, dir string) Report {
	t.Helper()
	report, err := Import(context.Background(), d, Runs, dir, Options{Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range report.Counts {
		if c.Read != c.New+c.Already+c.Changed+c.Quarantined {
			t.Errorf("the counts of %s don't add up: %+v", kind, c)
		}
	}
	return report
}

// exported are the files that an export writes.
func exported(t testing.TB, d *db.DB, scope string) folder {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if _, err := Export(context.Background(), d, Runs, out, Options{Scope: scope}); err != nil {
		t.Fatal(err)
	}
	return readFiles(t, out)
}

func sameFiles(t testing.TB, what string, want, got folder) {
	t.Helper()
	if maps.Equal(want, got) {
		return
	}
	for path := range want {
		if got[path] != want[path] {
			t.Errorf("%s: %q holds %.200q, want %.200q", what, path, got[path], want[path])
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s: there is %q", what, path)
		}
	}
}

// inQuarantine are the rows of a scope as "what file@offset: bytes".
func inQuarantine(t testing.TB, d *db.DB, scope string) (list []string) {
	t.Helper()
	rows, err := Quarantine(context.Background(), d, scope, db.At{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range rows.Items {
		var raw bytes.Buffer
		if err := QuarantineRaw(context.Background(), d, q.ID, &raw); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s@%d: %s", q.What, q.File, q.ByteOffset, raw.String()))
	}
	return list
}

func wantQuarantine(t testing.TB, d *db.DB, scope string, want ...string) {
	t.Helper()
	if got := inQuarantine(t, d, scope); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("in quarantine is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// names are the runs of a scope, as "agent/run".
func names(t testing.TB, d *db.DB, scope string) (list []string) {
	t.Helper()
	if err := d.Read(context.Background(), "names of runs", func(rx *db.Rx) error {
		list = nil
		return rx.Select(&list, `SELECT r.agent_id || '/' || r.run_id FROM runs AS r JOIN scopes AS s
			ON s.id = r.scope WHERE s.name = ? ORDER BY r.key`, scope)
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

func wantNames(t testing.TB, d *db.DB, scope string, want ...string) {
	t.Helper()
	if got := names(t, d, scope); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the runs are %q, want %q", got, want)
	}
}

// recognised is what a kind alone says of a folder.
func recognised(k Kind, dir string) (string, bool, error) {
	l, err := k.layout()
	if err != nil {
		return "", false, err
	}
	f, err := tree.OpenFolder(dir, Options{})
	if err != nil {
		return "", false, err
	}
	return l.Recognise(f)
}

func TestKindsSayWhatTheySee(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r"), "b/s.jsonl": ""}.make(t)
	for _, at := range []string{dir, filepath.Join(dir, "runs")} {
		what, ok, err := recognised(Runs, at)
		if err != nil || !ok || what != "run traces: 2 files of 2 agents" {
			t.Errorf("%s: %q, %v, %v", at, what, ok, err)
		}
	}
	if _, ok, err := recognised(Runs, t.TempDir()); ok || err != nil {
		t.Errorf("an empty folder: %v, %v", ok, err)
	}
	// another program's runs/
	if _, ok, err := recognised(Runs, folder{"session.json": "[]"}.make(t)); ok || err != nil {
		t.Errorf("a folder without agents: %v, %v", ok, err)
	}
	// a folder of trees, whose own folder runs/ holds a tree and no traces
	for _, name := range []string{"runs", "elsewhere"} {
		trees := t.TempDir()
		if err := os.Rename(folder{"a/r.jsonl": startedLine("a", "r")}.make(t),
			filepath.Join(trees, name)); err != nil {
			t.Fatal(err)
		}
		found, err := Recognise(trees, Options{})
		if err != nil || len(found) != 1 || found[0].Dir != filepath.Join(trees, name) {
			t.Errorf("in a folder of trees: %+v, %v", found, err)
		}
	}
	renamed, workers := filepath.Join(dir, "renamed"), filepath.Join(dir, "runtimes")
	if err := errors.Join(os.Rename(filepath.Join(dir, "runs"), renamed),
		os.MkdirAll(filepath.Join(workers, "id-61"), 0o700),
		os.WriteFile(filepath.Join(workers, "id-61/events.jsonl"), []byte(`{"id":1}`+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]bool{renamed: true, workers: false} {
		if _, ok, err := recognised(Runs, at); ok != want || err != nil {
			t.Errorf("%s: %v, %v", at, ok, err)
		}
	}
	d := emptyFile(t)
	for _, at := range []string{t.TempDir(), filepath.Join(dir, "nowhere")} {
		if _, err := Import(context.Background(), d, Runs, at, Options{}); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("import of %s: %v", at, err)
		}
	}
	if k, err := ParseKind("runs"); err != nil || k != Runs {
		t.Errorf("%v, %v", k, err)
	}
	if _, err := ParseKind("nothing"); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestSource_AnyNameIsTheSameTree(t *testing.T) {
	dir := folder{"runs/r.jsonl": startedLine("runs", "r")}.make(t) // an agent called "runs"
	d := emptyFile(t)
	if err := os.WriteFile(filepath.Join(dir, "runs", ".nobackup"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for i, at := range []string{dir, filepath.Join(dir, "runs"), filepath.Join(dir, "runs") + "/", link} {
		report := importInto(t, d, "", at)
		if want := map[bool]int64{true: 1}[i == 0]; report.Files.New != want || report.Files.Found != 1 {
			t.Errorf("%s: %+v", at, report.Files)
		}
	}
	wantNames(t, d, "", "runs/r")
}
