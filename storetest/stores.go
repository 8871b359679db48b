package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/workers"
)

// stores are all that there are, each with what it has of the grammar.
var stores = []store{
	{"runs", slices.Concat(lists[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary](listedRuns).laws(),
		streams[runs.RunRef, runs.TraceRecord](followedRuns).laws(), holdLaws(heldRuns, "runs"), keeps(valuesOfRuns).laws()), heldRuns},
	{"live", slices.Concat(lists[string, live.Filter, live.RunSnapshot, live.RunSnapshot](listedLive).laws(),
		streams[string, live.RunEventRecord](followedLive).laws(), holdLaws(heldLive, "live"), keeps(valuesOfLive).laws()), heldLive},
	{"agents", slices.Concat(lists[string, agents.Filter, agents.Entry, agents.Entry](listedAgents).laws(),
		streams[string, agents.Change](followedAgents).laws(), holdLaws(heldAgents, "agents"), keeps(valuesOfAgents).laws()), heldAgents},
	{"checkpoints", slices.Concat(lists[checkpoints.Ref, checkpoints.Filter, checkpoints.Summary, checkpoints.Summary](listedCheckpoints).laws(),
		streams[string, checkpoints.Summary](followedCheckpoints).laws(), holdLaws(heldCheckpoints, "checkpoints"), keeps(valuesOfCheckpoints).laws()), heldCheckpoints},
	{"workers", slices.Concat(lists[workers.WorkerRef, workers.WorkerFilter, workers.WorkerDetail, workers.WorkerSummary](listedWorkers).laws(),
		keeps(valuesOfWorkers).laws()), nil},
	{"runtimes", slices.Concat(lists[workers.RuntimeID, workers.RuntimeFilter, workers.RuntimeSummary, workers.RuntimeSummary](listedRuntimes).laws(),
		streams[workers.RuntimeID, workers.RuntimeEvent](followedRuntimes).laws()), nil},
	{"reservations", holdLaws(reservations, "reservations"), reservations},
}

// nth names thing n. The names are in the order of the numbers, and begin alike.
func nth(n int) string { return fmt.Sprintf("thing-%06d", n) }

// Runs

func nthRun(n int) runs.RunRef { return runs.RunRef{AgentID: "agent", RunID: nth(n)} }

func batchOf(ref runs.RunRef, records ...runs.Record) runs.Batch {
	return runs.Batch{AgentID: ref.AgentID, RunID: ref.RunID, Records: records}
}

func startedRun(ref runs.RunRef) runs.Started {
	return runs.Started{AgentID: ref.AgentID, RunID: ref.RunID}
}

// freeRun begins a run, and leaves it to nobody: what a process writes to can't be deleted.
func freeRun(ctx context.Context, d *db.DB, s *runs.Store, ref runs.RunRef) error {
	return d.Write(ctx, "storetest", func(tx *db.Tx) error { return freeRunTx(tx, s, ref) })
}

func freeRunTx(tx *db.Tx, s *runs.Store, ref runs.RunRef) error {
	r, err := s.BeginTx(tx, startedRun(ref))
	if err != nil {
		return err
	}
	return r.ReleaseTx(tx)
}

func endedRun(ref runs.RunRef) runs.Ended {
	return runs.Ended{AgentID: ref.AgentID, RunID: ref.RunID, Termination: runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeDone}}}
}

func turnsOf(texts ...string) (turns []runs.Record) {
	for _, text := range texts {
		turns = append(turns, runs.Turn{Prompt: &text})
	}
	return turns
}

func listedRuns(_ *testing.T, d *db.DB, scope string) things[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary] {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	return things[runs.RunRef, runs.Filter, runs.RunSummary, runs.RunSummary]{
		lister: s,
		add:    func(ctx context.Context, n int) (runs.RunRef, error) { return nthRun(n), freeRun(ctx, d, s, nthRun(n)) },
		addTx:  func(tx *db.Tx, n int) (runs.RunRef, error) { return nthRun(n), freeRunTx(tx, s, nthRun(n)) },
		name:   func(ref runs.RunRef) string { return ref.RunID },
		of:     func(r runs.RunSummary) runs.RunRef { return r.Ref },
		newest: true,
		began:  func(r runs.RunSummary) time.Time { return r.StartedAt }, unit: time.Nanosecond,
		end:   func(ctx context.Context, ref runs.RunRef) error { return s.Append(ctx, batchOf(ref, endedRun(ref))) },
		prune: s.Prune,
	}
}

