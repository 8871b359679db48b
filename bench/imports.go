package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"selvedge/bench/original"
	"selvedge/db"
	"selvedge/legacy"
)

// The tree that is imported: as many runs and turns as a typical one has.
const (
	treeAgents   = 12
	treeRuns     = 28 // of each agent
	treeTurns    = 24 // of each run
	treeTurnSize = 1700
)

// imports measures bringing a tree of traces into a new file, against the original reading it.
func imports(ctx context.Context, b *bench) ([]result, error) {
	dir, err := b.path("imports")
	if err != nil {
		return nil, err
	}
	tree := original.NewRunStore(filepath.Join(dir, "runs"))
	of := shape{perAgent: treeRuns, turns: treeTurns, bytes: treeTurnSize}
	for i := range treeAgents * treeRuns {
		agentID, records := of.run(i)
		line, err := lines(records...)
		if err == nil {
			err = tree.Append(agentID, runName(i), line, original.NoSync)
		}
		if err != nil {
			return nil, err
		}
	}
	read := each(1, func(int, int) error {
		for a := range treeAgents {
			list, err := tree.List(fmt.Sprintf("agent-%d", a))
			if err := expect(len(list), treeRuns, err); err != nil {
				return err
			}
		}
		return nil
	})
	d, err := run(b.rounds, read, func(number int) (round, error) {
		file, err := db.Open(ctx, filepath.Join(dir, fmt.Sprintf("new-%d.db", number)), db.Options{})
		if err != nil {
			return round{}, err
		}
		began := time.Now()
		report, err := legacy.Import(ctx, file, legacy.Runs, dir, legacy.Options{})
		took := time.Since(began)
		if err == nil && len(report.Quarantined) > 0 {
			err = fmt.Errorf("%d things in quarantine", len(report.Quarantined))
		}
		return round{calls: samples{took}, block: took}, errors.Join(err, file.Close())
	})
	if err != nil {
		return nil, err
	}
	row := fmt.Sprintf("import %d runs of %d turns, FULL, against reading them by the reader made for it", treeAgents*treeRuns, treeTurns)
	return []result{d.atMost(row, calls(p50), 2)}, nil
}
