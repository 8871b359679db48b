package maintenance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"selvedge"
	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/internal/paging"
	"selvedge/legacy"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/workers"
)

// theTime is when everything in the file happened.
var theTime = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

func atTheTime() time.Time { return theTime }

// words is a text of n bytes that does not repeat itself.
func words(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz     .,"
	var b strings.Builder
	for range n {
		b.WriteByte(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// filled makes a file with data of all stores at path: size says how much, about 100 KB each.
func filled(t testing.TB, path string, size int) {
	t.Helper()
	ctx := context.Background()
	d, err := db.Open(ctx, path, db.Options{Now: atTheTime, Synchronous: db.SyncNormal})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, scope := range []string{"", "other"} {
		for range size {
			fillRuns(ctx, t, runs.NewStore(d, runs.Options{Scope: scope}), r)
			fillLive(ctx, t, live.NewStore(d, live.Options{Scope: scope}), r)
			fillAgents(ctx, t, agents.NewRegistry(d, agents.Options{Scope: scope}), r)
			fillCheckpoints(ctx, t, checkpoints.NewStore(d, checkpoints.Options{Scope: scope}), r)
			fillWorkers(ctx, t, d, scope, r)
			fillState(ctx, t, state.NewStore(d, state.Options{Scope: scope}), r)
			fillSteps(ctx, t, selvedge.On(d, selvedge.Options{Scope: scope}), r)
			_, err := d.Reserve(ctx, "port", words(r, 8),
				db.ReserveOptions{Scope: scope, Note: words(r, 40), LeaseTerms: db.LeaseTerms{TTL: time.Hour}})
			must(err)
		}
	}
	for _, kind := range legacy.Kinds() {
		tree := filepath.Join(t.TempDir(), string(kind))
		_, err := legacy.Export(ctx, d, kind, tree, legacy.Options{Scope: "other"})
		must(err)
		_, err = legacy.Import(ctx, d, kind, tree, legacy.Options{Scope: "imported"})
		must(err)
	}
	must(d.Close())
}

var number int

func named(what string) string {
	number++
	return fmt.Sprintf("%s-%06d", what, number)
}

func fillRuns(ctx context.Context, t testing.TB, s *runs.Store, r *rand.Rand) {
	t.Helper()
	for i := range 4 {
		agent, run := fmt.Sprintf("agent-%d", i%3), named("run")
		err := s.WriteStarted(ctx, runs.Started{
			RunID: run, AgentID: agent, Intent: words(r, 60),
			StartedAt: theTime.Add(time.Duration(i) * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		var turns []runs.Record
		for n := range 12 {
			prompt, tool := words(r, 50), "shell"
			turn := runs.Turn{Index: uint64(n), Prompt: &prompt, Tool: &tool}
			turn.Parameters, _ = json.Marshal(words(r, 200))
			turn.Output, _ = json.Marshal(words(r, 300+r.IntN(200)+5000*(n/11)*(i/3)))
			turns = append(turns, turn)
		}
		turns = append(turns, runs.Unknown{Kind: "model_turn", Raw: json.RawMessage(
			`{"record":"model_turn","model":"large","usage":{"input_tokens":70,"output_tokens":7},"cost_usd":0.25}`)})
		if _, err := s.Append(ctx, runs.Batch{
			AgentID: agent, RunID: run, Records: turns,
			Key: words(r, 12),
		}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		done := runs.Termination{Outcome: &runs.AgentOutcome{
			Status: runs.OutcomeSuccess, Summary: words(r, 30),
			Timestamp: theTime,
		}}
		if err := s.WriteEnded(ctx, runs.Ended{
			RunID: run, AgentID: agent, EndedAt: theTime,
			Termination: done,
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// fillSteps adds a run with a reply, an effect of unknown outcome and an answered question.
func fillSteps(ctx context.Context, t testing.TB, s *selvedge.Store, r *rand.Rand) {
	t.Helper()
	id := named("steps")
	take := func() *selvedge.Run {
		run, err := s.Take(ctx, id, selvedge.Start{Intent: words(r, 40)})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	run := take()
	_, err := run.Reply("plan", func(context.Context) (selvedge.Reply, error) {
		return selvedge.Reply{Text: words(r, 100), Usage: selvedge.Usage{InputTokens: new(uint64(9))}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = run.Ask("gate", selvedge.Question{Prompt: words(r, 30), Fields: json.RawMessage(`["build"]`)})
	if !errors.Is(err, selvedge.ErrWaiting) {
		t.Fatal(err)
	}
	answer := selvedge.Answer{Decision: "approved", By: words(r, 10), Fields: json.RawMessage(`{"build":7}`)}
	if err := s.Answer(ctx, run.Ref(), "gate", answer); err != nil {
		t.Fatal(err)
	}
	effect := selvedge.Effect{Tool: "http", Args: json.RawMessage(`{"to":"there"}`)}
	_, err = take().Do("send", effect, func(context.Context, string) (json.RawMessage, error) {
		return nil, errors.New(words(r, 30))
	})
	if !errors.Is(err, selvedge.ErrUnknown) {
		t.Fatal(err)
	}
}

func fillLive(ctx context.Context, t testing.TB, s *live.Store, r *rand.Rand) {
	t.Helper()
	for range 3 {
		id := named("live")
		if _, err := s.CreateRunWithID(ctx, id, "session", words(r, 100)); err != nil {
			t.Fatal(err)
		}
		events := []live.Event{live.AgentStart(words(r, 80))}
		for range 15 {
			events = append(events, live.TextDelta(words(r, 150)))
		}
		events = append(events, live.TurnEnd(1, db.Usage{OutputTokens: new(uint64(11))}),
			live.AgentEnd(words(r, 200)))
		if _, err := s.Append(ctx, id, live.Batch{Events: events, Key: words(r, 12)}); err != nil {
			t.Fatal(err)
		}
	}
}

func fillAgents(ctx context.Context, t testing.TB, s *agents.Registry, r *rand.Rand) {
	t.Helper()
	for i := range 8 {
		id, thread := named("agent"), named("thread")
		note := words(r, 40)
		e := agents.Entry{
			SessionID: id, Thread: thread, BaseState: words(r, 30), StartedAt: theTime, Status: agents.Active,
			Provider: &note, Model: &note, Harness: &note, ClientInstanceID: &note, Path: &note,
		}
		if i%2 == 0 {
			_, _, err := s.TryLeaseThread(ctx, thread, db.LeaseTerms{TTL: time.Hour},
				func(string) (agents.Entry, error) { return e, nil })
			if err != nil {
				t.Fatal(err)
			}
		} else if err := s.Save(ctx, e); err != nil {
			t.Fatal(err)
		}
		if err := s.LogContextQuery(ctx, id, agents.ContextQuery{Path: words(r, 30)}); err != nil {
			t.Fatal(err)
		}
	}
}

func fillCheckpoints(ctx context.Context, t testing.TB, s *checkpoints.Store, r *rand.Rand) {
	t.Helper()
	for i := range 5 {
		id := named("paused")
		err := s.Save(ctx, &checkpoints.PausedWorkflow{
			RunID: id, Workflow: checkpoints.Workflow{
				ID: "flow", Name: words(r, 30), Start: "gate",
				MaxIterations: 100,
			},
			PausedStageID: "gate", Prompt: words(r, 400*(1+i*4)), OutputKey: "approval", CreatedAt: theTime,
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, _, err := s.Claim(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func fillWorkers(ctx context.Context, t testing.TB, d *db.DB, scope string, r *rand.Rand) {
	t.Helper()
	rt, err := workers.Open(ctx, d, workers.RuntimeOptions{
		Scope:     scope,
		RuntimeID: workers.RuntimeID(named("runtime")),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		detail, err := rt.CreateWorker(ctx, workers.CreateWorkerRequest{Intent: workers.TaskIntent(words(r, 60))})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := rt.SendInput(ctx, detail.WorkerRef, workers.UserInput(words(r, 150))); err != nil {
				t.Fatal(err)
			}
		}
		if i == 0 {
			if _, err := rt.StopWorker(ctx, detail.WorkerRef, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func fillState(ctx context.Context, t testing.TB, s *state.Store, r *rand.Rand) {
	t.Helper()
	for i := range 5 {
		value, err := json.Marshal(map[string]any{"n": i, "text": words(r, 100)})
		if err == nil {
			_, err = s.Set(ctx, state.Ref{Owner: words(r, 8), Key: named("key")}, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// answers are what the stores say of a file, as text, one line each.
func answers(ctx context.Context, path string) (lines []string, err error) {
	d, err := db.Open(ctx, path, db.Options{MustExist: true, Now: atTheTime, Synchronous: db.SyncNormal})
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // opened for reading only
	a := &answering{ctx: ctx, d: d}
	for _, scope := range []string{"", "other", "imported"} {
		a.runs(runs.NewStore(d, runs.Options{Scope: scope}))
		a.live(live.NewStore(d, live.Options{Scope: scope}))
		a.agents(agents.NewRegistry(d, agents.Options{Scope: scope}))
		a.checkpoints(checkpoints.NewStore(d, checkpoints.Options{Scope: scope}))
		a.workers(scope)
		each(a, "value", state.NewStore(d, state.Options{Scope: scope}).All(ctx, state.Filter{}), nil)
		each(a, "reservation", d.AllReservations(ctx, db.ReservationFilter{Scope: scope}), nil)
	}
	each(a, "quarantine", paging.All(func(at db.At) (db.Page[legacy.Quarantined], error) {
		return legacy.Quarantine(ctx, d, "imported", at)
	}), nil)
	return a.lines, a.err
}

type answering struct {
	ctx   context.Context
	d     *db.DB
	lines []string
	err   error
}

func (a *answering) say(what string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Append(nil, v)
	}
	a.lines = append(a.lines, what+" "+string(text))
}

func each[T any](a *answering, what string, list iter.Seq2[T, error], fn func(T)) {
	if a.err != nil {
		return
	}
	for v, err := range list {
		if err != nil {
			a.err = err
			return
		}
		a.say(what, v)
		if fn != nil {
			fn(v)
		}
	}
}

func (a *answering) runs(s *runs.Store) {
	each(a, "run", s.All(a.ctx, runs.Filter{}), func(r runs.RunSummary) {
		each(a, "record", s.Trace(a.ctx, runs.RunRef{AgentID: r.AgentID, RunID: r.RunID}), nil)
	})
}

func (a *answering) live(s *live.Store) {
	each(a, "live run", s.All(a.ctx, live.Filter{}), func(r live.RunSnapshot) {
		each(a, "event", s.EachEvent(a.ctx, r.ID), nil)
	})
}

func (a *answering) agents(s *agents.Registry) {
	each(a, "agent", s.All(a.ctx, agents.Filter{}), func(e agents.Entry) {
		held, ok, err := s.Reservation(a.ctx, e.Thread)
		a.fail(err)
		a.say("held", []any{ok, held})
	})
}

func (a *answering) checkpoints(s *checkpoints.Store) {
	each(a, "checkpoint", s.All(a.ctx, checkpoints.Filter{}), func(c checkpoints.Summary) {
		document, ok, err := s.LoadDocument(a.ctx, c.RunID)
		a.fail(err)
		a.say("document", []any{ok, string(document)})
	})
}

func (a *answering) workers(scope string) {
	each(a, "runtime", workers.NewRuntimes(a.d, scope).All(a.ctx, workers.RuntimeFilter{}),
		func(r workers.RuntimeSummary) {
			rt, err := workers.Open(a.ctx, a.d, workers.RuntimeOptions{Scope: scope, RuntimeID: r.RuntimeID})
			if err != nil {
				a.fail(err)
				return
			}
			each(a, "runtime event", rt.EachEvent(a.ctx), nil)
			diagnostics, err := rt.Diagnostics(a.ctx)
			a.fail(err)
			a.say("diagnostics", diagnostics)
			each(a, "worker", rt.All(a.ctx, workers.WorkerFilter{}), func(w workers.WorkerSummary) {
				detail, err := rt.WorkerDetail(a.ctx, w.WorkerRef)
				a.fail(err)
				a.say("detail", detail)
				each(a, "entry", rt.Transcript(a.ctx, w.WorkerRef), nil)
			})
		})
}

func (a *answering) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func second[T any](_ T, err error) error { return err }
