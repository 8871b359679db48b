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

// The task of each crew, and the ratio to the same work by hand that it must reach.
var crews = []struct {
	work      string
	processes int
	callers   int
	things    int // 0: as many as go in the time
	target    float64
}{
	{"append", 1, 1, 0, 0.5},
	{"append", crewSize, 16, 0, 1.3},
	{"append to one run", crewSize, 16, 0, 0.5},
	{"append to 8 runs", crewSize, 16, 0, 0.5},
	{"heartbeat", crewSize, 16, 0, 1},
	{"input", crewSize, 16, 0, 0.5},
	{"claim", crewSize, 4, 150, 1},
	{"reserve", crewSize, 4, 100, 1},
	{"list", crewSize, 4, 0, 0.5},
}

// manyRuns is up to how many runs a list on a server is to be flat, and flatOnServerUpTo how flat.
const (
	manyRuns         = 200_000
	flatOnServerUpTo = 1.5
)

// servers measures the stores on a PostgreSQL server against the same work by hand, in turns, and
// reports the results of a file.
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
	file := place{"a file", filepath.Join(dir, "selvedge.db")}
	for _, address := range []string{near, file.address} {
		if err := prepareCrews(ctx, address); err != nil {
			return nil, err
		}
	}
	away := place{fmt.Sprintf("PostgreSQL %v away", roundTrip), far}
	for _, one := range []struct {
		at     place
		beside []place
	}{{place{"PostgreSQL near", near}, []place{file}}, {away, nil}} {
		rows, err := b.crewsAt(ctx, one.at, one.beside)
		if list = append(list, rows...); err != nil {
			return list, err
		}
		if b.works("follow") {
			rows, err := b.followAt(ctx, one.at, file)
			if list = append(list, rows...); err != nil {
				return list, err
			}
		}
	}
	if b.works("followall") {
		rows, err := b.followAllOnServer(ctx, place{"PostgreSQL near", near})
		if list = append(list, rows...); err != nil {
			return list, err
		}
	}
	if b.works("flat") {
		rows, err := b.flatOnServer(ctx, near)
		if list = append(list, rows...); err != nil {
			return list, err
		}
	}
	return list, nil
}

// A place is a database and its name.
type place struct{ name, address string }

// works reports whether a work is to be measured.
func (b *bench) works(work string) bool { return b.work == "" || b.work == work }

// prepareCrews makes what all crews find in a database.
func prepareCrews(ctx context.Context, address string) error {
	d, err := db.Open(ctx, address, db.Options{Synchronous: db.SyncNormal})
	if err != nil {
		return err
	}
	err = fillLists(ctx, d, "", 1000, func(int) string { return listAgent })
	return errors.Join(err, d.Close(), furnish(ctx, address))
}

// crewsAt has all crews work at a place, by hand and through us, and reports their results at
// others.
func (b *bench) crewsAt(ctx context.Context, at place, beside []place) (list []result, err error) {
	for _, crew := range crews {
		if !b.works(crew.work) {
			continue
		}
		fmt.Fprintf(os.Stderr, "  %s: %s, %d x %d\n", at.name, crew.work, crew.processes, crew.callers)
		r, err := b.crewDuel(ctx, at, beside,
			job{Work: crew.work, Callers: crew.callers, Things: b.n(crew.things)}, crew.processes, crew.things == 0)
		if err != nil {
			return list, err
		}
		r.row = fmt.Sprintf("%s: %s, %d processes x %d callers, calls a second, against row locks by hand",
			at.name, crew.work, crew.processes, crew.callers)
		r.target, r.met = fmt.Sprintf(">= %gx", crew.target), verdict(r.times >= crew.target)
		list = append(list, r.result)
	}
	return list, nil
}

type crewResult struct {
	result
	times float64
}

