package live_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs/live"
	"selvedge/test/dbtest"
)

// Two handles and a loop: runs that were there and new ones, finished ones too, of two sessions and
// another scope.
func TestFollowAllDeliversEveryRunInItsOrder(t *testing.T) {
	path := dbtest.Path(t)
	reader := live.NewStore(dbtest.OpenAt(t, path, db.Options{}), live.Options{})
	d := dbtest.OpenAt(t, path, db.Options{Synchronous: db.SyncNormal})
	writer, elsewhere := live.NewStore(d, live.Options{}), live.NewStore(d, live.Options{Scope: "other"})
	old := create(t, writer, "there before")
	record(t, writer, old.ID, live.TextDelta("not delivered"), live.AgentEnd("over"))
	all := reader.FollowAll(t.Context(), live.Filter{})
	one := "one"
	oneSession := reader.FollowAll(t.Context(), live.Filter{Session: &one})
	done := make(chan error, 1)
	go func() { done <- recordMany(t.Context(), writer, elsewhere, old.ID) }()
	next := map[string]uint64{old.ID: 2}
	want := map[string]uint64{old.ID: 42}
	for i := range 20 {
		want[fmt.Sprint("one-", i)], want[fmt.Sprint("two-", i)] = 3, 3
	}
	for e, err := range written(all) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Item.Sequence != next[e.Of] {
			t.Fatalf("event %d of %s came, and not %d", e.Item.Sequence, e.Of, next[e.Of])
		}
		if next[e.Of]++; next[e.Of] == want[e.Of] {
			if delete(want, e.Of); len(want) == 0 {
				break
			}
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	seen := map[string]uint64{}
	total := 0
	for e, err := range written(oneSession) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Item.Sequence != seen[e.Of] || e.Of[:4] != "one-" {
			t.Fatalf("event %d of %s came", e.Item.Sequence, e.Of)
		}
		seen[e.Of]++
		if total++; total == 60 {
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

// Whatever takes a run away: who follows all is told, and follows the others on.
func TestFollowAll_ReportsEveryRemoval(t *testing.T) {
	for name, remove := range map[string]func(*live.Store) error{
		"deleted": func(s *live.Store) error { return s.Delete(context.Background(), "b") },
		"replaced": func(s *live.Store) error {
			_, err := s.CreateRunWithID(context.Background(), "b", "s", "again")
			return err
		},
		"restored away": func(s *live.Store) error {
			records, err := s.Records(context.Background())
			if err != nil {
				return err
			}
			return s.ReplaceRecords(context.Background(), records[:1])
		},
		"restored otherwise": func(s *live.Store) error {
			records, err := s.Records(context.Background())
			if err != nil {
				return err
			}
			records[1].Events = records[1].Events[:1]
			return s.ReplaceRecords(context.Background(), records)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t, live.Options{})
			for _, id := range []string{"a", "b"} {
				if _, err := store.CreateRunWithID(t.Context(), id, "s", "p"); err != nil {
					t.Fatal(err)
				}
			}
			all := store.FollowAll(t.Context(), live.Filter{})
			record(t, store, "a", live.TextDelta("0"))
			var got []string
			for item, err := range all {
				if err != nil {
					t.Fatal(err)
				}
				if item.What == db.StatusChanged {
					continue
				}
				if got = append(got, item.Of+" "+told(item)); len(got) == 1 {
					// The follower does not look now: two events that nobody will read, and the run goes.
					record(t, store, "b", live.TextDelta("0"), live.TextDelta("1"))
					if err := remove(store); err != nil {
						t.Fatal(err)
					}
					record(t, store, "a", live.TextDelta("1"))
				}
				// Between runs there is no order: the one that goes may be told of first, and what is restored
				// under its id after it.
				if slices.Contains(got, "a 1") && slices.Contains(got, "b gone") || len(got) == 4 {
					break
				}
			}
			got = slices.DeleteFunc(got, func(heard string) bool { return heard == "b 0" })
			slices.Sort(got)
			if want := []string{"a 0", "a 1", "b gone"}; !slices.Equal(got, want) {
				t.Errorf("it heard %q, not %q", got, want)
			}
		})
	}
}

func TestFollowAll_RepeatsNothingAfterRestore(t *testing.T) {
	store := newStore(t, live.Options{})
	if _, err := store.CreateRunWithID(t.Context(), "r", "s", "p"); err != nil {
		t.Fatal(err)
	}
	record(t, store, "r", live.TextDelta("0"), live.TextDelta("1"))
	all := store.FollowAll(t.Context(), live.Filter{})
	records, err := store.Records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.ReplaceRecords(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	record(t, store, "r", live.TextDelta("2"))
	if got, _ := toldUntil(t, all, "2"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("it heard %v", got)
	}
}

func TestFollowAll_FilterTakesRunsOnceTheyPass(t *testing.T) {
	store := newStore(t, live.Options{})
	run := create(t, store, "p")
	failed := store.FollowAll(t.Context(), live.Filter{Statuses: []live.RunStatus{live.Failed}})
	record(t, store, run.ID, live.TextDelta("not told"), live.ErrorEvent("told or not"))
	for item, err := range failed {
		if err != nil {
			t.Fatal(err)
		}
		if item.What == db.StatusChanged && item.Status == "failed" {
			break
		}
	}
	for _, err := range store.FollowAll(t.Context(), live.Filter{Statuses: []live.RunStatus{"paused"}}) {
		if !errors.Is(err, db.ErrInvalid) {
			t.Errorf("an unknown status gave %v", err)
		}
	}
}

func TestFollowAllEndsWithTheFile(t *testing.T) {
	d, err := db.Open(t.Context(), dbtest.Path(t), db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := live.NewStore(d, live.Options{}).FollowAll(t.Context(), live.Filter{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range all {
		if !errors.Is(err, db.ErrClosed) {
			t.Errorf("its file was closed, and it gave %v", err)
		}
	}
}

// Restored events whose places are not their sequences: where such a run ends is a matter of places.
func TestFollowAllKnowsWhereIrregularRunsEnd(t *testing.T) {
	store := newStore(t, live.Options{})
	var events []string
	for _, n := range []int{7, 7, 90} {
		events = append(events, fmt.Sprintf(`{"sequence":%d,"timestamp_ms":5,"event":{"type":"text_delta","text":"t"}}`, n))
	}
	if err := store.ReplaceRecords(t.Context(),
		restored(t, fmt.Sprintf(restoredRun, 1, 1, 0, strings.Join(events, ",")))); err != nil {
		t.Fatal(err)
	}
	all := store.FollowAll(t.Context(), live.Filter{})
	record(t, store, "r", live.TextDelta("next"))
	if got, _ := toldUntil(t, all, "91"); !slices.Equal(got, []string{"91"}) {
		t.Errorf("it heard %v", got)
	}
}

func TestFollowersOfOtherTimesHearEachTheirOwn(t *testing.T) {
	store := newStore(t, live.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	later := store.FollowAll(ctx, live.Filter{Since: time.Now().Add(time.Hour)})
	earlier := store.FollowAll(ctx, live.Filter{Since: time.Now().Add(-time.Hour)})
	run := create(t, store, "p")
	record(t, store, run.ID, live.TextDelta("now"))
	for item, err := range earlier {
		if err != nil || item.Of != run.ID {
			t.Errorf("it heard %+v, %v", item, err)
		}
		break
	}
	cancel()
	for item, err := range later {
		if err == nil {
			t.Errorf("who follows what starts later heard %+v", item)
		}
		break
	}
}
