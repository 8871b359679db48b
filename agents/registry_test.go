package agents_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

func TestPagesGiveEveryEntryOnceWhateverTheirStarts(t *testing.T) {
	r := newRegistry(t)
	start := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	want := map[string]bool{}
	for i := range 25 {
		e := entry(fmt.Sprintf("agent-%02d", i), []agents.Status{agents.Active, agents.Active, agents.Merged}[i%3])
		e.StartedAt, e.Thread = start.Add(time.Duration(i/4)*time.Hour), fmt.Sprintf("t/%d", i%2)
		if e.Status == agents.Merged {
			e.CompletedAt = p(time.Now())
		}
		save(t, r, e)
		if e.Status == agents.Active && e.Thread == "t/1" && i >= 4 {
			want[e.SessionID] = true
		}
	}
	filter := agents.Filter{
		Statuses: []agents.Status{agents.Active}, Thread: p("t/1"),
		Since: start.Add(time.Hour),
	}
	var last agents.Entry
	for after, pages := "", 0; ; pages++ {
		page, err := r.Page(ctx, filter, db.At{After: after, Limit: 3})
		if err != nil || len(page.Items) > 3 || pages > 10 {
			t.Fatalf("page %d: %d entries, %v", pages, len(page.Items), err)
		}
		for _, e := range page.Items {
			if !want[e.SessionID] {
				t.Errorf("%s comes twice, or should not", e.SessionID)
			}
			delete(want, e.SessionID)
			if last.SessionID != "" && (e.StartedAt.After(last.StartedAt) || e.StartedAt.Equal(last.StartedAt) &&
				e.SessionID < last.SessionID) {
				t.Errorf("%s comes after %s", e.SessionID, last.SessionID)
			}
			last = e
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(want) > 0 {
		t.Errorf("no page has %v", want)
	}
}

func TestACursorOrLimitThatIsNoneIsRefused(t *testing.T) {
	r := newRegistry(t)
	if _, err := r.Page(ctx, agents.Filter{}, db.At{After: "nonsense"}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a cursor of nonsense: %v", err)
	}
	for _, limit := range []int{-1, 1001} {
		if _, err := r.Page(ctx, agents.Filter{}, db.At{Limit: limit}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("a limit of %d: %v", limit, err)
		}
	}
	empty := agents.NewRegistry(dbtest.Open(t, db.Options{}), agents.Options{Scope: "empty"})
	asleep := agents.Filter{Statuses: []agents.Status{"asleep"}}
	if _, err := empty.Page(ctx, asleep, db.At{}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a status that is none, in an empty scope: %v", err)
	}
}

func TestPages_ReadOnlyAndPruneRemoves(t *testing.T) {
	f := newFixture(t)
	old := entry("agent-old", agents.Complete)
	old.CompletedAt = p(f.wall.Now())
	save(t, f.Registry, old)
	f.wall.Advance(8 * 24 * time.Hour)
	for e, err := range f.All(ctx, agents.Filter{}) {
		t.Errorf("a page has %s, %v", e.SessionID, err)
	}
	if n, err := agents.CountAside(ctx, f.Registry); n != 0 || err != nil {
		t.Errorf("a page put %d aside, %v", n, err)
	}
	if _, ok, err := f.Load(ctx, "agent-old"); ok || err != nil {
		t.Errorf("the stale entry is there: %v", err)
	}
	if n, err := agents.CountAside(ctx, f.Registry); n != 1 || err != nil {
		t.Errorf("%d are aside, %v", n, err)
	}
	save(t, f.Registry, entry("agent-old", agents.Active)) // its id is free again
	for age, want := range map[time.Duration]int{9 * 24 * time.Hour: 0, 7 * 24 * time.Hour: 1} {
		if done, err := f.Prune(ctx, db.Policy{Age: age, DryRun: true}); done.Removed != want || err != nil {
			t.Errorf("of what ended eight days ago %d go after %v (%v)", done.Removed, age, err)
		}
	}
	if done, err := f.Prune(ctx, db.Policy{Age: db.KeepNone}); done.Removed != 1 || err != nil {
		t.Errorf("%d were removed (%v)", done.Removed, err)
	}
	load(t, f.Registry, "agent-old")
}

func TestABuildersErrorUndoesItsInsertAndNothingBefore(t *testing.T) {
	r := newRegistry(t)
	dead := entry("agent-dead", agents.Active)
	dead.Thread, dead.PID = "main", p(uint32(0x7fff_ffff))
	save(t, r, dead, entry("agent-taken", agents.Active))
	failed := errors.New("no worktree")
	if _, err := r.TryReserveThread(ctx, "main",
		func(string) (agents.Entry, error) { return agents.Entry{}, failed }); !errors.Is(err, failed) {
		t.Errorf("the builder's error became %v", err)
	}
	if e := load(t, r, "agent-dead"); e.Status != agents.Abandoned {
		t.Errorf("the dead one is %s", e.Status)
	}
	_, err := r.TryReserveThread(ctx, "main",
		func(string) (agents.Entry, error) { return onThread("main", os.Getpid())("agent-taken") })
	if !errors.Is(err, db.ErrConflict) {
		t.Errorf("a builder that takes another's id: %v", err)
	}
	if _, ok, err := r.Reservation(ctx, "main"); ok || err != nil {
		t.Errorf("the thread is held: %v", err)
	}
	if out, err := r.TryReserveThread(ctx, "main", onThread("main", os.Getpid())); err != nil ||
		out.Reserved == nil {
		t.Errorf("then: %+v, %v", out, err)
	}
}

func TestWhatCantBeStoredIsRefused(t *testing.T) {
	r := newRegistry(t)
	for what, change := range map[string]func(*agents.Entry){
		"an id":          func(e *agents.Entry) { e.SessionID = "Agent_A" },
		"a long id":      func(e *agents.Entry) { e.SessionID = fmt.Sprintf("%01025d", 0) },
		"a status":       func(e *agents.Entry) { e.Status = "paused" },
		"text":           func(e *agents.Entry) { e.Model = p("\xff") },
		"a list of text": func(e *agents.Entry) { e.AttachPrecedence = []string{"\xff"} },
		"a year": func(e *agents.Entry) {
			e.CompletedAt = p(time.Date(300000, 1, 1, 0, 0, 0, 0,
				time.UTC))
		},
		"a query": func(e *agents.Entry) { e.ContextQueries = []agents.ContextQuery{{Path: "\xff"}} },
	} {
		e := entry("agent-a", agents.Active)
		change(&e)
		if err := r.Save(ctx, e); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := r.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("stored are %v, %v", list, err)
	}
	if err := r.UpdateStatus(ctx, "agent-missing", "paused"); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("an unknown status for a missing agent: %v", err)
	}
}

func TestAnEmptyPathIsNotTheWorkingDirectory(t *testing.T) {
	r := newRegistry(t)
	nowhere, here := entry("agent-nowhere", agents.Active), entry("agent-here", agents.Active)
	nowhere.Path, here.Path = p(""), p(".")
	save(t, r, nowhere, here)
	for path, want := range map[string]string{"": "agent-nowhere", "./": "agent-here"} {
		if e, ok, err := r.FindActiveByPath(ctx, path); err != nil || !ok || e.SessionID != want {
			t.Errorf("at %q is %q: %v, %v", path, e.SessionID, ok, err)
		}
	}
}

func TestReserve_CostIndependentOfAgents(t *testing.T) {
	f := newFixture(t)
	for _, query := range []string{
		`SELECT id FROM agents WHERE scope = 1 AND thread = 't' AND status = 'active' ORDER BY session_id`,
		`UPDATE agents SET put_aside_at = 1 WHERE scope = 1 AND put_aside_at IS NULL AND status <> 'active'
			AND coalesce(completed_at, started_at) <= 5`,
		`SELECT id FROM agents WHERE scope = 1 AND session_id = 'a' AND put_aside_at IS NULL`,
		`SELECT id FROM agents WHERE scope = 1 AND native_actor_key = 'a' AND put_aside_at IS NULL
			ORDER BY started_at LIMIT 1`,
	} {
		if plan := dbtest.Plan(t, f.db, query); !strings.HasPrefix(plan, "SEARCH") || strings.Contains(plan, "\n") {
			t.Errorf("%s looks at too much: %s", query, plan)
		}
	}
}

func TestATimeThatNobodyGaveIsNow(t *testing.T) {
	f := newFixture(t)
	e := entry("agent-a", agents.Active)
	e.StartedAt = time.Time{}
	save(t, f.Registry, e)
	if err := f.LogContextQuery(ctx, "agent-a", agents.ContextQuery{Path: "a.go"}); err != nil {
		t.Fatal(err)
	}
	got := load(t, f.Registry, "agent-a")
	if !got.StartedAt.Equal(f.wall.Now()) || !got.ContextQueries[0].QueriedAt.Equal(f.wall.Now()) {
		t.Errorf("saved as %s", got.TOML())
	}
	made, err := f.CreateGeneratedEntry(ctx, func(id string) (agents.Entry, error) {
		return agents.Entry{SessionID: id, Status: agents.Active}, nil
	})
	if err != nil || !made.StartedAt.Equal(f.wall.Now()) {
		t.Errorf("made as %s, %v", made.TOML(), err)
	}
}

func TestFindGivesWhatBeginsSo(t *testing.T) {
	f := newFixture(t)
	old := entry("agent-a-old", agents.Complete)
	old.CompletedAt = p(f.wall.Now().Add(-8 * 24 * time.Hour))
	save(t, f.Registry, entry("agent-a", agents.Active), entry("agent-a-b", agents.Merged),
		entry("agent-b", agents.Active), entry("b", agents.Active), old)
	for prefix, want := range map[string][]string{
		"": {"agent-a", "agent-a-b", "agent-b", "b"}, "agent-a": {"agent-a", "agent-a-b"},
		"agent-a-": {"agent-a-b"}, "c": nil,
	} {
		got, err := f.Find(ctx, prefix, 0)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", prefix, got, err, want)
		}
	}
	if got, err := f.Find(ctx, "", 2); err != nil || len(got) != 2 {
		t.Errorf("at most two: %q, %v", got, err)
	}
	if _, err := f.Find(ctx, "", 1001); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("1001 at once: %v", err)
	}
}

