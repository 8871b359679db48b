package agents_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
)

// The original's own tests, one for one and under their names.

func TestListPrunesStaleCompletedEntries(t *testing.T) {
	r := newRegistry(t)
	stale := entry("agent-stale", agents.Complete)
	stale.CompletedAt = p(time.Now().Add(-8 * 24 * time.Hour))
	save(t, r, stale, entry("agent-active", agents.Active))

	list, err := r.List(ctx)
	if err != nil || len(list) != 1 || list[0].SessionID != "agent-active" {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, ok, err := r.Load(ctx, "agent-stale"); ok || err != nil {
		t.Errorf("the stale entry is there: %v, %v", ok, err)
	}
}

func TestLoadReturnsNoneForStaleCompletedEntry(t *testing.T) {
	r := newRegistry(t)
	stale := entry("agent-stale", agents.Merged)
	stale.CompletedAt = p(time.Now().Add(-8 * 24 * time.Hour))
	save(t, r, stale)
	if _, ok, err := r.Load(ctx, "agent-stale"); ok || err != nil {
		t.Errorf("the stale entry is there: %v, %v", ok, err)
	}
}

func TestLogContextQueryAppendsToActiveSession(t *testing.T) {
	r := newRegistry(t)
	save(t, r, entry("agent-active", agents.Active))
	q := agents.ContextQuery{
		Path: "src/auth/session.rs", Scope: p("symbol:validate_token"),
		QueriedAt: time.Now(),
	}
	if err := r.LogContextQuery(ctx, "agent-active", q); err != nil {
		t.Fatal(err)
	}
	got := load(t, r, "agent-active").ContextQueries
	if len(got) != 1 || got[0].Path != q.Path || *got[0].Scope != *q.Scope ||
		!got[0].QueriedAt.Equal(q.QueriedAt) {
		t.Errorf("the entry has %+v", got)
	}
}

func TestLogContextQueryNoOpForCompleteSession(t *testing.T) {
	r := newRegistry(t)
	complete := entry("agent-done", agents.Complete)
	complete.CompletedAt = p(time.Now())
	save(t, r, complete)
	if err := r.LogContextQuery(ctx, "agent-done",
		agents.ContextQuery{Path: "src/lib.rs", QueriedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got := load(t, r, "agent-done").ContextQueries; len(got) != 0 {
		t.Errorf("the entry has %+v", got)
	}
}

func TestFindActiveByPathReturnsMatchingSession(t *testing.T) {
	r := newRegistry(t)
	dir := t.TempDir()
	worktree := filepath.Join(dir, "checkout")
	if err := os.Mkdir(worktree, 0o700); err != nil {
		t.Fatal(err)
	}
	match, other := entry("agent-match", agents.Active), entry("agent-other", agents.Active)
	match.Path, other.Path = &worktree, p(filepath.Join(dir, "other-checkout"))
	save(t, r, match, other)
	if e, ok, err := r.FindActiveByPath(ctx, worktree); err != nil || !ok || e.SessionID != "agent-match" {
		t.Errorf("found %q, %v, %v", e.SessionID, ok, err)
	}
}

func TestCreateGeneratedEntryRetriesCollisions(t *testing.T) {
	r := newRegistry(t)
	save(t, r, entry("agent-existing", agents.Active))
	ids := []string{"agent-existing", "agent-new"}
	agents.SetIDs(r, func() string {
		id := ids[0]
		ids = ids[1:]
		return id
	})
	e, err := r.CreateGeneratedEntry(ctx,
		func(id string) (agents.Entry, error) { return entry(id, agents.Active), nil })
	if err != nil || e.SessionID != "agent-new" {
		t.Fatalf("created %q, %v", e.SessionID, err)
	}
	load(t, r, "agent-existing")
	load(t, r, "agent-new")
}

// onThread builds an active entry of process pid, this start of the machine, on the thread.
func onThread(thread string, pid int) agents.Builder {
	return func(id string) (agents.Entry, error) {
		e := entry(id, agents.Active)
		e.Thread, e.ThreadID, e.PID, e.BootID = thread, &thread, p(uint32(pid)), agents.CurrentBootID()
		return e, nil
	}
}

func TestReserve_AbandonedEntryUnblocksThread(t *testing.T) {
	r := newRegistry(t)
	const thread = "feature/leak-repro"
	first, err := r.TryReserveThread(ctx, thread, onThread(thread, 1))
	if err != nil || first.Reserved == nil {
		t.Fatalf("first: %+v, %v", first, err)
	}
	_, _, err = r.UpdateEntry(ctx, first.Reserved.SessionID, func(e *agents.Entry) {
		e.Status, e.CompletedAt = agents.Abandoned, p(time.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	next, err := r.TryReserveThread(ctx, thread, onThread(thread, 1))
	if err != nil || next.Reserved == nil {
		t.Fatalf("after the reservation was abandoned: %+v, %v", next, err)
	}
	list, err := r.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	active := slices.DeleteFunc(list, func(e agents.Entry) bool {
		return e.Thread != thread ||
			e.Status != agents.Active
	})
	if len(active) != 1 {
		t.Errorf("%d active entries own the thread", len(active))
	}
}

func TestUpdateEntryPersistsHarnessMetadata(t *testing.T) {
	r := newRegistry(t)
	save(t, r, entry("agent-active", agents.Active))
	want, ok, err := r.UpdateEntry(ctx, "agent-active", func(e *agents.Entry) {
		e.HeddleSessionID = p("sess-123")
		e.Harness = p("claude-code")
		e.ThinkingLevel = p("deep")
		e.ReportFlushState = p("pending-local")
		e.AttachReason = p("attached from test metadata update")
		e.AttachPrecedence = []string{"matched-current-session"}
		e.WinningAttachRule = p("matched-current-session")
		e.ProbeSource = p("argv_env")
		e.ProbeConfidence = p(float32(0.75))
		e.LastProgressAt = p(time.Now())
		e.UsageSummary.InputTokens = p(uint64(42))
	})
	if err != nil || !ok {
		t.Fatalf("update: %v, %v", ok, err)
	}
	if got := load(t, r, "agent-active"); !got.Equal(want) || *got.UsageSummary.InputTokens != 42 ||
		*got.ProbeConfidence != 0.75 {
		t.Errorf("stored:\n%s\nwant:\n%s", got.TOML(), want.TOML())
	}
}

func TestFindActiveByClientInstanceIDReturnsMatchingSession(t *testing.T) {
	r := newRegistry(t)
	a, b := entry("agent-client", agents.Active), entry("agent-other", agents.Active)
	a.ClientInstanceID, b.ClientInstanceID = p("client-a"), p("client-b")
	save(t, r, a, b)
	if e, ok, err := r.FindActiveByClientInstanceID(ctx, "client-a"); err != nil || !ok ||
		e.SessionID != "agent-client" {
		t.Errorf("found %q, %v, %v", e.SessionID, ok, err)
	}
}

func TestFindActive_ByNativeActorKey(t *testing.T) {
	r := newRegistry(t)
	a := entry("agent-native", agents.Active)
	a.NativeActorKey = p("codex:thread:thr_123")
	save(t, r, a)
	if e, ok, err := r.FindActiveByNativeActorKey(ctx, "codex:thread:thr_123"); err != nil || !ok ||
		e.SessionID != "agent-native" {
		t.Errorf("found %q, %v, %v", e.SessionID, ok, err)
	}
}

func chainOf(t *testing.T, r *agents.Registry, id string) []string {
	t.Helper()
	chain, err := r.ActorChainForSession(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, node := range chain {
		ids = append(ids, node.SessionID)
	}
	return ids
}

func TestActorChain_RootToLeaf(t *testing.T) {
	r := newRegistry(t)
	root, parent, child := entry("agent-root", agents.Active), entry("agent-parent", agents.Active),
		entry("agent-child", agents.Active)
	root.NativeActorKey = p("human:foo")
	parent.NativeActorKey, parent.NativeParentActorKey = p("codex:thread:parent"), p("human:foo")
	child.NativeActorKey, child.NativeParentActorKey = p("codex:thread:child"), p("codex:thread:parent")
	save(t, r, child, root, parent)
	if got := chainOf(t, r, "agent-child"); !slices.Equal(got,
		[]string{"agent-root", "agent-parent", "agent-child"}) {
		t.Errorf("the chain is %v", got)
	}
}

func TestTryReserveThread_ReapsDeadEntry(t *testing.T) {
	r := newRegistry(t)
	dead := entry("agent-dead", agents.Active)
	dead.Thread, dead.PID, dead.BootID = "feature/race", p(uint32(0x7fff_ffff)), p("not-the-current-boot")
	save(t, r, dead)
	out, err := r.TryReserveThread(ctx, "feature/race", onThread("feature/race", os.Getpid()))
	if err != nil || out.Reserved == nil || out.Reserved.SessionID == "agent-dead" {
		t.Fatalf("reserve: %+v, %v", out, err)
	}
	if e := load(t, r, "agent-dead"); e.Status != agents.Abandoned || e.CompletedAt == nil {
		t.Errorf("the dead one is %s, ended %v", e.Status, e.CompletedAt)
	}
}

func TestTryReserveThread_ReportsLiveOwner(t *testing.T) {
	r := newRegistry(t)
	alive := entry("agent-alive", agents.Active)
	alive.Thread, alive.PID, alive.BootID = "feature/busy", p(uint32(os.Getpid())), agents.CurrentBootID()
	save(t, r, alive)
	out, err := r.TryReserveThread(ctx, "feature/busy", func(string) (agents.Entry, error) {
		return agents.Entry{}, errors.New("the builder was asked")
	})
	if err != nil || out.LiveOwner == nil || out.LiveOwner.SessionID != "agent-alive" {
		t.Fatalf("reserve: %+v, %v", out, err)
	}
	if e := load(t, r, "agent-alive"); e.Status != agents.Active {
		t.Errorf("the owner is %s", e.Status)
	}
}

func TestReapDeadForThreadOnlyTouchesNamedThread(t *testing.T) {
	r := newRegistry(t)
	for _, name := range []string{"a", "b"} {
		dead := entry("agent-dead-"+name, agents.Active)
		dead.Thread, dead.PID, dead.BootID = "feature/"+name, p(uint32(0x7fff_ffff)), p("stale")
		save(t, r, dead)
	}
	if n, err := r.ReapDeadForThread(ctx, "feature/a"); n != 1 || err != nil {
		t.Errorf("reaped %d, %v", n, err)
	}
	if a, b := load(t, r, "agent-dead-a"),
		load(t, r, "agent-dead-b"); a.Status != agents.Abandoned || b.Status != agents.Active {
		t.Errorf("a is %s, b is %s", a.Status, b.Status)
	}
	if n, err := r.ReapDead(ctx); n != 1 || err != nil {
		t.Errorf("reaped %d, %v", n, err)
	}
	if b := load(t, r, "agent-dead-b"); b.Status != agents.Abandoned {
		t.Errorf("b is %s", b.Status)
	}
}

func TestActorChainBreaksCyclesWithoutLooping(t *testing.T) {
	r := newRegistry(t)
	a, b := entry("agent-a", agents.Active), entry("agent-b", agents.Active)
	a.NativeActorKey, a.NativeParentActorKey = p("actor:a"), p("actor:b")
	b.NativeActorKey, b.NativeParentActorKey = p("actor:b"), p("actor:a")
	save(t, r, a, b)
	if got := chainOf(t, r, "agent-a"); len(got) != 2 || got[1] != "agent-a" {
		t.Errorf("the chain is %v", got)
	}
}

func TestTryReserveThread_ConcurrentIsRaceFree(t *testing.T) {
	const rounds, racers = 100, 8
	r := newRegistry(t)
	for round := range rounds {
		thread := fmt.Sprintf("feature/race-%d", round)
		start, answers := make(chan struct{}), make(chan agents.ReserveOutcome, racers)
		for racer := range racers {
			go func() {
				<-start
				out, err := r.TryReserveThread(ctx, thread, func(id string) (agents.Entry, error) {
					return onThread(thread, os.Getpid())(fmt.Sprintf("agent-%d-%s", racer, id))
				})
				if err != nil {
					t.Error(err)
				}
				answers <- out
			}()
		}
		close(start)
		var winner string
		var named []string
		for range racers {
			switch out := <-answers; {
			case out.Reserved != nil && winner == "":
				winner = out.Reserved.SessionID
			case out.Reserved != nil:
				t.Fatalf("round %d has two winners", round)
			case out.LiveOwner != nil:
				named = append(named, out.LiveOwner.SessionID)
			}
		}
		if winner == "" || len(named) != racers-1 ||
			slices.ContainsFunc(named, func(id string) bool { return id != winner }) {
			t.Fatalf("round %d: the winner is %q, the losers were told %v", round, winner, named)
		}
	}
}

func TestReserve_OwnerIsErrorIfEntryWanted(t *testing.T) {
	r := newRegistry(t)
	owner, err := r.CreateGeneratedEntryForThread(ctx, "feature/x", onThread("feature/x", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.CreateGeneratedEntryForThread(ctx, "feature/x", onThread("feature/x", os.Getpid()))
	if !errors.Is(err, db.ErrConflict) {
		t.Errorf("the second caller got %v", err)
	}
	want := "configuration error: thread 'feature/x' already has active reservation " + owner.SessionID +
		". Use `heddle thread show feature/x` " +
		"to inspect it, or release the session before starting another writer."
	if err != nil && !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error says\n%s\nwant\n%s", err, want)
	}
}
