package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"selvedge/db"
	"selvedge/internal/dbtest"
	"selvedge/runs/live"
)

// Two handles and a loop: runs that were there and new ones, finished ones too, of two sessions and another scope.
func TestFollowAllDeliversEveryRunInItsOrder(t *testing.T) {
	path := dbtest.Path(t)
	reader := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	writer, elsewhere := live.NewStore(d, live.Options{}), live.NewStore(d, live.Options{Scope: "other"})
	old := create(t, writer, "there before")
	record(t, writer, old.ID, live.TextDelta("not delivered"), live.AgentEnd("over"))
	all, err := reader.FollowAll(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	one := "one"
	oneSession, err := reader.FollowAll(t.Context(), &one)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- recordMany(t.Context(), writer, elsewhere, old.ID) }()
	next := map[string]uint64{old.ID: 2}
	want := map[string]uint64{old.ID: 42}
	for i := range 20 {
		want[fmt.Sprint("one-", i)], want[fmt.Sprint("two-", i)] = 3, 3
	}
	for e, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		if e.Sequence != next[e.RunID] {
			t.Fatalf("event %d of %s came, and not %d", e.Sequence, e.RunID, next[e.RunID])
		}
		if next[e.RunID]++; next[e.RunID] == want[e.RunID] {
			if delete(want, e.RunID); len(want) == 0 {
				break
			}
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	seen := 0
	for e, err := range oneSession {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint("one-", seen/3); e.RunID != want || e.Sequence != uint64(seen%3) {
			t.Fatalf("event %d of %s came, and not one of %s", e.Sequence, e.RunID, want)
		}
		if seen++; seen == 60 {
			break
		}
	}
}

// recordMany writes two events at a time to an old run, and three to each of 20 new ones in two sessions.
func recordMany(ctx context.Context, s, elsewhere *live.Store, old string) error {
	var err error
	record := func(store *live.Store, run string, n int) {
		for range n {
			if err == nil {
				_, _, err = store.RecordEvent(ctx, run, live.TextDelta("x"))
			}
		}
	}
	for i := range 20 {
		for _, session := range []string{"one", "two"} {
			run := fmt.Sprint(session, "-", i)
			for _, store := range []*live.Store{s, elsewhere} {
				if err == nil {
					_, err = store.CreateRunWithID(ctx, run, session, "p")
				}
				record(store, run, 3)
			}
		}
		record(s, old, 2)
	}
	return err
}

func TestFollowAllTellsOfWhatWasRemovedUnread(t *testing.T) {
	for _, c := range []struct {
		name  string
		known bool                    // the runs were there when it began
		cut   func(*live.Store) error // after the first event was delivered
		want  []string
	}{
		{"nothing is cut", true, func(*live.Store) error { return nil }, []string{"a", "a", "b", "b", "c"}},
		{"a run is replaced", true, func(s *live.Store) error {
			_, err := s.CreateRunWithID(context.Background(), "b", "s", "again")
			return err
		}, []string{"a", "a", "expired"}},
		{"a new run is replaced", false, func(s *live.Store) error {
			_, err := s.CreateRunWithID(context.Background(), "b", "s", "again")
			return err
		}, []string{"a", "a", "expired"}},
		{"a cap takes events", true, func(s *live.Store) error {
			for range 3 {
				if _, _, err := s.RecordEvent(context.Background(), "b", live.TextDelta("more")); err != nil {
					return err
				}
			}
			return nil
		}, []string{"a", "a", "expired"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, d := t.Context(), dbtest.Open(t, db.Options{})
			store := live.NewStore(d, live.Options{MaxEventsPerRun: live.AtMost(3)})
			all, err := store.FollowAll(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"a", "b"} {
				if _, err := store.CreateRunWithID(ctx, id, "s", "p"); err != nil {
					t.Fatal(err)
				}
				if c.known {
					if all, err = store.FollowAll(ctx, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, id := range []string{"a", "b"} {
				record(t, store, id, live.TextDelta("0"), live.TextDelta("1"))
			}
			var got []string
			for e, err := range all {
				if errors.Is(err, db.ErrCursorExpired) {
					got = append(got, "expired")
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, e.RunID); e.RunID == "c" {
					break
				}
				if len(got) == 1 {
					if err := c.cut(store); err != nil {
						t.Fatal(err)
					}
					if _, err := store.CreateRunWithID(ctx, "c", "s", "p"); err != nil {
						t.Fatal(err)
					}
					record(t, store, "c", live.TextDelta("0"))
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("it delivered %v, not %v", got, c.want)
			}
		})
	}
}

func TestFollowAllEndsWithItsContextAndWithTheFile(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store := live.NewStore(d, live.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped, err := store.FollowAll(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, err := range stopped {
		t.Errorf("its context ended, and it gave %v", err)
	}
	all, err := store.FollowAll(t.Context(), nil)
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range all {
		if !errors.Is(err, db.ErrClosed) {
			t.Errorf("its file was closed, and it gave %v", err)
		}
	}
}