func followedRuns(_ *testing.T, d *db.DB, scope string) followed[runs.RunRef, runs.TraceRecord] {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	return followed[runs.RunRef, runs.TraceRecord]{
		add: func(ctx context.Context, n int) (runs.RunRef, error) { return nthRun(n), freeRun(ctx, d, s, nthRun(n)) },
		remove: func(ctx context.Context, ref runs.RunRef) error {
			r, err := s.Resume(ctx, ref)
			if err != nil {
				return err
			}
			return errors.Join(r.Release(ctx), s.Delete(ctx, ref))
		},
		end: func(ctx context.Context, ref runs.RunRef) error { return s.Append(ctx, batchOf(ref, endedRun(ref))) }, ended: string(runs.StatusCompleted),
		append: func(tx *db.Tx, ref runs.RunRef, texts ...string) error {
			return s.AppendTx(tx, batchOf(ref, turnsOf(texts...)...))
		},
		spoil: func(tx *db.Tx, ref runs.RunRef) error {
			return s.AppendTx(tx, batchOf(ref, append(turnsOf("whole"), runs.Turn{Parameters: json.RawMessage("{")})...))
		},
		repeat: func(tx *db.Tx, ref runs.RunRef, batch int64, texts ...string) error {
			b := batchOf(ref, turnsOf(texts...)...)
			b.Repeat = batch
			return s.AppendTx(tx, b)
		},
		keyed: func(tx *db.Tx, ref runs.RunRef, key string, texts ...string) error {
			b := batchOf(ref, turnsOf(texts...)...)
			b.Key = key
			return s.AppendTx(tx, b)
		},
		follow:    s.Follow,
		followAll: func(ctx context.Context) iter.Seq2[runs.Followed, error] { return s.FollowAll(ctx, runs.Filter{}) },
		before:    s.CursorBefore, page: s.TracePage,
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
		return holding{r.Epoch(), func(tx *db.Tx) error { return r.AppendTx(tx, turnsOf("x")...) }, r.Release}, true, nil
	}
	return holds{
		add:    func(ctx context.Context, name string) error { return freeRun(ctx, d, s, ref(name)) },
		take:   func(ctx context.Context, name string) (holding, bool, error) { return held(s.Resume(ctx, ref(name))) },
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(s.ResumeTx(tx, ref(name))) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			h, _, err := held(s.Reattach(ctx, ref(name), epoch))
			return h, err
		},
		remove:  func(ctx context.Context, name string) error { return s.Delete(ctx, ref(name)) },
		recover: s.Recover, ends: true, guarded: true,
	}
}

// conflictIsLoss takes the answer that somebody else has a thing for what it is.
func conflictIsLoss(err error) error {
	if errors.Is(err, db.ErrConflict) {
		return nil
	}
	return err
}

