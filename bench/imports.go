package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	tree, err := treeOfRuns(dir)
	if err != nil {
		return nil, err
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
	d, err := run(b.rounds, read, importIntoFiles(ctx, dir))
	if err != nil {
		return nil, err
	}
	row := fmt.Sprintf("import %d runs of %d turns, FULL, against reading them by the reader made for it",
		treeAgents*treeRuns, treeTurns)
	list := []result{d.atMost(row, calls(p50), 9)}
	if b.server == "" {
		return list, nil
	}
	far, address, err := listenFar(b.server, roundTrip)
	if err != nil {
		return list, err
	}
	for _, at := range []place{
		{"PostgreSQL near", b.server},
		{fmt.Sprintf("PostgreSQL %v away", roundTrip), address},
	} {
		r, err := b.importAt(ctx, at, dir)
		if err != nil {
			return list, errors.Join(err, far.Close())
		}
		list = append(list, r)
	}
	return list, far.Close()
}

// importAt measures bringing the tree of this folder into a new schema of a server, against a new file.
func (b *bench) importAt(ctx context.Context, at place, dir string) (result, error) {
	fmt.Fprintf(os.Stderr, "  %s: import\n", at.name)
	d, err := run(b.rounds, importIntoFiles(ctx, dir), func(number int) (round, error) {
		return importInto(ctx, fmt.Sprintf("%s&search_path=import_%d_%d", at.address, time.Now().UnixNano(),
			number), dir)
	})
	if err != nil {
		return result{}, err
	}
	row := fmt.Sprintf("%s: import %d runs of %d turns, FULL, against a file", at.name, treeAgents*treeRuns,
		treeTurns)
	return d.atMost(row, calls(p50), 4), nil
}

// importIntoFiles imports the tree into new files.
func importIntoFiles(ctx context.Context, dir string) side {
	return func(number int) (round, error) {
		return importInto(ctx, filepath.Join(dir, fmt.Sprintf("new-%d-%d.db", time.Now().UnixNano(), number)), dir)
	}
}

// importInto imports the tree into a new file, or a new schema of a server.
func importInto(ctx context.Context, path, dir string) (round, error) {
	d, err := db.Open(ctx, path, db.Options{})
	if err != nil {
		return round{}, err
	}
	began := time.Now()
	report, err := legacy.Import(ctx, d, legacy.Runs, dir, legacy.Options{})
	took := time.Since(began)
	if err == nil && len(report.Quarantined) > 0 {
		err = fmt.Errorf("%d things in quarantine", len(report.Quarantined))
	}
	return round{calls: samples{took}, block: took}, errors.Join(err, d.Close())
}

// treeOfRuns writes the tree as the original does.
func treeOfRuns(dir string) (*original.RunStore, error) {
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
	return tree, nil
}
