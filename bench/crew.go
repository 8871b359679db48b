package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/workers"
)

// crewSize is how many processes work on one database at once.
const crewSize = 4

// A job is what each process of a crew does: one kind of work, through the product or by hand.
type job struct {
	Address string        `json:"address"`
	ByHand  bool          `json:"by_hand"`
	Work    string        `json:"work"`
	Round   string        `json:"round"`   // tells the names of one round from another's
	Member  int           `json:"member"`  // of the crew
	Callers int           `json:"callers"` // of the process
	For     time.Duration `json:"for"`     // 0: until the things of the round are through
	Things  int           `json:"things"`  // that all callers of all processes are after
}

// worked is what came of it.
type worked struct {
	Calls  int           `json:"calls"`
	Won    int           `json:"won"`
	Took   time.Duration `json:"took"`
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	Failed string        `json:"failed"`
}

// A doer makes call number i of a caller, and reports whether it got what only one gets.
type doer func(ctx context.Context, caller, i int) (won bool, err error)

// shared is how many runs, or runtimes, the works that share some have between them.
const shared = 8

// ownRun is the name of the run that a caller of a crew appends to.
func (j *job) ownRun(caller int) string {
	switch j.Work {
	case "append to one run":
		return runName(j.Round, "one")
	case "append to 8 runs":
		return runName(j.Round, (j.Member*j.Callers+caller)%shared)
	}
	return runName(j.Round, j.Member, caller)
}

func (j *job) appends() bool { return strings.HasPrefix(j.Work, "append") }

func (j *job) thing(i int) string { return runName(j.Round, i) }

