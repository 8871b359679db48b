package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"selvedge/test/mutants/on"
)

// A run is what one call of the program does.
type run struct {
	root, dir string // the module, and where sources and binaries are kept meanwhile
	fences    []*fence
	mutants   []*mutant
	slowest   time.Duration // a test that takes longer is left out
	jobs      int
	tags      string // of the tests: postgres if there is a server for them
	out       io.Writer

	rapid map[string]bool // suites whose tests draw: their failing inputs are not to be kept

	mu    sync.Mutex
	tests map[string][]*test // by suite
}

// A test is a top-level one of a suite.
type test struct {
	suite, name string
	took        time.Duration
	reached     map[int]bool
	kills       map[*fence]int
}

// cost is how long a test is expected to take for each kill in the fence.
func (t *test) cost(f *fence) time.Duration { return t.took / time.Duration(1+t.kills[f]) }

// prepare makes all mutants, and writes the sources that hold them.
func (r *run) prepare() error {
	all, err := readTree(r.root)
	if err != nil {
		return err
	}
	texts := map[*ast.BasicLit][]*mutant{}
	for _, f := range r.fences {
		for _, name := range f.files {
			s := all[name]
			if s == nil {
				return fmt.Errorf("fence %q: there is no %s", f.name, name)
			}
			maps.Copy(texts, mutate(s, f, &r.mutants).texts)
		}
	}
	all.loosen(texts)
	r.rapid = map[string]bool{}
	for _, s := range all {
		if slices.ContainsFunc(s.file.Imports,
			func(i *ast.ImportSpec) bool { return i.Path.Value == `"pgregory.net/rapid"` }) {
			r.rapid["./"+s.folder] = true
		}
	}
	replace := map[string]string{}
	for name, s := range all {
		if len(s.edits) == 0 {
			continue
		}
		s.askOn()
		to := filepath.Join(r.dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(s.result()+"\nvar _ = mutantOn.At\n"), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(r.root, name)] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(r.overlay(), overlay, 0o600)
}

func (r *run) overlay() string { return filepath.Join(r.dir, "overlay.json") }

func (r *run) binary(suite string) string {
	return filepath.Join(r.dir, strings.ReplaceAll(strings.TrimPrefix(suite, "./"), "/", "_")+".test")
}

// suites are those of all fences, in their order.
func (r *run) suites() (names []string) {
	for _, f := range r.fences {
		for _, suite := range f.suites {
			if !slices.Contains(names, suite) {
				names = append(names, suite)
			}
		}
	}
	return names
}

func (r *run) build(ctx context.Context) error {
	for _, suite := range r.suites() {
		build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags", r.tags, "-overlay", r.overlay(),
			"-o", r.binary(suite), suite)
		build.Dir = r.root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("the tests of %s with all mutants in them: %w\n%s", suite, err, out)
		}
	}
	return nil
}

// command runs tests of a suite with a mutant on.
func (r *run) command(ctx context.Context, suite string, limit time.Duration, environment []string,
	args ...string,
) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	temp, err := os.MkdirTemp(r.dir, "tests")
	if err == nil {
		err = os.Chmod(temp, 0o755) // some tests run as another user
	}
	if err != nil {
		return nil, err
	}
	if r.rapid[suite] {
		args = append(args, "-rapid.nofailfile")
	}
	defer func() { _ = os.RemoveAll(temp) }()
	c := exec.CommandContext(ctx, r.binary(suite), args...)
	c.Dir = filepath.Join(r.root, suite)
	c.Env = append(append(os.Environ(), "TMPDIR="+temp), environment...)
	// A group of their own: processes that they started go with them.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c.CombinedOutput()
}

// survey runs each test by itself, without a mutant, to see how long it takes and which mutants it comes by.
func (r *run) survey(ctx context.Context) error {
	r.tests = map[string][]*test{}
	for _, suite := range r.suites() {
		list, err := r.command(ctx, suite, time.Minute, nil, "-test.list", "^Test")
		if err != nil {
			return fmt.Errorf("list the tests of %s: %w", suite, err)
		}
		var names []string
		for name := range strings.Lines(string(list)) {
			if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") && !leftOut.MatchString(name) {
				names = append(names, name)
			}
		}
		r.each(len(names), func(i int) {
			if ctx.Err() == nil {
				r.look(ctx, suite, names[i], i)
			}
		})
	}
	return ctx.Err()
}