// crewDuel has crews do the same by hand and through us, and through us at other places, in turns.
// The first round does not count.
func (b *bench) crewDuel(ctx context.Context, at place, beside []place, j job, processes int,
	timed bool,
) (r crewResult, err error) {
	if timed {
		j.For = time.Duration(b.n(int(1500 * time.Millisecond)))
		j.Things = 0
	}
	sides := []job{{Address: at.address, ByHand: true}, {Address: at.address}}
	for _, other := range beside {
		sides = append(sides, job{Address: other.address})
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
	r.baseline, r.ours = fmt.Sprintf("%.0f/s", median(rates[0])),
		fmt.Sprintf("%.0f/s (p99 %s)", median(rates[1]), show(float64(median(slow))))
	r.ratio = fmt.Sprintf("%.2fx", r.times)
	for i, other := range beside {
		r.ratio += fmt.Sprintf(" (%s %.0f/s)", other.name, median(rates[2+i]))
	}
	return r, nil
}

// fillLists adds n runs of these agents to a scope. The first hundred are in progress, the others
// have ended.
func fillLists(ctx context.Context, d *db.DB, scope string, n int, agentOf func(number int) string) error {
	store := runs.NewStore(d, runs.Options{Scope: scope})
	const atOnce = 200
	return fill(n/atOnce, func(i int) error {
		return d.Write(ctx, "fill", func(tx *db.Tx) error {
			for k := range atOnce {
				number := i*atOnce + k
				agentID, id := agentOf(number), runName(number)
				batch := runs.Batch{AgentID: agentID, RunID: id, Records: []runs.Record{started(agentID, id, number)}}
				if number >= openRuns {
					batch.Records = append(batch.Records, ended(agentID, id, number))
				}
				if _, err := store.AppendTx(tx, batch); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// openRuns is how many runs of a list are in progress: those that began first, so that a list of
// them finds none among the newest.
const openRuns = 100

// flatOnServer measures first pages of lists of many runs against those of few.
func (b *bench) flatOnServer(ctx context.Context, address string) (list []result, err error) {
	d, err := db.Open(ctx, address, db.Options{})
	if err != nil {
		return nil, err
	}
	list, err = b.flatLists(ctx, d, address)
	return list, errors.Join(err, d.Close())
}

func (b *bench) flatLists(ctx context.Context, d *db.DB, address string) (list []result, err error) {
	sizes := []int{b.n(manyRuns / 100), b.n(manyRuns / 10), b.n(manyRuns)}
	one := runName("agent", 1)
	for _, n := range sizes {
		fmt.Fprintf(os.Stderr, "  %d runs\n", n)
		if err := fillLists(ctx, d, runName(n), n,
			func(number int) string { return runName("agent", number%4) }); err != nil {
			return nil, err
		}
	}
	if err := analyze(ctx, address); err != nil {
		return nil, err
	}
	for _, filter := range []struct {
		of string
		runs.Filter
	}{
		{"all", runs.Filter{}},
		{"of one agent in four", runs.Filter{Agent: &one}},
		{"that completed", runs.Filter{Statuses: []runs.RunStatus{runs.StatusCompleted}}},
		{"the 100 oldest in progress", runs.Filter{Statuses: []runs.RunStatus{runs.StatusInProgress}}},
	} {
		first := func(n int) side {
			store := runs.NewStore(d, runs.Options{Scope: runName(n)})
			return each(b.n(300), func(int, int) error {
				page, err := store.Page(ctx, filter.Filter, db.At{Limit: firstPage})
				return expect(len(page.Items), firstPage, err)
			})
		}
		for _, many := range sizes[1:] {
			flat, err := run(b.rounds, first(sizes[0]), first(many))
			if err != nil {
				return list, err
			}
			row := fmt.Sprintf("PostgreSQL near: list the newest %d of %d runs, %s, against %d", firstPage, many,
				filter.of, sizes[0])
			list = append(list, flat.atMost(row, calls(p50), flatOnServerUpTo))
		}
	}
	return list, nil
}
