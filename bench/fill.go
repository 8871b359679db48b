package main

import (
	"context"
	"fmt"
	"sync"

	"selvedge/runs"
)

// fillers is how many callers fill a file at once: they share commits.
const fillers = 64

// fill has 64 callers do the work from 0 to n between them.
func fill(n int, work func(i int) error) error {
	var wg sync.WaitGroup
	failed := make(chan error, fillers)
	for f := range fillers {
		wg.Go(func() {
			for i := f; i < n; i += fillers {
				if err := work(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(failed)
	return <-failed
}

// A shape is what the runs of a filled file look like. Agents have perAgent runs each; the first is agent-0.
type shape struct{ perAgent, turns, bytes int }

func (s *stage) addRuns(ctx context.Context, n int, of shape) error {
	return fill(n, func(i int) error {
		agentID, records := of.run(i)
		return s.store.AppendRecords(ctx, agentID, runName(i), records)
	})
}

// run is the records of run number i, which has ended.
func (of shape) run(i int) (agentID string, records []runs.Record) {
	agentID = fmt.Sprintf("agent-%d", i/of.perAgent)
	records = append(records, started(agentID, runName(i), i%of.perAgent))
	for t := range of.turns {
		records = append(records, turn(uint64(t), of.bytes))
	}
	return agentID, append(records, ended(agentID, runName(i), i%of.perAgent))
}

// turnsPerRun and turnsPerCall shape the runs that hold a million turns.
const (
	turnsPerRun  = 2000
	turnsPerCall = 500
)

// addTurns adds n turns of 200 B, in runs that stay open.
func (s *stage) addTurns(ctx context.Context, n int) error {
	batch := make([]runs.Turn, turnsPerCall)
	for i := range batch {
		batch[i] = turn(uint64(i), smallBytes)
	}
	return fill(n/turnsPerCall, func(i int) error {
		return s.store.AppendTurns(ctx, agent, runName("full", i*turnsPerCall/turnsPerRun), batch)
	})
}
