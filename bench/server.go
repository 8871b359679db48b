package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// roundTrip is that of the network in the rows that have one.
const roundTrip = 2 * time.Millisecond

// A task of a crew, and what it must reach against the same work by hand.
var crews = []struct {
	work      string
	processes int
	callers   int
	things    int // 0: as many as go in the time
	target    float64
}{
	{"append", 1, 1, 0, 0.5},
	{"append", crewSize, 16, 0, 1.2},
	{"append to one run", crewSize, 16, 0, 0.5},
	{"append to 8 runs", crewSize, 16, 0, 0.5},
	{"heartbeat", crewSize, 16, 0, 0.5},
	{"input", crewSize, 16, 0, 0.5},
	{"claim", crewSize, 4, 150, 0.5},
	{"reserve", crewSize, 4, 100, 0.5},
	{"list", crewSize, 4, 0, 0.5},
}

// manyRuns is up to how many runs a list is to be flat.
const manyRuns = 200_000

// servers measures the stores on a PostgreSQL server against the same work by hand, in turns, and says what a file does.
func servers(ctx context.Context, b *bench) ([]result, error) {
	if b.server == "" {
		return []result{{row: "the stores on a PostgreSQL server", baseline: "no -server", met: metUnknown}}, nil
	}
	far, address, err := listenFar(b.server, roundTrip)
	if err != nil {
		return nil, err
	}
	list, err := b.onServers(ctx, b.server, address)
	return list, errors.Join(err, far.Close())
}

func (b *bench) onServers(ctx context.Context, near, far string) (list []result, err error) {
	dir, err := b.path("server")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "selvedge.db")
	for _, address := range []string{near, file} {
		if err := errors.Join(furnish(ctx, address), b.fillLists(ctx, address, listAgent, 1000)); err != nil {
			return nil, err
		}
	}
	for _, place := range []struct {
		name, address, file string
	}{{"near", near, file}, {fmt.Sprintf("%v away", roundTrip), far, ""}} {
		for _, crew := range crews {
			if b.work != "" && b.work != crew.work {
				continue
			}
			fmt.Fprintf(os.Stderr, "  %s: %s, %d x %d\n", place.name, crew.work, crew.processes, crew.callers)
			r, err := b.crewDuel(ctx, place.address, place.file, job{Work: crew.work, Callers: crew.callers, Things: b.n(crew.things)}, crew.processes, crew.things == 0)
			if err != nil {
				return list, err
			}
			r.row = fmt.Sprintf("PostgreSQL %s: %s, %d processes x %d callers, calls a second, against row locks by hand", place.name, crew.work, crew.processes, crew.callers)
			r.target, r.met = fmt.Sprintf(">= %gx", crew.target), verdict(r.times >= crew.target)
			list = append(list, r.result)
		}
	}
	if b.work != "" && b.work != "list" {
		return list, nil
	}
	flat, err := b.flatOnServer(ctx, near)
	return append(list, flat), err
}

type crewResult struct {
	result
	times float64
}

// crewDuel has crews do the same by hand, through us, and where there is one on a file, in turns. The first round does not count.
func (b *bench) crewDuel(ctx context.Context, address, file string, j job, processes int, timed bool) (r crewResult, err error) {
	if timed {
		j.For = time.Duration(b.n(int(1500 * time.Millisecond)))
		j.Things = 0
	}
	sides := []job{{Address: address, ByHand: true}, {Address: address}}
	if file != "" {
		sides = append(sides, job{Address: file})
	}
	rates := make([][]float64, len(sides))
	var times []float64
	var slow []time.Duration
	for number := range b.rounds + 1 {
		var now []float64
		for i, side := range sides {
			this := j
			this.Address, this.ByHand = side.Address, side.ByHand
			this.Round = runName(time.Now().UnixNano(), i)
			all, err := sendCrew(ctx, this, processes)
			if err != nil {
				return r, err
			}
			now = append(now, rate(all))
			if i == 1 && number > 0 {
				slow = append(slow, slowest(all))
			}
		}
		if number == 0 {
			continue
		}
		for i := range sides {
			rates[i] = append(rates[i], now[i])
		}
		times = append(times, now[1]/now[0])
	}
	r.times = median(times)
	r.baseline, r.ours = fmt.Sprintf("%.0f/s", median(rates[0])), fmt.Sprintf("%.0f/s (p99 %s)", median(rates[1]), show(float64(median(slow))))
	r.ratio = fmt.Sprintf("%.2fx", r.times)
	if file != "" {
		r.ratio += fmt.Sprintf(" (a file %.0f/s)", median(rates[2]))
	}
	return r, nil
}

// fillLists gives an agent n runs that have ended.
func (b *bench) fillLists(ctx context.Context, address, agentID string, n int) error {
	d, err := db.Open(ctx, address, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	store := runs.NewStore(d, runs.Options{})
	const atOnce = 200
	err = fill(n/atOnce, func(i int) error {
		return d.Write(ctx, "fill", func(tx *db.Tx) error {
			for k := range atOnce {
				number := i*atOnce + k
				id := runName(agentID, number)
				if err := store.AppendTx(tx, runs.Batch{AgentID: agentID, RunID: id, Records: []runs.Record{started(agentID, id, number), ended(agentID, id, number)}}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return errors.Join(err, d.Close())
}

// flatOnServer measures the first page of an agent with many runs against that of one with few.
func (b *bench) flatOnServer(ctx context.Context, address string) (r result, err error) {
	few, many := b.n(manyRuns/100), b.n(manyRuns)
	if err := errors.Join(b.fillLists(ctx, address, "few", few), b.fillLists(ctx, address, "many", many)); err != nil {
		return r, err
	}
	d, err := db.Open(ctx, address, db.Options{})
	if err != nil {
		return r, err
	}
	store := runs.NewStore(d, runs.Options{})
	first := func(id string) side {
		return each(300, func(int, int) error {
			page, err := store.Page(ctx, runs.Filter{Agent: &id}, db.At{Limit: firstPage})
			return expect(len(page.Items), firstPage, err)
		})
	}
	flat, err := run(b.rounds, first("few"), first("many"))
	return flat.atMost(fmt.Sprintf("PostgreSQL near: list the first %d of %d runs, against %d", firstPage, many, few), calls(p50), flatness), errors.Join(err, d.Close())
}