func valuesOfRuns(_ *testing.T, d *db.DB, scope string) []kept {
	s := runs.NewStore(d, runs.Options{Scope: scope})
	of := func(name string, isJSON bool, refuses []string, put func(string) runs.Turn, get func(runs.Turn) string) kept {
		return kept{
			name: name, json: isJSON, refuses: refuses,
			put: func(ctx context.Context, n int, value string) error {
				return s.Append(ctx, batchOf(nthRun(n), put(value)))
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
		of("parameters", true, []string{"half of a surrogate pair", "invalid UTF-8 in JSON", "a number beyond a float", "no JSON"},
			func(v string) runs.Turn { return runs.Turn{Parameters: json.RawMessage(v)} }, func(t runs.Turn) string { return string(t.Parameters) }),
	}
}

// Live runs

func eventsOf(texts ...string) (events []live.Event) {
	for _, text := range texts {
		events = append(events, live.TextDelta(text))
	}
	return events
}

func listedLive(_ *testing.T, d *db.DB, scope string) things[string, live.Filter, live.RunSnapshot, live.RunSnapshot] {
	s := live.NewStore(d, live.Options{Scope: scope})
	return things[string, live.Filter, live.RunSnapshot, live.RunSnapshot]{
		lister: s,
		add: func(ctx context.Context, n int) (string, error) {
			return nth(n), second(s.CreateRunWithID(ctx, nth(n), "session", ""))
		},
		addTx: func(tx *db.Tx, n int) (string, error) {
			return nth(n), second(s.CreateRunWithIDTx(tx, nth(n), "session", ""))
		},
		name:  func(ref string) string { return ref },
		of:    func(r live.RunSnapshot) string { return r.ID },
		began: func(r live.RunSnapshot) time.Time { return time.UnixMilli(int64(r.CreatedAtMs)) }, unit: time.Millisecond,
		end: func(ctx context.Context, ref string) error {
			return second(s.Append(ctx, ref, live.Batch{Events: []live.Event{live.AgentEnd("")}}))
		},
		prune: s.Prune,
	}
}

func followedLive(_ *testing.T, d *db.DB, scope string) followed[string, live.RunEventRecord] {
	s := live.NewStore(d, live.Options{Scope: scope})
	return followed[string, live.RunEventRecord]{
		add: func(ctx context.Context, n int) (string, error) {
			return nth(n), second(s.CreateRunWithID(ctx, nth(n), "session", ""))
		},
		remove: s.Delete,
		end: func(ctx context.Context, ref string) error {
			_, _, err := s.MarkCancelled(ctx, ref)
			return err
		}, ended: string(live.Cancelled),
		append: func(tx *db.Tx, ref string, texts ...string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: eventsOf(texts...)}))
		},
		spoil: func(tx *db.Tx, ref string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: append(eventsOf("whole"), live.Event{})}))
		},
		repeat: func(tx *db.Tx, ref string, batch int64, texts ...string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: eventsOf(texts...), Repeat: batch}))
		},
		keyed: func(tx *db.Tx, ref, key string, texts ...string) error {
			return second(s.AppendTx(tx, ref, live.Batch{Events: eventsOf(texts...), Key: key}))
		},
		follow:    s.Follow,
		followAll: func(ctx context.Context) iter.Seq2[live.Followed, error] { return s.FollowAll(ctx, live.Filter{}) },
		before:    s.CursorBefore, page: s.EventsPage,
		says: func(_ context.Context, r live.RunEventRecord) string {
			var event struct{ Text string }
			_ = json.Unmarshal(r.Event.JSON(), &event) // what has no text says nothing
			return event.Text
		},
		sequence: func(r live.RunEventRecord) uint64 { return r.Sequence },
	}
}

func heldLive(d *db.DB, scope string) holds {
	s := live.NewStore(d, live.Options{Scope: scope})
	held := func(r *live.Run, err error) (holding, bool, error) {
		if err != nil {
			return holding{}, false, conflictIsLoss(err)
		}
		return holding{r.Epoch(), func(tx *db.Tx) error { return second(r.AppendTx(tx, eventsOf("x")...)) }, r.Release}, true, nil
	}
	return holds{
		add: func(ctx context.Context, name string) error {
			return second(s.CreateRunWithID(ctx, name, "session", ""))
		},
		take:   func(ctx context.Context, name string) (holding, bool, error) { return held(s.Resume(ctx, name)) },
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(s.ResumeTx(tx, name)) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			h, _, err := held(s.Reattach(ctx, name, epoch))
			return h, err
		},
		remove: s.Delete, recover: s.Recover, guarded: true,
	}
}