func TestGet_MissingChangesNothing(t *testing.T) {
	f := newFixture(t)
	old := entry("agent-old", agents.Complete)
	old.CompletedAt = p(f.wall.Now().Add(-8 * 24 * time.Hour))
	save(t, f.Registry, entry("agent-a", agents.Active), old)
	if e, err := f.Get(ctx, "agent-a"); err != nil || e.SessionID != "agent-a" {
		t.Errorf("got %s, %v", e.SessionID, err)
	}
	for _, id := range []string{"agent-old", "agent-none"} {
		if _, err := f.Get(ctx, id); !errors.Is(err, db.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if n, err := agents.CountAside(ctx, f.Registry); n != 0 || err != nil {
		t.Errorf("a look put %d aside, %v", n, err)
	}
	if _, err := f.Get(ctx, "Agent"); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
}

func TestChangesOfAgentsAreOneTransaction(t *testing.T) {
	f := newFixture(t)
	undo := errors.New("undo")
	work := func(tx *db.Tx) error {
		if err := f.SaveTx(tx, entry("agent-a", agents.Active)); err != nil {
			return err
		}
		if _, ok, err := f.UpdateEntryTx(tx, "agent-a", func(e *agents.Entry) { e.Model = p("m") }); err != nil ||
			!ok {
			return fmt.Errorf("update: %v, %w", ok, err)
		}
		if err := f.LogContextQueryTx(tx, "agent-a", agents.ContextQuery{Path: "a.go"}); err != nil {
			return err
		}
		out, err := f.TryReserveThreadTx(tx, "main", onThread("main", os.Getpid()))
		if err != nil || out.Reserved == nil {
			return fmt.Errorf("reserve: %+v, %w", out, err)
		}
		held, ok, err := f.ReservationTx(&tx.Rx, "main")
		if err != nil || !ok || held.Holder.SessionID != out.Reserved.SessionID {
			return fmt.Errorf("the thread is %+v's, %v, %w", held, ok, err)
		}
		if err := f.UpdateStatusTx(tx, "agent-a", agents.Merged); err != nil {
			return err
		}
		e, err := f.GetTx(&tx.Rx, "agent-a")
		if err != nil || *e.Model != "m" || len(e.ContextQueries) != 1 || e.Status != agents.Merged {
			return fmt.Errorf("it is %+v, %w", e, err)
		}
		return nil
	}
	err := f.db.Write(ctx, "work", func(tx *db.Tx) error { return errors.Join(work(tx), undo) })
	if !errors.Is(err, undo) || errors.Is(err, db.ErrNotFound) {
		t.Fatal(err)
	}
	if list, err := f.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("undone it left %d entries, %v", len(list), err)
	}
	if err := f.db.Write(ctx, "work", work); err != nil {
		t.Fatal(err)
	}
	if page, err := f.Page(ctx, agents.Filter{}, db.At{}); err != nil || len(page.Items) != 2 {
		t.Errorf("done it left %d entries, %v", len(page.Items), err)
	}
}
