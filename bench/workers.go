package main

import (
	"context"
	"fmt"
	"path/filepath"

	"selvedge/bench/original"
	"selvedge/db"
	"selvedge/workers"
)

// A crowd is how many workers a runtime has, and how many inputs each of them has heard.
type crowd struct{ workers, entries int }

func (c crowd) String() string { return fmt.Sprintf("%d workers x %d entries", c.workers, c.entries) }

// input has the size of typical ones.
var input = prose(600)

// task returns worker number i's. In typical runtimes every second worker has no configuration
// bundle and every fifth no capabilities: the diagnostics report that, and the original rewrites
// them all with every change.
func task(i int) workers.CreateWorkerRequest {
	r := workers.CreateWorkerRequest{
		Intent:  workers.TaskIntent(prose(200)),
		Profile: workers.BuiltinProfile("builtin:coder"),
	}
	if i%2 > 0 {
		r.ConfigBundle = &workers.ConfigBundleRef{ID: "bundle-1"}
	}
	if i%5 > 0 {
		r.RequestedCapabilities = []workers.CapabilityRequest{
			workers.NamedCapability("read"),
			workers.NamedCapability("write"),
		}
	}
	return r
}

// A roster is a runtime of ours and its workers.
type roster struct {
	runtime *workers.Runtime
	refs    []workers.WorkerRef
}

// roster makes a runtime, which shares the file with those of other names.
func (s *stage) roster(ctx context.Context, name string, of crowd) (*roster, error) {
	runtime, err := workers.Open(ctx, s.file, workers.RuntimeOptions{RuntimeID: workers.RuntimeID(name)})
	if err != nil {
		return nil, err
	}
	r := &roster{runtime: runtime}
	for i := range of.workers {
		worker, err := runtime.CreateWorker(ctx, task(i))
		if err != nil {
			return nil, err
		}
		r.refs = append(r.refs, worker.WorkerRef)
	}
	return r, fill(of.workers*of.entries, func(i int) error {
		_, err := r.send(ctx, i)
		return err
	})
}

// send sends the workers an input in turns.
func (r *roster) send(ctx context.Context, i int) (sequence uint64, err error) {
	ack, err := r.runtime.SendInput(ctx, r.refs[i%len(r.refs)], workers.UserInput(input))
	return ack.TranscriptSequence, err
}

// inputs measures sending one input to a runtime that holds much: against the original, which
// copies all that it holds, and against itself in runtimes that hold less.
func inputs(ctx context.Context, b *bench) ([]result, error) {
	of := crowd{workers: 100, entries: 50}
	var list []result
	for _, c := range []struct {
		name  string
		level db.Synchronous
		sync  original.Sync
		n     int
	}{
		{"FULL, against rewrite and append with fsync", db.SyncFull, original.WithSync, 200},
		{"NORMAL, against the same without fsync", db.SyncNormal, original.NoSync, 1000},
	} {
		s, err := b.stage(ctx, "workers", c.level)
		if err != nil {
			return nil, err
		}
		d, err := s.inputDuel(ctx, b, of, b.n(c.n), c.sync)
		if err := s.close(err); err != nil {
			return nil, err
		}
		list = append(list, d.faster(fmt.Sprintf("send one input, %s, %s", of, c.name), calls(p50), 15))
	}
	s, err := b.stage(ctx, "crowds", db.SyncNormal)
	if err != nil {
		return nil, err
	}
	flat, err := s.flatInputs(ctx, b, of, crowd{workers: b.n(1000), entries: 100})
	return append(list, flat...), s.close(err)
}

// perSlow is how many of our calls a round has for each call of an original that is slow.
const perSlow = 10

func (s *stage) inputDuel(ctx context.Context, b *bench, of crowd, n int, sync original.Sync) (duel, error) {
	if err := s.fillWAL(ctx); err != nil {
		return duel{}, err
	}
	ours, err := s.roster(ctx, "runtime-1", of)
	if err != nil {
		return duel{}, err
	}
	files, err := original.NewWorkerRuntime(filepath.Join(s.dir, "workers"), "runtime-1")
	if err != nil {
		return duel{}, err
	}
	var refs []workers.WorkerRef
	for i := range of.workers {
		ref, err := files.CreateWorker(task(i))
		if err != nil {
			return duel{}, err
		}
		refs = append(refs, ref)
	}
	if err := files.Fill(of.entries, input); err != nil {
		return duel{}, err
	}
	heard := func(n, number, i int, got uint64, err error) error {
		return expect(int(got), of.entries+(number*n+i)/of.workers+1, err)
	}
	few := max(n/perSlow, 1)
	return run(b.rounds,
		each(few, func(number, i int) error {
			at := number*few + i
			got, err := files.SendInput(refs[at%len(refs)], input, sync)
			return heard(few, number, i, got, err)
		}),
		each(n, func(number, i int) error {
			got, err := ours.send(ctx, number*n+i)
			return heard(n, number, i, got, err)
		}))
}

// flatInputs measures a crowd against runtimes of one worker that has heard nothing, each new in
// its round, and a larger crowd against that crowd.
func (s *stage) flatInputs(ctx context.Context, b *bench, of, larger crowd) ([]result, error) {
	if err := s.fillWAL(ctx); err != nil {
		return nil, err
	}
	fresh := make([]*roster, b.rounds+1)
	for number := range fresh {
		var err error
		if fresh[number], err = s.roster(ctx, runName("fresh", number), crowd{workers: 1}); err != nil {
			return nil, err
		}
	}
	some, err := s.roster(ctx, "some", of)
	if err != nil {
		return nil, err
	}
	many, err := s.roster(ctx, "many", larger)
	if err != nil {
		return nil, err
	}
	n := b.n(2000)
	send := func(to func(number int) *roster) side {
		return each(n, func(number, i int) error {
			_, err := to(number).send(ctx, number*n+i)
			return err
		})
	}
	toFresh := send(func(number int) *roster { return fresh[number] })
	toSome := send(func(int) *roster { return some })
	toMany := send(func(int) *roster { return many })
	grown, err := run(b.rounds, toFresh, toSome)
	if err != nil {
		return nil, err
	}
	crowded, err := run(b.rounds, toSome, toMany)
	if err != nil {
		return nil, err
	}
	return []result{
		grown.atMost(fmt.Sprintf("the same, NORMAL, %s against one worker that heard nothing", of), calls(p50),
			flatness),
		crowded.atMost(fmt.Sprintf("the same, NORMAL, %s against %s", larger, of), calls(p50), flatness),
	}, nil
}
