package legacy

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/runs"
)

// A trap is something that lies where a file should. Reading it would keep a reader waiting, or
// give it bytes without end, or lead it to somebody else's.
type trap struct {
	name   string
	set    func(path string) error
	reason string // as the report begins to say it
}

func traps(t *testing.T) []trap {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a stranger's"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(to string) func(string) error { return func(path string) error { return os.Symlink(to, path) } }
	return []trap{
		{"pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is a pipe"},
		{"socket", bindSocket, "is a socket"},
		{"zero", link("/dev/zero"), "is a link that leads out of the tree, to /dev/zero"},
		{"stdin", link("/dev/stdin"), "is a link that leads"},
		{"kmsg", link("/proc/kmsg"), "is a link that leads out of the tree, to /proc/kmsg"},
		{"secret", link(secret), "is a link that leads out of the tree, to " + secret},
		{
			"circle", func(path string) error { return os.Symlink(filepath.Base(path), path) },
			"is a link that leads in a circle",
		},
		{"folder", func(path string) error { return os.Mkdir(path, 0o700) }, "is a folder"},
	}
}

// bindSocket leaves a socket at a path, whose length its name could not have.
func bindSocket(path string) error {
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		return err
	}
	defer os.RemoveAll(short) //nolint:errcheck // a test
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s"), Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return errors.Join(l.Close(), os.Rename(filepath.Join(short, "s"), path))
}

// TestTrapsAreNamedAndTheRestIsTaken sets every trap in every place where a tree of a kind has a
// file, beside a whole one.
func TestTrapsAreNamedAndTheRestIsTaken(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(string(k), func(t *testing.T) {
			dir, ctx, d := t.TempDir(), context.Background(), emptyFile(t)
			reasons := map[string]string{}
			for _, trap := range traps(t) {
				for _, place := range trapPlaces(t, k, dir, trap.name) {
					at := filepath.Join(dir, place)
					if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), trap.set(at)); err != nil {
						t.Fatal(trap.name, err)
					}
					reasons[place] = trap.reason
				}
			}
			for range 2 {
				report, err := Import(ctx, d, k, dir, Options{})
				if err != nil {
					t.Fatal(err)
				}
				for place, want := range reasons {
					if got := reasonFor(&report, place); !strings.HasPrefix(got, want) {
						t.Errorf("%s: %q", place, got)
					}
				}
				if n := report.Counts[wholeNoun[k]]; n.Read != 1 || n.Quarantined > 0 {
					t.Errorf("of the whole one: %+v", report.Counts)
				}
			}
			if _, err := Verify(ctx, d, k, dir, Options{}); err != nil {
				t.Error(err)
			}
			if found, err := Recognise(dir, Options{}); err != nil || len(found) != 1 || found[0].Kind != k {
				t.Errorf("%+v, %v", found, err)
			}
		})
	}
}

// wholeNoun is a record that the whole thing in a tree of trapPlaces has, once.
var wholeNoun = map[Kind]string{
	Runs: "started", Agents: "agent", Checkpoints: "checkpoint",
	Workers: "runtime", Live: "run",
}

// trapPlaces makes a tree with one whole thing in it, and gives the paths where else files of a
// name would be read.
func trapPlaces(t *testing.T, k Kind, dir, name string) []string {
	t.Helper()
	switch k {
	case Runs:
		folder{"runs/a/whole.jsonl": startedLine("a", "whole")}.below(t, dir)
		return []string{"runs/a/" + name + ".jsonl"}
	case Agents:
		folder{"agents/whole.toml": wholeEntry}.below(t, dir)
		return []string{"agents/" + name + ".toml"}
	case Checkpoints:
		folder{"whole.json": wholeCheckpoint}.below(t, dir)
		return []string{name + ".json", name + ".inflight"}
	case Live:
		folder{"runs/web-1.json": "[" + liveRecord("run-1", "web-1", "p") + "]"}.below(t, dir)
		return []string{"v1/sessions/id_" + base64.RawURLEncoding.EncodeToString([]byte(name)) + ".json"}
	case Workers:
		runtime, workers := "runtimes/"+idName("r")+"/", "runtimes/"+idName("r")+"/workers/"
		folder{runtime + "runtime.json": wholeRuntime(""), runtime + "events.jsonl": startedEvent}.below(t, dir)
		return []string{
			workers + idName("a "+name) + "/worker.json", workers + idName("a "+name) + "/transcript.jsonl",
			workers + "nobody " + name + "/transcript.jsonl",
			workers + idName("b "+name) + "/observations.jsonl",
		}
	}
	return nil
}

const (
	wholeEntry = `session_id = "whole"
thread = "t"
base_state = "hd-1"
started_at = "2026-05-20T10:00:00Z"
attach_precedence = []
status = "active"
context_queries = []

[usage_summary]
`
	wholeCheckpoint = `{"run_id":"whole","workflow":{"id":"wf","name":"WF","start":"gate","stages":[],"edges":[],"max_iterations":100,"metadata":{}},` +
		`"paused_stage_id":"gate","prompt":"approve?","fields":[],"output_key":"approval","wf_state":{},"stage_results":[],"completed_stage_ids":[],` +
		`"iterations":1,"prior_duration_ms":0.0,"created_at":"2026-03-02T01:07:13Z"}`
)

