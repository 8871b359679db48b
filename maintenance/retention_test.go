package maintenance_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/maintenance"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/state"
	"selvedge/test/dbtest"
	"selvedge/workers"
)

const month = 31 * 24 * time.Hour

// A house is a file in which every store has one thing that ended, one that ended and is pinned,
// and one that lives or waits; all of them are a month old.
type house struct {
	t     *testing.T
	d     *db.DB
	clock *dbtest.Clock
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, clock: dbtest.NewClock(theTime)}
	h.d = dbtest.Open(t, db.Options{Now: h.clock.Now, Synchronous: db.SyncNormal})
	for _, id := range []string{"ended", "pinned", "lives"} {
		worker := h.add(id, id != "lives")
		if id == "pinned" {
			ok(t, runs.NewStore(h.d, runs.Options{}).Pin(t.Context(), runs.RunRef{AgentID: "agent", RunID: id}))
			ok(t, live.NewStore(h.d, live.Options{}).Pin(t.Context(), id))
			ok(t, agents.NewRegistry(h.d, agents.Options{}).Pin(t.Context(), "agent-"+id))
			ok(t, checkpoints.NewStore(h.d, checkpoints.Options{}).Pin(t.Context(), id))
			ok(t, workers.NewRuntimes(h.d, "").Pin(t.Context(), worker))
			ok(t, state.NewStore(h.d, state.Options{}).Pin(t.Context(), state.Ref{Key: id}))
		}
	}
	h.clock.Advance(month)
	return h
}

// add puts a thing of that name into every store, and ends it where it is to.
func (h *house) add(id string, ends bool) (worker workers.WorkerRef) {
	t := h.t
	t.Helper()
	traces, lives := runs.NewStore(h.d, runs.Options{}), live.NewStore(h.d, live.Options{})
	registry := agents.NewRegistry(h.d, agents.Options{})
	runtime := must(workers.Open(t.Context(), h.d, workers.RuntimeOptions{RuntimeID: "runtime"}))(t)
	ok(t, traces.WriteStarted(t.Context(), runs.Started{RunID: id, AgentID: "agent", Intent: "be pruned"}))
	must(lives.CreateRunWithID(t.Context(), id, "session", "be pruned"))(t)
	agent := agents.Entry{
		SessionID: "agent-" + id, Thread: "thread", BaseState: "base",
		StartedAt: h.clock.Now(), Status: agents.Active,
	}
	worker = must(runtime.CreateWorker(t.Context(),
		workers.CreateWorkerRequest{Intent: workers.TaskIntent(id)}))(t).WorkerRef
	must(runtime.SendInput(t.Context(), worker, workers.UserInput("be pruned")))(t)
	h.pause(id)
	if ends {
		done := runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: h.clock.Now()}}
		ok(t, traces.WriteEnded(t.Context(), runs.Ended{RunID: id, AgentID: "agent", Termination: done}))
		must(lives.Append(t.Context(), id, live.Batch{Events: []live.Event{live.AgentEnd("done")}}))(t)
		agent.Status, agent.CompletedAt = agents.Complete, new(h.clock.Now())
		must(runtime.StopWorker(t.Context(), worker, nil))(t)
		h.resume(id)
		must(state.NewStore(h.d, state.Options{}).Set(t.Context(), state.Ref{Key: id}, []byte(`1`)))(t)
	}
	ok(t, registry.Save(t.Context(), agent))
	return worker
}

// pause has a run wait, and resume has that done.
func (h *house) pause(id string) {
	h.t.Helper()
	ok(h.t, checkpoints.NewStore(h.d, checkpoints.Options{}).Save(h.t.Context(), &checkpoints.PausedWorkflow{
		RunID: id, Workflow: checkpoints.Workflow{ID: "flow", Name: "flow", Start: "gate", MaxIterations: 1},
		PausedStageID: "gate", Prompt: "prune?",
	}))
}

