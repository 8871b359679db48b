package legacy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"selvedge/runs"
)

func TestImport_SecondRootWithSameIDsNeedsScope(t *testing.T) {
	mine := folder{"a/r.jsonl": startedLine("a", "r") + turnLine(0), "a/s.jsonl": startedLine("a", "s")}
	theirs := folder{
		"a/r.jsonl": startedLine("a", "r") + turnLine(1), "a/s.jsonl": startedLine("a", "s"),
		"a/t.jsonl": startedLine("a", "t") + "torn",
	}
	first, second := mine.make(t), theirs.make(t)
	d := emptyFile(t)
	importInto(t, d, "", first)
	for range 2 {
		report := importInto(t, d, "", second)
		if report.Files.Refused != 1 || len(report.Quarantined) == 0 ||
			report.Counts["turn"] != (Count{Read: 1, Quarantined: 1}) || report.Counts["started"].Quarantined != 1 {
			t.Errorf("%+v %+v", report.Files, report.Counts)
		}
		wantQuarantine(t, d, "", "conflict a/r.jsonl@0: "+theirs["a/r.jsonl"], "tail a/t.jsonl@98: torn")
	}
	wantNames(t, d, "", "a/r", "a/s", "a/t")
	sameFiles(t, "the first root", folder{
		"a/r.jsonl": mine["a/r.jsonl"], "a/s.jsonl": mine["a/s.jsonl"],
		"a/t.jsonl": theirs["a/t.jsonl"],
	}, exported(t, d, ""))
	importInto(t, d, "second", second)
	sameFiles(t, "the second scope", theirs, exported(t, d, "second"))

	// Once the run that was in the way is gone, the file is taken.
	limits := runs.RetentionConfig{}
	store := runs.NewStore(d, runs.Options{Retention: &limits})
	if err := store.WriteEnded(context.Background(),
		runs.Ended{RunID: "r", AgentID: "a", EndedAt: treeNow}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.GC(context.Background()); err != nil {
		t.Fatal(err)
	}
	if report := importInto(t, d, "", second); report.Files.New != 1 || report.Files.Refused != 0 {
		t.Errorf("%+v", report.Files)
	}
	wantQuarantine(t, d, "", "tail a/t.jsonl@98: torn")
}

func TestARefusedFileThatGrowsIsRefusedAgain(t *testing.T) {
	d := emptyFile(t)
	importInto(t, d, "", folder{"a/r.jsonl": startedLine("a", "r")}.make(t))
	text := startedLine("a", "r") + turnLine(0) + "to"
	second := folder{"a/r.jsonl": text}.make(t)
	importInto(t, d, "", second)
	text += "rn\n" + turnLine(1)
	folder{"a/r.jsonl": text}.in(t, second)
	importInto(t, d, "", second)
	wantQuarantine(t, d, "", "conflict a/r.jsonl@0: "+text)
	folder{"a/r.jsonl": startedLine("a", "r")}.in(t, second)
	if report := importInto(t, d, "", second); report.Files.Already != 1 {
		t.Errorf("%+v", report.Files)
	}
	wantQuarantine(t, d, "")
}

// TestAFolderThatALaterVersionRenamed is the trouble after an upgrade: the later version has its
// own folder for the same agent, and writes the end of an old run into a new file there.
func TestAFolderThatALaterVersionRenamed(t *testing.T) {
	files := folder{
		"name:x/old.jsonl":  startedLine("name:x", "old") + turnLine(0),
		"name:x/both.jsonl": startedLine("name:x", "both"),
		"name_x/old.jsonl":  endedLine("name:x", "old"),
		"name_x/both.jsonl": startedLine("name:x", "both") + turnLine(3),
		"name_x/new.jsonl":  startedLine("name:x", "new"),
	}
	dir := files.make(t)
	d := emptyFile(t)
	for i := range 2 {
		report := importInto(t, d, "", dir)
		if want := 2; len(report.Quarantined) != want {
			t.Errorf("import %d: %+v", i, report.Quarantined)
		}
	}
	wantNames(t, d, "", "name:x/both", "name:x/old", "name_x/both", "name:x/new", "name_x/old")
	wantQuarantine(t, d, "", "name name_x/both.jsonl@0: ", "name name_x/old.jsonl@0: ")
	sameFiles(t, "the export", files, exported(t, d, ""))
	list, err := runs.NewStore(d, runs.Options{}).ListRuns(context.Background(), "name:x")
	if err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
	for _, s := range list {
		if s.RunID == "old" && s.Status != runs.StatusInProgress {
			t.Errorf("the end of another file has reached the run: %+v", s)
		}
	}
}

func TestImport_CollidingAndOddNamesLoseNothing(t *testing.T) {
	files := folder{
		"a/.x.jsonl":         startedLine("a", ".x") + turnLine(0),
		"a/x.jsonl":          startedLine("a", ".x") + turnLine(1), // the original's file for the id ".x"
		"a/b_c.jsonl":        startedLine("a", "b/c"),
		"a/\xff.jsonl":       startedLine("a", "odd"),
		`a/\xFF.jsonl`:       startedLine("a", "even odder"),
		"\xfe/r.jsonl":       startedLine("whose", "r"),
		"a/wrong.jsonl":      startedLine("else", "where"),
		"a/line\nfeed.jsonl": startedLine("a", "line\nfeed"),
		"_/_.jsonl":          startedLine("", "..."),
		".dots./r.jsonl":     startedLine(".dots.", "r"),
	}
	dir := files.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	wantNames(t, d, "", ".dots./r", "/...", "a/.x", `a/\xFF`, "a/b/c", "a/line\nfeed", "a/wrong", "a/x",
		`a/\xFF~`+markOf("a/\xff.jsonl"), `\xFE/r`)
	sameFiles(t, "the export", files, exported(t, d, ""))
	list, err := runs.NewStore(d, runs.Options{}).ListRuns(context.Background(), "a")
	if err != nil || len(list) != 7 {
		t.Errorf("%d runs of a, %v", len(list), err)
	}
	if report := importInto(t, d, "", dir); report.Files.Already != int64(len(files)) {
		t.Errorf("%+v", report.Files)
	}
}

func TestImport_NonFileReportedThenTaken(t *testing.T) {
	dir := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	at := func(name string) string { return filepath.Join(dir, "runs/a", name) }
	for _, err := range []error{
		syscall.Mkfifo(at("pipe.jsonl"), 0o600),
		os.Mkdir(at("folder.jsonl"), 0o700),
		os.Symlink("nowhere", at("dangling.jsonl")),
		os.Symlink("circle.jsonl", at("circle.jsonl")),
		os.Symlink("r.jsonl", at("link.jsonl")),
		os.Symlink("a", filepath.Join(dir, "runs/b")),
		os.Symlink(".", filepath.Join(dir, "runs/self")),
		os.WriteFile(at("notes.txt"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d := emptyFile(t)
	report := importInto(t, d, "", dir)
	reasons := map[string]string{}
	for _, q := range report.Quarantined {
		reasons[q.File] = q.Reason
	}
	for file, reason := range map[string]string{
		"a/pipe.jsonl": "is a pipe", "a/folder.jsonl": "is a folder",
		"a/dangling.jsonl": "is a link that leads nowhere",
		"b/circle.jsonl":   "is a link that leads in a circle",
	} {
		if reasons[file] != reason {
			t.Errorf("%s: %q", file, reasons[file])
		}
	}
	if report.Files.Unreadable != 8 || report.Files.New != 4 {
		t.Errorf("%+v", report.Files)
	}
	wantNames(t, d, "", "a/link", "a/r", "b/link", "b/r")

	if err := os.Remove(at("pipe.jsonl")); err != nil {
		t.Fatal(err)
	}
	folder{"a/pipe.jsonl": startedLine("a", "pipe"), "a/nowhere": ""}.in(t, dir)
	report = importInto(t, d, "", dir)
	if report.Files.Unreadable != 4 || report.Files.New != 4 {
		t.Errorf("%+v", report.Files)
	}
	if err := os.Remove(at("circle.jsonl")); err != nil {
		t.Fatal(err)
	}
	importInto(t, d, "", dir)
	wantQuarantine(t, d, "", "file a/folder.jsonl@0: ", "file b/folder.jsonl@0: ")
}

func TestARenamedFolderIsFollowed(t *testing.T) {
	text := startedLine("name:x", "r") + turnLine(0) + "torn"
	dir := folder{"name:x/r.jsonl": text, "name:x/s.jsonl": startedLine("name:x", "s")}.make(t)
	d := emptyFile(t)
	importInto(t, d, "", dir)
	if err := os.Rename(filepath.Join(dir, "runs/name:x"), filepath.Join(dir, "runs/name_x")); err != nil {
		t.Fatal(err)
	}
	text += "\n" + turnLine(1)
	folder{"name_x/r.jsonl": text}.in(t, dir)
	verified, err := Verify(context.Background(), d, Runs, dir, Options{})
	if err != nil || verified.Files.Grown != 1 || verified.Files.Already != 1 {
		t.Errorf("verify: %+v, %v", verified.Files, err)
	}
	report := importInto(t, d, "", dir)
	if report.Files.Grown != 1 || report.Files.Already != 1 || report.Files.Gone != 0 {
		t.Errorf("%+v", report.Files)
	}
	wantNames(t, d, "", "name:x/r", "name:x/s")
	wantQuarantine(t, d, "", "line name_x/r.jsonl@"+fmt.Sprint(strings.Index(text, "torn"))+": torn")
	sameFiles(t, "the export", folder{"name_x/r.jsonl": text, "name_x/s.jsonl": startedLine("name:x", "s")},
		exported(t, d, ""))
}

func TestTwoSourcesKeepTheirThingsApart(t *testing.T) {
	d := emptyFile(t)
	first := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	importInto(t, d, "", first)
	second := folder{"a/r.jsonl": startedLine("a", "r")}.make(t)
	if report := importInto(t, d, "", second); report.Files.Already != 1 || report.Partial() {
		t.Errorf("the same content from elsewhere: %+v", report.Files)
	}
	folder{"a/r.jsonl": startedLine("a", "r") + turnLine(0)}.in(t, second)
	if report := importInto(t, d, "", second); report.Files.Refused != 1 {
		t.Errorf("other content from elsewhere: %+v", report.Files)
	}
	folder{"a/r.jsonl": startedLine("a", "r") + turnLine(0)}.in(t, first)
	if report := importInto(t, d, "", first); report.Files.Grown != 1 {
		t.Errorf("its own source: %+v", report.Files)
	}
}