func valuesOfLive(_ *testing.T, d *db.DB, scope string) []kept {
	s := live.NewStore(d, live.Options{Scope: scope})
	const head, tail = `{"type":"of a later version","value":`, `}`
	return []kept{
		{
			name: "prompt", refuses: []string{"invalid UTF-8"},
			put: func(ctx context.Context, n int, value string) error {
				return second(s.CreateRunWithID(ctx, nth(n), "session", value))
			},
			get: func(ctx context.Context, n int) (string, error) {
				run, err := s.Get(ctx, nth(n))
				return run.Prompt, err
			},
		},
		{
			name: "event", json: true, refuses: []string{"half of a surrogate pair", "invalid UTF-8 in JSON", "a number beyond a float", "no JSON"},
			put: func(ctx context.Context, n int, value string) error {
				event, err := live.NewEvent([]byte(head + value + tail))
				if err == nil {
					_, err = s.CreateRunWithID(ctx, nth(n), "session", "")
				}
				if err == nil {
					_, err = s.Append(ctx, nth(n), live.Batch{Events: []live.Event{event}})
				}
				return err
			},
			get: func(ctx context.Context, n int) (string, error) {
				page, err := s.EventsPage(ctx, nth(n), db.At{})
				if err != nil || len(page.Items) == 0 {
					return "", err
				}
				return strings.TrimSuffix(strings.TrimPrefix(string(page.Items[0].Item.Event.JSON()), head), tail), nil
			},
		},
	}
}

// Agents

func nthEntry(n int) agents.Entry {
	return agents.Entry{SessionID: nth(n), Thread: "thread", Status: agents.Active}
}

func listedAgents(_ *testing.T, d *db.DB, scope string) things[string, agents.Filter, agents.Entry, agents.Entry] {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	return things[string, agents.Filter, agents.Entry, agents.Entry]{
		lister: r,
		add:    func(ctx context.Context, n int) (string, error) { return nth(n), r.Save(ctx, nthEntry(n)) },
		addTx:  func(tx *db.Tx, n int) (string, error) { return nth(n), r.SaveTx(tx, nthEntry(n)) },
		name:   func(ref string) string { return ref },
		of:     func(e agents.Entry) string { return e.SessionID },
		newest: true, forgives: true,
		began: func(e agents.Entry) time.Time { return e.StartedAt }, unit: time.Nanosecond,
		end: func(ctx context.Context, ref string) error { // eight days ago, and so it has left the registry
			_, _, err := r.UpdateEntry(ctx, ref, func(e *agents.Entry) {
				ended := time.Now().Add(-8 * 24 * time.Hour)
				e.Status, e.CompletedAt = agents.Complete, &ended
			})
			return err
		},
		unlisted: true,
		prune:    r.Prune,
	}
}

func followedAgents(_ *testing.T, d *db.DB, scope string) followed[string, agents.Change] {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	return followed[string, agents.Change]{
		states: true,
		add:    func(ctx context.Context, n int) (string, error) { return nth(n), r.Save(ctx, nthEntry(n)) },
		remove: r.Delete,
		end:    func(ctx context.Context, id string) error { return r.UpdateStatus(ctx, id, agents.Complete) }, ended: string(agents.Complete),
		append: func(tx *db.Tx, id string, texts ...string) error {
			_, _, err := r.UpdateEntryTx(tx, id, func(e *agents.Entry) { e.BaseState = texts[len(texts)-1] })
			return err
		},
		follow:    r.Follow,
		followAll: func(ctx context.Context) iter.Seq2[agents.Followed, error] { return r.FollowAll(ctx, agents.Filter{}) },
		before:    r.CursorBefore,
		says:      func(_ context.Context, c agents.Change) string { return c.Entry.BaseState },
	}
}

