package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

func traces(s *session) *runs.Store { return runs.NewStore(s.db, runs.Options{}) }

const agent = "agent-a"

// runsScript appends to run traces: single turns, batches, a body that takes several pages, repeats
// with a key, ends.
func runsScript() script {
	runs2 := []string{"run-1", "run-2"}
	sc := script{
		name: "runs",
		prepare: func(ctx context.Context, s *session) error {
			for _, run := range runs2 {
				if err := start(ctx, s, run); err != nil {
					return err
				}
			}
			return nil
		},
		whole: func(ctx context.Context, s *session) error {
			for _, run := range runs2 {
				if err := wholeRun(ctx, s, run); err != nil {
					return err
				}
			}
			return nil
		},
	}
	sc.ops = append(sc.ops,
		startOp("run-3"),
		turnsOp("run-1", "one", 1, 100),
		turnsOp("run-1", "some", 5, 300),
		turnsOp("run-2", "large", 1, 30_000),
		keyedOp("run-2", "key-1"),
		endOp("run-2"),
		turnsOp("run-1", "after", 2, 2000),
	)
	return sc
}

// normalScript is runsScript on a handle that waits for the disk at checkpoints alone. If the first fails,
// the second does its work.
func normalScript() script {
	sc := runsScript()
	sc.name, sc.sync = "normal", db.SyncNormal
	checkpoint := op{name: "give back", do: giveBack}
	sc.ops = append(sc.ops, checkpoint, checkpoint)
	return sc
}

// neighbourScript is runsScript beside another process, so that the killed process's state in
// shared memory matters.
func neighbourScript() script {
	sc := runsScript()
	sc.name, sc.neighbour = "neighbour", true
	return sc
}

// crowdScript has many callers at once that share commits.
func crowdScript() script {
	sc := runsScript()
	sc.name, sc.crowd = "crowd", true
	sc.prepare = func(ctx context.Context, s *session) error {
		_, err := liveRuns(s).CreateRunWithID(ctx, "live-1", "session", "be tortured")
		return errors.Join(err, start(ctx, s, "run-1"), start(ctx, s, "run-2"))
	}
	for i := range 4 {
		sc.ops = append(sc.ops, turnsOp("run-1", fmt.Sprint("side by side ", i), 2, 500),
			eventsOp("live-1", fmt.Sprint("event", i), 2, 100))
	}
	return sc
}

// heldScript works on runs that this process holds, and removes others.
func heldScript() script {
	success := runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: theClock()}}
	begin := func(ctx context.Context, s *session, run string) error {
		r, err := traces(s).Begin(ctx, runs.Started{
			RunID: run, AgentID: agent, Intent: "be tortured",
			StartedAt: theClock(),
		}, runs.BeginOptions{})
		s.kept[run] = r
		return err
	}
	held := func(s *session, run string) *runs.Run { return s.kept[run].(*runs.Run) }
	append1 := turnsOp("run-2", "held", 2, 300)
	append1.do = func(ctx context.Context, s *session) error {
		var list []runs.Record
		for _, t := range turns("held", 2, 300) {
			list = append(list, t)
		}
		return held(s, "run-2").Append(ctx, list...)
	}
	append1.repeat = nil // the process that held the run has given it up by then
	end := endOp("run-3")
	end.do = func(ctx context.Context, s *session) error { return held(s, "run-3").End(ctx, success) }
	return script{
		name: "held",
		prepare: func(ctx context.Context, s *session) error {
			long := theClock().Add(-24 * time.Hour)
			gone := runs.Ended{RunID: "old", AgentID: agent, EndedAt: long, Termination: success}
			return errors.Join(begin(ctx, s, "orphan"), start(ctx, s, "old"), traces(s).WriteEnded(ctx, gone))
		},
		setup: func(ctx context.Context, s *session) error {
			if err := errors.Join(begin(ctx, s, "run-2"), begin(ctx, s, "run-3"), begin(ctx, s, "run-4"),
				begin(ctx, s, "run-5")); err != nil {
				return err
			}
			return held(s, "run-5").Release(ctx)
		},
		ops: []op{
			{
				name: "begin", do: func(ctx context.Context, s *session) error { return begin(ctx, s, "run-1") },
				look: startOp("run-1").look,
			},
			append1,
			end,
			{name: "release", do: func(ctx context.Context,
				s *session,
			) error {
				return held(s, "run-4").Release(ctx)
			}},
			{
				name: "resume",
				do: func(ctx context.Context, s *session) error {
					_, err := traces(s).Resume(ctx, runs.RunRef{AgentID: agent, RunID: "run-5"})
					return err
				},
			},
			{
				name: "recover",
				do:   func(ctx context.Context, s *session) error { _, err := traces(s).Recover(ctx); return err },
				look: freed("run", agent+" / orphan"),
			},
			{
				name: "prune", gradual: true,
				do: func(ctx context.Context, s *session) error {
					_, err := traces(s).Prune(ctx, db.Policy{Age: time.Hour})
					return err
				},
				look: func(ctx context.Context, s *session) (trace, error) {
					_, found, err := traces(s).GetRunTraceFor(ctx, agent, "old")
					return there(!found), err
				},
			},
			{
				name: "reclaim",
				do: func(ctx context.Context, s *session) error {
					return s.db.Reclaim(ctx, "reclaim", func(tx *db.Tx) error {
						_,
							err := tx.Store().Scope("reclaimed")
						return err
					})
				},
				look: lookForScope("reclaimed"),
			},
		},
	}
}

func start(ctx context.Context, s *session, run string) error {
	return traces(s).WriteStarted(ctx, runs.Started{
		RunID: run, AgentID: agent, Intent: "be tortured",
		StartedAt: theClock(),
	})
}

