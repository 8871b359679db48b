package storetest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"testing"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
	"selvedge/test/storetest"
	"selvedge/workers"
)

func TestMain(m *testing.M) {
	dbtest.Main(m, map[string]dbtest.Program{"serve": func(args []string) error {
		d, err := db.Open(context.Background(), args[0], db.Options{Synchronous: db.SyncNormal})
		if err != nil {
			return err
		}
		defer d.Close() //nolint:errcheck // errors were reported before
		return storetest.Serve(context.Background(), d, os.Stdin, os.Stdout)
	}})
}

var onFile = storetest.Shared{
	Again: func(t *testing.T, d *db.DB) *db.DB {
		return dbtest.OpenAt(t, d.Path(), db.Options{Synchronous: db.SyncNormal})
	},
	Process: func(t *testing.T, d *db.DB) storetest.Process { return dbtest.Start(t, "serve", d.Path()) },
}

func newFile(t *testing.T) *db.DB { return dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}) }

func TestOnAFile(t *testing.T) { storetest.RunShared(t, newFile, onFile) }

func TestInMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *db.DB { return dbtest.OpenAt(t, ":memory:", db.Options{}) })
}

// The user can do something about a refusal, so the error has a hint.
func TestWhatIsRefusedComesWithAHint(t *testing.T) {
	d := dbtest.Open(t, db.Options{Synchronous: db.SyncNormal})
	ctx, nul := t.Context(), "a\x00b"
	traces, lives, registry := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{}),
		agents.NewRegistry(d, agents.Options{})
	paused, runtimes := checkpoints.NewStore(d, checkpoints.Options{}), workers.NewRuntimes(d, "")
	second := func(_ any, err error) error { return err }
	third := func(_, _ any, err error) error { return err }
	for what, err := range map[string]error{
		"a run's id": traces.WriteStarted(ctx, runs.Started{RunID: nul, AgentID: "a"}),
		"a turn's parameters": traces.AppendTurns(ctx, "a", "r",
			[]runs.Turn{{Parameters: []byte(`{bad`)}}),
		"a run's end": traces.WriteEnded(ctx,
			runs.Ended{RunID: "r", AgentID: "a", Termination: runs.Termination{Status: "success"}}),
		"a run's parent": second(traces.Append(ctx,
			runs.Batch{
				AgentID: "a", RunID: "r", Parent: runs.RunRef{AgentID: "a", RunID: "r"},
				Records: []runs.Record{runs.Started{}},
			})),
		"a run's status": second(traces.Page(ctx, runs.Filter{Statuses: []runs.RunStatus{"x"}},
			db.At{})),
		"the beginning of runs": second(traces.Find(ctx, nul, 0)),
		"a missing run":         second(traces.Get(ctx, runs.RunRef{AgentID: "a", RunID: "none"})),
		"a run to resume":       second(traces.Resume(ctx, runs.RunRef{AgentID: "a", RunID: "none"})),
		"a run to delete":       traces.Delete(ctx, runs.RunRef{AgentID: "a", RunID: "none"}),
		"a run's lines": second(traces.CursorBefore(ctx, runs.RunRef{AgentID: "a", RunID: "none"},
			-1)),
		"a live run's id": second(lives.CreateRunWithID(ctx, nul, "s", "p")),
		"a live run's status": second(lives.Page(ctx, live.Filter{Statuses: []live.RunStatus{"x"}},
			db.At{})),
		"a live run's event": second(lives.Append(ctx, "none",
			live.Batch{Events: make([]live.Event, 1)})),
		"a live run's key":    second(lives.Append(ctx, "none", live.Batch{Key: nul})),
		"a live run's events": second(lives.CursorBefore(ctx, "none", -1)),
		"a missing live run":  second(lives.Append(ctx, "none", live.Batch{})),
		"an event":            second(live.NewEvent([]byte("{bad"))),
		"an agent's id": registry.Save(ctx,
			agents.Entry{SessionID: nul, Thread: "t", Status: agents.Active}),
		"an agent's status": second(registry.Page(ctx, agents.Filter{Statuses: []agents.Status{"x"}},
			db.At{})),
		"a lease of a thread":  third(registry.TryLeaseThread(ctx, "t", db.LeaseTerms{}, nil)),
		"a checkpoint's id":    third(paused.Claim(ctx, nul)),
		"a document":           paused.SaveDocument(ctx, "r", []byte("{bad")),
		"a checkpoint's state": second(paused.Page(ctx, checkpoints.Filter{State: "x"}, db.At{})),
		"a missing checkpoint": second(paused.Get(ctx, checkpoints.Ref{RunID: "none"})),
		"a runtime's status":   second(runtimes.Page(ctx, workers.RuntimeFilter{Status: "x"}, db.At{})),
		"a missing runtime":    second(runtimes.Get(ctx, "none")),
		"a kind":               second(d.Reserve(ctx, "", "x", db.ReserveOptions{})),
		"a name":               second(d.Reserve(ctx, "port", "", db.ReserveOptions{})),
		"a time to live": second(d.Reserve(ctx, "port", "x",
			db.ReserveOptions{LeaseTerms: db.LeaseTerms{TTL: -1}})),
		"a detached lease": second(d.Reserve(ctx, "port", "x",
			db.ReserveOptions{LeaseTerms: db.LeaseTerms{Detached: true}})),
		"a limit":                     second(d.Reservations(ctx, db.ReservationFilter{}, db.At{Limit: -1})),
		"a cursor":                    second(d.Reservations(ctx, db.ReservationFilter{}, db.At{After: "x"})),
		"whom of runs to follow":      told(traces.FollowAll(ctx, runs.Filter{Statuses: []runs.RunStatus{"x"}})),
		"whom of live runs to follow": told(lives.FollowAll(ctx, live.Filter{Statuses: []live.RunStatus{"x"}})),
		"whom of agents to follow": told(registry.FollowAll(ctx,
			agents.Filter{Statuses: []agents.Status{"x"}})),
		"whom of checkpoints to follow": told(paused.FollowAll(ctx, checkpoints.Filter{State: "x"})),
		"whom of runtimes to follow":    told(runtimes.FollowAll(ctx, workers.RuntimeFilter{Status: "x"})),
		"a store":                       maintenance.SetRetention(ctx, d, "", "nope", db.Policy{}),
		"a policy": maintenance.SetRetention(ctx, d, "", maintenance.StoreRuns,
			db.Policy{Age: -2}),
	} {
		if !errors.Is(err, db.ErrInvalid) && !errors.Is(err, db.ErrNotFound) || db.Hint(err) == "" {
			t.Errorf("%s: %v; the hint is %q", what, err, db.Hint(err))
		}
	}
}

// told returns the first error of a follower.
func told[T any](items iter.Seq2[T, error]) error {
	for _, err := range items {
		return err
	}
	return nil
}

func second[T any](_ T, err error) error { return err }
