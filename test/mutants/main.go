// Command mutants changes the code of the fences, one line at a time, and reports which changes
// no test notices, in a file or on a server. `make mutants` runs it on both; it fails if less
// than nine in ten are noticed.
//
// All mutants are built into the tests at once, in copies of the sources that an overlay of the
// go command puts in their place, and an environment variable selects the active one. Each test
// is first run without one, to see which mutants it reaches; a mutant is then judged by those
// tests alone: first the quickest and those that noticed most of its fence, and the slow ones
// only if it still lives. A mutant that no test reaches lives.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := mutants(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// serverVariable has the address of the PostgreSQL server on which tests run too: tools/postgres run
// sets it.
const serverVariable = "SELVEDGE_POSTGRES"

// enough is the share of mutants that the tests have to notice.
const enough = 0.9

func mutants(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	var (
		only     = flags.String("fence", "", "a regular expression: only fences that it matches")
		file     = flags.String("file", "", "a regular expression: only mutants of files that it matches")
		try      = flags.String("try", "", "numbers of mutants, with commas between: only these")
		sample   = flags.Int("sample", 0, "how many mutants are tried, drawn at random; 0: all")
		seed     = flags.Uint64("seed", 1, "of the draw")
		list     = flags.Bool("list", false, "show the mutants, and try none")
		slowest  = flags.Duration("slowest", time.Minute, "leave out tests that take longer by themselves")
		jobs     = flags.Int("jobs", runtime.GOMAXPROCS(0), "test binaries that run at a time")
		duration = flags.Duration("for", time.Hour, "stop after so long, and judge what was tried")
		verbose  = flags.Bool("v", false, "show killed mutants too")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // some tests run as another user
		return err
	}
	r := &run{root: root, dir: dir, slowest: *slowest, jobs: *jobs, out: out}
	if os.Getenv(serverVariable) != "" {
		r.tags = "postgres"
	} else {
		r.say("%s is not set: what only a server's tests notice lives\n", serverVariable)
	}
	fencePattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	filePattern, err := regexp.Compile(*file)
	if err != nil {
		return err
	}
	for i := range fences {
		if fencePattern.MatchString(fences[i].name) {
			r.fences = append(r.fences, &fences[i])
		}
	}
	if err := r.prepare(); err != nil {
		return err
	}
	var chosen []*mutant
	for _, m := range r.mutants {
		wanted := *try == "" || slices.Contains(strings.Split(*try, ","), strconv.Itoa(m.number))
		if wanted && filePattern.MatchString(m.file) {
			chosen = append(chosen, m)
		}
	}
	if *sample > 0 {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(chosen),
			func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:min(*sample, len(chosen))]
	}
	if *list {
		for _, m := range chosen {
			r.say("%d %v\n", m.number, m)
		}
		return nil
	}
	until, stop := context.WithTimeout(ctx, *duration)
	defer stop()
	if err := r.build(until); err != nil {
		return err
	}
	if err := r.survey(until); err != nil {
		return err
	}
	return r.judgeAll(until, chosen, *verbose)
}

// judgeAll tries the mutants, and prints those that live and the count of each fence.
func (r *run) judgeAll(ctx context.Context, chosen []*mutant, verbose bool) error {
	type count struct{ killed, equal, tried int }
	counts := map[*fence]*count{}
	for _, f := range r.fences {
		counts[f] = &count{}
	}
	r.each(len(chosen), func(i int) {
		m := chosen[i]
		v := r.judge(ctx, m)
		if ctx.Err() != nil {
			return
		}
		why := ""
		if v.killedBy == "" {
			why = m.equal()
		}
		switch {
		case v.killedBy != "" && verbose:
			r.say("killed by %s: %d %v\n", v.killedBy, m.number, m)
		case v.killedBy != "":
		case why != "":
			r.say("equal, %s: %d %v\n", why, m.number, m)
		default:
			r.say("LIVES, %d tests come by: %d %v\n", v.reached, m.number, m)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		c := counts[m.fence]
		switch {
		case v.killedBy != "":
			c.killed++
			c.tried++
		case why != "":
			c.equal++
		default:
			c.tried++
		}
	})
	var sum count
	for _, f := range r.fences {
		c := counts[f]
		r.say("%-24s %4d of %4d killed, and %d equal\n", f.name, c.killed, c.tried, c.equal)
		sum.killed, sum.tried, sum.equal = sum.killed+c.killed, sum.tried+c.tried, sum.equal+c.equal
	}
	if sum.tried == 0 {
		return errors.New("no mutant was tried")
	}
	for _, e := range equals {
		ours := slices.ContainsFunc(r.fences, func(f *fence) bool { return slices.Contains(f.files, e.file) })
		if ours && !slices.ContainsFunc(r.mutants, e.is) {
			r.say("no mutant is that any more, take it out of equal.go: %s: %s\n", e.file, e.was)
		}
	}
	share := float64(sum.killed) / float64(sum.tried)
	r.say("%-24s %4d of %4d killed, %.1f %%, and %d equal; %d made\n", "all", sum.killed, sum.tried, 100*share,
		sum.equal, len(r.mutants))
	if share < enough {
		return fmt.Errorf("%.1f %% are killed; at least %.0f %% have to be", 100*share, 100*enough)
	}
	return nil
}