func (h *house) resume(id string) {
	h.t.Helper()
	claim, claimed, err := checkpoints.NewStore(h.d, checkpoints.Options{}).Claim(h.t.Context(), id)
	if ok(h.t, err); !claimed {
		h.t.Fatal("nobody can claim it")
	}
	ok(h.t, claim.Complete(h.t.Context()))
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return value
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// left are the things that are in the file, by store.
func (h *house) left() map[string]string {
	h.t.Helper()
	left := map[string]string{}
	ok(h.t, h.d.Read(h.t.Context(), "look", func(rx *db.Rx) error {
		for store, query := range map[string]string{
			maintenance.StoreRuns:   `SELECT run_id FROM runs ORDER BY key`,
			maintenance.StoreLive:   `SELECT run_id FROM live_runs ORDER BY key`,
			maintenance.StoreAgents: `SELECT session_id FROM agents ORDER BY id`,
			maintenance.StoreCheckpoints: `SELECT run_id FROM checkpoint_history
				UNION ALL SELECT run_id || ':' || state FROM checkpoints`,
			maintenance.StoreWorkers: `SELECT CASE worker_id WHEN 'worker-00000001' THEN 'ended' WHEN 'worker-00000002'
				THEN 'pinned' WHEN 'worker-00000003' THEN 'lives' ELSE 'later' END FROM workers ORDER BY key`,
			maintenance.StoreState: `SELECT state_key FROM state_values ORDER BY id`,
		} {
			var ids []string
			if err := rx.Select(&ids, query); err != nil {
				return err
			}
			left[store] = strings.ReplaceAll(strings.Join(ids, " "), "agent-", "")
		}
		return nil
	}))
	return left
}

func removed(t *testing.T, done []maintenance.StorePruned) (stores []string) {
	t.Helper()
	for _, one := range done {
		for range one.Removed {
			stores = append(stores, one.Store)
		}
	}
	return stores
}

func TestPrune_KeepsPinnedAndLiveInAllStores(t *testing.T) {
	h := newHouse(t)
	before := h.left()
	policy := &db.Policy{Age: db.KeepNone, Count: db.KeepNone, Bytes: db.KeepNone}

	var would, went []string
	done, err := maintenance.Prune(t.Context(), h.d,
		maintenance.PruneOptions{
			Stores: maintenance.Stores(), Policy: policy, DryRun: true,
			Each: func(store string, gone db.Gone) { would = append(would, store+" "+gone.ID) },
		})
	ok(t, err)
	if after := h.left(); after[maintenance.StoreRuns] != before[maintenance.StoreRuns] ||
		!slices.Equal(removed(t, done), maintenance.Stores()) {
		t.Errorf("a dry run did %+v, and left %v", done, after)
	}

	done, err = maintenance.Prune(t.Context(), h.d,
		maintenance.PruneOptions{
			Stores: maintenance.Stores(), Policy: policy,
			Each: func(store string, gone db.Gone) { went = append(went, store+" "+gone.ID) },
		})
	ok(t, err)
	if !slices.Equal(removed(t, done), maintenance.Stores()) || !slices.Equal(went, would) {
		t.Errorf("it did %+v: %v, and would have done %v", done, went, would)
	}
	for _, one := range done {
		if one.Bytes <= 0 || one.Remaining != 1 {
			t.Errorf("it says %+v", one)
		}
	}
	for store, left := range h.left() {
		want := map[string]string{
			maintenance.StoreCheckpoints: "pinned lives:paused", maintenance.StoreState: "pinned",
		}[store]
		if want == "" {
			want = "pinned lives"
		}
		if left != want {
			t.Errorf("of %s %q is left, not %q", store, left, want)
		}
	}

	ok(t, runs.NewStore(h.d, runs.Options{}).Unpin(t.Context(), runs.RunRef{AgentID: "agent", RunID: "pinned"}))
	done, err = maintenance.Prune(t.Context(), h.d, maintenance.PruneOptions{Policy: policy})
	ok(t, err)
	if got := removed(t, done); !slices.Equal(got, []string{maintenance.StoreRuns}) {
		t.Errorf("without its pin the run is not among %v", got)
	}
}

// Values have no end: a policy for all stores is not meant for them.
func TestPrune_PolicyAloneLeavesState(t *testing.T) {
	h := newHouse(t)
	policy := &db.Policy{Age: db.KeepNone}
	must(maintenance.Prune(t.Context(), h.d, maintenance.PruneOptions{Policy: policy}))(t)
	if left := h.left()[maintenance.StoreState]; left != "ended pinned" {
		t.Errorf("%q is left", left)
	}
	ok(t, maintenance.SetRetention(t.Context(), h.d, "", maintenance.StoreState, *policy))
	must(maintenance.Prune(t.Context(), h.d, maintenance.PruneOptions{}))(t)
	if left := h.left()[maintenance.StoreState]; left != "pinned" {
		t.Errorf("%q is left by the limits that are set", left)
	}
}

func TestOnlyRunsAreLimitedUntilSomebodySaysSo(t *testing.T) {
	h := newHouse(t)
	done := must(maintenance.Prune(t.Context(), h.d, maintenance.PruneOptions{}))(t)
	if got := removed(t, done); !slices.Equal(got, []string{maintenance.StoreRuns}) { // ended 31 days ago
		t.Errorf("by default %v went", got)
	}
	set := func(scope, store string, p db.Policy) {
		t.Helper()
		ok(t, maintenance.SetRetention(t.Context(), h.d, scope, store, p))
	}
	set("", maintenance.StoreLive, db.Policy{Age: month - time.Hour})
	set("", maintenance.StoreAgents, db.Policy{Age: month + time.Hour})
	set("", maintenance.StoreWorkers, db.Policy{Bytes: 1 << 20})
	set("", maintenance.StoreCheckpoints, db.Policy{Count: db.KeepNone})
	set("other", maintenance.StoreWorkers, db.Policy{Count: db.KeepNone})
	done = must(maintenance.Prune(t.Context(), h.d, maintenance.PruneOptions{}))(t)
	want := []string{maintenance.StoreLive, maintenance.StoreCheckpoints}
	if got := removed(t, done); !slices.Equal(got, want) {
		t.Errorf("with limits %v went", got)
	}
	for _, r := range must(maintenance.Retention(t.Context(), h.d, ""))(t) {
		want := maintenance.Set
		if r.Store == maintenance.StoreRuns || r.Store == maintenance.StoreState {
			want = maintenance.ByDefault
		}
		if r.Origin != want || r.SetAt.IsZero() != (want == maintenance.ByDefault) {
			t.Errorf("in force is %+v", r)
		}
	}
	ofLive := func() maintenance.StoreRetention {
		t.Helper()
		return must(maintenance.Retention(t.Context(), h.d, ""))(t)[1]
	}
	set("", maintenance.StoreLive, db.Policy{})
	if r := ofLive(); r.Store != maintenance.StoreLive || r.Origin != maintenance.Set || r.Limited() {
		t.Errorf("where everything is kept: %+v", r)
	}
	ok(t, maintenance.ResetRetention(t.Context(), h.d, "", maintenance.StoreLive))
	if r := ofLive(); r.Origin != maintenance.ByDefault {
		t.Errorf("after it was taken away: %+v", r)
	}
}

func TestRetention_BadLimitOrStoreIsRefused(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	for what, err := range map[string]error{
		"a limit":   maintenance.SetRetention(t.Context(), d, "", maintenance.StoreRuns, db.Policy{Count: -2}),
		"a store":   maintenance.SetRetention(t.Context(), d, "", "files", db.Policy{Count: 1}),
		"to pin":    runs.NewStore(d, runs.Options{}).Pin(t.Context(), runs.RunRef{AgentID: "a", RunID: "none"}),
		"to pin it": live.NewStore(d, live.Options{}).Pin(t.Context(), "none"),
	} {
		if !errors.Is(err, db.ErrInvalid) && !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPinsAreListedInPages(t *testing.T) {
	h := newHouse(t)
	var list []string
	for at := (db.At{Limit: 2}); ; {
		page := must(maintenance.Pins(t.Context(), h.d, "", at))(t)
		for _, p := range page.Items {
			list = append(list, strings.Join([]string{p.Store, p.ID, p.Owner}, ":"))
		}
		if at.After = page.Next; at.After == "" {
			break
		}
	}
	want := []string{
		"agents:agent-pinned:", "checkpoints:pinned:", "live:pinned:", "runs:pinned:agent",
		"state:pinned:", "workers:worker-00000002:runtime",
	}
	if !slices.Equal(list, want) {
		t.Errorf("pinned are %v", list)
	}
}

// Of two things that ended and are not pinned the older goes, by whichever limit, in whichever store.
func TestEveryStoreKeepsByEachLimit(t *testing.T) {
	for name, limit := range map[string]func(bytes int64) db.Policy{
		"age":   func(int64) db.Policy { return db.Policy{Age: 20 * 24 * time.Hour} },
		"count": func(int64) db.Policy { return db.Policy{Count: 1} },
		"bytes": func(bytes int64) db.Policy { return db.Policy{Bytes: bytes} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.add("later", true)
			if name == "count" { // claims are counted by their run
				h.pause("ended")
				h.resume("ended")
			}
			h.clock.Advance(10 * 24 * time.Hour) // agents leave the registry a week after their end
			before := h.left()
			for _, store := range maintenance.Stores() {
				all := maintenance.PruneOptions{
					Stores: []string{store}, Policy: &db.Policy{Age: db.KeepNone},
					DryRun: true,
				}
				sizes := map[string]int64{}
				all.Each = func(_ string, gone db.Gone) { sizes[strings.TrimPrefix(gone.ID, "agent-")] += gone.Bytes }
				_, err := maintenance.Prune(t.Context(), h.d, all)
				ok(t, err)
				later := sizes["later"]
				if store == maintenance.StoreWorkers {
					later = sizes["worker-00000004"]
				}
				policy := limit(later)
				for _, dry := range []bool{true, false} {
					done, err := maintenance.Prune(t.Context(), h.d,
						maintenance.PruneOptions{Stores: []string{store}, Policy: &policy, DryRun: dry})
					ok(t, err)
					left := h.left()[store]
					if want := before[store]; dry && left != want {
						t.Errorf("%s: a dry run left %q of %q", store, left, want)
					} else if want := strings.TrimPrefix(want, "ended "); !dry && left != want {
						t.Errorf("%s: %q is left, not %q; %+v", store, left, want, policy)
					}
					if len(done) != 1 || done[0].Removed != 1 {
						t.Errorf("%s, dry: %v: it says %+v", store, dry, done)
					}
				}
			}
		})
	}
}

func TestAPruneThatIsStoppedGoesOn(t *testing.T) {
	h := newHouse(t)
	ctx, stop := context.WithCancel(t.Context())
	everything := &db.Policy{Age: db.KeepNone}
	_, err := maintenance.Prune(ctx, h.d,
		maintenance.PruneOptions{
			Stores: maintenance.Stores(), Policy: everything, Each: func(string, db.Gone) { stop() },
		})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	done, err := maintenance.Prune(t.Context(), h.d,
		maintenance.PruneOptions{Stores: maintenance.Stores(), Policy: everything})
	ok(t, err)
	if got := removed(t, done); len(got) == 0 || len(got) >= len(maintenance.Stores()) {
		t.Errorf("the second call removes %v", got)
	}
	for store, left := range h.left() {
		if strings.Contains(left, "ended") {
			t.Errorf("of %s %q is left", store, left)
		}
	}
}

func TestPrune_FailingProgressIsItsError(t *testing.T) {
	h := newHouse(t)
	told := db.WithProgress(t.Context(), func(db.Progress) { panic("progress") })
	done, err := maintenance.Prune(told, h.d,
		maintenance.PruneOptions{Stores: maintenance.Stores(), Policy: &db.Policy{Age: db.KeepNone}})
	if p, is := errors.AsType[*db.Panic](err); !is || p.Value != "progress" {
		t.Errorf("it ends with %v", err)
	}
	if len(removed(t, done)) != len(maintenance.Stores()) {
		t.Errorf("it removed of %v only", removed(t, done))
	}
}

func TestPrune_FailingStoreKeepsNoOther(t *testing.T) {
	told := db.WithProgress(t.Context(), func(db.Progress) {})
	for name, ctx := range map[string]context.Context{"alone": t.Context(), "with progress": told} {
		d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "selvedge.db"), db.Options{})
		ok(t, err)
		defer d.Close()
		traces := runs.NewStore(d, runs.Options{})
		ok(t, traces.WriteStarted(t.Context(), runs.Started{RunID: "ended", AgentID: "agent", Intent: "be pruned"}))
		done := runs.Termination{Outcome: &runs.AgentOutcome{Status: runs.OutcomeSuccess, Timestamp: theTime}}
		ok(t, traces.WriteEnded(t.Context(), runs.Ended{RunID: "ended", AgentID: "agent", Termination: done}))
		edit(t, d, `DROP TABLE live_runs`)
		pruned, err := maintenance.Prune(ctx, d, maintenance.PruneOptions{Policy: &db.Policy{Age: db.KeepNone}})
		went := 0
		for _, one := range pruned {
			went += one.Removed
		}
		if err == nil || went != 1 {
			t.Errorf("%s: %d went: %v", name, went, err)
		}
	}
}
