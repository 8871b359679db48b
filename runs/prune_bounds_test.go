package runs

import (
	"fmt"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/test/dbtest"
)

// What retention plans, page by page, is what it would plan at once.
func TestRetentionIsPlannedInShortReads(t *testing.T) {
	agents, ended := agentsAtOnce, runsAtOnce
	agentsAtOnce, runsAtOnce = 2, 2
	t.Cleanup(func() { agentsAtOnce, runsAtOnce = agents, ended })
	clock := dbtest.NewClock(noon.Add(24 * time.Hour))
	s := NewStore(dbtest.Open(t, db.Options{Now: clock.Now}), Options{})
	for a := range 5 {
		for r := range 3 {
			agent, id, at := fmt.Sprint("agent-", a), fmt.Sprint("run-", r), noon.Add(time.Duration(r)*time.Hour)
			records := []Record{
				Started{RunID: id, AgentID: agent, StartedAt: at},
				Ended{RunID: id, AgentID: agent, EndedAt: at},
			}
			if err := s.AppendRecords(t.Context(), agent, id, records); err != nil {
				t.Fatal(err)
			}
		}
	}
	whole, err := s.Prune(t.Context(), db.Policy{Age: db.KeepNone, DryRun: true})
	if err != nil || whole.Removed != 15 || whole.Remaining != 0 {
		t.Fatalf("all are %+v, %v", whole, err)
	}
	for name, c := range map[string]struct {
		policy db.Policy
		gone   int
	}{
		"by count":      {db.Policy{Count: 2}, 5},
		"by age":        {db.Policy{Age: 23*time.Hour - time.Minute}, 10},
		"by bytes":      {db.Policy{Bytes: whole.Bytes / 3}, 10},
		"by everything": {db.Policy{Count: 2, Age: 23*time.Hour - time.Minute, Bytes: whole.Bytes}, 10},
		"none is kept":  {db.Policy{Bytes: db.KeepNone}, 15},
	} {
		gone := map[string]bool{}
		c.policy.DryRun, c.policy.Each = true, func(g db.Gone) { gone[g.Of+"/"+g.ID] = true }
		done, err := s.Prune(t.Context(), c.policy)
		if err != nil || done.Removed != c.gone || len(gone) != c.gone || done.Remaining != 15-c.gone {
			t.Errorf("%s: %+v, %v: %v", name, done, err, gone)
		}
	}
	s.retention = RetentionConfig{MaxPerAgent: 2, MaxAgeDays: 1 << 20}
	if n, err := s.GC(t.Context()); n != 5 || err != nil {
		t.Errorf("GC removed %d, %v", n, err)
	}
}