func heldAgents(d *db.DB, scope string) holds {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	terms := agents.LeaseOptions{TTL: time.Hour}
	build := func(thread string) agents.Builder {
		return func(id string) (agents.Entry, error) {
			return agents.Entry{SessionID: id, Thread: thread, Status: agents.Active}, nil
		}
	}
	hold := func(l *agents.Lease) holding {
		return holding{
			l.Epoch(), func(tx *db.Tx) error { return l.LogContextQueryTx(tx, agents.ContextQuery{Path: "x"}) },
			func(ctx context.Context) error { return l.Release(ctx, agents.Complete) },
		}
	}
	held := func(l *agents.Lease, _ agents.ReserveOutcome, err error) (holding, bool, error) {
		if err != nil || l == nil {
			return holding{}, false, err
		}
		return hold(l), true, nil
	}
	holder := func(ctx context.Context, thread string) (string, error) {
		held, _, err := r.Reservation(ctx, thread)
		return held.Holder.SessionID, err
	}
	return holds{
		take: func(ctx context.Context, thread string) (holding, bool, error) {
			return held(r.TryLeaseThread(ctx, thread, terms, build(thread)))
		},
		takeTx: func(tx *db.Tx, thread string) (holding, bool, error) {
			return held(r.TryLeaseThreadTx(tx, thread, terms, build(thread)))
		},
		reattach: func(ctx context.Context, thread string, epoch int64) (holding, error) {
			id, err := holder(ctx, thread)
			if err != nil {
				return holding{}, err
			}
			l, err := r.Reattach(ctx, id, thread, epoch)
			if err != nil {
				return holding{}, err
			}
			return hold(l), nil
		},
		remove: func(ctx context.Context, thread string) error {
			id, err := holder(ctx, thread)
			if err != nil {
				return err
			}
			return r.Delete(ctx, id)
		},
		recover: r.Recover,
	}
}

func valuesOfAgents(_ *testing.T, d *db.DB, scope string) []kept {
	r := agents.NewRegistry(d, agents.Options{Scope: scope})
	return []kept{{
		name: "base state", refuses: []string{"invalid UTF-8"},
		put: func(ctx context.Context, n int, value string) error {
			e := nthEntry(n)
			e.BaseState = value
			return r.Save(ctx, e)
		},
		get: func(ctx context.Context, n int) (string, error) {
			e, err := r.Get(ctx, nth(n))
			return e.BaseState, err
		},
	}}
}

// Checkpoints

func pausedRun(id string) *checkpoints.PausedWorkflow {
	return &checkpoints.PausedWorkflow{RunID: id, Workflow: checkpoints.Workflow{ID: "w", Name: "W", Start: "gate"}, PausedStageID: "gate"}
}

func listedCheckpoints(_ *testing.T, d *db.DB, scope string) things[checkpoints.Ref, checkpoints.Filter, checkpoints.Summary, checkpoints.Summary] {
	s := checkpoints.NewStore(d, checkpoints.Options{Scope: scope})
	return things[checkpoints.Ref, checkpoints.Filter, checkpoints.Summary, checkpoints.Summary]{
		lister: s,
		add: func(ctx context.Context, n int) (checkpoints.Ref, error) {
			return checkpoints.Ref{RunID: nth(n)}, s.Save(ctx, pausedRun(nth(n)))
		},
		addTx: func(tx *db.Tx, n int) (checkpoints.Ref, error) {
			return checkpoints.Ref{RunID: nth(n)}, s.SaveTx(tx, pausedRun(nth(n)))
		},
		name:  func(ref checkpoints.Ref) string { return ref.RunID },
		of:    func(c checkpoints.Summary) checkpoints.Ref { return checkpoints.Ref{RunID: c.RunID} },
		began: func(c checkpoints.Summary) time.Time { return c.CreatedAt }, unit: time.Nanosecond,
	}
}

func followedCheckpoints(_ *testing.T, d *db.DB, scope string) followed[string, checkpoints.Summary] {
	s := checkpoints.NewStore(d, checkpoints.Options{Scope: scope})
	ref := func(id string) checkpoints.Ref { return checkpoints.Ref{RunID: id} }
	return followed[string, checkpoints.Summary]{
		states: true,
		add:    func(ctx context.Context, n int) (string, error) { return nth(n), s.Save(ctx, pausedRun(nth(n))) },
		remove: func(ctx context.Context, id string) error { return s.Delete(ctx, ref(id)) },
		end: func(ctx context.Context, id string) error {
			_, _, err := s.Claim(ctx, id)
			return err
		}, ended: string(checkpoints.Claimed),
		append: func(tx *db.Tx, id string, texts ...string) error {
			p := pausedRun(id)
			p.Prompt = texts[len(texts)-1]
			return s.SaveTx(tx, p)
		},
		follow: func(ctx context.Context, id, cursor string) iter.Seq2[checkpoints.Followed, error] {
			return s.Follow(ctx, ref(id), cursor)
		},
		followAll: func(ctx context.Context) iter.Seq2[checkpoints.Followed, error] {
			return s.FollowAll(ctx, checkpoints.Filter{})
		},
		before: func(ctx context.Context, id string, n int64) (string, error) { return s.CursorBefore(ctx, ref(id), n) },
		says:   func(_ context.Context, c checkpoints.Summary) string { return c.Prompt },
	}
}

