package adk_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
	"google.golang.org/genai"

	"selvedge/adapters/adk"
	"selvedge/db"
	"selvedge/runs"
	"selvedge/state"
)

func open(t *testing.T, address string, now func() time.Time) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), address, db.Options{Synchronous: db.SyncNormal, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func file(t *testing.T) *db.DB { return open(t, filepath.Join(t.TempDir(), "agents.db"), nil) }

func create(t *testing.T, s session.Service) session.Session {
	t.Helper()
	created, err := s.Create(t.Context(), &session.CreateRequest{
		AppName: "app", UserID: "ada", SessionID: "one",
	})
	if err != nil {
		t.Fatal(err)
	}
	return created.Session
}

func get(t *testing.T, s session.Service) sessiontestsuite.ExpectedSession {
	t.Helper()
	got, err := s.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "ada", SessionID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	return sessiontestsuite.Snapshot(got.Session)
}

func event(id, text string) *session.Event {
	return &session.Event{
		ID: id, Author: "agent", Timestamp: time.Date(2026, 5, 4, 1, 0, 0, 0, time.UTC),
		LLMResponse: model.LLMResponse{Content: genai.NewContentFromText(text, "model")},
		Actions:     session.EventActions{StateDelta: map[string]any{"said": text, "temp:t": 1}},
	}
}

// ADK-Go's own suite judges the service.
func TestService_PassesADKSuite(t *testing.T) {
	sessiontestsuite.RunServiceTests(t, sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true},
		func(t *testing.T) session.Service { return adk.New(file(t)) })
}

func TestAppendEvent_RepeatIsStoredOnce(t *testing.T) {
	s := adk.New(file(t))
	one := create(t, s)
	for _, e := range []*session.Event{event("e1", "first"), event("e2", "second"), event("e1", "first")} {
		if err := s.AppendEvent(t.Context(), one, e); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, s); len(got.Events) != 2 || got.State["said"] != "second" {
		t.Errorf("there are %d events, and the state is %v", len(got.Events), got.State)
	}
	if seen := sessiontestsuite.Snapshot(one); len(seen.Events) != 2 || seen.State["said"] != "second" {
		t.Errorf("the session at hand has %d events, and the state %v", len(seen.Events), seen.State)
	}
	if err := s.AppendEvent(t.Context(), one, event("e1", "other")); !errors.Is(err, db.ErrConflict) {
		t.Errorf("another event with the same id: %v", err)
	}
}