// leftOut are tests that judge something else than a fence (recorded answers, plans, memory), or
// mount a disk that would stay behind.
var leftOut = regexp.MustCompile(`^Test(Postgres.*(Unseen|Storm|Histories)|Transcripts|Trees|RandomTrees|` +
	`TheJudge|TheReplay|MemoryStaysFlat|NoStatementGoes|Histories)|Falsified|FullDisk|Freed`)

func (r *run) look(ctx context.Context, suite, name string, i int) {
	notes := filepath.Join(r.dir, fmt.Sprintf("reached-%s-%d", filepath.Base(r.binary(suite)), i))
	began := time.Now()
	_, err := r.command(ctx, suite, r.slowest+time.Second, []string{on.ReachedVariable + "=" + notes},
		"-test.run", "^"+name+"$")
	t := &test{
		suite: suite, name: name, took: time.Since(began), reached: map[int]bool{},
		kills: map[*fence]int{},
	}
	if err != nil || t.took > r.slowest {
		r.say("left out: %s of %s took %v: %v\n", name, suite, t.took.Round(time.Millisecond), err)
		return
	}
	text, err := os.ReadFile(notes)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.say("%v\n", err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			t.reached[n] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tests[suite] = append(r.tests[suite], t)
}

// each calls fn for 0 to n-1, some at a time.
func (r *run) each(n int, fn func(int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range r.jobs {
		group.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}

func (r *run) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.out, format, args...)
}

// A verdict is what became of a mutant.
type verdict struct {
	killedBy string // test; "" when it lives
	reached  int    // tests that come by
}

// slow is the duration from which a test is run only if no quicker one of any suite has noticed.
const slow = 2 * time.Second

// judge runs the tests that come by a mutant until one of them fails, first those that are likely
// to tell soon.
func (r *run) judge(ctx context.Context, m *mutant) (v verdict) {
	for _, late := range []bool{false, true} {
		for _, suite := range m.fence.suites {
			tests := r.comeBy(m, suite, late)
			v.reached += len(tests)
			for len(tests) > 0 {
				n, sum := 0, time.Duration(0)
				for n < len(tests) && (n == 0 || sum < 3*time.Second) {
					sum += tests[n].took
					n++
				}
				if v.killedBy = r.kills(ctx, m, suite, tests[:n], sum); v.killedBy != "" {
					r.credit(m, tests[:n], v.killedBy)
					return v
				}
				tests = tests[n:]
			}
		}
	}
	return v
}

// comeBy returns the quick or the slow tests of a suite that come by a mutant.
func (r *run) comeBy(m *mutant, suite string, late bool) (tests []*test) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tests[suite] {
		if t.reached[m.number] && (t.took > slow) == late {
			tests = append(tests, t)
		}
	}
	slices.SortFunc(tests, func(a, b *test) int { return cmp.Compare(a.cost(m.fence), b.cost(m.fence)) })
	return tests
}

func (r *run) credit(m *mutant, tests []*test, killedBy string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range tests {
		if t.name == killedBy {
			t.kills[m.fence]++
		}
	}
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: ([^\s/]+)`)

// kills returns the test that fails, and does so again by itself: what fails once may be the
// machine's.
func (r *run) kills(ctx context.Context, m *mutant, suite string, tests []*test, took time.Duration) string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	fails := func(names string) (out []byte, err error) {
		return r.command(ctx, suite, 15*time.Second+5*took,
			[]string{on.MutantVariable + "=" + strconv.Itoa(m.number)},
			"-test.failfast", "-test.run", "^("+names+")$")
	}
	out, err := fails(strings.Join(names, "|"))
	if err == nil || ctx.Err() != nil {
		return ""
	}
	found := failedTest.FindSubmatch(out)
	if found == nil {
		return "the end of the process: " + err.Error()
	}
	if _, err := fails(string(found[1])); err == nil || ctx.Err() != nil {
		return ""
	}
	return string(found[1])
}