func heldCheckpoints(d *db.DB, scope string) holds {
	s := checkpoints.NewStore(d, checkpoints.Options{Scope: scope})
	held := func(c *checkpoints.Claim, won bool, err error) (holding, bool, error) {
		if err != nil || !won {
			return holding{}, false, err
		}
		return holding{c.Epoch, c.HoldTx, c.Release}, true, nil
	}
	return holds{
		add:    func(ctx context.Context, name string) error { return s.Save(ctx, pausedRun(name)) },
		take:   func(ctx context.Context, name string) (holding, bool, error) { return held(s.Claim(ctx, name)) },
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(s.ClaimTx(tx, name)) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			c, err := s.Reattach(ctx, name, epoch)
			h, _, err := held(c, err == nil, err)
			return h, err
		},
		remove:  func(ctx context.Context, name string) error { return s.Delete(ctx, checkpoints.Ref{RunID: name}) },
		recover: s.Recover,
	}
}

func valuesOfCheckpoints(t *testing.T, d *db.DB, scope string) []kept {
	s := checkpoints.NewStore(d, checkpoints.Options{Scope: scope})
	p := pausedRun("r")
	p.CreatedAt = time.Date(2026, 5, 2, 10, 0, 0, 0, time.UTC)
	document, err := p.Document()
	must(t, err)
	// A value stands where the state of the workflow is {} in this one.
	head, tail, _ := strings.Cut(string(document), `"wf_state": {}`)
	head += `"wf_state": `
	return []kept{{
		name: "document", json: true,
		refuses: []string{"half of a surrogate pair", "invalid UTF-8 in JSON", "a number beyond a float", "no JSON"},
		put: func(ctx context.Context, n int, value string) error {
			return s.SaveDocument(ctx, nth(n), []byte(head+value+tail))
		},
		get: func(ctx context.Context, n int) (string, error) {
			document, _, err := s.LoadDocument(ctx, nth(n))
			return strings.TrimSuffix(strings.TrimPrefix(string(document), head), tail), err
		},
	}}
}

// Workers

func opened(t *testing.T, d *db.DB, scope string, id workers.RuntimeID) *workers.Runtime {
	t.Helper()
	r, err := workers.Open(t.Context(), d, workers.RuntimeOptions{Scope: scope, RuntimeID: id})
	must(t, err)
	return r
}

func request() workers.CreateWorkerRequest {
	return workers.ToolsLess(workers.AssistantIntent(), workers.RuntimeDefaultProfile())
}

func listedWorkers(t *testing.T, d *db.DB, scope string) things[workers.WorkerRef, workers.WorkerFilter, workers.WorkerDetail, workers.WorkerSummary] {
	r := opened(t, d, scope, "runtime")
	return things[workers.WorkerRef, workers.WorkerFilter, workers.WorkerDetail, workers.WorkerSummary]{
		lister: r,
		add: func(ctx context.Context, _ int) (workers.WorkerRef, error) {
			w, err := r.CreateWorker(ctx, request())
			return w.WorkerRef, err
		},
		addTx: func(tx *db.Tx, _ int) (workers.WorkerRef, error) {
			w, err := r.CreateWorkerTx(tx, request())
			return w.WorkerRef, err
		},
		name:  func(ref workers.WorkerRef) string { return string(ref.WorkerID) },
		of:    func(w workers.WorkerSummary) workers.WorkerRef { return w.WorkerRef },
		end:   func(ctx context.Context, ref workers.WorkerRef) error { return second(r.StopWorker(ctx, ref, nil)) },
		prune: workers.NewRuntimes(d, scope).Prune,
	}
}

// firstWorker is the first worker of a runtime.
func firstWorker(id workers.RuntimeID) workers.WorkerRef {
	return workers.NewWorkerRef(id, "worker-00000001")
}