// reasonFor is what the report says of the file at a path below the folder that was given.
func reasonFor(r *Report, path string) string {
	for _, q := range r.Quarantined {
		if path == q.File || strings.HasSuffix(path, "/"+q.File) {
			return q.Reason
		}
	}
	for _, remark := range r.Differs {
		if path == remark.File || strings.HasSuffix(path, "/"+remark.File) {
			return remark.Reason
		}
	}
	return ""
}

func TestImport_OutwardLinkFollowedOnlyIfAsked(t *testing.T) {
	ctx := context.Background()
	elsewhere := folder{"b/s.jsonl": startedLine("b", "s"), "c/t.jsonl": startedLine("c", "t")}.make(t)
	if err := os.WriteFile(filepath.Join(elsewhere, "config.toml"), []byte("[runs]\nmax_per_agent = 7\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	dir := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	links := map[string]string{
		"runs/b": filepath.Join(elsewhere, "runs/b"), "runs/a/t.jsonl": filepath.Join(elsewhere, "runs/c/t.jsonl"),
		"config.toml": filepath.Join(elsewhere, "config.toml"),
		"runs/d":      filepath.Join(dir, "runs/a"), // absolute, and leads nowhere else
	}
	for at, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	d := emptyFile(t)
	report := importInto(t, d, "", dir)
	for _, at := range []string{"runs/b", "runs/a/t.jsonl", "config.toml"} {
		if reason := reasonFor(&report, at); !strings.HasPrefix(reason, "is a link that leads out of the tree") {
			t.Errorf("%s: %q", at, reason)
		}
	}
	wantNames(t, d, "", "a/r", "d/r")
	report, err := Import(ctx, d, Runs, dir, Options{FollowLinks: true})
	if err != nil || report.Partial() {
		t.Errorf("links followed: %+v, %v", report, err)
	}
	wantNames(t, d, "", "a/r", "d/r", "a/t", "b/s", "d/t")
	if limits, ok, err := storedLimits(ctx, d, ""); err != nil || !ok || limits.MaxPerAgent != 7 {
		t.Errorf("%+v, %v, %v", limits, ok, err)
	}
	if verified, err := Verify(ctx, d, Runs, dir, Options{FollowLinks: true}); err != nil || verified.Partial() {
		t.Errorf("links followed: %+v, %v", verified, err)
	}
}

func TestAFolderOfRunsElsewhereIsNotEntered(t *testing.T) {
	ctx, d, dir := context.Background(), emptyFile(t), t.TempDir()
	elsewhere := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	if err := os.Symlink(filepath.Join(elsewhere, "runs"), filepath.Join(dir, "runs")); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(ctx, d, Runs, dir, Options{}); !errors.Is(err, db.ErrInvalid) ||
		!strings.Contains(db.Hint(err), "name the folder itself") {
		t.Errorf("%v (%s)", err, db.Hint(err))
	}
	if found, err := Recognise(dir, Options{}); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	for _, named := range []struct {
		dir string
		o   Options
	}{{filepath.Join(dir, "runs"), Options{}}, {dir, Options{FollowLinks: true}}} {
		if report, err := Import(ctx, d, Runs, named.dir, named.o); err != nil || report.Files.Found != 1 ||
			report.Source != realPath(t, filepath.Join(elsewhere, "runs")) {
			t.Errorf("%s: %+v, %v", named.dir, report, err)
		}
	}
}

func TestRecognise_UnreadableFolderIsNoTree(t *testing.T) {
	dir := t.TempDir()
	folder{
		"runs/a/r.jsonl": `{"api_key":"k"}` + "\n", "runs/.nobackup": "", "agents/a.toml": "api_key = \"k\"\n",
		"runs/s.json": `[{"api_key":"k"}]`,
		"notes.json":  "{}", "runtimes/" + idName("r") + "/runtime.json": `{"backend":1}`,
		"two/runtime.json": `{"backend":"mine","api_key":"k"}`,
	}.below(t, dir)
	if found, err := Recognise(dir, Options{}); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestLimits_StayIfFileUnreadable(t *testing.T) {
	ctx, dir := context.Background(), folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	config := filepath.Join(dir, "config.toml")
	want := runs.RetentionConfig{MaxPerAgent: 7, MaxAgeDays: 30}
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	after := append(traps(t),
		trap{"nothing", func(string) error { return nil }, "is gone"},
		trap{"half a file", write("[runs]\nmax_per_agent = "), "can't be understood"},
		trap{"another type", write("[runs]\nmax_per_agent = \"many\"\n"), "can't be understood"},
		trap{"no text", write("\xff"), "can't be understood"},
		trap{
			"too much", func(path string) error { return errors.Join(write("")(path), os.Truncate(path, 2<<30)) },
			"is larger than",
		},
	)
	for _, trap := range after {
		d := emptyFile(t)
		if err := errors.Join(os.RemoveAll(config), write("[runs]\nmax_per_agent = 7\n")(config)); err != nil {
			t.Fatal(err)
		}
		importInto(t, d, "", dir)
		if err := errors.Join(os.RemoveAll(config), trap.set(config)); err != nil {
			t.Fatal(trap.name, err)
		}
		report := importInto(t, d, "", dir)
		if reason := reasonFor(&report, "config.toml"); !strings.HasPrefix(reason, trap.reason) ||
			!strings.HasSuffix(reason, "stay") {
			t.Errorf("%s: %q", trap.name, reason)
		}
		if limits, ok, err := storedLimits(ctx, d, ""); err != nil || !ok || limits != want {
			t.Errorf("%s: stored is %+v, %v, %v", trap.name, limits, ok, err)
		}
	}
}
