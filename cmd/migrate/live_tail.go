package main

import (
	"context"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"selvedge/db"
	"selvedge/runs/live"
)

// liveItem is a line of live tail --json. The event is written as it is read.
type liveItem struct {
	RunID  string `json:"run_id"` // the run
	Record any    `json:"record"` // the event as in the events of live show: sequence, timestamp_ms, event
	Cursor string `json:"cursor"` // give it to --from, with the run's ID, to go on behind this event
}

func (a *app) liveTailCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tail [ID | --session ID] [--lines N | --all | --from CURSOR]",
		Short: "Follow a live run, or all of them, as events are recorded",
		Long: `tail prints the last events of a live run, and then each as any process records it, until it is
interrupted; also behind the run's end. Without ID it follows every run of the scope, or of a --session, and
begins with what is new: in each run in the order of its events.

Each event has a cursor, and the hint at the end has that of the last one: --from goes on behind it, in the
same run. A tail ends where events that were to come are gone: a cap took them, or the run was removed or
replaced.`,
		PreRunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && given(c, "session") != nil {
				return usage("choose one of ID and --session")
			}
			return nil
		},
	}
	c.Flags().String("session", "", "all runs of the session `ID`")
	tailCommand(a, c, "events", liveNoun.needsID, func(
		ctx context.Context, d *db.DB, args []string, _ tailFlags,
	) (t tailing[string, live.RunEventRecord], err error) {
		store := a.liveStore(d)
		t = tailing[string, live.RunEventRecord]{
			columns: []column{{"sequence", 8}, {"at", 19}, {"type", 20}, {"event", 0}},
			row:     eventCells, json: liveItemJSON,
		}
		if len(args) == 0 {
			t.follow = func(ctx context.Context, _ string) iter.Seq2[live.Followed, error] {
				return store.FollowAll(ctx, live.Filter{Session: given(c, "session")})
			}
			t.owners, t.owner = []column{{"run", 40}}, func(id string) []string { return []string{id} }
			t.expired = "events were removed before they were printed; start again to follow those that come"
			return t, nil
		}
		found, err := liveNoun.find(ctx, liveNoun.open(a, d), args[0], nil)
		t.follow = func(ctx context.Context, from string) iter.Seq2[live.Followed, error] {
			return store.Follow(ctx, found.id, from)
		}
		t.before = func(ctx context.Context, n int64) (string, error) {
			return store.CursorBefore(ctx, found.id, n)
		}
		t.words = []string{"live", "tail", found.id}
		t.expired = "a cap took the events, or the run was removed or replaced; go on with what is there: " +
			a.commandLine("live", "tail", found.id, "--all")
		return t, err
	})
	return a.answering(c, liveItem{})
}

func eventCells(e live.RunEventRecord) []string {
	return []string{
		strconv.FormatUint(e.Sequence, 10), millis(e.TimestampMs), e.Event.Type(),
		cut(string(e.Event.JSON()), textWidth),
	}
}

func liveItemJSON(e live.Followed) ([]byte, error) {
	record, err := e.Item.MarshalJSON()
	if err != nil {
		return nil, err
	}
	line := appendJSON([]byte(`{"run_id":`), e.Of)
	line = append(append(line, `,"record":`...), record...)
	return append(appendJSON(append(line, `,"cursor":`...), e.Cursor), '}'), nil
}