func valuesOfWorkers(_ *testing.T, d *db.DB, scope string) []kept {
	// Value n is that of the first worker of runtime n.
	create := func(ctx context.Context, n int, request workers.CreateWorkerRequest) (*workers.Runtime, workers.WorkerRef, error) {
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{Scope: scope, RuntimeID: workers.RuntimeID(nth(n))})
		if err != nil {
			return nil, workers.WorkerRef{}, err
		}
		w, err := r.CreateWorker(ctx, request)
		return r, w.WorkerRef, err
	}
	open := func(ctx context.Context, n int) (*workers.Runtime, workers.WorkerRef, error) {
		id := workers.RuntimeID(nth(n))
		r, err := workers.Open(ctx, d, workers.RuntimeOptions{Scope: scope, RuntimeID: id, MustExist: true})
		return r, firstWorker(id), err
	}
	return []kept{
		{
			name: "input", refuses: []string{"nothing", "blanks", "invalid UTF-8"},
			put: func(ctx context.Context, n int, value string) error {
				r, ref, err := create(ctx, n, request())
				if err == nil {
					_, err = r.SendInput(ctx, ref, workers.UserInput(value))
				}
				return err
			},
			get: func(ctx context.Context, n int) (string, error) {
				r, ref, err := open(ctx, n)
				if err != nil {
					return "", err
				}
				page, err := r.TranscriptPage(ctx, ref, db.At{})
				if err != nil || len(page.Items) == 0 {
					return "", err
				}
				return page.Items[0].Content, nil
			},
		},
		{
			name: "objective", refuses: []string{"nothing", "blanks", "invalid UTF-8"},
			put: func(ctx context.Context, n int, value string) error {
				_, _, err := create(ctx, n, workers.ToolsLess(workers.TaskIntent(value), workers.RuntimeDefaultProfile()))
				return err
			},
			get: func(ctx context.Context, n int) (string, error) {
				r, ref, err := open(ctx, n)
				if err != nil {
					return "", err
				}
				detail, err := r.Get(ctx, ref)
				return detail.Intent.Objective, err
			},
		},
	}
}

func runtimeOptions(scope string, n int) workers.RuntimeOptions {
	return workers.RuntimeOptions{Scope: scope, RuntimeID: workers.RuntimeID(nth(n))}
}

func listedRuntimes(_ *testing.T, d *db.DB, scope string) things[workers.RuntimeID, workers.RuntimeFilter, workers.RuntimeSummary, workers.RuntimeSummary] {
	return things[workers.RuntimeID, workers.RuntimeFilter, workers.RuntimeSummary, workers.RuntimeSummary]{
		lister: workers.NewRuntimes(d, scope),
		add: func(ctx context.Context, n int) (workers.RuntimeID, error) {
			return workers.RuntimeID(nth(n)), second(workers.Open(ctx, d, runtimeOptions(scope, n)))
		},
		addTx: func(tx *db.Tx, n int) (workers.RuntimeID, error) {
			return workers.RuntimeID(nth(n)), second(workers.OpenTx(tx, d, runtimeOptions(scope, n)))
		},
		name: func(ref workers.RuntimeID) string { return string(ref) },
		of:   func(r workers.RuntimeSummary) workers.RuntimeID { return r.RuntimeID },
	}
}