// childCrew is one process of a crew.
func childCrew(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	prepare := product
	if j.ByHand {
		prepare = byHandOnServer
	}
	do, end, err := prepare(ctx, &j)
	if err != nil {
		return err
	}
	if j.For > 0 { // connections, statements and the process's number are made
		warmed := make([]error, j.Callers)
		var wg sync.WaitGroup
		for c := range j.Callers {
			wg.Go(func() {
				for range 3 {
					_, err := do(ctx, c, 0)
					warmed[c] = errors.Join(warmed[c], err)
				}
			})
		}
		wg.Wait()
		if err := errors.Join(warmed...); err != nil {
			return errors.Join(err, end())
		}
	}
	if err := ready(); err != nil {
		return err
	}
	out := worked{}
	var all samples
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for c := range j.Callers {
		wg.Go(func() {
			var mine samples
			won := 0
			var failed error
			for i := 0; failed == nil && (j.For > 0 && time.Since(began) < j.For || j.For == 0 && i < j.Things); i++ {
				at := time.Now()
				var got bool
				if got, failed = do(ctx, c, i+1); got {
					won++
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			out.Won += won
			if failed != nil {
				out.Failed = failed.Error()
			}
		})
	}
	wg.Wait()
	out.Took, out.Calls = time.Since(began), len(all)
	if len(all) > 0 {
		out.P50, out.P99 = time.Duration(p50(all)), time.Duration(p99(all))
	}
	return errors.Join(end(), reply(out))
}

// product does the work through the stores, on a server or a file.
func product(ctx context.Context, j *job) (doer, func() error, error) {
	d, err := db.Open(ctx, j.Address, db.Options{})
	if err != nil {
		return nil, nil, err
	}
	do, err := j.through(ctx, d)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return do, d.Close, nil
}

func (j *job) through(ctx context.Context, d *db.DB) (doer, error) {
	switch j.Work {
	case "claim":
		store := checkpoints.NewStore(d, checkpoints.Options{})
		return func(ctx context.Context, _, i int) (bool, error) {
			_, ok, err := store.Claim(ctx, j.thing(i-1))
			return ok, err
		}, nil
	case "reserve":
		registry := agents.NewRegistry(d, agents.Options{})
		return func(ctx context.Context, _, i int) (bool, error) {
			thread := j.thing(i - 1)
			out, err := registry.TryReserveThread(ctx, thread,
				func(id string) (agents.Entry, error) { return entry(id, thread), nil })
			return out.Reserved != nil, err
		}, nil
	case "heartbeat":
		return j.beats(ctx, d)
	case "input":
		return j.inputs(ctx, d)
	case "list":
		store := runs.NewStore(d, runs.Options{})
		id := listAgent
		return func(ctx context.Context, _, _ int) (bool, error) {
			page, err := store.Page(ctx, runs.Filter{Agent: &id}, db.At{Limit: firstPage})
			return true, expect(len(page.Items), firstPage, err)
		}, nil
	}
	store := runs.NewStore(d, runs.Options{})
	for c := range j.Callers {
		if j.Work == "append" { // the others are there
			if err := store.WriteStarted(ctx, started(agent, j.ownRun(c), 0)); err != nil {
				return nil, err
			}
		}
	}
	big := turn(0, turnBytes)
	return func(ctx context.Context, c, i int) (bool, error) {
		return true, store.AppendTurns(ctx, agent, j.ownRun(c), []runs.Turn{at(big, i)})
	}, nil
}

func (j *job) beats(ctx context.Context, d *db.DB) (doer, error) {
	registry := agents.NewRegistry(d, agents.Options{})
	var leases []*agents.Lease
	for c := range j.Callers {
		thread := runName(j.Round, j.Member, c)
		lease, out, err := registry.TryLeaseThread(ctx, thread, db.LeaseTerms{TTL: time.Hour},
			func(id string) (agents.Entry, error) { return entry(id, thread), nil })
		if err == nil && lease == nil {
			err = fmt.Errorf("no lease: %+v", out)
		}
		if err != nil {
			return nil, err
		}
		leases = append(leases, lease)
	}
	return func(ctx context.Context, c, _ int) (bool, error) { return true, leases[c].Renew(ctx) }, nil
}

func (j *job) inputs(ctx context.Context, d *db.DB) (doer, error) {
	type one struct {
		runtime *workers.Runtime
		ref     workers.WorkerRef
	}
	var all []one
	for n := range shared {
		runtime, err := workers.Open(ctx, d, workers.RuntimeOptions{RuntimeID: workers.RuntimeID(runName(n))})
		if err != nil {
			return nil, err
		}
		list, err := runtime.ListWorkers(ctx)
		if err != nil {
			return nil, err
		}
		for _, w := range list {
			all = append(all, one{runtime, w.WorkerRef})
		}
	}
	return func(ctx context.Context, c, i int) (bool, error) {
		to := all[(i*5+c*3+j.Member)%len(all)]
		_, err := to.runtime.SendInput(ctx, to.ref, workers.UserInput(input))
		return true, err
	}, nil
}

// workersEach is how many workers a runtime has.
const workersEach = 4

// furnish adds what the crews' tasks need, unless an earlier run did: a sender of inputs goes
// through the runtimes in turn, and by hand in the same order.
func furnish(ctx context.Context, address string) error {
	d, err := db.Open(ctx, address, db.Options{})
	if err != nil {
		return err
	}
	for n := range shared {
		var runtime *workers.Runtime
		if runtime, err = workers.Open(ctx, d,
			workers.RuntimeOptions{RuntimeID: workers.RuntimeID(runName(n))}); err != nil {
			break
		}
		there, failed := runtime.ListWorkers(ctx)
		err = errors.Join(err, failed)
		for i := len(there); i < workersEach && err == nil; i++ {
			_, err = runtime.CreateWorker(ctx, task(i))
		}
	}
	return errors.Join(err, d.Close())
}

// lay makes what one round is after: runs that several append to, or checkpoints that wait.
func (j *job) lay(ctx context.Context) error {
	if j.Work != "claim" && (!j.appends() || j.Work == "append") {
		return nil
	}
	d, err := db.Open(ctx, j.Address, db.Options{})
	if err != nil {
		return err
	}
	if j.Work == "claim" {
		store := checkpoints.NewStore(d, checkpoints.Options{})
		return errors.Join(fill(j.Things, func(i int) error {
			return store.SaveDocument(ctx, j.thing(i), []byte(strings.ReplaceAll(paused, "RUN", j.thing(i))))
		}), d.Close())
	}
	store := runs.NewStore(d, runs.Options{})
	for c := range shared {
		names := job{Round: j.Round, Work: j.Work, Member: 0, Callers: shared}
		if err = errors.Join(err, store.WriteStarted(ctx,
			started(agent, names.ownRun(c), 0))); j.Work == "append to one run" {
			break
		}
	}
	return errors.Join(err, d.Close())
}

// sendCrew has as many processes as there are to do the job at once.
func sendCrew(ctx context.Context, j job, processes int) (all []worked, err error) {
	if err := j.lay(ctx); err != nil {
		return nil, err
	}
	crew := make([]*helper, processes)
	for i := range crew {
		j.Member = i
		text, err := json.Marshal(j)
		if err == nil {
			crew[i], err = startChild(ctx, "crew", string(text))
		}
		if err != nil {
			return nil, err
		}
	}
	for _, c := range crew {
		if err := c.send("go"); err != nil {
			return nil, err
		}
	}
	all = make([]worked, processes)
	won := 0
	for i, c := range crew {
		if err := c.finish(&all[i]); err != nil {
			return nil, err
		}
		if all[i].Failed != "" {
			return nil, fmt.Errorf("%s: %s", j.Work, all[i].Failed)
		}
		won += all[i].Won
	}
	if j.For == 0 && won != j.Things {
		return nil, fmt.Errorf("%s: %d things had %d winners", j.Work, j.Things, won)
	}
	return all, nil
}

// rate is how many calls a second a crew made.
func rate(all []worked) float64 {
	calls, took := 0, time.Duration(0)
	for _, w := range all {
		calls += w.Calls
		took = max(took, w.Took)
	}
	return float64(calls) / took.Seconds()
}

func slowest(all []worked) time.Duration {
	return slices.MaxFunc(all, func(a, b worked) int { return int(a.P99 - b.P99) }).P99
}