// Retention ends a session that was not used for a month. One that is used again then stays for a month.
func TestAppendEvent_EndedSessionIsUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.db")
	now, month := time.Now(), 30*24*time.Hour
	var d *db.DB
	restart := func() (session.Service, *runs.Store) { // a live process keeps what it wrote to
		if d != nil {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		d = open(t, path, func() time.Time { return now })
		return adk.New(d), runs.NewStore(d, runs.Options{Scope: "adk:app"})
	}
	s, _ := restart()
	one := create(t, s)
	for _, id := range []string{"e1", "e2", "e3"} {
		if err := s.AppendEvent(t.Context(), one, event(id, id)); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(month + time.Hour)
	s, traces := restart()
	if done, err := traces.Prune(t.Context(), db.Policy{Age: month}); done.Ended != 1 || err != nil {
		t.Fatalf("%+v, %v", done, err)
	}
	now = now.Add(month - time.Hour)
	if err := s.AppendEvent(t.Context(), one, event("e4", "again")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	if done, err := traces.Prune(t.Context(), db.Policy{Age: month}); done.Removed != 0 || err != nil {
		t.Fatalf("%+v, %v", done, err)
	}
	for n := range 6 {
		got, err := s.Get(t.Context(), &session.GetRequest{
			AppName: "app", UserID: "ada", SessionID: "one", NumRecentEvents: n,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := min(n, 4)
		if n == 0 {
			want = 4
		}
		events := got.Session.Events()
		if events.Len() != want || events.At(want-1).ID != "e4" {
			t.Errorf("the last %d events: %+v", n, events)
		}
	}
}

func TestSession_GoesOnWithoutItsState(t *testing.T) {
	d := file(t)
	s := adk.New(d)
	one := create(t, s)
	if err := s.AppendEvent(t.Context(), one, event("e1", "first")); err != nil {
		t.Fatal(err)
	}
	lose := func() {
		t.Helper()
		values := state.NewStore(d, state.Options{Scope: "adk:app"})
		if done, err := values.Prune(t.Context(), db.Policy{Count: db.KeepNone}); done.Removed != 1 || err != nil {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	lose()
	if got := get(t, s); len(got.Events) != 1 || len(got.State) != 0 {
		t.Errorf("it is %+v", got)
	}
	if err := s.AppendEvent(t.Context(), one, event("e2", "second")); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s); len(got.Events) != 2 || got.State["said"] != "second" {
		t.Errorf("it is %+v", got)
	}
	lose()
	err := s.Delete(t.Context(), &session.DeleteRequest{AppName: "app", UserID: "ada", SessionID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s)
}

func TestAppendEvent_SessionSeesItAtOnce(t *testing.T) {
	s := adk.New(file(t))
	one := create(t, s)
	if err := s.AppendEvent(t.Context(), one, event("e1", "first")); err != nil {
		t.Fatal(err)
	}
	got := sessiontestsuite.Snapshot(one)
	_, kept := got.Events[0].Actions.StateDelta["temp:t"]
	if len(got.Events) != 1 || kept || got.State["said"] != "first" || got.State["temp:t"] != 1 {
		t.Errorf("it is %+v", got)
	}
	if !one.LastUpdateTime().Equal(event("", "").Timestamp) {
		t.Errorf("it was updated at %v", one.LastUpdateTime())
	}
}

func TestDelete_SessionOfAnotherHandle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.db")
	writer, other := adk.New(open(t, path, nil)), adk.New(open(t, path, nil))
	if err := writer.AppendEvent(t.Context(), create(t, writer), event("e1", "first")); err != nil {
		t.Fatal(err)
	}
	err := other.Delete(t.Context(), &session.DeleteRequest{AppName: "app", UserID: "ada", SessionID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	create(t, writer)
	if got := get(t, other); len(got.Events) != 0 || len(got.State) != 0 {
		t.Errorf("the new session has %+v", got)
	}
}

func TestAppendEvent_WorkflowFieldsComeBack(t *testing.T) {
	s := adk.New(file(t))
	e := event("e1", "which?")
	e.NodeInfo = &session.NodeInfo{Path: "ask"}
	e.RequestedInput = &session.RequestInput{InterruptID: "i", Message: "Which?"}
	e.Routes, e.IsolationScope, e.Output = []string{"a"}, "task", map[string]any{"n": 1.5}
	if err := s.AppendEvent(t.Context(), create(t, s), e); err != nil {
		t.Fatal(err)
	}
	got := get(t, s).Events[0]
	e.Actions.StateDelta = map[string]any{"said": "which?"}
	if !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, not %+v", got, e)
	}
}

func TestBadInput_IsInvalid(t *testing.T) {
	s := adk.New(file(t))
	one := create(t, s)
	unsound := event("e1", "")
	unsound.Output = func() {}
	_, noUser := s.Create(t.Context(), &session.CreateRequest{AppName: "app"})
	_, noSession := s.Get(t.Context(), &session.GetRequest{AppName: "app", UserID: "ada"})
	_, noApp := s.List(t.Context(), &session.ListRequest{})
	for name, err := range map[string]error{
		"no user": noUser, "no session": noSession, "no app": noApp,
		"no event":   s.AppendEvent(t.Context(), one, nil),
		"a function": s.AppendEvent(t.Context(), one, unsound),
	} {
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAppendEvent_UsageIsCounted(t *testing.T) {
	d := file(t)
	s, e := adk.New(d), event("e1", "text")
	e.ModelVersion = "gemini"
	e.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 7, CandidatesTokenCount: 5}
	if err := s.AppendEvent(t.Context(), create(t, s), e); err != nil {
		t.Fatal(err)
	}
	var used string
	err := d.Read(t.Context(), "look", func(rx *db.Rx) error {
		return rx.Get(&used, `SELECT response_model || ' ' || input_tokens || ' ' || output_tokens FROM v_usage`)
	})
	if err != nil || used != "gemini 7 5" {
		t.Errorf("used was %q: %v", used, err)
	}
	if got := get(t, s).Events; len(got) != 1 || got[0].UsageMetadata.PromptTokenCount != 7 {
		t.Errorf("the events are %+v", got)
	}
}