// The first worker of a followed runtime hears what is appended.
func followedRuntimes(_ *testing.T, d *db.DB, scope string) followed[workers.RuntimeID, workers.RuntimeEvent] {
	all := workers.NewRuntimes(d, scope)
	there := func(id workers.RuntimeID) workers.RuntimeOptions {
		return workers.RuntimeOptions{Scope: scope, RuntimeID: id, MustExist: true}
	}
	// A handle on a runtime stays one when that is removed, and says so.
	open := map[workers.RuntimeID]*workers.Runtime{}
	opened := func(ctx context.Context, id workers.RuntimeID) (_ *workers.Runtime, err error) {
		if open[id] == nil {
			open[id], err = workers.Open(ctx, d, there(id))
		}
		return open[id], err
	}
	return followed[workers.RuntimeID, workers.RuntimeEvent]{
		add: func(ctx context.Context, n int) (workers.RuntimeID, error) {
			r, err := workers.Open(ctx, d, runtimeOptions(scope, n))
			if err == nil {
				_, err = r.CreateWorker(ctx, request())
			}
			return workers.RuntimeID(nth(n)), err
		},
		remove: all.Delete,
		end: func(ctx context.Context, id workers.RuntimeID) error {
			r, err := workers.Open(ctx, d, there(id))
			if err == nil {
				_, err = r.StopRuntime(ctx)
			}
			return err
		}, ended: string(workers.RuntimeStopped),
		append: func(tx *db.Tx, id workers.RuntimeID, texts ...string) error {
			r, err := workers.OpenTx(tx, d, there(id))
			for i := 0; i < len(texts) && err == nil; i++ {
				_, err = r.SendInputTx(tx, firstWorker(id), workers.UserInput(texts[i]))
			}
			return err
		},
		repeat: func(tx *db.Tx, id workers.RuntimeID, batch int64, texts ...string) error {
			r, err := workers.OpenTx(tx, d, there(id))
			if err == nil {
				_, err = r.RepeatInputTx(tx, firstWorker(id), workers.UserInput(texts[0]), batch)
			}
			return err
		},
		follow: func(ctx context.Context, id workers.RuntimeID, cursor string) iter.Seq2[workers.Followed, error] {
			r, err := opened(ctx, id)
			if err != nil {
				return func(yield func(workers.Followed, error) bool) { yield(workers.Followed{}, err) }
			}
			return r.Follow(ctx, cursor)
		},
		followAll: func(ctx context.Context) iter.Seq2[workers.Followed, error] {
			return all.FollowAll(ctx, workers.RuntimeFilter{})
		},
		before: func(ctx context.Context, id workers.RuntimeID, n int64) (string, error) {
			r, err := opened(ctx, id)
			if err != nil {
				return "", err
			}
			return r.CursorBefore(ctx, n)
		},
		page: func(ctx context.Context, id workers.RuntimeID, at db.At) (db.Page[workers.Followed], error) {
			r, err := opened(ctx, id)
			if err != nil {
				return db.Page[workers.Followed]{}, err
			}
			return r.EventsPage(ctx, at)
		},
		says: func(ctx context.Context, event workers.RuntimeEvent) string {
			if event.Kind != workers.EventWorkerInputAccepted {
				return ""
			}
			r, err := workers.Open(ctx, d, there(event.WorkerRef.RuntimeID))
			if err != nil {
				return err.Error()
			}
			for entry, err := range r.Transcript(ctx, *event.WorkerRef) {
				if err == nil && entry.EventID == event.ID {
					return entry.Content
				}
			}
			return "an event without an entry"
		},
		sequence: func(event workers.RuntimeEvent) uint64 { return event.ID },
	}
}

// Reservations

func reservations(d *db.DB, scope string) holds {
	const kind = "port"
	options := db.ReserveOptions{Scope: scope}
	hold := func(l *db.Lease) holding { return holding{l.Epoch(), l.HoldTx, l.Release} }
	held := func(l *db.Lease, err error) (holding, bool, error) {
		if err != nil {
			return holding{}, false, conflictIsLoss(err)
		}
		return hold(l), true, nil
	}
	return holds{
		take: func(ctx context.Context, name string) (holding, bool, error) {
			return held(d.Reserve(ctx, kind, name, options))
		},
		takeTx: func(tx *db.Tx, name string) (holding, bool, error) { return held(d.ReserveTx(tx, kind, name, options)) },
		reattach: func(ctx context.Context, name string, epoch int64) (holding, error) {
			h, _, err := held(d.Reattach(ctx, scope, kind, name, epoch))
			return h, err
		},
		remove: func(ctx context.Context, name string) error {
			r, _, err := d.Reservation(ctx, scope, kind, name)
			if err != nil {
				return err
			}
			return d.ReleaseReservation(ctx, scope, kind, name, r.Epoch)
		},
		recover: func(ctx context.Context) (int, error) { return d.RecoverReservations(ctx, scope) },
	}
}
