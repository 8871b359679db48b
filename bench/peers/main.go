package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

const (
	recordBytes     = 2000
	checkpointBytes = 20_000
	listed          = 10_000
	page            = 50
	mostCallers     = 64
	pollEvery       = 50 * time.Millisecond
)

// A peer is a store that is measured. Its open makes an empty one in a folder.
type peer struct {
	name string
	open func(ctx context.Context, dir string, o options) (store, error)
}

type options struct {
	full    bool // a call that returned survives a power cut; otherwise, the death of the process
	callers int  // that call at once
}

// start opens a peer in a new folder.
func (p peer) start(ctx context.Context, dir string, o options) (store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s, err := p.open(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return s, nil
}

// A store keeps records of [mostCallers] runs. Calls for different runs may come at once.
type store interface {
	// Append adds record number i, from 0, to a run.
	Append(ctx context.Context, run, i int, body []byte) error
	Close() error
}

// A queue saves a checkpoint, gives it to one claimer, and completes it, each in its own transaction.
type queue interface {
	Cycle(ctx context.Context, id string, body []byte) error
}

// A lister has runs, and reads the newest [page] of them.
type lister interface {
	Fill(ctx context.Context, runs int) error
	List(ctx context.Context) (found int, err error)
}

// A follower tells of each record of run 0 that another process appends.
type follower interface {
	Follow(ctx context.Context, heard func() error) error
}

var peers = []peer{
	{"Selvedge", openSelvedge},
	{"table, mattn (C)", openTable(openDatabase("sqlite3", mattnDSN))},
	{"table, modernc", openTable(openDatabase("sqlite", moderncDSN))},
	{"table, ncruces", openTable(openNcruces)},
	{"table, zombiezen", openTable(openZombiezen)},
	{"goqite, mattn", openGoqite},
	{"bbolt", openBolt},
	{"pebble", openPebble},
	{"go-workflows", openWorkflows},
	{"ADK-Go, mattn", openADK},
}

// A work is measured with each peer that can do it.
type work struct {
	options

	name  string
	calls int // of all callers in one round
	do    func(s store) func(ctx context.Context, caller, i int) error
}

func works() []work {
	body := []byte(`"` + strings.Repeat("x", recordBytes-2) + `"`)
	appends := func(s store) func(ctx context.Context, caller, i int) error {
		return func(ctx context.Context, caller, i int) error { return s.Append(ctx, caller, i, body) }
	}
	var list []work
	for _, full := range []bool{true, false} {
		for _, callers := range []int{1, 8, mostCallers} {
			list = append(list, work{
				options: options{full, callers}, name: fmt.Sprintf("append 2 KB, %s, by %d", level(full), callers),
				calls: 1000 + 50*callers, do: appends,
			})
		}
	}
	return append(list, work{
		options: options{true, 1}, name: "save, claim and complete 20 KB, FULL", calls: 200,
		do: func(s store) func(ctx context.Context, caller, i int) error {
			q, ok := s.(queue)
			if !ok {
				return nil
			}
			text := strings.Repeat("x", checkpointBytes)
			return func(ctx context.Context, _, i int) error {
				return q.Cycle(ctx, fmt.Sprintf("run-%d-%d", i, time.Now().UnixNano()), []byte(text))
			}
		},
	}, work{
		options: options{false, 1}, name: fmt.Sprintf("list %d of %d runs", page, listed), calls: 200,
		do: func(s store) func(ctx context.Context, caller, i int) error {
			l, ok := s.(lister)
			if !ok {
				return nil
			}
			return func(ctx context.Context, _, _ int) error {
				found, err := l.List(ctx)
				if err == nil && found != page {
					err = fmt.Errorf("%d runs, want %d", found, page)
				}
				return err
			}
		},
	})
}

func level(full bool) string {
	if full {
		return "FULL"
	}
	return "NORMAL"
}

// A round is what one peer did in one go.
type round struct {
	calls []time.Duration
	took  time.Duration
	cpu   time.Duration // of the process, user and system
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) (err error) {
	if len(args) == 3 && args[0] == "follow" {
		return childFollow(ctx, args[1], args[2])
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "rounds whose median is shown; an odd number")
	quick := flags.Bool("quick", false, "a tenth of the work: shows that it runs, not how fast it is")
	parent := flags.String("dir", filepath.Join("bin", "bench-data"), "where files are made, on a real disk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(*parent, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(*parent, "peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d rounds, load %s\n", time.Now().UTC().Format("2006-01-02 15:04 UTC"), *rounds, load)
	part := 1
	if *quick {
		part = 10
	}
	for i, w := range works() {
		w.calls = max(w.calls/part, w.callers)
		fmt.Fprintln(os.Stderr, "measuring", w.name)
		if err := compare(ctx, &out, w, *rounds, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	if err := follow(ctx, &out, 100/part, filepath.Join(dir, "follow")); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, err = io.WriteString(table, out.String())
	return errors.Join(err, table.Flush())
}

// compare measures a work with all peers in turns, and prints a line for each.
func compare(ctx context.Context, out *strings.Builder, w work, rounds int, dir string) (err error) {
	fmt.Fprintf(out, "%s\tp50\tp99\tcalls a second\tprocessor time a call\tSelvedge's calls by its\n", w.name)
	all := make([][]round, len(peers))
	calls := make([]func(context.Context, int, int) error, len(peers))
	for i, p := range peers {
		s, err := p.start(ctx, filepath.Join(dir, fmt.Sprint(i)), w.options)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if calls[i] = w.do(s); calls[i] == nil {
			continue
		}
		if l, ok := s.(lister); ok && strings.HasPrefix(w.name, "list") {
			if err := l.Fill(ctx, listed); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	for number := range rounds + 1 { // the first does not count: it warms files and caches
		for k := range peers {
			i := (k + number) % len(peers)
			if calls[i] == nil {
				continue
			}
			r, err := measure(ctx, w, number, calls[i])
			if err != nil {
				return fmt.Errorf("%s: %w", peers[i].name, err)
			}
			if number > 0 {
				all[i] = append(all[i], r)
			}
		}
	}
	for i, p := range peers {
		if calls[i] != nil {
			printLine(out, p.name, all[i], all[0])
		}
	}
	fmt.Fprintln(out, "\t\t\t\t\t")
	return nil
}

// measure makes the calls of one round, shared between the callers.
func measure(ctx context.Context, w work, number int, call func(context.Context, int, int) error) (round,
	error,
) {
	each := w.calls / w.callers
	r := round{calls: make([]time.Duration, each*w.callers)}
	failed := make(chan error, w.callers)
	before, err := cpu()
	if err != nil {
		return r, err
	}
	began := time.Now()
	for c := range w.callers {
		go func() {
			for i := range each {
				at := time.Now()
				if err := call(ctx, c, number*each+i); err != nil {
					failed <- err
					return
				}
				r.calls[c*each+i] = time.Since(at)
			}
			failed <- nil
		}()
	}
	for range w.callers {
		err = errors.Join(err, <-failed)
	}
	r.took = time.Since(began)
	after, now := cpu()
	r.cpu = after - before
	return r, errors.Join(err, now)
}

func cpu() (time.Duration, error) {
	var used unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

// printLine prints the medians of the rounds. The last column is the median of the rounds' ratios.
func printLine(out *strings.Builder, name string, theirs, ours []round) {
	rate := func(r round) float64 { return float64(len(r.calls)) / r.took.Seconds() }
	var p50, p99, perSecond, used, ratios []float64
	for i, r := range theirs {
		slices.Sort(r.calls)
		p50 = append(p50, float64(r.calls[len(r.calls)/2]))
		p99 = append(p99, float64(r.calls[len(r.calls)*99/100]))
		perSecond = append(perSecond, rate(r))
		used = append(used, float64(r.cpu)/float64(len(r.calls)))
		ratios = append(ratios, rate(ours[i])/rate(r))
	}
	fmt.Fprintf(out, "%s\t%s\t%s\t%.0f\t%s\t%.2fx\n", name, micros(median(p50)), micros(median(p99)),
		median(perSecond), micros(median(used)), median(ratios))
}

func micros(nanos float64) string { return fmt.Sprintf("%.1f µs", nanos/1e3) }

func median(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }
