package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

var ofRuns = store{"runs", slices.Concat(lists[runs.RunRef, runs.Filter, runs.RunSummary,
	runs.RunSummary](listedRuns).laws(),
	streams[runs.RunRef, runs.TraceRecord](followedRuns).laws(), holdLaws(heldRuns, "runs"),
	keeps(valuesOfRuns).laws()), heldRuns}

func nthRun(n int) runs.RunRef { return runs.RunRef{AgentID: "agent", RunID: nth(n)} }

func batchOf(ref runs.RunRef, records ...runs.Record) runs.Batch {
	return runs.Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: records}
}

func startedRun(ref runs.RunRef) runs.Started {
	return runs.Started{AgentID: ref.AgentID, RunID: ref.RunID}
}

// freeRun begins a run, and releases it: a run that a process writes to can't be deleted.
func freeRun(ctx context.Context, d *db.DB, s *runs.Store, ref runs.RunRef) error {
	return d.Write(ctx, "storetest", func(tx *db.Tx) error { return freeRunTx(tx, s, ref) })
}

func freeRunTx(tx *db.Tx, s *runs.Store, ref runs.RunRef) error {
	r, err := s.BeginTx(tx, startedRun(ref), runs.BeginOptions{})
	if err != nil {
		return err
	}
	return r.ReleaseTx(tx)
}

func endedRun(ref runs.RunRef) runs.Ended {
	return runs.Ended{
		AgentID: ref.AgentID, RunID: ref.RunID,
		Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}},
	}
}

func turnsOf(texts ...string) (turns []runs.Record) {
	for _, text := range texts {
		turns = append(turns, runs.Turn{Prompt: &text})
	}
	return turns
}

func listedRuns(_ *testing.T, d *db.DB, scope string) things[runs.RunRef, runs.Filter, runs.RunSummary,
	runs.RunSummary] {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	return things[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary]{
		lister: s,
		add: func(ctx context.Context, n int) (runs.RunRef, error) {
			return nthRun(n),
				freeRun(ctx, d, s, nthRun(n))
		},
		addTx:  func(tx *db.Tx, n int) (runs.RunRef, error) { return nthRun(n), freeRunTx(tx, s, nthRun(n)) },
		name:   func(ref runs.RunRef) string { return ref.RunID },
		of:     func(r runs.RunSummary) runs.RunRef { return r.Ref },
		newest: true,
		began:  func(r runs.RunSummary) time.Time { return r.StartedAt }, unit: time.Nanosecond,
		end: func(ctx context.Context, ref runs.RunRef) error {
			return second(s.Append(ctx,
				batchOf(ref, endedRun(ref))))
		},
		prune: s.Prune, pins: s,
		big: func(ctx context.Context, n int, text string) (runs.RunRef, error) {
			started := startedRun(nthRun(n))
			started.Intent = text
			return nthRun(n), s.WriteStarted(ctx, started)
		},
	}
}

func followedRuns(_ *testing.T, d *db.DB, scope string) followed[runs.RunRef, runs.TraceRecord] {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	return followed[runs.RunRef, runs.TraceRecord]{
		add: func(ctx context.Context, n int) (runs.RunRef, error) {
			return nthRun(n),
				freeRun(ctx, d, s, nthRun(n))
		},
		addTx: func(tx *db.Tx, n int) error { return freeRunTx(tx, s, nthRun(n)) },
		remove: func(ctx context.Context, ref runs.RunRef) error {
			if r, err := s.Resume(ctx, ref); err == nil { // a run in use can't be deleted
				if err := r.Release(ctx); err != nil {
					return err
				}
			}
			return s.Delete(ctx, ref)
		},
		end: func(ctx context.Context, ref runs.RunRef) error {
			return second(s.Append(ctx,
				batchOf(ref, endedRun(ref))))
		}, began: string(runs.StatusInProgress), ended: string(runs.StatusCompleted), heavy: true,
		append: func(tx *db.Tx, ref runs.RunRef, texts ...string) error {
			return second(s.AppendTx(tx, batchOf(ref, turnsOf(texts...)...)))
		},
		spoil: func(tx *db.Tx, ref runs.RunRef) error {
			return second(s.AppendTx(tx, batchOf(ref, append(turnsOf("whole"),
				runs.Turn{Parameters: json.RawMessage("{")})...)))
		},
		repeat: func(tx *db.Tx, ref runs.RunRef, batch int64, texts ...string) error {
			b := batchOf(ref, turnsOf(texts...)...)
			b.Repeat = batch
			return second(s.AppendTx(tx, b))
		},
		keyed: func(tx *db.Tx, ref runs.RunRef, key string, texts ...string) error {
			b := batchOf(ref, turnsOf(texts...)...)
			b.Key = key
			return second(s.AppendTx(tx, b))
		},
		follow: s.Follow,
		followAll: func(ctx context.Context, status string) iter.Seq2[runs.Followed, error] {
			return s.FollowAll(ctx, runs.Filter{Statuses: statuses[runs.RunStatus](status)})
		},
		before: s.CursorBefore, page: s.TracePage,
		says: func(_ context.Context, r runs.TraceRecord) string {
			if turn, ok := r.Record.(runs.Turn); ok {
				return *turn.Prompt
			}
			return ""
		},
		sequence: func(r runs.TraceRecord) uint64 { return uint64(r.Sequence) },
	}
}

func heldRuns(d *db.DB, scope string) holds {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	ref := func(name string) runs.RunRef { return runs.RunRef{AgentID: "agent", RunID: name} }
	held := func(r *runs.Run, err error) (holding, bool, error) {
		if err != nil {
			return holding{}, false, conflictIsLoss(err)
		}
		return holding{r.Epoch(), func(tx *db.Tx) error { return r.AppendTx(tx, turnsOf("x")...) }, r.Release},
			true, nil
	}
	return holds{
		add: func(ctx context.Context, name string) error { return freeRun(ctx, d, s, ref(name)) },
		begin: func(ctx context.Context, name string) (holding, bool, error) {
			return held(s.Begin(ctx, startedRun(ref(name)), runs.BeginOptions{}))
		},
		status: func(ctx context.Context, name string) (string, error) {
			run, err := s.Get(ctx, ref(name))
			return string(run.Status), err
		},
		take: func(ctx context.Context, name string) (holding, bool,
			error,
		) {
			return held(s.Resume(ctx, ref(name)))
		},
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(s.ResumeTx(tx, ref(name))) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			h, _, err := held(s.Reattach(ctx, ref(name), epoch))
			return h, err
		},
		remove:  func(ctx context.Context, name string) error { return s.Delete(ctx, ref(name)) },
		recover: s.Recover, guarded: true,
		outside: func(ctx context.Context, name string) error {
			return second(s.Append(ctx, batchOf(ref(name), turnsOf("x")...)))
		},
	}
}

// conflictIsLoss turns the error that another holder has a thing into a loss.
func conflictIsLoss(err error) error {
	if errors.Is(err, db.ErrConflict) {
		return nil
	}
	return err
}

func valuesOfRuns(_ *testing.T, d *db.DB, scope string) []kept {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	of := func(name string, isJSON bool, refuses []string, put func(string) runs.Turn,
		get func(runs.Turn) string,
	) kept {
		return kept{
			name: name, json: isJSON, refuses: refuses,
			put: func(ctx context.Context, n int, value string) error {
				return second(s.Append(ctx, batchOf(nthRun(n), put(value))))
			},
			get: func(ctx context.Context, n int) (string, error) {
				for record, err := range s.Trace(ctx, nthRun(n)) {
					if err != nil {
						return "", err
					}
					return get(record.Record.(runs.Turn)), nil
				}
				return "", db.ErrNotFound
			},
		}
	}
	return []kept{
		of("prompt", false, []string{"invalid UTF-8"},
			func(v string) runs.Turn { return runs.Turn{Prompt: &v} }, func(t runs.Turn) string { return *t.Prompt }),
		of("parameters", true, []string{
			"half of a surrogate pair", "invalid UTF-8 in JSON",
			"a number beyond a float", "no JSON",
		},
			func(v string) runs.Turn { return runs.Turn{Parameters: json.RawMessage(v)} },
			func(t runs.Turn) string { return string(t.Parameters) }),
	}
}
