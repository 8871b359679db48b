package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"selvedge"
	"selvedge/migrations"
	"selvedge/test/dbtest"
)

// A block is a fenced piece of a page.
type block struct {
	language string
	line     int // of its first line
	text     string
}

// page reads a file of the module and its fenced blocks.
func page(t *testing.T, name string) (text string, blocks []block) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	for i, line := range strings.Split(string(content), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, line: i + 2}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return string(content), blocks
}

func only(blocks []block, language string) (list []block) {
	for _, b := range blocks {
		if b.language == language {
			list = append(list, b)
		}
	}
	return list
}

// inTerms gives a folder as a user has it: bin/migrate, and a home folder with an old tree.
func inTerms(t *testing.T, tree string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	program, err := exec.LookPath("migrate")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "bin", "migrate")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(unpackTree(t, tree), filepath.Join(dir, ".car")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	t.Setenv("SELVEDGE_DB", "")
	return dir
}

// sh runs a line of shell in a folder.
func sh(dir, line string) (string, error) {
	command := exec.Command("sh", "-ec", line)
	command.Dir = dir
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestEveryCommandInTheREADMEWorks(t *testing.T) {
	_, blocks := page(t, "README.md")
	dir := inTerms(t, "typical")
	ran := 0
	for _, b := range only(blocks, "sh") {
		for line := range strings.Lines(b.text) {
			if out, err := sh(dir, line); err != nil {
				t.Errorf("README.md, %s: %v\n%s", strings.TrimSpace(line), err, out)
			}
			ran++
		}
	}
	if ran == 0 {
		t.Error("README.md has no commands")
	}
}

// TestEveryCommandOfThePageOnMovingWorks runs them in the page's order, in a home folder with a
// tree of each of the five old programs.
func TestEveryCommandOfThePageOnMovingWorks(t *testing.T) {
	_, blocks := page(t, "docs/moving.md")
	dir := inTerms(t, "small")
	for tree, at := range map[string]string{
		"checkpoints": ".car/workflow-runs", "agents": "project", "workers": ".", "live": ".",
	} {
		packed, err := filepath.Abs(filepath.Join("..", "..", "testdata", "legacy", tree, "small.tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := sh(dir, "mkdir -p "+at+" && tar -xzf "+packed+" -C "+at); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.Rename(filepath.Join(dir, "small"), filepath.Join(dir, "sessions")); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, b := range only(blocks, "sh") {
		for line := range strings.Lines(b.text) {
			out, err := sh(dir, line)
			if err != nil {
				t.Errorf("docs/moving.md, %s: %v\n%s", strings.TrimSpace(line), err, out)
			}
			for _, k := range []string{"runs", "agents", "checkpoints", "workers", "live"} {
				for _, command := range []string{"import", "verify", "export"} {
					if strings.Contains(line, command+" "+k+" ") {
						kinds[k]++
					}
				}
			}
		}
	}
	for k, n := range kinds {
		if n < 3 {
			t.Errorf("the page has %d commands about %s", n, k)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("the page is about %v", kinds)
	}
}

func TestTheMakeTargetsOfTheREADMEAreThere(t *testing.T) {
	text, _ := page(t, "README.md")
	makefile, _ := page(t, "Makefile")
	targets := regexp.MustCompile(`(?m)^    make ([a-z]+)`).FindAllStringSubmatch(text, -1)
	if len(targets) < 2 {
		t.Errorf("README.md names %d targets", len(targets))
	}
	for _, target := range targets {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("the Makefile has no target %s", target[1])
		}
	}
}

func TestTheProgramInTheREADMEPrintsWhatItSays(t *testing.T) {
	_, blocks := page(t, "README.md")
	programs, answers := only(blocks, "go"), only(blocks, "text")
	if len(programs) != 1 || len(answers) != 1 {
		t.Fatalf("README.md has %d programs and %d answers", len(programs), len(answers))
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(programs[0].text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", source).CombinedOutput(); err != nil {
		t.Fatalf("go vet: %v\n%s", err, out)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if out, err := sh(dir, "./program"); err != nil || out != answers[0].text {
		t.Errorf("it prints %q, %v; want %q", out, err, answers[0].text)
	}
}

func TestPages_SQLite3AnswersEveryQuery(t *testing.T) {
	sqlite3, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("needs sqlite3: apt-get install sqlite3")
	}
	file := imported(t, "typical")
	if exit, _, stderr := call(t, "--db", file, "import", "runs",
		unpackTree(t, "awkward")); exit != kindPartial.exit {
		t.Fatalf("import: exit %d: %s", exit, stderr)
	}
	for _, name := range []string{"README.md", "docs/queries.md"} {
		text, blocks := page(t, name)
		// answered in docs/operator_test.go, on a file made for them
		operators, _, _ := strings.Cut(text, "\n## Runs\n")
		queries := only(blocks, "sql")
		if len(queries) == 0 {
			t.Errorf("%s has no query", name)
		}
		for _, q := range queries {
			t.Run(fmt.Sprintf("%s:%d", name, q.line), func(t *testing.T) {
				command := exec.Command(sqlite3, "-readonly", "-header", "-bail", file)
				command.Stdin = strings.NewReader(q.text)
				out, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s%s", err, q.text, out)
				}
				// Another store's question may have no answer in a file that holds runs alone.
				answered := name == "docs/queries.md" && q.line <= strings.Count(operators, "\n")
				if len(out) == 0 && !answered && regexp.MustCompile(
					`\bv_(runs|turns|agents_runs|imports|quarantine)\b`).MatchString(q.text) {
					t.Errorf("no answer:\n%s", q.text)
				}
				if exit, _, stderr := call(t, "--db", file, "query", "--csv", "--", q.text); exit != 0 {
					t.Errorf("migrate query: exit %d: %s", exit, stderr)
				}
			})
		}
	}
}

func TestTheDemoWorksAndWorksAgain(t *testing.T) {
	program, err := exec.LookPath("migrate")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MIGRATE", program)
	t.Setenv("DEMO", t.TempDir())
	var next string
	for range 2 {
		out, err := exec.Command("../../examples/demo").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{
			"turn\t8,356\t8,356\t0\t0\t0", "status   completed: failure",
			"agent,commands,failed,percent", "What to try next",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the demo does not say %q:\n%s", want, out)
			}
		}
		_, next, _ = strings.Cut(string(out), "What to try next:\n")
	}
	var script strings.Builder
	for line := range strings.Lines(next) {
		if strings.HasPrefix(line, "  ") {
			script.WriteString(line)
		}
	}
	if out, err := sh("../..", script.String()); err != nil || script.Len() == 0 {
		t.Errorf("what the demo says to try: %v\n%s\n%s", err, script.String(), out)
	}
}

func TestLinksOfThePagesLeadSomewhere(t *testing.T) {
	for _, name := range []string{
		"README.md", "CHANGELOG.md", "docs/CLI.md", "docs/queries.md",
		"docs/looking.md",
	} {
		text, _ := page(t, name)
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", "..", filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestTheChangelogNamesEverySchemaVersion(t *testing.T) {
	text, _ := page(t, "CHANGELOG.md")
	for _, step := range migrations.Steps {
		if !strings.Contains(text, fmt.Sprintf("Schema %d:", step.Version)) {
			t.Errorf("CHANGELOG.md does not name schema %d", step.Version)
		}
	}
}

// Its Go is that of the program, and its commands answer what the program asked.
func TestSurvivePage_ShowsTheProgramAndItsCommands(t *testing.T) {
	sqlite3, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Fatal("needs sqlite3: apt-get install sqlite3")
	}
	_, blocks := page(t, "docs/survive.md")
	program, err := os.ReadFile(filepath.Join("..", "..", "examples", "survive", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range only(blocks, "go") {
		if !strings.Contains(string(program), b.text) {
			t.Errorf("line %d is not in the program:\n%s", b.line, b.text)
		}
	}
	path := waitingRuns(t)
	t.Setenv("SELVEDGE_DB", path)
	for _, b := range only(blocks, "sql") {
		out, err := exec.Command(sqlite3, "-readonly", "-bail", path, b.text).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("line %d: %v\n%s%s", b.line, err, b.text, out)
		}
	}
	for _, b := range only(blocks, "sh") {
		for line := range strings.Lines(b.text) {
			if exit, stdout, stderr := call(t, shellWords(line)[1:]...); exit != 0 {
				t.Errorf("%sexit %d\n%s%s", line, exit, stdout, stderr)
			}
		}
	}
}

// Its Go is that of an example, and its commands work on a file in which runs wait.
func TestLookingPage_ShowsAnExampleAndCommands(t *testing.T) {
	_, blocks := page(t, "docs/looking.md")
	example, err := os.ReadFile(filepath.Join("..", "..", "query", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range only(blocks, "go") {
		if !strings.Contains(string(example), indented(b.text)) {
			t.Errorf("line %d is not in the example:\n%s", b.line, b.text)
		}
	}
	dir := inTerms(t, "small")
	t.Setenv("SELVEDGE_DB", waitingRuns(t))
	for _, b := range only(blocks, "sh") {
		for line := range strings.Lines(b.text) {
			if out, err := sh(dir, line); err != nil {
				t.Errorf("%s%v\n%s", line, err, out)
			}
		}
	}
}

// indented is the text of a block as it is in the body of a function.
func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("\t" + line)
	}
	return out.String()
}

// waitingRuns returns a file in which one run waits for an answer, and one for a decision about an effect.
func waitingRuns(t *testing.T) (path string) {
	t.Helper()
	path = dbtest.Path(t)
	s, err := selvedge.Open(t.Context(), path, selvedge.Options{Agent: "deployer"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the commands read the file
	for _, id := range []string{"deploy-41", "deploy-42"} {
		run, err := s.Take(t.Context(), id, selvedge.Start{Intent: "deploy"})
		if err != nil {
			t.Fatal(err)
		}
		if id == "deploy-41" {
			_, err = run.Reply("turn-0", func(context.Context) (selvedge.Reply, error) {
				return selvedge.Reply{Usage: selvedge.Usage{InputTokens: new(uint64(7))}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = run.Do("post-0", selvedge.Effect{Tool: "http"},
				func(context.Context, string) (json.RawMessage, error) { return nil, errors.New("timed out") })
		} else {
			_, err = run.Ask("gate", selvedge.Question{Prompt: "Deploy this build?"})
		}
		if !errors.Is(err, selvedge.ErrUnknown) && !errors.Is(err, selvedge.ErrWaiting) {
			t.Fatal(err)
		}
	}
	return path
}
