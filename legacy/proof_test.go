package legacy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"selvedge/db"
	"selvedge/runs"
	"selvedge/test/dbtest"
)

func verified(t *testing.T, d *db.DB, kind Kind, dir string) Report {
	t.Helper()
	report, err := Verify(context.Background(), d, kind, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAVerificationSaysWhatItRead(t *testing.T) {
	files := folder{
		"runs/a/r.jsonl": startedLine("a", "r") + turnLine(0) + turnLine(1) + endedLine("a", "r"),
		"config.toml":    "[runs]\nmax_per_agent = 7\n",
	}
	dir := t.TempDir()
	files.below(t, dir)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	sum := sha256.New()
	for _, path := range []string{"../config.toml", "a/r.jsonl"} {
		text := files[filepath.Join("runs", path)]
		fmt.Fprintf(sum, "%x %d %s\n", sha256.Sum256([]byte(text)), len(text), path)
	}
	report := verified(t, d, Runs, dir)
	want := fmt.Sprintf("1 run, 2 turns, sha256 %x: everything in %s is in %s; %s can go", sum.Sum(nil), dir,
		d.Path(), dir)
	if p := report.Proof; !p.Whole || p.Line != want || p.Files != 2 || report.Partial() {
		t.Errorf("%+v\n%s", p, want)
	}
}

func TestAFolderStaysThatHoldsMoreThanTheFile(t *testing.T) {
	record := "[" + liveRecord("run-1", "web-1", "p") + "]"
	whole := map[Kind]folder{
		Runs: {
			"runs/a/r.jsonl": startedLine("a", "r"), "config.toml": "[runs]\nmax_age_days = 9\n",
			"runs/.nobackup": "mark",
		},
		Checkpoints: {"r-1.json": `{"run_id":"r-1"}`},
		Live:        {"runs/web-1.json": record},
	}
	for kind, more := range map[Kind]folder{
		Runs:        {"journals/2026/05.log": "x", "runs/a/notes.txt": "x"},
		Checkpoints: {"notes.txt": "x"},
		Live:        {"web-1.json": "{}", "traces/web-1/1.json": "{}"},
	} {
		dir := t.TempDir()
		whole[kind].below(t, dir)
		more.below(t, dir)
		d := emptyFile(t)
		if _, err := Import(context.Background(), d, kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		report := verified(t, d, kind, dir)
		var unknown []string
		for _, r := range report.Unknown {
			unknown = append(unknown, r.File)
		}
		var want []string
		for path := range more {
			if top, _, ok := strings.Cut(path, "/"); ok && top != "runs" {
				path = top + "/"
			}
			want = append(want, path)
		}
		slices.Sort(want)
		slices.Sort(unknown)
		if !slices.Equal(unknown, want) || report.Proof.Whole ||
			!strings.HasSuffix(report.Proof.Line, " in no store; "+dir+" has to stay") {
			t.Errorf("%s: unknown are %q, want %q: %s", kind, unknown, want, report.Proof.Line)
		}
	}
}

// Of a session's document of later versions, the store has the runs alone.
func TestVerify_SessionDocumentHasToStay(t *testing.T) {
	const path = "v1/sessions/id_YQ.json"
	records := `"run_records":[` + liveRecord("run-1", "a", "p") + `]`
	for text, whole := range map[string]bool{
		`{"schema_version":1,"session":{"messages":["hello"]},` + records + `}`: false,
		`{"schema_version":1,` + records + `,"traces":[{}]}`:                    false,
		`{"schema_version":1,"session":null,` + records + `,"traces":[]}`:       true,
		`[` + liveRecord("run-1", "a", "p") + `]`:                               true,
	} {
		dir, d := t.TempDir(), emptyFile(t)
		folder{path: text}.below(t, dir)
		importLive(t, d, "", dir)
		report := verified(t, d, Live, dir)
		if report.Proof.Whole != whole || whole != (len(report.Unknown) == 0) ||
			!whole && report.Unknown[0].File != path || report.Proof.Bytes != int64(len(text)) {
			t.Errorf("%s: %s, %+v", text, report.Proof.Line, report.Unknown)
		}
	}
}

func TestWhatOneTreeDoesNotReadAnotherMay(t *testing.T) {
	ctx, dir, d := context.Background(), t.TempDir(), emptyFile(t)
	folder{"runs/a/r.jsonl": startedLine("a", "r")}.below(t, dir)
	damaged()[Workers].below(t, dir)
	var found []Found
	for _, kind := range []Kind{Runs, Workers} {
		if _, err := Import(ctx, d, kind, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		found = append(found, Found{Kind: kind, Dir: dir})
	}
	total, parts, err := VerifyAll(ctx, d, dir, found, Options{})
	if err != nil || len(parts) != 2 || len(total.Unknown)+len(parts[0].Unknown)+len(parts[1].Unknown) > 0 {
		t.Errorf("%+v, %v", total, err)
	}
	if !parts[0].Proof.Whole || parts[1].Proof.Whole || total.Proof.Whole ||
		total.Proof.Files != parts[0].Proof.Files+parts[1].Proof.Files {
		t.Errorf("%+v\n%+v\n%+v", total.Proof, parts[0].Proof, parts[1].Proof)
	}
}

func TestWhatWasWrittenHereSinceIsNamedSo(t *testing.T) {
	ctx := context.Background()
	dir := folder{"a/r.jsonl": startedLine("a", "r"), "a/s.jsonl": startedLine("a", "s")}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	if err := runs.NewStore(d, runs.Options{}).AppendTurns(ctx, "a", "r", []runs.Turn{{Index: 0}}); err != nil {
		t.Fatal(err)
	}
	err := d.Write(ctx, "change by hand", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE runs SET intent = 'other', checksum = NULL WHERE run_id = 's'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	report := verified(t, d, Runs, dir)
	if len(report.Differs) != 2 || !strings.Contains(report.Differs[0].Reason, "was written to here since") ||
		!strings.Contains(report.Differs[1].Reason, "nobody wrote to it") ||
		!strings.Contains(report.Differs[1].Reason, "(intent)") {
		t.Errorf("%+v", report.Differs)
	}
}

// A pipe below the folder is never opened.
func TestAPipeInAFolderIsUnknown(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if report := verified(t, d, Runs, dir); len(report.Unknown) != 1 || report.Unknown[0].File != "pipe" {
		t.Errorf("%+v", report.Unknown)
	}
}

func TestVerify_LargeTreeUsesTemporaryFile(t *testing.T) {
	line := `{"record":"turn","index":0,"prompt":"` + strings.Repeat("x", 17<<20) +
		`","verifier_verdict":"not_run"}` + "\n"
	dir := folder{"a/r.jsonl": startedLine("a", "r") + line}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	// folders beside the file; what else comes there, such as its reserve, comes when it will
	derived := func() int {
		list, err := filepath.Glob(d.Path() + "-verify-*")
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	beside := 0
	report, err := Verify(context.Background(), d, Runs, dir,
		Options{Progress: func(Progress) { beside = max(beside, derived()) }})
	if err != nil || !report.Proof.Whole || beside != 1 {
		t.Errorf("%+v, %v, %d folders beside the file", report.Proof, err, beside)
	}
	if left := derived(); left != 0 {
		t.Errorf("it left %d folders", left)
	}
}

// verifyProgram verifies the tree args[1] against the file args[0], and says how far it is.
func verifyProgram(args []string) error {
	ctx := context.Background()
	d, err := db.Open(ctx, args[0], db.Options{})
	if err != nil {
		return err
	}
	_, err = Verify(ctx, d, Runs, args[1], Options{Progress: func(p Progress) { fmt.Println("at", p.Files) }})
	return errors.Join(err, d.Close())
}

func TestVerify_RemovesLeftoversOnceDead(t *testing.T) {
	line := `{"record":"turn","index":0,"prompt":"` + strings.Repeat("x", 17<<20) +
		`","verifier_verdict":"not_run"}` + "\n"
	dir := folder{"a/r.jsonl": startedLine("a", "r") + line}.make(t)
	d := emptyFile(t)
	mine := filepath.Join(filepath.Dir(d.Path()), filepath.Base(d.Path())+"-verify-2026", "notes.txt")
	if err := errors.Join(os.Mkdir(filepath.Dir(mine), 0o700), os.WriteFile(mine, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	at := dbtest.Start(t, "verify", d.Path(), dir)
	if _, ok := at.Line(); !ok {
		t.Fatal("it does not verify")
	}
	if removed := RemoveLeft(d.Path()); len(removed) > 0 {
		t.Errorf("removed %q while it is at work", removed)
	}
	at.Kill()
	if removed := RemoveLeft(d.Path()); len(removed) != 1 {
		t.Errorf("removed %q once it is dead", removed)
	}
	if left, err := filepath.Glob(d.Path() + "-verify-*"); err != nil || len(left) != 1 {
		t.Errorf("left is %q, %v", left, err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}

// A runtime that has its folder for itself reads no more of it than any other does.
func TestExport_RuntimeIgnoresStrayFiles(t *testing.T) {
	for under, runtime := range map[string]string{"": aloneRuntime, "runtimes/id-72/": wholeRuntime("")} {
		dir := t.TempDir()
		folder{under + "runtime.json": runtime, under + "events.jsonl": startedEvent}.below(t, dir)
		d := emptyFile(t)
		if _, err := Import(context.Background(), d, Workers, dir, Options{}); err != nil {
			t.Fatal(err)
		}
		if report := verified(t, d, Workers, dir); !report.Proof.Whole {
			t.Fatalf("%q: %s", under, report.Proof.Line)
		}
		folder{under + "notes.txt": "x", under + "drafts/a.md": "x"}.below(t, dir)
		want := []string{under + "drafts/", under + "notes.txt"}
		if under != "" {
			folder{under + "runtimes/id-61/runtime.json": "{"}.below(t, dir)
			want = append(want, under+"runtimes/")
		}
		report := verified(t, d, Workers, dir)
		var unknown []string
		for _, r := range report.Unknown {
			unknown = append(unknown, r.File)
		}
		if report.Proof.Whole || !slices.Equal(unknown, want) {
			t.Errorf("%q: %s, unknown are %q", under, report.Proof.Line, unknown)
		}
	}
}
