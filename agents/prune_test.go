package agents_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
	"selvedge/internal/stores"
)

// outAfter is an age, from its end, at which an agent has left the registry.
const outAfter = 7*24*time.Hour + time.Minute

func TestPruneKeepsWhatThePolicySays(t *testing.T) {
	for what, c := range map[string]struct {
		policy db.Policy
		left   []string
	}{
		"nothing is said": {db.Policy{}, []string{
			"agent-0", "agent-1", "agent-2", "agent-3", "agent-active",
			"agent-recent",
		}},
		"an age": {
			db.Policy{Age: outAfter + 36*time.Hour},
			[]string{"agent-2", "agent-3", "agent-active", "agent-recent"},
		},
		"a count": {db.Policy{Count: 1}, []string{"agent-2", "agent-3", "agent-active", "agent-recent"}},
		"pins": {
			db.Policy{Age: outAfter + time.Hour, Pinned: []string{"agent-1"}},
			[]string{"agent-1", "agent-3", "agent-active", "agent-recent"},
		},
		"bytes": {db.Policy{Bytes: 1000}, []string{"agent-2", "agent-3", "agent-active", "agent-recent"}},
		"a dry run": {
			db.Policy{Age: outAfter + time.Hour, DryRun: true},
			[]string{"agent-0", "agent-1", "agent-2", "agent-3", "agent-active", "agent-recent"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			agents.InSmallTurns(t)
			f := newFixture(t)
			for i := range 4 { // one a day, on two threads, the last just out of the registry
				e := entry(fmt.Sprintf("agent-%d", i), agents.Merged)
				e.Thread, e.CompletedAt = fmt.Sprintf("t/%d", i%2),
					p(f.wall.Now().Add(-outAfter+time.Duration(i-3)*24*time.Hour))
				save(t, f.Registry, e)
			}
			active := entry("agent-active", agents.Active)
			active.StartedAt = f.wall.Now().Add(-1000 * time.Hour)
			save(t, f.Registry, active)
			recent := entry("agent-recent", agents.Merged)
			recent.Thread, recent.CompletedAt = "t/0", p(f.wall.Now().Add(-time.Hour))
			save(t, f.Registry, recent)
			done, err := f.Prune(ctx, c.policy)
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			if readErr := f.db.Read(ctx, "look",
				func(rx *db.Rx) error {
					return rx.Select(&left,
						`SELECT session_id FROM agents ORDER BY session_id`)
				}); readErr != nil {
				t.Fatal(readErr)
			}
			if !slices.Equal(left, c.left) {
				t.Errorf("left are %q; want %q", left, c.left)
			}
			if removed := 6 - len(left); !c.policy.DryRun &&
				(done.Removed != removed || done.Remaining != 4-removed || (done.Bytes > 0) != (removed > 0)) {
				t.Errorf("it says %+v", done)
			}
			if c.policy.DryRun && done.Removed != 3 {
				t.Errorf("it says %+v", done)
			}
		})
	}
	if _, err := newRegistry(t).Prune(ctx, db.Policy{Count: -2}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a limit below 0: %v", err)
	}
}

// Of both lists, those that were put aside and those that were not yet, also where several ended in
// one nanosecond.
func TestPruningSeesEachEndedAgentOnce(t *testing.T) {
	f := newFixture(t)
	for i := range 12 {
		e := entry(fmt.Sprintf("agent-%d", i), agents.Merged)
		e.CompletedAt = p(f.wall.Now().Add(-outAfter - time.Duration(i/5)*time.Hour))
		save(t, f.Registry, e)
	}
	if err := f.db.Write(ctx, "put some aside", func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE agents SET checksum = NULL, put_aside_at = CASE WHEN id % 3 = 0 THEN 1 END`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	first := stores.Ended{At: math.MaxInt64, Key: math.MaxInt64}
	all, err := agents.Ended(ctx, f.Registry, first, 100)
	if err != nil || len(all) != 12 {
		t.Fatal(len(all), err)
	}
	for limit := 1; limit < 6; limit++ {
		var seen []stores.Ended
		for after := first; ; after = seen[len(seen)-1] {
			page, err := agents.Ended(ctx, f.Registry, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if seen = append(seen, page...); len(page) < limit {
				break
			}
		}
		if !slices.Equal(seen, all) {
			t.Errorf("pages of %d give %v; want %v", limit, seen, all)
		}
	}
}
