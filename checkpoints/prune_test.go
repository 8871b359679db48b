package checkpoints_test

import (
	"testing"

	"selvedge/checkpoints"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// What a person decided stays as long as the run that asked is open, in whichever store: a run that
// starts again after a crash asks the history before it asks the person.
func TestPrune_KeepsDecisionsOfOpenRuns(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	store := checkpoints.NewStore(d, checkpoints.Options{})
	traces, lives := runs.NewStore(d, runs.Options{}), live.NewStore(d, live.Options{})
	for _, id := range []string{"none", "trace", "live", "waits"} {
		save(t, store, id)
		check(t, mustClaim(t, store, id).Decide(ctx, checkpoints.Decision{Decision: "approved"}))
	}
	check(t, traces.WriteStarted(ctx, runs.Started{RunID: "trace", AgentID: "a", Intent: "i"}))
	_, err := lives.Begin(ctx, live.Start{ID: "live", SessionID: "s", Prompt: "p"})
	check(t, err)
	save(t, store, "waits")

	everything := db.Policy{Age: db.KeepNone}
	would, err := store.Prune(ctx, db.Policy{Age: db.KeepNone, DryRun: true})
	check(t, err)
	done, err := store.Prune(ctx, everything)
	check(t, err)
	if would != done || done.Removed != 1 || done.Remaining != 3 {
		t.Errorf("pruning would do %+v and did %+v", would, done)
	}
	if got := endings(history(t, store, checkpoints.HistoryFilter{})); got != "waits:completed "+
		"live:completed trace:completed " {
		t.Errorf("it left %s", got)
	}

	_, _, err = lives.MarkCancelled(ctx, "live")
	check(t, err)
	check(t, traces.WriteEnded(ctx, runs.Ended{RunID: "trace", AgentID: "a"}))
	check(t, mustClaim(t, store, "waits").Complete(ctx))
	if done, err = store.Prune(ctx, everything); err != nil || done.Remaining != 0 {
		t.Errorf("once they have ended it leaves %d, %v", done.Remaining, err)
	}
}
