package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"selvedge/db"
)

func main() {
	if os.Getenv(childVariable) != "" {
		exit(traced(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(torture(ctx, os.Args[1:], os.Stdout))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// traced runs as the process under test.
func traced(args []string) error {
	sc, err := find(args[1])
	if err != nil {
		return err
	}
	if args[0] == "script" {
		return sc.child(args[2], ending(args[3]))
	}
	if sc.prepare == nil {
		return nil
	}
	ctx := context.Background()
	s, err := openSession(ctx, args[2], db.Options{SchemaVersion: sc.schema})
	if err != nil {
		return err
	}
	if err := sc.prepare(ctx, s); err != nil || sc.abandoned {
		return err
	}
	return s.close()
}

// torture is the program.
func torture(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	var (
		only  = flags.String("script", "", "run these scripts alone, separated by commas")
		modes = flags.String("mode", "", "run points of these modes alone: kill, fault, fault+kill, power, "+
			"fault+power")
		seed   = flags.Uint64("seed", 0, "of what is drawn; 0 draws one")
		budget = flags.Duration("for", 0, "draw points until this much time has passed; 0 goes through every point")
		jobs   = flags.Int("jobs", 0, "points at a time; 0 is the number of cores")
		dir    = flags.String("dir", "", "where the folders under test are made; \"\" is /dev/shm, or else the "+
			"temporary folder")
		chosen = pointFlags(flags)
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := chosen(*only)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp(scratch(*dir), "torture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a temporary folder
	c := &campaign{
		runner: &runner{dir: folder}, out: out, only: *only, modes: *modes, seed: *seed, jobs: *jobs,
		budget: *budget, began: time.Now(),
		totals: map[string]*total{},
	}
	if c.seed == 0 {
		c.seed = rand.Uint64()>>1 + 1 //nolint:gosec // to be printed
	}
	if p != nil {
		return c.repeat(ctx, p)
	}
	return c.run(ctx)
}

// scratch returns a folder in memory if there is one: a torture test writes a lot, and none of it
// needs a disk.
func scratch(dir string) string {
	const memory = "/dev/shm"
	if dir != "" {
		return dir
	}
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return memory
	}
	return ""
}
