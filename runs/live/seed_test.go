package live_test

import (
	"context"
	"testing"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// The original's own tests, translated.

func newStore(t testing.TB, o live.Options) *live.Store {
	t.Helper()
	return live.NewStore(dbtest.Open(t, db.Options{Synchronous: db.SyncNormal}), o)
}

func create(t testing.TB, s *live.Store, prompt string) live.RunSnapshot {
	t.Helper()
	run, err := s.CreateRun(context.Background(), "session-1", prompt)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func record(t testing.TB, s *live.Store, runID string, events ...live.Event) live.RunSnapshot {
	t.Helper()
	var run live.RunSnapshot
	for _, event := range events {
		var found bool
		var err error
		if run, found, err = s.RecordEvent(context.Background(), runID, event); err != nil || !found {
			t.Fatalf("record %s: found %v, %v", event.Type(), found, err)
		}
	}
	return run
}

func snapshotOf(t testing.TB, s *live.Store, runID string) live.RunSnapshot {
	t.Helper()
	run, found, err := s.Snapshot(context.Background(), runID)
	if err != nil || !found {
		t.Fatalf("snapshot of %q: found %v, %v", runID, found, err)
	}
	return run
}

func eventsOf(t testing.TB, s *live.Store, runID string) []live.RunEventRecord {
	t.Helper()
	events, err := s.Events(context.Background(), runID)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestRunStoreTracksStatusAndEvents(t *testing.T) {
	store := newStore(t, live.Options{})
	run := create(t, store, "fix tests")
	record(t, store, run.ID, live.AgentStart("fix tests"), live.AgentEnd("done"))
	snapshot := snapshotOf(t, store, run.ID)
	if snapshot.Status != live.Completed || snapshot.ResultText == nil || *snapshot.ResultText != "done" ||
		snapshot.EventCount != 2 {
		t.Errorf("the run is %s", jsonOf(snapshot))
	}
	if n := len(eventsOf(t, store, run.ID)); n != 2 {
		t.Errorf("the run has %d events", n)
	}
}

func TestRunStoreReplacesPersistedRecords(t *testing.T) {
	ctx, source, target := context.Background(), newStore(t, live.Options{}), newStore(t, live.Options{})
	run := create(t, source, "persist")
	record(t, source, run.ID, live.AgentStart("persist"))
	records, err := source.Records(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.ReplaceRecords(ctx, records); err != nil {
		t.Fatal(err)
	}
	list, err := target.List(ctx)
	if err != nil || len(list) != 1 {
		t.Errorf("the list has %d runs: %v", len(list), err)
	}
	if n := len(eventsOf(t, target, run.ID)); n != 1 {
		t.Errorf("the run has %d events", n)
	}
	if n := snapshotOf(t, target, run.ID).EventCount; n != 1 {
		t.Errorf("the run counts %d events", n)
	}
}

func TestRunHandleOnlyCancelsCurrentRun(t *testing.T) {
	ctx, store, session := context.Background(), newStore(t, live.Options{}), &live.Session{}
	run := create(t, store, "fix tests")
	token, stop := context.WithCancel(t.Context())
	session.SetCurrent(run.ID, stop)
	handle := live.NewRunHandle(run.ID, run.SessionID, store, session, nil)
	if cancelled, err := handle.Cancel(ctx); err != nil || !cancelled || token.Err() == nil {
		t.Errorf("cancelled is %v, the token's %v, %v", cancelled, token.Err(), err)
	}
	if status, _, err := handle.Status(ctx); err != nil || status != live.Cancelled {
		t.Errorf("the status is %q, %v", status, err)
	}
	session.SetCurrent("other-run", stop)
	if cancelled, err := handle.Cancel(ctx); err != nil || cancelled {
		t.Errorf("a run that is not current was cancelled: %v", err)
	}
}

// The hook is told also where the mark can't be stored: the token has fired.
func TestCancel_HookRunsWhateverTheMark(t *testing.T) {
	store, session, hook := newStore(t, live.Options{}), &live.Session{}, &recordingHook{}
	run := create(t, store, "p")
	token, stop := context.WithCancel(t.Context())
	session.SetCurrent(run.ID, stop)
	ctx, end := context.WithCancel(t.Context())
	end()
	cancelled, err := live.NewRunHandle(run.ID, run.SessionID, store, session, hook).Cancel(ctx)
	if !cancelled || err == nil || token.Err() == nil || len(hook.calls) != 1 {
		t.Errorf("cancelled is %v, %v; the hook was told %v", cancelled, err, hook.calls)
	}
}

// A handle never fires the token of the run that became current after it looked.
func TestCancelNeverFiresAnotherRunsToken(t *testing.T) {
	store := newStore(t, live.Options{})
	ended, end := context.WithCancel(t.Context())
	end() // the mark is of no interest here
	for range 3000 {
		session := &live.Session{}
		others, stop := context.WithCancel(t.Context())
		session.SetCurrent("a", func() {})
		done := make(chan struct{})
		go func() {
			session.SetCurrent("b", stop)
			close(done)
		}()
		_, _ = live.NewRunHandle("a", "s", store, session, nil).Cancel(ended)
		<-done
		if others.Err() != nil {
			t.Fatal("the handle of run a fired the token of run b")
		}
		stop()
	}
}
