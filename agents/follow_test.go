package agents_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/test/dbtest"
)

// spelled is an item as these tests compare it.
func spelled(f agents.Followed) string {
	switch {
	case f.Gone:
		return f.Of + " gone"
	case f.What == db.StatusChanged:
		return f.Of + " is " + f.Status
	case f.Item.Leased:
		return fmt.Sprintf("%s leased as %d, %s", f.Of, f.Item.Epoch, f.Item.Entry.Status)
	case f.Item.Epoch > 0:
		return f.Of + " reserved, " + string(f.Item.Entry.Status)
	}
	return f.Of + " " + string(f.Item.Entry.Status)
}

func listen(t *testing.T, items iter.Seq2[agents.Followed, error]) *dbtest.Listener[string, agents.Change] {
	t.Helper()
	return dbtest.Listen(t, items, spelled)
}

func TestFollow_AgentStatusUntilRemoved(t *testing.T) {
	for _, path := range []string{":memory:", dbtest.Path(t)} {
		ctx := t.Context()
		r := agents.NewRegistry(dbtest.OpenAt(t, path, db.Options{}), agents.Options{})
		lease, _, err := r.TryLeaseThread(ctx, "main", db.LeaseTerms{TTL: time.Hour},
			func(string) (agents.Entry, error) {
				e := entry("a", agents.Active)
				e.Thread = "main"
				return e, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t, r.Follow(ctx, "a", ""))
		l.Hears(fmt.Sprintf("a leased as %d, active", lease.Epoch()))
		for _, step := range []func() error{
			func() error { return lease.Renew(ctx) }, // not told
			func() error { _, err := lease.Update(ctx, func(e *agents.Entry) { e.Model = p("m") }); return err },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		l.Hears(fmt.Sprintf("a leased as %d, active", lease.Epoch()))
		begun := l.Cursor
		if err := lease.Release(ctx, agents.Complete); err != nil {
			t.Fatal(err)
		}
		l.Hears("a complete", "a is complete")
		listen(t, r.Follow(ctx, "a", begun)).Hears("a complete", "a is complete")
		if err := r.UpdateStatus(ctx, "a", agents.Active); err != nil {
			t.Fatal(err)
		}
		l.Hears("a active", "a is active")
		if err := r.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		l.EndsWith(db.ErrCursorExpired)
		listen(t, r.Follow(ctx, "a", begun)).EndsWith(db.ErrCursorExpired)
		listen(t, r.Follow(ctx, "a", "")).EndsWith(db.ErrNotFound)
	}
}

func TestFollow_AgentPutAsideIsGone(t *testing.T) {
	clock := dbtest.NewClock(time.Now())
	r := agents.NewRegistry(dbtest.Open(t, db.Options{Now: clock.Now}), agents.Options{})
	save(t, r, entry("old", agents.Active))
	if err := r.UpdateStatus(ctx, "old", agents.Complete); err != nil {
		t.Fatal(err)
	}
	l := listen(t, r.Follow(t.Context(), "old", ""))
	l.Hears("old complete", "old is complete")
	all := listen(t, r.FollowAll(t.Context(), agents.Filter{}))
	clock.Advance(8 * 24 * time.Hour)
	if _, err := r.List(ctx); err != nil {
		t.Fatal(err)
	}
	l.EndsWith(db.ErrCursorExpired)
	all.Hears("old gone")
	save(t, r, entry("old", agents.Active)) // the id is free again
	all.Hears("old active")
	listen(t, r.Follow(t.Context(), "old", l.Cursor)).EndsWith(db.ErrCursorExpired)
}

func TestANewAgentIsNeverTakenForARemovedOne(t *testing.T) {
	r := newRegistry(t)
	save(t, r, entry("a", agents.Active))
	l := listen(t, r.Follow(t.Context(), "a", ""))
	l.Hears("a active")
	all := listen(t, r.FollowAll(t.Context(), agents.Filter{}))
	if err := r.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	save(t, r, entry("a", agents.Merged), entry("b", agents.Active)) // the highest number in the table was free
	l.EndsWith(db.ErrCursorExpired)
	all.Hears("a gone", "a merged", "a is merged", "b active")
	for _, id := range []string{"a", "b"} {
		listen(t, r.Follow(t.Context(), id, l.Cursor)).EndsWith(db.ErrCursorExpired)
	}
}

func TestCursor_OtherAgentScopeOrListIsInvalid(t *testing.T) {
	d := dbtest.Open(t, db.Options{})
	r, other := agents.NewRegistry(d, agents.Options{}), agents.NewRegistry(d, agents.Options{Scope: "other"})
	save(t, r, entry("a", agents.Active), entry("b", agents.Active))
	save(t, other, entry("a", agents.Active))
	cursor, err := r.CursorBefore(ctx, "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	page, err := r.Page(ctx, agents.Filter{}, db.At{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, items := range []iter.Seq2[agents.Followed, error]{
		r.Follow(t.Context(), "b", cursor), other.Follow(t.Context(), "a", cursor),
		r.Follow(t.Context(), "a", page.Next),
	} {
		listen(t, items).EndsWith(db.ErrInvalid)
	}
	listen(t, r.Follow(t.Context(), "a", cursor)).Hears("a active")
	if cursor, err = r.CursorBefore(ctx, "a", 0); err != nil {
		t.Fatal(err)
	}
	l := listen(t, r.Follow(t.Context(), "a", cursor))
	if err := r.UpdateStatus(ctx, "a", agents.Abandoned); err != nil {
		t.Fatal(err)
	}
	l.Hears("a abandoned", "a is abandoned")
	if _, err := r.CursorBefore(ctx, "a", -1); !errors.Is(err, db.ErrInvalid) || db.Hint(err) == "" {
		t.Errorf("-1 writes: %v", err)
	}
	if _, err := r.CursorBefore(ctx, "none", 0); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("of no agent: %v", err)
	}
}

func TestFollowAll_FilterTakesAgentOnceItPasses(t *testing.T) {
	r := newRegistry(t)
	save(t, r, entry("a", agents.Active), entry("b", agents.Active))
	l := listen(t, r.FollowAll(t.Context(),
		agents.Filter{Statuses: []agents.Status{agents.Abandoned, agents.Merged}}))
	for id, status := range map[string]agents.Status{"a": agents.Complete, "b": agents.Merged} {
		if err := r.UpdateStatus(ctx, id, status); err != nil {
			t.Fatal(err)
		}
	}
	l.Hears("b merged", "b is merged")
	if err := r.UpdateStatus(ctx, "b", agents.Active); err != nil {
		t.Fatal(err)
	}
	l.Hears("b active", "b is active")
	wrong := listen(t, r.FollowAll(t.Context(), agents.Filter{Statuses: []agents.Status{"asleep"}}))
	wrong.EndsWith(db.ErrInvalid)
}

func TestFollowersOfOtherTimesHearEachTheirOwn(t *testing.T) {
	r := newRegistry(t)
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e := entry("a", agents.Active)
	later := listen(t, r.FollowAll(soon, agents.Filter{Since: e.StartedAt.Add(time.Hour)}))
	all := listen(t, r.FollowAll(soon, agents.Filter{}))
	save(t, r, e)
	all.Hears("a active")
	cancel()
	later.EndsWith(context.Canceled)
}

func TestAFollowerHearsOfAnotherProcessesAgents(t *testing.T) {
	r := startRacers(t, 1)
	d := dbtest.OpenAt(t, r.path, db.Options{BootTime: func() db.BootTime { return readClock(r.clock) }})
	here := agents.NewRegistry(d, agents.Options{})
	l := listen(t, here.FollowAll(t.Context(), agents.Filter{}))
	if got := r.tell(0, "lease agent-one main"); got != "won agent-one" {
		t.Fatal(got)
	}
	l.Hears("agent-one leased as 1, active")
	r.all[0].Kill()
	if n, err := here.Recover(ctx); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	l.Hears("agent-one abandoned", "agent-one is abandoned")
}

func TestFollow_LastStateArrivesUnderManyWriters(t *testing.T) {
	r := newRegistry(t)
	const each = 100
	save(t, r, entry("a", agents.Active))
	followed, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for range 2 {
		go func() {
			for i := range each {
				_, _, err := r.UpdateEntry(ctx, "a", func(e *agents.Entry) {
					e.AttachPrecedence = append(e.AttachPrecedence, fmt.Sprint(i))
				})
				if err != nil {
					cancel(err)
				}
			}
		}()
	}
	seen := 0
	for f, err := range r.Follow(followed, "a", "") {
		if err != nil {
			t.Fatal(err)
		}
		now := len(f.Item.Entry.AttachPrecedence)
		if now <= seen && seen > 0 {
			t.Fatalf("%d is told behind %d", now, seen)
		}
		if seen = now; seen == 2*each {
			break
		}
	}
	e := load(t, r, "a")
	if !slices.Contains(e.AttachPrecedence, fmt.Sprint(each-1)) {
		t.Errorf("%v", e.AttachPrecedence)
	}
}