func startOp(run string) op {
	return op{
		name: "start " + run,
		do:   func(ctx context.Context, s *session) error { return start(ctx, s, run) },
		look: func(ctx context.Context, s *session) (trace, error) {
			return count(records(ctx, s, run, func(r runs.Record) bool { _, ok := r.(runs.Started); return ok }))(1)
		},
	}
}

func endOp(run string) op {
	return op{
		name: "end " + run,
		do: func(ctx context.Context, s *session) error {
			return traces(s).WriteEnded(ctx, runs.Ended{
				RunID: run, AgentID: agent, EndedAt: theClock(),
				Termination: runs.Termination{Outcome: &runs.AgentOutcome{
					Status:    runs.OutcomeSuccess,
					Timestamp: theClock(),
				}},
			})
		},
		look: func(ctx context.Context, s *session) (trace, error) {
			return count(records(ctx, s, run, func(r runs.Record) bool { _, ok := r.(runs.Ended); return ok }))(1)
		},
	}
}

// freed looks whether the lease of a kind with a note is gone.
func freed(kind, note string) func(ctx context.Context, s *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		there := 0
		for r, err := range s.db.AllReservations(ctx, db.ReservationFilter{Kind: kind}) {
			if err != nil {
				return "", err
			}
			if r.Note == note {
				there++
			}
		}
		return parts(1-there, 1), nil
	}
}

// turns are n turns that only the operation called name writes, with an output of the given size.
func turns(name string, n, size int) []runs.Turn {
	list := make([]runs.Turn, n)
	for i := range list {
		prompt := name
		output, _ := json.Marshal(strings.Repeat(name, size/len(name)+1)[:size])
		list[i] = runs.Turn{Index: uint64(i), Prompt: &prompt, Output: output}
	}
	return list
}

func turnsOp(run, name string, n, size int) op {
	return op{
		name: fmt.Sprintf("append %q", name),
		do: func(ctx context.Context, s *session) error {
			return traces(s).AppendTurns(ctx, agent, run, turns(name, n, size))
		},
		look: lookForTurns(run, name, n, size),
		repeat: func(ctx context.Context, s *session, batch int64) error {
			b := runs.Batch{AgentID: agent, RunID: run, Repeat: batch}
			for _, t := range turns(name, n, size) {
				b.Records = append(b.Records, t)
			}
			return second(traces(s).Append(ctx, b))
		},
	}
}

// keyedOp makes an append twice, as a caller with a key may: the second must change nothing, or
// make up for the first.
func keyedOp(run, key string) op {
	batch := runs.Batch{AgentID: agent, RunID: run, Key: key}
	for _, t := range turns(key, 2, 200) {
		batch.Records = append(batch.Records, t)
	}
	return op{
		name: "append twice with a key",
		do: func(ctx context.Context, s *session) error {
			_, first := traces(s).Append(ctx, batch)
			if errors.Is(first, db.ErrOutcomeUnknown) {
				return first
			}
			if _, second := traces(s).Append(ctx, batch); first != nil {
				return second
			}
			return nil
		},
		look: lookForTurns(run, key, 2, 200),
	}
}

func lookForTurns(run, name string, n, size int) func(context.Context, *session) (trace, error) {
	return func(ctx context.Context, s *session) (trace, error) {
		want := turns(name, n, size)
		n, err := records(ctx, s, run, func(r runs.Record) bool {
			t, ok := r.(runs.Turn)
			return ok && t.Prompt != nil && *t.Prompt == name
		})
		if err != nil {
			return "", err
		}
		equal := slices.EqualFunc(n, want, func(a runs.Record, b runs.Turn) bool {
			one, errOne := a.MarshalJSON()
			two, errTwo := b.MarshalJSON()
			return errOne == nil && errTwo == nil && bytes.Equal(one, two)
		})
		switch {
		case len(n) == 0:
			return absent, nil
		case equal:
			return done, nil
		}
		return trace(fmt.Sprintf("%d turns that are not the %d that were written", len(n), len(want))), nil
	}
}

// records returns those records of a run that ours picks.
func records(ctx context.Context, s *session, run string, ours func(runs.Record) bool) (list []runs.Record,
	err error,
) {
	all, _, err := traces(s).GetRunTraceFor(ctx, agent, run)
	for _, r := range all {
		if ours(r) {
			list = append(list, r)
		}
	}
	return list, err
}

// wholeRun holds the summary of a run against its records.
func wholeRun(ctx context.Context, s *session, run string) error {
	all, found, err := traces(s).GetRunTraceFor(ctx, agent, run)
	if err != nil || !found {
		return fmt.Errorf("run %s: found %t: %w", run, found, err)
	}
	sum, err := traces(s).Get(ctx, runs.RunRef{AgentID: agent, RunID: run})
	if err != nil {
		return err
	}
	ended := false
	n := 0
	for _, r := range all {
		switch r.(type) {
		case runs.Ended:
			ended = true
		case runs.Turn:
			n++
		}
	}
	if (sum.Status != runs.StatusInProgress) != ended {
		return fmt.Errorf("run %s is %s in the list, and ended in its trace: %t", run, sum.Status, ended)
	}
	return nil
}

// count makes a trace of the number of things that were found.
func count[T any](list []T, err error) func(want int) (trace, error) {
	return func(want int) (trace, error) {
		switch {
		case err != nil:
			return "", err
		case len(list) == 0:
			return absent, nil
		case len(list) == want:
			return done, nil
		}
		return trace(fmt.Sprintf("%d in place of %d", len(list), want)), nil
	}
}

func second[T any](_ T, err error) error { return err }
