package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A bench is the settings of one run of the program.
type bench struct {
	dir     string // on a real disk; removed at the end
	csqlite string // the program of bench/csqlite
	rounds  int
	quick   bool
	huge    bool
	server  string   // the address of a PostgreSQL server; its lines are left out without it
	cluster string   // the address of a cluster of three; if it is missing, one is started
	work    string   // on servers; "" is all
	passed  []string // the flags that both programs of -against get
}

// millions are the sizes, in millions of turns, at which appends are measured.
func (b *bench) millions() []int {
	if b.huge {
		return []int{1, 5}
	}
	return []int{1}
}

// n is the size of a measurement; a quick look takes a tenth.
func (b *bench) n(full int) int {
	if b.quick {
		return max(full/10, 1)
	}
	return full
}

// path is a fresh folder's path for the files of one measurement.
func (b *bench) path(name string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	return dir, err
}

// A group measures some lines of the table.
type group struct {
	name    string
	measure func(context.Context, *bench) ([]result, error)
	named   bool // it is measured only where -only names it
}

var groups = []group{
	{name: "append", measure: appendOne},
	{name: "durable", measure: appendDurable},
	{name: "many", measure: appendMany},
	{name: "batch", measure: appendBatch},
	{name: "byhand", measure: byHands},
	{name: "processes", measure: processes},
	{name: "list", measure: lists},
	{name: "trace", measure: traces},
	{name: "growth", measure: growth},
	{name: "retention", measure: retention},
	{name: "holds", measure: holds},
	{name: "space", measure: givingBack},
	{name: "agents", measure: registries},
	{name: "claims", measure: claims},
	{name: "workers", measure: inputs},
	{name: "live", measure: lives},
	{name: "follow", measure: follows},
	{name: "followall", measure: followsAll},
	{name: "import", measure: imports},
	{name: "front", measure: fronts},
	{name: "open", measure: opening},
	{name: "memory", measure: memory},
	{name: "server", measure: servers},
	{name: "sizes", measure: sizes, named: true},
	{name: "cluster", measure: clusters, named: true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	command := measureAll
	args := os.Args[1:]
	if len(args) > 0 && args[0] == childCommand {
		command, args = child, args[1:]
	}
	err := command(ctx, args)
	stop()
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

func measureAll(ctx context.Context, args []string) (err error) {
	b := &bench{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&b.quick, "quick", false, "a tenth of the work: shows that it runs, not how fast it is")
	flags.BoolVar(&b.huge, "huge", false, "also append into a file of 5 million turns, and fill one with a "+
		"million of everything for sizes")
	flags.IntVar(&b.rounds, "rounds", 5, "rounds whose median is shown; an odd number")
	flags.StringVar(&b.csqlite, "csqlite", "", "the program of bench/csqlite; its line is left out without it")
	flags.StringVar(&b.server, "server", os.Getenv("SELVEDGE_POSTGRES"),
		"the address of a PostgreSQL server for the group server, as tools/postgres prints it")
	flags.StringVar(&b.work, "work", "",
		"of the groups server and cluster measure this work alone: that of a crew, follow, import (cluster), or "+
			"flat (server)")
	flags.StringVar(&b.cluster, "cluster", os.Getenv("SELVEDGE_CLUSTER"),
		"the address of a cluster for the group cluster, as tools/cluster prints it; without it one is started")
	commit := flags.String("against", "",
		"measure this and the benchmark of that commit in turns, and compare what ours takes")
	parent := flags.String("dir", filepath.Join("bin", "bench-data"), "where files are made, on a real disk")
	only := flags.String("only", "", "measure these groups, with commas between: "+
		strings.Join(groupNames(), ", "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*parent, 0o700); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(*parent, "run-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := realDisk(b.dir); err != nil {
		return err
	}
	if err := describe(ctx, os.Stdout, b); err != nil {
		return err
	}
	if *commit != "" {
		flags.Visit(func(f *flag.Flag) {
			if !slices.Contains([]string{"against", "rounds", "dir", "only"}, f.Name) {
				b.passed = append(b.passed, "-"+f.Name+"="+f.Value.String())
			}
		})
		return b.against(ctx, *commit, chosen)
	}
	began := time.Now()
	all, failed := measure(ctx, b, chosen)
	if err := errors.Join(failed, printTable(os.Stdout, all)); err != nil {
		return err
	}
	fmt.Printf("\ntook %v; load average at the end %s\n", time.Since(began).Round(time.Second), loadAverage())
	return nil
}

// measure returns the results until a group failed or the program was interrupted.
func measure(ctx context.Context, b *bench, chosen []group) (all []result, err error) {
	for _, g := range chosen {
		fmt.Fprintf(os.Stderr, "measuring %s\n", g.name)
		list, err := g.measure(ctx, b)
		if err != nil {
			return all, fmt.Errorf("%s: %w", g.name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

func groupNames() []string {
	names := make([]string, len(groups))
	for i, g := range groups {
		names[i] = g.name
	}
	return names
}

// choose returns the groups of these names; for none all that don't want to be named.
func choose(names string) ([]group, error) {
	if names == "" {
		return slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return g.named }), nil
	}
	var chosen []group
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: no group %q; there are %s", name, strings.Join(groupNames(), ", "))
		}
		chosen = append(chosen, groups[i])
	}
	return chosen, nil
}
