package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestOnlyUpImportAndRestoreMakeAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "missing.db")
	calls := onOldFiles(t)
	for _, c := range commands(newRootCommand(&app{})) {
		name := commandName(c)
		// they make it, or need none
		if slices.Contains([]string{"up", "import", "restore", "version", "help", "datasette", "completion"},
			name) {
			continue
		}
		with, ok := calls[name]
		if !ok {
			t.Errorf("%s: add its arguments to onOldFiles", name)
			continue
		}
		args := append(append([]string{"--db", path}, strings.Fields(name)...), with.args...)
		exit, stdout, stderr := call(t, args...)
		if exit != kindNotFound.exit || stdout != "" || !strings.Contains(stderr, "missing.db") {
			t.Errorf("%s: exit %d, %s%s", name, exit, stdout, stderr)
		}
		if !strings.Contains(stderr, "hint: make it with: migrate --db "+path+" up\n") &&
			!strings.Contains(stderr, "migrate --db "+path+" import runs ") {
			t.Errorf("%s does not say how to make it: %s", name, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("%s has made %v, %v", name, left, err)
		}
	}
}

func TestWhatRemovesDataNeedsAYes(t *testing.T) {
	tree := unpackTree(t, "small")
	calls := map[string][]string{
		"import": {"auto", tree}, "down": {"--to", "7"}, "quarantine drop": {"--what", "line"},
		"delete": {"runs", "duplicate-index-key"},
		"redact": {"--pattern", "e"},
	}
	path := imported(t, "awkward")
	before := whatIsThere(t, path)
	for _, c := range commands(newRootCommand(&app{})) {
		name := commandName(c)
		if c.Flags().Lookup("yes") == nil {
			continue
		}
		args, ok := calls[name]
		if !ok {
			t.Errorf("%s has --yes: add arguments here with which it would remove something", name)
			continue
		}
		args = append(append([]string{"--db", path}, strings.Fields(name)...), args...)
		exit, _, stderr := call(t, args...)
		if exit != kindUsage.exit || !strings.Contains(stderr, "hint: to mean it: migrate --db "+path+" "+name) ||
			!strings.HasSuffix(stderr, " --yes\n") {
			t.Errorf("%s: exit %d, %s", name, exit, stderr)
		}
		if after := whatIsThere(t, path); after != before {
			t.Errorf("%s has changed the file: %s", name, after)
		}
	}
}

// whatIsThere are answers that would be others if a run, a piece in quarantine or the schema went.
func whatIsThere(t *testing.T, path string) string {
	t.Helper()
	_, runs, _ := call(t, "--db", path, "runs", "list", "--all", "--json")
	_, pieces, _ := call(t, "--db", path, "quarantine", "list", "--all", "--json")
	return fmt.Sprint(schemaOf(t, path), runs, pieces)
}

func TestEveryKindOfErrorHasItsExitCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		exit int
		word string
	}{
		{errors.New("x"), 1, "failed"},
		{db.ErrCorrupt, 1, "failed"},
		{db.ErrOutcomeUnknown, 1, "failed"},
		{usage("x"), 2, "usage"},
		{db.ErrInvalid, 2, "usage"},
		{&fault{kind: kindPartial, err: errors.New("x")}, 3, "partial"},
		{db.ErrNotFound, 4, "not_found"},
		{fs.ErrNotExist, 4, "not_found"},
		{fmt.Errorf("%w: no socket: %w", db.ErrIO, fs.ErrNotExist), 1, "failed"},
		{fmt.Errorf("%w: no socket: %w", db.ErrOutcomeUnknown, fs.ErrNotExist), 1, "failed"},
		{db.ErrBusy, 5, "busy"},
		{db.ErrSchemaTooNew, 6, "unsupported"},
		{db.ErrNotADatabase, 6, "unsupported"},
		{db.ErrUnsupported, 6, "unsupported"},
		{db.ErrReplaced, 6, "unsupported"},
		{&fault{kind: kindDamaged, err: errors.New("x")}, 7, "damaged"},
		{fmt.Errorf("%w while it waited: %w", errInterrupted, db.ErrBusy), 130, "interrupted"},
	} {
		wrapped := fmt.Errorf("open: %w", c.err)
		if got := classify(wrapped); got != (kind{c.word, c.exit}) {
			t.Errorf("%v is %v", wrapped, got)
		}
		if row := fmt.Sprintf("\n| %d | `%s` |", c.exit, c.word); !strings.Contains(string(page), row) {
			t.Errorf("docs/CLI.md has no row %q", row)
		}
	}
}

func TestTail_ControlCharactersReachNoTerminal(t *testing.T) {
	for _, width := range []int{0, 80} { // 0: unknown
		var out strings.Builder
		a := &app{stdout: &out, screen: screen{terminal: true, width: width}}
		columns := []column{{name: "run", width: 10}, {name: "intent", width: 10}}
		err := a.printLine(columns, []string{"a", "\x1b[2J"})
		if err != nil || strings.Contains(out.String(), "\x1b") {
			t.Errorf("width %d: %q, %v", width, out.String(), err)
		}
	}
}

func TestWhatIsLongerThanTheScreenIsPaged(t *testing.T) {
	for lines, paged := range map[int]bool{3: false, 4: true} {
		path := filepath.Join(t.TempDir(), "screen")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PAGER", "sed s/^/paged_/")
		a := &app{stdout: file, screen: screen{terminal: true, width: 80, height: 4}}
		a.paged(func() {
			for n := range lines {
				a.print("%d\n", n)
			}
		})
		if err := errors.Join(a.failed, file.Close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "paged") != paged ||
			strings.Count(string(text), "\n") != lines {
			t.Errorf("%d lines on 3: %q, %v", lines, text, err)
		}
	}
	for value, want := range map[string]string{
		"": "", "cat": "", "sed -n p": "sed -n p",
		"there-is-no-such-pager": "",
	} {
		t.Setenv("PAGER", value)
		if got := strings.Join(pagerWords(), " "); got != want {
			t.Errorf("PAGER=%q is %q", value, got)
		}
	}
}

// A script that knows only docs/CLI.md goes through a list by its cursors.
func TestList_CursorsNeitherSkipNorRepeat(t *testing.T) {
	path := imported(t, "awkward")
	dbtest.Check(t, path)
	_, all, _ := call(t, "--db", path, "quarantine", "list", "--all", "--json")
	var items []string
	for after := ""; ; {
		args := []string{"--db", path, "quarantine", "list", "--limit", "3", "--json"}
		if after != "" {
			args = append(args, "--after", after)
		}
		_, page, stderr := call(t, args...)
		body, next, ok := strings.Cut(strings.TrimSuffix(page, "}\n"), `],"next":`)
		if !ok {
			t.Fatalf("%s%s", page, stderr)
		}
		items = append(items, strings.TrimPrefix(body, `{"items":[`))
		if next == "null" {
			break
		}
		after = strings.Trim(next, `"`)
	}
	if joined := `{"items":[` + strings.Join(items, ",") + `],"next":null}` + "\n"; joined != all {
		t.Errorf("the pages are\n%s\nand the whole\n%s", joined, all)
	}
}
