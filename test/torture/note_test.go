package main

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"selvedge/db"
	"selvedge/runs"
)

// A process that dies between a commit and its note in FILE-lock (decision 0026) hides nothing from
// a follower in another process, and nothing comes twice.
func TestKill_BeforeNoteHidesNothing(t *testing.T) {
	r, sc := rig(t, "runs")
	ctx, stop := context.WithTimeout(t.Context(), longest)
	defer stop()
	kills := 0
	for killed := true; killed; {
		_, err := r.within(sc, false, func(folder string) ([]string, error) {
			s, err := openSession(t.Context(), folder, db.Options{})
			must(t, err)
			told := sequences(t, s)
			items := traces(s).FollowAll(ctx, runs.Filter{})
			killed = dieBeforeNote(t, sc, folder, kills)
			began, want := time.Now(), sequences(t, s)
			if killed && maps.Equal(told, want) {
				t.Errorf("nothing was committed before note %d", kills)
			}
			for item, err := range items {
				must(t, err)
				if item.What == db.Written {
					if told[item.Of]++; item.Item.Sequence != told[item.Of] {
						t.Errorf("record %d of %v comes where %d is due", item.Item.Sequence, item.Of, told[item.Of])
					}
				}
				if !maps.Equal(told, want) {
					continue
				}
				last := runs.RunRef{AgentID: agent, RunID: "last"}
				if want[last] != 0 {
					break
				}
				t.Logf("killed at note %d: %v; the rest was told within %v", kills, killed, time.Since(began))
				must(t, start(ctx, s, last.RunID))
				want[last] = 1
			}
			return nil, s.close()
		})
		must(t, err)
		kills++
	}
	if kills <= len(sc.ops) {
		t.Errorf("%d notes were seen of %d commits", kills-1, len(sc.ops))
	}
}

// dieBeforeNote runs the script until it is about to write the note n, from 0, and reports whether it was.
func dieBeforeNote(t *testing.T, sc *script, folder string, n int) (killed bool) {
	t.Helper()
	process := &tracer{folder: folder, line: func(string) {}}
	process.enter = func(c *call) (fault, bool) {
		if c.class != writes || !strings.HasSuffix(c.path, "-lock") {
			return none, false
		}
		if n--; n >= 0 {
			return none, false
		}
		killed = true
		return kill, false
	}
	notes, err := process.run(longest, "script", sc.name, folder, string(closing))
	if err != nil {
		t.Fatal(err, notes)
	}
	return killed
}

// sequences returns the last sequence of each run.
func sequences(t *testing.T, s *session) map[runs.RunRef]int64 {
	t.Helper()
	list := map[runs.RunRef]int64{}
	for run, err := range traces(s).All(t.Context(), runs.Filter{}) {
		must(t, err)
		ref := runs.RunRef{AgentID: run.AgentID, RunID: run.RunID}
		for line, err := range traces(s).Lines(t.Context(), ref) {
			must(t, err)
			list[ref] = line.Sequence
		}
	}
	return list
}
