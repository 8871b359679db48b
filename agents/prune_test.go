package agents_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"selvedge/agents"
	"selvedge/db"
)

func TestPruneKeepsWhatThePolicySays(t *testing.T) {
	for what, c := range map[string]struct {
		policy db.Policy
		left   []string
	}{
		"nothing is said": {db.Policy{}, []string{"agent-0", "agent-1", "agent-2", "agent-3", "agent-active"}},
		"an age":          {db.Policy{Age: 90 * time.Minute}, []string{"agent-2", "agent-3", "agent-active"}},
		"a count":         {db.Policy{Count: 1}, []string{"agent-2", "agent-3", "agent-active"}},
		"pins":            {db.Policy{Age: time.Minute, Pinned: []string{"agent-1"}}, []string{"agent-1", "agent-3", "agent-active"}},
		"bytes":           {db.Policy{Bytes: 1000}, []string{"agent-2", "agent-3", "agent-active"}},
		"a dry run":       {db.Policy{Age: time.Minute, DryRun: true}, []string{"agent-0", "agent-1", "agent-2", "agent-3", "agent-active"}},
	} {
		t.Run(what, func(t *testing.T) {
			agents.InSmallTurns(t)
			f := newFixture(t)
			for i := range 4 { // one an hour, on two threads
				e := entry(fmt.Sprintf("agent-%d", i), agents.Merged)
				e.Thread, e.CompletedAt = fmt.Sprintf("t/%d", i%2), p(f.wall.Now().Add(time.Duration(i-3)*time.Hour))
				save(t, f.Registry, e)
			}
			active := entry("agent-active", agents.Active)
			active.StartedAt = f.wall.Now().Add(-1000 * time.Hour)
			save(t, f.Registry, active)
			done, err := f.Prune(ctx, c.policy)
			if err != nil {
				t.Fatal(err)
			}
			left, err := f.Find(ctx, "", 0)
			if err != nil || !slices.Equal(left, c.left) {
				t.Errorf("left are %q, %v; want %q", left, err, c.left)
			}
			if removed := 5 - len(left); !c.policy.DryRun && (done.Removed != removed || done.Remaining != 4-removed || (done.Bytes > 0) != (removed > 0)) {
				t.Errorf("it says %+v", done)
			}
			if c.policy.DryRun && done.Removed != 3 {
				t.Errorf("it says %+v", done)
			}
		})
	}
	if _, err := newRegistry(t).Prune(ctx, db.Policy{Count: -1}); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a limit below 0: %v", err)
	}
}
