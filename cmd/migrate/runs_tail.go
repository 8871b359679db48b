package main

import (
	"context"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/runs"
)

// runItem is a line of runs tail --json. The record is written as it is read.
type runItem struct {
	AgentID  string `json:"agent_id"` // agent, as the calls that wrote the run named it
	RunID    string `json:"run_id"`   // run, as they named it
	Sequence int64  `json:"sequence"` // the record's place in the trace, from 1
	Record   any    `json:"record"`   // as in runs show
	Cursor   string `json:"cursor"`   // give it to --from, with the run's ID, to go on behind this record
}

func (a *app) runsTailCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tail [ID] [--agent ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow a run, or all of them, as records are written",
		Long: `tail prints the last records of a run, and then each as any process writes it, until it is
interrupted; also behind the run's end. Without ID it follows every run of the scope, or of --agent, and
begins with what is new: in each run in the order of its trace. Where several agents have a run of that id,
--agent says whose.

Each record has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the
same run. A run that is removed, or replaced by an import, ends its tail; all of them together end only
where records went unseen.`,
	}
	c.Flags().String("agent", "", "the run of the agent `ID`; without a run's ID, all of its runs")
	tailCommand(a, c, "records", runNoun.needsID, func(
		ctx context.Context, d *db.DB, args []string, _ tailFlags,
	) (t tailing[runs.RunRef, runs.TraceRecord], err error) {
		store, agent := a.runStore(d), given(c, "agent")
		t = tailing[runs.RunRef, runs.TraceRecord]{
			columns: []column{{"line", 5}, {"record", 9}, {"tool", 16}, {"result", 12}, {"text", 0}},
			row:     lineCells, json: runItemJSON,
		}
		if len(args) == 0 {
			t.follow = func(ctx context.Context, _ string) iter.Seq2[runs.Followed, error] {
				return store.FollowAll(ctx, runs.Filter{Agent: agent})
			}
			t.owners = []column{{"agent", 16}, {"run", 24}}
			t.owner = func(ref runs.RunRef) []string { return []string{ref.AgentID, ref.RunID} }
			t.expired = "a run was removed before all its records were printed; start again to follow those " +
				"that are there"
			return t, nil
		}
		found, err := runNoun.find(ctx, runNoun.open(a, d), args[0], agent)
		ref := runRef(found)
		t.follow = func(ctx context.Context, from string) iter.Seq2[runs.Followed, error] {
			return store.Follow(ctx, ref, from)
		}
		t.before = func(ctx context.Context, n int64) (string, error) { return store.CursorBefore(ctx, ref, n) }
		t.words = []string{"runs", "tail", ref.RunID, "--agent", ref.AgentID}
		t.expired = "retention or an import removed the run; what there is now: " + a.commandLine("runs", "list")
		return t, err
	})
	return a.answering(c, runItem{})
}

func runItemJSON(r runs.Followed) ([]byte, error) {
	line := appendJSON([]byte(`{"agent_id":`), r.Of.AgentID)
	line = appendJSON(append(line, `,"run_id":`...), r.Of.RunID)
	line = strconv.AppendInt(append(line, `,"sequence":`...), r.Item.Sequence, 10)
	line = append(append(line, `,"record":`...), r.Item.Line...)
	return append(appendJSON(append(line, `,"cursor":`...), r.Cursor), '}'), nil
}
