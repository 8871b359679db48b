package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// childCommand is the first argument of the program when it measures for another copy of itself.
const childCommand = "child"

// child runs a part of a measurement in a separate process: it prints "ready", waits for a line,
// measures, and answers with one line of JSON.
func child(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: bench child PART FILE")
	}
	part, path := args[0], args[1]
	switch part {
	case "append":
		return childAppend(ctx, path)
	case "crew":
		return childCrew(ctx, path)
	case "memory":
		return childMemory(ctx, path)
	case "follow":
		return childFollow(ctx, path)
	}
	return fmt.Errorf("no part %q", part)
}

func startChild(ctx context.Context, part, path string) (*helper, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h, err := startHelper(ctx, program, childCommand, part, path)
	if err != nil {
		return nil, err
	}
	_, err = h.answer()
	return h, err
}

// ready prints "ready" and waits for the start.
func ready() error {
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// finish reads a child's answer and waits for its end.
func (h *helper) finish(into any) error {
	line, err := h.answer()
	if err == nil {
		err = json.Unmarshal([]byte(line), into)
	}
	return errors.Join(err, h.close())
}

func reply(answer any) error { return json.NewEncoder(os.Stdout).Encode(answer) }

const (
	writers          = 4 // processes
	callersPerWriter = 4
	writeFor         = 2 * time.Second
)

// appended is what one process wrote side by side with others.
type appended struct {
	Commits int           `json:"commits"`
	Longest time.Duration `json:"longest"`
	Errors  []string      `json:"errors"`
}

func childAppend(ctx context.Context, path string) error {
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		return err
	}
	store := runs.NewStore(d, runs.Options{})
	name := func(c int) string { return runName(os.Getpid(), c) }
	for c := range callersPerWriter {
		if err := store.WriteStarted(ctx, started(agent, name(c), 0)); err != nil {
			return err
		}
	}
	if err := ready(); err != nil {
		return err
	}
	big := []runs.Turn{turn(0, turnBytes)}
	var mu sync.Mutex
	var total appended
	var wg sync.WaitGroup
	for c := range callersPerWriter {
		wg.Go(func() {
			var mine appended
			for began := time.Now(); time.Since(began) < writeFor; {
				at := time.Now()
				if err := store.AppendTurns(ctx, agent, name(c), big); err != nil {
					mine.Errors = append(mine.Errors, err.Error())
					break
				}
				mine.Commits++
				mine.Longest = max(mine.Longest, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			total.Commits += mine.Commits
			total.Longest = max(total.Longest, mine.Longest)
			total.Errors = append(total.Errors, mine.Errors...)
		})
	}
	wg.Wait()
	return errors.Join(reply(total), d.Close())
}

// processes measures how processes that write to one file share their turns.
func processes(ctx context.Context, b *bench) ([]result, error) {
	dir, err := b.path("processes")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "selvedge.db")
	var fairness, rates []float64
	var waits samples
	var failures []string
	for range b.rounds {
		all, err := writeTogether(ctx, path)
		if err != nil {
			return nil, err
		}
		var commits []int
		worst, sum := time.Duration(0), 0
		for _, a := range all {
			commits = append(commits, a.Commits)
			sum += a.Commits
			worst = max(worst, a.Longest)
			failures = append(failures, a.Errors...)
		}
		waits = append(waits, worst)
		fairness = append(fairness, float64(slices.Min(commits))/float64(slices.Max(commits)))
		rates = append(rates, float64(sum)/writeFor.Seconds())
	}
	for _, f := range failures {
		fmt.Fprintln(os.Stderr, "error in a process:", f)
	}
	fair := median(fairness)
	row := fmt.Sprintf("%d processes x %d callers, FULL", writers, callersPerWriter)
	wait := within(row+", longest wait", p50(waits), 250*time.Millisecond)
	return []result{
		{
			row: row + ", fewest by most commits", ours: fmt.Sprintf("%.0f/s", median(rates)),
			ratio: fmt.Sprintf("%.2f", fair), target: ">= 0.5", met: verdict(fair >= 0.5),
		},
		wait,
		{row: row + ", errors", ours: fmt.Sprint(len(failures)), target: "0", met: verdict(len(failures) == 0)},
	}, nil
}

func writeTogether(ctx context.Context, path string) ([]appended, error) {
	children := make([]*helper, writers)
	for i := range children {
		var err error
		if children[i], err = startChild(ctx, "append", path); err != nil {
			return nil, err
		}
	}
	for _, c := range children {
		if err := c.send("go"); err != nil {
			return nil, err
		}
	}
	all := make([]appended, writers)
	for i, c := range children {
		if err := c.finish(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}
